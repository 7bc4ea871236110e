// Finds any of many texts in one pass (Aho and Corasick): each character is one step in a table, so
// the time is linear in the text however many patterns there are and however they overlap. The state
// survives from one chunk to the next.

export interface Finder {
  /**
   * Goes on with the next character, which stands at `offset`. When a pattern ends here: where the
   * longest such pattern began.
   */
  step(code: number, offset: number): number | undefined;
  /** Where the pattern that may be going on now began; undefined when there is none. */
  openAt(): number | undefined;
}

/** A table that any number of finders walk. */
export interface FinderTable {
  /** Does the text hold any pattern? Much faster than finding out where. */
  isIn(text: string): boolean;
  start(): Finder;
}

export interface FinderOptions {
  /** Patterns may be broken into lines. */
  skipsLineEnds: boolean;
}

/** Characters that occur in no pattern are class 0 and lead back to the start. */
function classesOf(patterns: readonly string[]): { classes: Uint16Array; count: number } {
  const classes = new Uint16Array(65_536);
  let count = 1;
  for (const pattern of patterns) {
    for (let index = 0; index < pattern.length; index++) {
      const code = pattern.charCodeAt(index);
      if (classes[code] === 0) classes[code] = count++;
    }
  }
  return { classes, count };
}

interface Table {
  next: Int32Array;
  depth: Uint16Array;
  /** Length of the longest pattern that ends in a state, 0 for none. */
  match: Uint16Array;
  classes: Uint16Array;
  width: number;
}

function buildTable(patterns: readonly string[]): Table {
  const { classes, count: width } = classesOf(patterns);
  const states = patterns.reduce((sum, pattern) => sum + pattern.length, 1);
  const [depth, match] = [new Uint16Array(states), new Uint16Array(states)];
  let [next, used] = [new Int32Array(states * width), 1];
  for (const pattern of patterns) {
    let state = 0;
    for (let index = 0; index < pattern.length; index++) {
      const slot = state * width + (classes[pattern.charCodeAt(index)] ?? 0);
      if (next[slot] === 0) {
        depth[used] = index + 1;
        next[slot] = used++;
      }
      state = next[slot] ?? 0;
    }
    match[state] = pattern.length;
  }
  next = next.slice(0, used * width);
  linkBack(next, match, used, width);
  return { next, depth, match, classes, width };
}

/** Fills in where to go on when a pattern does not: breadth first, so shorter suffixes are ready. */
function linkBack(next: Int32Array, match: Uint16Array, used: number, width: number): void {
  const fallback = new Int32Array(used);
  const queue: number[] = [];
  for (let kind = 0; kind < width; kind++) {
    const state = next[kind] ?? 0;
    if (state !== 0) queue.push(state);
  }
  for (const state of queue) {
    const back = fallback[state] ?? 0;
    if (match[state] === 0) match[state] = match[back] ?? 0;
    for (let kind = 0; kind < width; kind++) {
      const slot = state * width + kind;
      const child = next[slot] ?? 0;
      const other = next[back * width + kind] ?? 0;
      if (child === 0) next[slot] = other;
      else {
        fallback[child] = other;
        queue.push(child);
      }
    }
  }
}

const [LINE_FEED, RETURN] = [10, 13];
/** More line ends in a row are no broken line; without a bound a stream of them would be held back. */
const MAX_SKIPPED = 4;

/** The next power of two: where something stands in a ring is then found without dividing. */
const ringSize = (least: number): number => 2 ** Math.ceil(Math.log2(least + 1));

export function createFinderTable(
  patterns: Iterable<string>,
  { skipsLineEnds }: FinderOptions,
): FinderTable {
  const list = [...patterns].filter((pattern) => pattern.length > 0);
  const { next, depth, match, classes, width } = buildTable(list);
  const ring = ringSize(list.reduce((most, pattern) => Math.max(most, pattern.length), 1));

  function isIn(text: string): boolean {
    let [state, skipped] = [0, 0];
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (skipsLineEnds && (code === LINE_FEED || code === RETURN)) {
        skipped += 1;
        if (skipped <= MAX_SKIPPED) continue;
      } else skipped = 0;
      state = next[state * width + (classes[code] as number)] as number;
      if (match[state] !== 0) return true;
    }
    return false;
  }

  function start(): Finder {
    // Where the last characters stood; with line ends passed over, lengths alone do not say.
    const offsets = new Float64Array(ring);
    let [state, seen, skipped] = [0, 0, 0];
    const began = (length: number): number | undefined => offsets[(seen - length) & (ring - 1)];
    return {
      step(code, offset) {
        const isLineEnd = skipsLineEnds && (code === LINE_FEED || code === RETURN);
        skipped = isLineEnd ? skipped + 1 : 0;
        if (isLineEnd && skipped <= MAX_SKIPPED) return undefined;
        offsets[seen & (ring - 1)] = offset;
        seen += 1;
        state = next[state * width + (classes[code] as number)] as number;
        const length = match[state] as number;
        return length === 0 ? undefined : began(length);
      },
      openAt() {
        const open = depth[state] ?? 0;
        return open === 0 ? undefined : began(open);
      },
    };
  }
  return { isIn, start };
}

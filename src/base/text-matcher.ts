// Looks for many patterns in one pass: all of them are built into one table, so the time is linear in
// the text however many there are and however they overlap.

export interface TextMatcher {
  /** Does the text hold any pattern? Much faster than finding out where. */
  isIn(text: string): boolean;
  /**
   * Calls `found` with the place of the longest pattern that ends at each character. Answers how many
   * characters at the end may be the beginning of a pattern.
   */
  scan(text: string, found: (start: number, end: number) => void): number;
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

/** Rarest first, as far as it matters, in what servers send: JSON and English. */
const RARE = 'QZXJKVWYGFBUHPMDLNRCOSTIAE~%+/_=-qzjxkvwy';
const MIN_PROBE = 8;

/**
 * The end of a pattern, from a character on that is rare: where it is not, the pattern is not, and a
 * text is searched for it several times as fast as for something that begins like every other word.
 */
function probeOf(pattern: string): string {
  let [start, best] = [0, RARE.length];
  for (let at = 0; at <= pattern.length - MIN_PROBE; at++) {
    const rank = RARE.indexOf(pattern.charAt(at));
    if (rank >= 0 && rank < best) [start, best] = [at, rank];
  }
  return pattern.slice(start);
}

/** Characters that are looked at together, and how many of the first of a pattern take part at most. */
const GRAM = 4;
const MAX_WINDOW = 32;

const gramAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) << 10) ^
    (text.charCodeAt(at + 1) << 7) ^
    (text.charCodeAt(at + 2) << 4) ^
    text.charCodeAt(at + 3)) &
  0xffff;

interface Gram {
  pattern: string;
  offset: number;
}

/**
 * A pattern of `window` characters or more covers one of the places that lie `window - 3` apart, and
 * what stands there are four of its own characters. Everywhere else nothing needs to be looked at.
 */
function createSearch(patterns: readonly string[]): (text: string) => boolean {
  const window = patterns.reduce((least, { length }) => Math.min(least, length), MAX_WINDOW);
  const step = window - GRAM + 1;
  const isKnown = new Uint8Array(0x10000);
  const grams = new Map<number, Gram[]>();
  for (const pattern of patterns) {
    for (let offset = 0; offset < step; offset++) {
      const gram = gramAt(pattern, offset);
      isKnown[gram] = 1;
      const same = grams.get(gram);
      if (same) same.push({ pattern, offset });
      else grams.set(gram, [{ pattern, offset }]);
    }
  }
  const isHere = (text: string, at: number): boolean =>
    grams.get(gramAt(text, at))?.some(({ pattern, offset }) => {
      return at >= offset && text.startsWith(pattern, at - offset);
    }) ?? false;
  return (text) => {
    for (let at = step - 1; at <= text.length - GRAM; at += step) {
      if (isKnown[gramAt(text, at)] === 1 && isHere(text, at)) return true;
    }
    return false;
  };
}

/** Shorter ones are searched for one by one: they would make the steps of all others short. */
const MIN_SEARCHED = 8;
/** In a text that is longer than this for each pattern, one search for each is faster. */
const LONG = 48;

export function createMatcher(patterns: Iterable<string>): TextMatcher {
  const list = [...patterns].filter((pattern) => pattern.length > 0);
  const isSearched = ({ length }: string): boolean => length >= MIN_SEARCHED;
  const [long, short] = [list.filter(isSearched), list.filter((one) => !isSearched(one))];
  const search = createSearch(long);
  const probes = long.map((pattern) => [probeOf(pattern), pattern] as const);
  const inLong = (text: string): boolean =>
    probes.some(([probe, pattern]) => text.includes(probe) && text.includes(pattern));
  // Only where something was found, or may be about to be.
  let table: Table | undefined;
  return {
    isIn: (text) =>
      short.some((pattern) => text.includes(pattern)) ||
      (text.length > LONG * list.length ? inLong(text) : search(text)),
    scan(text, found) {
      table ??= buildTable(list);
      const { next, depth, match, classes, width } = table;
      let state = 0;
      for (let index = 0; index < text.length; index++) {
        state = next[state * width + (classes[text.charCodeAt(index)] ?? 0)] ?? 0;
        const length = match[state] ?? 0;
        if (length !== 0) found(index + 1 - length, index + 1);
      }
      return depth[state] ?? 0;
    },
  };
}

/** Returns the edit distance with transpositions. Stops, with `max + 1`, as soon as it exceeds `max`. */
function distance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1;
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(
        (previous[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + cost,
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        best = Math.min(best, (before[j - 2] ?? 0) + 1);
      }
      row.push(best);
    }
    if (Math.min(...row) > max) return max + 1;
    [before, previous] = [previous, row];
  }
  return previous[b.length] ?? 0;
}

/**
 * Returns the candidate that a person probably meant. Undefined: all differ in more letters than `most`, which is a
 * third of the word by default. Long words are not compared.
 */
export function nearest(
  word: string,
  candidates: Iterable<string>,
  most = Math.max(1, Math.floor(word.length / 3)),
): string | undefined {
  if (word.length > 100) return undefined;
  let best: string | undefined;
  let limit = most + 1;
  for (const candidate of candidates) {
    const far = distance(word.toLowerCase(), candidate.toLowerCase(), limit - 1);
    if (far < limit) [best, limit] = [candidate, far];
    if (limit === 0) break;
  }
  return best;
}

/** Returns a hint with the candidate that a person probably meant. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const near = nearest(word, candidates);
  return near === undefined ? undefined : `did you mean \`${near}\``;
}

/** Returns the hint of `didYouMean` as the end of a message. Empty if no candidate is near. */
export function suggestion(word: string, candidates: Iterable<string>): string {
  const hint = didYouMean(word, candidates);
  return hint === undefined ? '' : `; ${hint}`;
}

/** Returns the part after the last slash: `c` for `a/b/c`. */
export const lastSegment = (id: string): string => id.slice(id.lastIndexOf('/') + 1);

/** Quotes a text as one word of a POSIX shell. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns how many of `count` positions satisfy `isBefore`. They must come first, because the search is binary. */
export function countBefore(count: number, isBefore: (at: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A position in a text. Lines and columns start at 1; columns count UTF-16 units. */
export interface Position {
  line: number;
  column: number;
}

export function createLines(text: string) {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return {
    at(offset: number): Position {
      const line = Math.max(
        1,
        countBefore(starts.length, (at) => (starts[at] ?? 0) <= offset),
      );
      return { line, column: Math.max(0, offset - (starts[line - 1] ?? 0)) + 1 };
    },
    /** Returns the offset of a position, the inverse of `at`. */
    offset: ({ line, column }: Position): number => (starts[line - 1] ?? text.length) + column - 1,
    /** Returns the text of a line without its line end. Empty past the last line. */
    line(number: number): string {
      const start = starts[number - 1];
      if (start === undefined) return '';
      return text.slice(start, (starts[number] ?? text.length + 1) - 1).replace(/\r$/, '');
    },
  };
}

/**
 * Matches format characters, controls except line ends and tabs, tags, private and unassigned
 * characters, and all characters that displays ignore, except the one that makes an emoji.
 */
const HIDDEN = /(?!(?<=\p{Emoji})\ufe0f(?!\p{DI}))[\p{C}\p{DI}\u2028\u2029](?<![\n\t])/gu;

export const hasHidden = (text: string): boolean => text.search(HIDDEN) !== -1;

/** Replaces characters that a display does not show by `by`. */
export const withoutHidden = (text: string, by = ''): string => text.replace(HIDDEN, by);

/**
 * Returns the text on one line. It cannot look like further program output or reverse the direction of letters.
 */
export const onOneLine = (text: string): string =>
  withoutHidden(text, ' ')
    .replace(/[\n\t]+/g, ' ')
    .trim();

/** Returns one line of at most `max` characters. */
export function shorten(text: string, max: number): string {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length <= max ? flat : `${flat.slice(0, Math.max(0, max - 1))}…`;
}

/** Returns a text such as `4.2 s`, `3 m 05 s`, `2 h 10 m`. */
export function durationText(value: unknown): string {
  const total = Number(value) || 0;
  if (total < 60) return `${total < 10 ? total.toFixed(1) : Math.round(total)} s`;
  const [minutes, rest] = [Math.floor(total / 60), Math.floor(total % 60)];
  if (minutes < 60) return `${minutes} m ${String(rest).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} m`;
}

/** Matches the reference in a journal to a secret that is sealed in the registry. */
const REFERENCE = /\{secret [\w-]{16} \d+=?\}/g;

/** Replaces references to sealed secrets for people and programs. */
export const masked = (text: string): string => text.replace(REFERENCE, '[secret]');

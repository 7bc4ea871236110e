// Looks for many patterns in one pass, which looks at few characters of a text: a pattern of `window`
// characters or more covers one of the places that lie `window - 3` apart, and what stands there are
// four of its own characters. Everywhere else nothing needs to be looked at.

import { countBefore } from './text.ts';

export interface TextMatcher {
  /** Does the text hold any pattern? */
  isIn(text: string): boolean;
  /** Calls `found` with every place of a pattern. */
  find(text: string, found: (start: number, end: number) => void): void;
  /** How many characters at the end may be the beginning of a pattern. */
  openAt(text: string): number;
}

/** Characters that are looked at together, and how many of the first of a pattern take part at most. */
const GRAM = 4;
const MAX_WINDOW = 32;
/** Shorter ones are searched for one by one: they would make the steps of all others short. */
const MIN_WINDOW = 8;

/** In a text that is longer than this for each pattern, one search for each is faster. */
const LONG = 48;
/** Rarest first, as far as it matters, in what servers send: JSON and English. */
const RARE = 'QZXJKVWYGFBUHPMDLNRCOSTIAE~%+/_=-qzjxkvwy'.split('');

/** The end of a pattern, from a character on that is rare: a text is searched for it much faster. */
function probeOf(pattern: string): string {
  const last = pattern.length - MIN_WINDOW;
  const places = RARE.map((char) => pattern.indexOf(char));
  return pattern.slice(places.find((at) => at >= 0 && at <= last) ?? 0);
}

const pairOf = (first: number, second: number): number => ((first << 7) ^ second) & 0x3fff;

const gramAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) << 10) ^
    (text.charCodeAt(at + 1) << 7) ^
    (text.charCodeAt(at + 2) << 4) ^
    text.charCodeAt(at + 3)) &
  0xffff;

/** What may stand at the places that are looked at: most others are seen from two characters. */
function gramsOf(patterns: readonly string[], step: number) {
  const [pairs, grams] = [new Uint8Array(0x4000), new Map<number, [string, number][]>()];
  for (const pattern of patterns) {
    for (let offset = 0; offset < step; offset++) {
      pairs[pairOf(pattern.charCodeAt(offset), pattern.charCodeAt(offset + 1))] = 1;
      const gram = gramAt(pattern, offset);
      const same = grams.get(gram);
      if (same) same.push([pattern, offset]);
      else grams.set(gram, [[pattern, offset]]);
    }
  }
  return { pairs, grams };
}

export function createMatcher(patterns: Iterable<string>): TextMatcher {
  const sorted = [...patterns].filter((pattern) => pattern !== '').sort();
  const long = sorted.filter(({ length }) => length >= MIN_WINDOW);
  const short = sorted.filter(({ length }) => length < MIN_WINDOW);
  const longest = sorted.reduce((most, { length }) => Math.max(most, length), 0);
  const begins = new Uint8Array(0x4000);
  for (const pattern of sorted) {
    // At the end of a text nothing follows, which counts as 0.
    begins[pairOf(pattern.charCodeAt(0), 0)] = 1;
    begins[pairOf(pattern.charCodeAt(0), pattern.charCodeAt(1))] = 1;
  }
  const window = long.reduce((least, { length }) => Math.min(least, length), MAX_WINDOW);
  const step = window - GRAM + 1;
  const { pairs, grams } = gramsOf(long, step);
  const probes = long.map(probeOf);

  /** With `found` it goes on to the end. */
  function search(text: string, found?: (start: number, end: number) => void): boolean {
    for (const pattern of short) {
      for (let at = text.indexOf(pattern); at !== -1; at = text.indexOf(pattern, at + 1)) {
        if (found === undefined) return true;
        found(at, at + pattern.length);
      }
    }
    const isLong = text.length > LONG * long.length;
    if (isLong && !probes.some((probe) => text.includes(probe))) return false;
    for (let at = step - 1; at <= text.length - GRAM; at += step) {
      if (pairs[pairOf(text.charCodeAt(at), text.charCodeAt(at + 1))] === 0) continue;
      for (const [pattern, offset] of grams.get(gramAt(text, at)) ?? []) {
        const start = at - offset;
        if (start < 0 || !text.startsWith(pattern, start)) continue;
        if (found === undefined) return true;
        found(start, start + pattern.length);
      }
    }
    return false;
  }

  /** Is there a pattern that begins so? Of those that are not before it in order, the first would. */
  function isBeginning(text: string): boolean {
    const first = countBefore(sorted.length, (at) => (sorted[at] ?? '') < text);
    return sorted[first]?.startsWith(text) ?? false;
  }

  return {
    isIn: (text) => search(text),
    find: search,
    openAt(text) {
      for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
        if (begins[pairOf(text.charCodeAt(at), text.charCodeAt(at + 1))] === 0) continue;
        if (isBeginning(text.slice(at))) return text.length - at;
      }
      return 0;
    },
  };
}

// Searches for many patterns in one pass that reads few characters. It reads four characters at positions
// that are `window - 3` apart and skips the rest. A pattern of `window` characters or more covers at least
// one of these positions, so the four characters there are its own.
import { countBefore } from './text.ts';

/**
 * True if one of the sorted patterns begins with the text. Only the first pattern that does not sort
 * before the text can begin with it.
 */
function isBeginning(sorted: readonly string[], text: string): boolean {
  const first = countBefore(sorted.length, (at) => (sorted[at] ?? '') < text);
  return sorted[first]?.startsWith(text) ?? false;
}

export interface TextMatcher {
  isIn(text: string): boolean;
  /** Calls `onPattern` with spans that together cover every occurrence of a pattern. */
  find(text: string, onPattern: OnPattern): void;
  /** Returns how many characters at the end may begin a pattern. */
  openAt(text: string): number;
}

/** Number of characters that are compared together. */
const GRAM = 4;
const MAX_WINDOW = 32;
/** Shorter patterns are searched for one by one, because they would shorten the steps for all. */
const MIN_WINDOW = 8;

/** If a text has more characters per pattern than this, one search for each pattern is faster. */
const LONG = 48;
/** Characters by frequency in JSON and English, the rarest first. */
const RARE = 'QZXJKVWYGFBUHPMDLNRCOSTIAE~%+/_=-qzjxkvwy'.split('');

/** Returns the end of a pattern from a rare character on, which is faster to search for. */
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

/** Patterns by the hash of four of their characters, with the ascending offsets of these characters. */
type Grams = Map<number, Map<string, number[]>>;

function addGram(grams: Grams, gram: number, pattern: string, offset: number): void {
  const same = grams.get(gram) ?? new Map<string, number[]>();
  grams.set(gram, same);
  const offsets = same.get(pattern) ?? [];
  same.set(pattern, offsets);
  offsets.push(offset);
}

interface PatternPlace {
  start: number;
  end: number;
}

/** Receives the span of a pattern. Returns false to reject it. */
type OnPattern = (start: number, end: number) => boolean;

/**
 * Reports the spans of a pattern with the same four characters at several offsets, such as a repeated
 * letter. The last offset gives the first span. If it and the last span overlap, they cover the others,
 * which are skipped.
 */
function placesAt(
  offsets: readonly number[],
  placeOf: (offset: number) => PatternPlace | undefined,
  onPattern: OnPattern | undefined,
): boolean {
  let isFound = false;
  const at = (offset: number | undefined): PatternPlace | undefined => {
    const place = offset === undefined ? undefined : placeOf(offset);
    if (!place || (onPattern && !onPattern(place.start, place.end))) return undefined;
    isFound = true;
    return place;
  };
  const first = at(offsets.at(-1));
  if (offsets.length === 1 || (isFound && !onPattern)) return isFound;
  const last = at(offsets[0]);
  if (!first || !last || first.end < last.start) for (const one of offsets.slice(1, -1)) at(one);
  return isFound;
}

/** Returns the characters that may be at the compared positions. Two characters exclude most positions. */
function gramsOf(patterns: readonly string[], step: number) {
  const [pairs, grams]: [Uint8Array, Grams] = [new Uint8Array(0x4000), new Map()];
  for (const pattern of patterns) {
    for (let offset = 0; offset < step; offset++) {
      pairs[pairOf(pattern.charCodeAt(offset), pattern.charCodeAt(offset + 1))] = 1;
      addGram(grams, gramAt(pattern, offset), pattern, offset);
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
    // The missing character after the end of a text counts as 0.
    begins[pairOf(pattern.charCodeAt(0), 0)] = 1;
    begins[pairOf(pattern.charCodeAt(0), pattern.charCodeAt(1))] = 1;
  }
  const window = long.reduce((least, { length }) => Math.min(least, length), MAX_WINDOW);
  const step = window - GRAM + 1;
  const { pairs, grams } = gramsOf(long, step);
  const probes = long.map(probeOf);

  /** Returns true at the first pattern. With `onPattern` the search continues to the end of the text. */
  function search(text: string, onPattern?: OnPattern): boolean {
    for (const pattern of short) {
      for (let at = text.indexOf(pattern); at !== -1; at = text.indexOf(pattern, at + 1)) {
        if (onPattern === undefined) return true;
        onPattern(at, at + pattern.length);
      }
    }
    const isLong = text.length > LONG * long.length;
    if (isLong && !probes.some((probe) => text.includes(probe))) return false;
    for (let at = step - 1; at <= text.length - GRAM; at += step) {
      if (pairs[pairOf(text.charCodeAt(at), text.charCodeAt(at + 1))] === 0) continue;
      for (const [pattern, offsets] of grams.get(gramAt(text, at)) ?? []) {
        const place = (offset: number): PatternPlace | undefined => {
          const start = at - offset;
          if (start < 0 || !text.startsWith(pattern, start)) return undefined;
          return { start, end: start + pattern.length };
        };
        if (placesAt(offsets, place, onPattern) && onPattern === undefined) return true;
      }
    }
    return false;
  }

  return {
    isIn: (text) => search(text),
    find: search,
    openAt(text) {
      for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
        if (begins[pairOf(text.charCodeAt(at), text.charCodeAt(at + 1))] === 0) continue;
        if (isBeginning(sorted, text.slice(at))) return text.length - at;
      }
      return 0;
    },
  };
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';
/** Number of a letter or digit by its character code, from 1. 0: the search skips the character. */
const LETTER = new Uint8Array(0x10000);
for (const [index, letter] of LETTERS.split('').entries()) {
  for (const each of [letter, letter.toUpperCase()]) LETTER[each.charCodeAt(0)] = index + 1;
}
const BASE = LETTERS.length + 1;
/** 1 for the letters of escapes such as `\n`. After a backslash such a letter does not count. */
const WRITTEN = Uint8Array.from({ length: 0x80 }, (_, code) =>
  'nrNRtbf'.includes(String.fromCharCode(code)) ? 1 : 0,
);
const BACKSLASH = 92;

function letterAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  // Beyond the text the code is NaN, which is not a letter.
  const letter = LETTER[code] ?? 0;
  if (letter === 0 || WRITTEN[code] === 0) return letter;
  return text.charCodeAt(at - 1) === BACKSLASH ? 0 : letter;
}

/** Returns the position of the next letter, or the length of the text. */
function nextLetter(text: string, from: number): number {
  let at = from;
  while (at < text.length && letterAt(text, at) === 0) at++;
  return at;
}

/** Returns the text without skipped characters. */
export const lettersOf = (text: string): string => text.replace(/[^A-Za-z0-9]/g, '').toLowerCase();

/** Returns the span of the pattern whose letter `offset` is at `at`. */
function placeOf(text: string, at: number, pattern: string, offset: number) {
  let start = at;
  for (let rest = offset; rest > 0; rest--) {
    start--;
    while (start >= 0 && letterAt(text, start) === 0) start--;
    if (start < 0) return undefined;
  }
  let end = start;
  for (let index = 0; index < pattern.length; index++) {
    end = nextLetter(text, end);
    if (end === text.length || letterAt(text, end) !== LETTER[pattern.charCodeAt(index)]) {
      return undefined;
    }
    end++;
  }
  return { start, end };
}

/** Returns grams of four letters, indexed by their first three. */
function letterGrams(patterns: readonly string[], step: number) {
  const [threes, grams]: [Uint8Array, Grams] = [new Uint8Array(BASE ** 3), new Map()];
  for (const pattern of patterns) {
    for (let offset = 0; offset < step; offset++) {
      let gram = 0;
      for (let at = offset; at < offset + GRAM; at++) {
        if (at === offset + GRAM - 1) threes[gram] = 1;
        gram = gram * BASE + (LETTER[pattern.charCodeAt(at)] ?? 0);
      }
      addGram(grams, gram, pattern, offset);
    }
  }
  return { threes, grams };
}

/** Letters by frequency in responses of servers, the rarest first. */
const RARE_LETTERS = 'qzjfgkvwhumsybxpldcrinaote9876543210'.split('');

/** Returns a test that quickly excludes texts without all letters of any pattern. */
function createSieve(patterns: readonly string[]): (text: string) => boolean {
  const groups = new Map<string, Set<string>>();
  for (const pattern of patterns) {
    const [first = '', ...rest] = RARE_LETTERS.filter((each) => pattern.includes(each));
    const others = groups.get(first) ?? new Set();
    groups.set(first, others.add(rest.join('')));
  }
  const firsts = [...groups.keys()];
  const others = [...groups.values()].map((set) => [...set].map((letters) => letters.split('')));
  return (text) => {
    const lower = text.toLowerCase();
    for (let group = 0; group < firsts.length; group++) {
      if (!lower.includes(firsts[group] ?? '')) continue;
      search: for (const letters of others[group] ?? []) {
        for (const letter of letters) if (!lower.includes(letter)) continue search;
        return true;
      }
    }
    return false;
  };
}

/**
 * Creates a matcher that ignores case and everything between the letters. Patterns are results of
 * `lettersOf` with eight letters or more. A pattern covers at least its own length of text, which gives
 * the distance of the positions at which four letters are read.
 */
export function createLetterMatcher(patterns: Iterable<string>): TextMatcher {
  const sorted = [...patterns].sort();
  const longest = sorted.reduce((most, { length }) => Math.max(most, length), 0);
  const step = sorted.reduce((least, { length }) => Math.min(least, length), MAX_WINDOW) - GRAM + 1;
  const { threes, grams } = letterGrams(sorted, step);
  const firsts = new Set(sorted.map((pattern) => pattern.charAt(0)));
  const mayHold = createSieve(sorted);

  function search(text: string, onPattern?: OnPattern): boolean {
    if (sorted.length === 0 || !mayHold(text)) return false;
    const last = text.length - GRAM;
    for (let at = step - 1; at < text.length; ) {
      // At most positions there are three letters that no pattern contains.
      if (at <= last && text.charCodeAt(at - 1) !== BACKSLASH) {
        const one = LETTER[text.charCodeAt(at)] as number;
        const two = LETTER[text.charCodeAt(at + 1)] as number;
        const three = LETTER[text.charCodeAt(at + 2)] as number;
        if (one * two * three !== 0 && threes[(one * BASE + two) * BASE + three] === 0) {
          at += step;
          continue;
        }
      }
      const first = nextLetter(text, at);
      // Characters before the first letter were examined with it.
      at = first + step;
      const second = nextLetter(text, first + 1);
      const third = nextLetter(text, second + 1);
      if (third >= text.length) return false;
      const three =
        (letterAt(text, first) * BASE + letterAt(text, second)) * BASE + letterAt(text, third);
      if (threes[three] === 0) continue;
      const gram = three * BASE + letterAt(text, nextLetter(text, third + 1));
      for (const [pattern, offsets] of grams.get(gram) ?? []) {
        const place = (offset: number) => placeOf(text, first, pattern, offset);
        if (placesAt(offsets, place, onPattern) && onPattern === undefined) return true;
      }
    }
    return false;
  }

  return {
    isIn: (text) => search(text),
    find: search,
    openAt(text) {
      let [letters, open] = ['', text.length];
      for (let at = text.length - 1; at >= 0 && letters.length < longest; at--) {
        const letter = letterAt(text, at);
        if (letter === 0) continue;
        letters = LETTERS.charAt(letter - 1) + letters;
        if (firsts.has(letters.charAt(0)) && isBeginning(sorted, letters)) open = at;
      }
      return text.length - open;
    },
  };
}

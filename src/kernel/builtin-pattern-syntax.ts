// The syntax of `grep`'s patterns: JavaScript's regular expressions without what cannot be matched in
// linear time (back references, look-around) and without flags. The tree it makes says only whether a
// line matches, so groups do not capture and lazy quantifiers mean the same as greedy ones.
// Characters are UTF-16 units, as in a JavaScript expression without the `u` flag.
import { fail, type Outcome, ok } from '../base/index.ts';

/** Inclusive ranges, sorted, not touching: [low, high, low, high, …]. */
export type CharacterSet = readonly number[];

export type Assertion = 'start' | 'end' | 'boundary' | 'inside';

export type PatternNode =
  | { kind: 'set'; set: CharacterSet }
  | { kind: 'assert'; assertion: Assertion }
  | { kind: 'sequence'; items: PatternNode[] }
  | { kind: 'choice'; items: PatternNode[] }
  | { kind: 'repeat'; item: PatternNode; min: number; max: number };

const MAX_UNIT = 0xffff;
const MAX_NESTING = 100;
const MAX_REPEAT = 1000;
const MAX_SOURCE = 1000;

export function normalizeSet(ranges: readonly (readonly [number, number])[]): CharacterSet {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const set: number[] = [];
  for (const [low, high] of sorted) {
    const last = set.length - 1;
    if (last > 0 && low <= (set[last] as number) + 1) {
      set[last] = Math.max(set[last] as number, high);
    } else set.push(low, high);
  }
  return set;
}

export function pairsOf(set: CharacterSet): [number, number][] {
  const pairs: [number, number][] = [];
  for (let i = 0; i < set.length; i += 2) pairs.push([set[i] as number, set[i + 1] as number]);
  return pairs;
}

export function inSet(set: CharacterSet, code: number): boolean {
  for (let i = 0; i < set.length; i += 2) {
    if (code < (set[i] as number)) return false;
    if (code <= (set[i + 1] as number)) return true;
  }
  return false;
}

function invert(set: CharacterSet): CharacterSet {
  const gaps: [number, number][] = [];
  let next = 0;
  for (const [low, high] of pairsOf(set)) {
    if (low > next) gaps.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= MAX_UNIT) gaps.push([next, MAX_UNIT]);
  return normalizeSet(gaps);
}

const unit = (text: string) => text.charCodeAt(0);
const range = (text: string): [number, number] => [unit(text), text.charCodeAt(1)];
const DIGIT = normalizeSet([range('09')]);
const WORD = normalizeSet([range('09'), range('AZ'), range('az'), range('__')]);
const SPACE = normalizeSet([
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
const LINE_END = normalizeSet([
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]);
const CLASSES: Readonly<Record<string, CharacterSet>> = {
  d: DIGIT,
  D: invert(DIGIT),
  w: WORD,
  W: invert(WORD),
  s: SPACE,
  S: invert(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

class SyntaxFault extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

const fold = createCaseFold();

/** Which units are the same letter when case is ignored, by JavaScript's own rule. */
function createCaseFold(): (set: CharacterSet) => CharacterSet {
  let letters: number[][] | undefined;
  const canonical = (code: number): number => {
    const upper = String.fromCharCode(code).toUpperCase();
    const to = upper.length === 1 ? unit(upper) : code;
    return code >= 128 && to < 128 ? code : to;
  };
  const group = (): number[][] => {
    const byUpper = new Map<number, number[]>();
    for (let code = 0; code <= MAX_UNIT; code++) {
      const key = canonical(code);
      const members = byUpper.get(key);
      if (members) members.push(code);
      else byUpper.set(key, [code]);
    }
    return [...byUpper.values()].filter((members) => members.length > 1);
  };
  return (set) => {
    letters ??= group(); // once per process, and only for whoever ignores case
    const same = letters.filter((members) => members.some((code) => inSet(set, code)));
    const added = same.flat().map((code): [number, number] => [code, code]);
    return normalizeSet([...pairsOf(set), ...added]);
  };
}

/** A literal as a tree: what `grep` searches for when `regex` is not set. */
export function literalPattern(text: string, ignoreCase: boolean): PatternNode {
  const items = Array.from({ length: text.length }, (_, index): PatternNode => {
    const set: CharacterSet = [text.charCodeAt(index), text.charCodeAt(index)];
    return { kind: 'set', set: ignoreCase ? fold(set) : set };
  });
  return { kind: 'sequence', items };
}

/** Reads a pattern; a fault says what and at which column. Never throws. */
export function parsePattern(source: string, ignoreCase: boolean): Outcome<PatternNode> {
  if (source.length > MAX_SOURCE) {
    return fail('invalid_input', `the pattern is longer than ${MAX_SOURCE} characters`);
  }
  try {
    return ok(readPattern(source, ignoreCase));
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error;
    const column = error.at + 1;
    const message = `pattern \`${source}\`, column ${column}: ${error.message}`;
    return fail('invalid_input', message, { column });
  }
}

/** A pattern, and how far it was read. */
interface Reader {
  readonly source: string;
  readonly ignoreCase: boolean;
  at: number;
}

const peek = ({ source, at }: Reader): string | undefined => source[at];
const isAtEnd = ({ source, at }: Reader): boolean => at >= source.length;
const next = (reader: Reader): string => reader.source[reader.at++] as string;
const stop = (message: string, where: number): never => {
  throw new SyntaxFault(message, where);
};
function eat(reader: Reader, text: string): boolean {
  if (!reader.source.startsWith(text, reader.at)) return false;
  reader.at += text.length;
  return true;
}
const setNode = ({ ignoreCase }: Reader, set: CharacterSet): PatternNode => ({
  kind: 'set',
  set: ignoreCase ? fold(set) : set,
});

function readPattern(source: string, ignoreCase: boolean): PatternNode {
  const reader: Reader = { source, ignoreCase, at: 0 };
  const tree = choice(reader, 0);
  if (!isAtEnd(reader)) stop('this `)` closes nothing', reader.at);
  return tree;
}

function choice(reader: Reader, depth: number): PatternNode {
  if (depth > MAX_NESTING) stop(`groups are nested deeper than ${MAX_NESTING}`, reader.at);
  const items = [sequence(reader, depth)];
  while (eat(reader, '|')) items.push(sequence(reader, depth));
  return items.length === 1 ? (items[0] as PatternNode) : { kind: 'choice', items };
}

function sequence(reader: Reader, depth: number): PatternNode {
  const items: PatternNode[] = [];
  while (!isAtEnd(reader) && peek(reader) !== '|' && peek(reader) !== ')') {
    items.push(quantified(reader, depth));
  }
  return { kind: 'sequence', items };
}

function quantified(reader: Reader, depth: number): PatternNode {
  const start = reader.at;
  const item = atom(reader, depth);
  const bounds = quantifier(reader);
  if (!bounds) return item;
  if (item.kind === 'assert') stop('nothing to repeat', start);
  eat(reader, '?');
  const again = reader.at;
  if (quantifier(reader)) stop('a repetition cannot be repeated', again);
  return { kind: 'repeat', item, ...bounds };
}

function quantifier(reader: Reader): { min: number; max: number } | undefined {
  if (eat(reader, '*')) return { min: 0, max: Number.POSITIVE_INFINITY };
  if (eat(reader, '+')) return { min: 1, max: Number.POSITIVE_INFINITY };
  if (eat(reader, '?')) return { min: 0, max: 1 };
  const { source, at: start } = reader;
  const counted = /^\{(\d+)(,(\d*))?\}/.exec(source.slice(start, start + 20));
  if (!counted) return undefined;
  const min = Number(counted[1]);
  const open = counted[2] !== undefined && counted[3] === '';
  const max = open ? Number.POSITIVE_INFINITY : Number(counted[3] ?? counted[1]);
  if (min > MAX_REPEAT || (!open && max > MAX_REPEAT)) {
    stop(`a repetition may count to ${MAX_REPEAT} at most`, start);
  }
  if (max < min) stop('the bounds are in the wrong order', start);
  reader.at += counted[0].length;
  return { min, max };
}

function atom(reader: Reader, depth: number): PatternNode {
  const char = next(reader);
  if (char === '^') return { kind: 'assert', assertion: 'start' };
  if (char === '$') return { kind: 'assert', assertion: 'end' };
  if (char === '.') return { kind: 'set', set: invert(LINE_END) };
  if (char === '(') return group(reader, depth);
  if (char === '[') return setNode(reader, characterClass(reader));
  if (char === '\\') return escape(reader);
  if (char === '*' || char === '+' || char === '?') stop('nothing to repeat', reader.at - 1);
  return setNode(reader, [unit(char), unit(char)]);
}

function group(reader: Reader, depth: number): PatternNode {
  const start = reader.at - 1;
  if (eat(reader, '?')) {
    const named = /^<[A-Za-z_$][\w$]*>/.exec(reader.source.slice(reader.at));
    if (named) reader.at += named[0].length;
    else if (!eat(reader, ':')) {
      stop('look-ahead, look-behind and flags in groups are not supported', start);
    }
  }
  const inner = choice(reader, depth + 1);
  if (!eat(reader, ')')) stop('this group is not closed', start);
  return inner;
}

function escape(reader: Reader): PatternNode {
  const char = peek(reader);
  if (char !== 'b' && char !== 'B') return setNode(reader, escapedSet(reader));
  reader.at++;
  return { kind: 'assert', assertion: char === 'b' ? 'boundary' : 'inside' };
}

const single = (code: number): CharacterSet => [code, code];

function escapedSet(reader: Reader): CharacterSet {
  const start = reader.at - 1;
  const char = peek(reader) ?? stop('a lone `\\` at the end', start);
  reader.at++;
  const known = Object.hasOwn(CLASSES, char) ? CLASSES[char] : undefined;
  if (known) return known;
  if (char === 'x' || char === 'u') return codeOf(reader, char, start);
  if (/[1-9k]/.test(char)) stop('back references are not supported', start);
  if (char === '0' && /\d/.test(peek(reader) ?? '')) {
    stop('octal escapes are not supported', start);
  }
  if (Object.hasOwn(CONTROLS, char)) return single(CONTROLS[char] as number);
  if (/[A-Za-z]/.test(char)) stop(`\`\\${char}\` is not a known escape`, start);
  return single(unit(char));
}

/** `\x61` and `\u0061`. */
function codeOf(reader: Reader, char: 'x' | 'u', start: number): CharacterSet {
  const length = char === 'x' ? 2 : 4;
  const digits = reader.source.slice(reader.at, reader.at + length);
  if (digits.length !== length || !/^[\da-fA-F]+$/.test(digits)) {
    stop(`\`\\${char}\` takes ${length} hexadecimal digits`, start);
  }
  reader.at += length;
  return single(Number.parseInt(digits, 16));
}

function characterClass(reader: Reader): CharacterSet {
  const start = reader.at - 1;
  const negated = eat(reader, '^');
  const ranges: [number, number][] = [];
  while (peek(reader) !== ']') {
    if (isAtEnd(reader)) stop('this `[` is not closed', start);
    ranges.push(...classRange(reader, start));
  }
  reader.at++;
  const set = normalizeSet(ranges);
  // Case first, then the negation: `[^a]` without case refuses `A` too.
  return negated ? invert(reader.ignoreCase ? fold(set) : set) : set;
}

/** One member of a class, or all between two. */
function classRange(reader: Reader, start: number): [number, number][] {
  const low = classAtom(reader);
  const after = reader.source[reader.at + 1];
  if (peek(reader) !== '-' || after === undefined || after === ']') return pairsOf(low);
  reader.at++;
  const high = classAtom(reader);
  const [from, to] = [low[0] as number, high[0] as number];
  if (low.length !== 2 || low[1] !== from || high.length !== 2 || high[1] !== to) {
    stop('a range needs a single character on each side', start);
  }
  if (to < from) stop('this range is in the wrong order', start);
  return [[from, to]];
}

function classAtom(reader: Reader): CharacterSet {
  const char = next(reader);
  if (char !== '\\') return single(unit(char));
  if (eat(reader, 'b')) return single(8);
  return eat(reader, '-') ? single(unit('-')) : escapedSet(reader);
}

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

function readPattern(source: string, ignoreCase: boolean): PatternNode {
  let at = 0;
  const peek = () => source[at];
  const stop = (message: string, where = at): never => {
    throw new SyntaxFault(message, where);
  };
  const eat = (text: string): boolean => {
    if (!source.startsWith(text, at)) return false;
    at += text.length;
    return true;
  };
  const setNode = (set: CharacterSet): PatternNode => ({
    kind: 'set',
    set: ignoreCase ? fold(set) : set,
  });

  function choice(depth: number): PatternNode {
    if (depth > MAX_NESTING) stop(`groups are nested deeper than ${MAX_NESTING}`);
    const items = [sequence(depth)];
    while (eat('|')) items.push(sequence(depth));
    return items.length === 1 ? (items[0] as PatternNode) : { kind: 'choice', items };
  }

  function sequence(depth: number): PatternNode {
    const items: PatternNode[] = [];
    while (at < source.length && peek() !== '|' && peek() !== ')') {
      items.push(quantified(depth));
    }
    return { kind: 'sequence', items };
  }

  function quantified(depth: number): PatternNode {
    const start = at;
    const item = atom(depth);
    const bounds = quantifier();
    if (!bounds) return item;
    if (item.kind === 'assert') stop('nothing to repeat', start);
    eat('?');
    const again = at;
    if (quantifier()) stop('a repetition cannot be repeated', again);
    return { kind: 'repeat', item, ...bounds };
  }

  function quantifier(): { min: number; max: number } | undefined {
    if (eat('*')) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (eat('+')) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (eat('?')) return { min: 0, max: 1 };
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(source.slice(at, at + 20));
    if (!counted) return undefined;
    const start = at;
    const min = Number(counted[1]);
    const open = counted[2] !== undefined && counted[3] === '';
    const max = open ? Number.POSITIVE_INFINITY : Number(counted[3] ?? counted[1]);
    if (min > MAX_REPEAT || (!open && max > MAX_REPEAT)) {
      stop(`a repetition may count to ${MAX_REPEAT} at most`, start);
    }
    if (max < min) stop('the bounds are in the wrong order', start);
    at += counted[0].length;
    return { min, max };
  }

  function atom(depth: number): PatternNode {
    const char = source[at++] as string;
    if (char === '^') return { kind: 'assert', assertion: 'start' };
    if (char === '$') return { kind: 'assert', assertion: 'end' };
    if (char === '.') return { kind: 'set', set: invert(LINE_END) };
    if (char === '(') return group(depth);
    if (char === '[') return setNode(characterClass());
    if (char === '\\') return escape();
    if (char === '*' || char === '+' || char === '?') stop('nothing to repeat', at - 1);
    return setNode([unit(char), unit(char)]);
  }

  function group(depth: number): PatternNode {
    const start = at - 1;
    if (eat('?')) {
      const named = /^<[A-Za-z_$][\w$]*>/.exec(source.slice(at));
      if (named) at += named[0].length;
      else if (!eat(':')) {
        stop('look-ahead, look-behind and flags in groups are not supported', start);
      }
    }
    const inner = choice(depth + 1);
    if (!eat(')')) stop('this group is not closed', start);
    return inner;
  }

  function escape(): PatternNode {
    if (peek() === 'b' || peek() === 'B') {
      return { kind: 'assert', assertion: source[at++] === 'b' ? 'boundary' : 'inside' };
    }
    return setNode(escapedSet());
  }

  function escapedSet(): CharacterSet {
    const start = at - 1;
    const char = source[at++] ?? stop('a lone `\\` at the end', start);
    const known = Object.hasOwn(CLASSES, char) ? CLASSES[char] : undefined;
    if (known) return known;
    const single = (code: number): CharacterSet => [code, code];
    if (char === 'x' || char === 'u') {
      const length = char === 'x' ? 2 : 4;
      const digits = source.slice(at, at + length);
      if (digits.length !== length || !/^[\da-fA-F]+$/.test(digits)) {
        stop(`\`\\${char}\` takes ${length} hexadecimal digits`, start);
      }
      at += length;
      return single(Number.parseInt(digits, 16));
    }
    if (/[1-9k]/.test(char)) stop('back references are not supported', start);
    if (char === '0' && /\d/.test(peek() ?? '')) stop('octal escapes are not supported', start);
    if (Object.hasOwn(CONTROLS, char)) return single(CONTROLS[char] as number);
    if (/[A-Za-z]/.test(char)) stop(`\`\\${char}\` is not a known escape`, start);
    return single(unit(char));
  }

  function characterClass(): CharacterSet {
    const start = at - 1;
    const negated = eat('^');
    const ranges: [number, number][] = [];
    while (peek() !== ']') {
      if (at >= source.length) stop('this `[` is not closed', start);
      const low = classAtom();
      const isRange = peek() === '-' && at + 1 < source.length && source[at + 1] !== ']';
      if (!isRange) {
        ranges.push(...pairsOf(low));
        continue;
      }
      at++;
      const high = classAtom();
      const [from, to] = [low[0] as number, high[0] as number];
      if (low.length !== 2 || low[1] !== from || high.length !== 2 || high[1] !== to) {
        stop('a range needs a single character on each side', start);
      }
      if (to < from) stop('this range is in the wrong order', start);
      ranges.push([from, to]);
    }
    at++;
    const set = normalizeSet(ranges);
    // Case first, then the negation: `[^a]` without case refuses `A` too.
    return negated ? invert(ignoreCase ? fold(set) : set) : set;
  }

  function classAtom(): CharacterSet {
    const char = source[at++] as string;
    if (char !== '\\') return [unit(char), unit(char)];
    if (peek() === 'b') {
      at++;
      return [8, 8];
    }
    if (peek() === '-') {
      at++;
      return [unit('-'), unit('-')];
    }
    return escapedSet();
  }

  const tree = choice(0);
  if (at < source.length) stop('this `)` closes nothing');
  return tree;
}

// Implements the methods of lists and texts: `@text.trim()`, `@list.join(", ")`, `@x.isArray()`. A method
// never changes its value. Elements that a method takes from a list keep exactly their marks.
import { type Context, createContext, Script } from 'node:vm';
import { errnoOf, type Json, messageOf, nearest } from '@kernmantle/core/base';
import { addMarks, makeContainer, mergeAll, type Value, withOrigin } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { fieldOf } from './access.ts';
import {
  computed,
  elementsOf,
  entriesOf,
  isFileList,
  isReadNull,
  kindName,
  listFrom,
  marksOf,
  numericOf,
  Opaque,
  ownMarks,
  typeName,
} from './kinds.ts';
import { isEqual } from './operators.ts';
import { textOf } from './text.ts';

type ListMethod = (list: Value, args: Arguments, values: readonly Value[]) => Value;

export const LIST_METHODS: ReadonlyMap<string, ListMethod> = new Map<string, ListMethod>([
  ['length', (list) => computed(elementsOf(list).length, [list])],
  ['includes', (list, _args, values) => computed(positionIn(list, values) >= 0, [list, ...values])],
  ['indexOf', (list, _args, values) => computed(positionIn(list, values), [list, ...values])],
  ['join', join],
  ['slice', slice],
  ['concat', (list, _args, values) => concat([list, ...values])],
  ['reverse', (list) => listFrom(list, elementsOf(list).toReversed(), [])],
  ['sort', sortList],
  ['flat', (list, args, values) => flat(list, args.optionalNumber(0) ?? 1, values)],
  ['at', at],
]);

function slice(list: Value, args: Arguments, values: readonly Value[]): Value {
  const [from, to] = [args.optionalNumber(0), args.optionalNumber(1)];
  return listFrom(list, elementsOf(list).slice(from, to), values);
}

function at(list: Value, args: Arguments, values: readonly Value[]): Value {
  const position = Math.trunc(args.optionalNumber(0) ?? 0);
  return addMarks(fieldOf(list, String(position), 'strict'), marksOf(values));
}

function positionIn(list: Value, values: readonly Value[]): number {
  const [searched] = values;
  return searched ? elementsOf(list).findIndex((element) => isEqual(element, searched)) : -1;
}

/** Joins the texts of elements. Null elements give no text, as in JavaScript. */
function join(list: Value, args: Arguments, values: readonly Value[]): Value {
  const texts = elementsOf(list).map((item) => (item.data === null ? '' : textOf(item)));
  return computed(texts.join(args.optionalText(0) ?? ','), [list, ...values]);
}

/** Joins lists. Elements keep their marks. The length of each list decides the position of the next elements. */
function concat(lists: readonly Value[]): Value {
  const parts = lists.flatMap((each) => (Array.isArray(each.data) ? elementsOf(each) : [each]));
  const own = lists.filter(({ data }) => Array.isArray(data)).map(ownMarks);
  const list = makeContainer(parts, mergeAll(own));
  return lists.every(isFileList) ? withOrigin(list, { files: true }) : list;
}

export const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

/** Sorts by text in code unit order, with null last. Each element influences the position of the others. */
export function sortList(list: Value): Value {
  const keyed = elementsOf(list).map((item) => ({
    item,
    isLast: item.data === null,
    text: textOf(item),
  }));
  const sorted = keyed.toSorted(
    (a, b) => Number(a.isLast) - Number(b.isLast) || byCodeUnit(a.text, b.text),
  );
  const items = sorted.map(({ item }) => item);
  return listFrom(list, items, [list]);
}

function flat(list: Value, depth: number, values: readonly Value[]): Value {
  let parts = elementsOf(list);
  const own = [ownMarks(list), ...values.map(({ meta }) => meta.descriptor)];
  for (let level = 0; level < depth; level++) {
    if (!parts.some(({ data }) => Array.isArray(data))) break;
    own.push(...parts.filter(({ data }) => Array.isArray(data)).map(ownMarks));
    parts = parts.flatMap((part) => (Array.isArray(part.data) ? elementsOf(part) : [part]));
  }
  return makeContainer(parts, mergeAll(own));
}

/** Milliseconds after which a pattern is stopped, because it may need exponential time. */
const LIMIT_MS = 1000;
const ATTEMPTS = 5;
const WORK = new Script('work()');

// The context in which patterns run. It is created at the first pattern.
let patternContext: (Context & { work?: (() => unknown) | undefined }) | undefined;

/** A pattern `/body/flags` as an argument of a method. */
export class PatternData extends Opaque<{ body: string; flags: string }> {
  constructor(body: string, flags: string) {
    super({ body, flags }, `/${body}/${flags}`);
  }
}

function compiled(body: string, flags: string): RegExp {
  try {
    return new RegExp(body, flags);
  } catch (error) {
    return raise('invalid_input', `\`${body}\` is not a pattern: ${messageOf(error)}`);
  }
}

/** Runs `work` with a pattern. Fails with `timeout` after `LIMIT_MS`. */
function runPattern(pattern: RegExp, work: (pattern: RegExp) => Json, attempt = 1): Json {
  patternContext ??= createContext(Object.create(null));
  let answer: Json = null;
  patternContext.work = () => {
    pattern.lastIndex = 0;
    answer = work(pattern);
  };
  const before = process.cpuUsage();
  try {
    WORK.runInContext(patternContext, { timeout: LIMIT_MS });
    return answer;
  } catch (error) {
    if (errnoOf(error) !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    // A process that has hardly received CPU time has not used its limit. It tries again.
    const { user, system } = process.cpuUsage(before);
    const isStarved = (user + system) / 1000 < LIMIT_MS / 2;
    if (isStarved && attempt < ATTEMPTS) return runPattern(pattern, work, attempt + 1);
    return raise('timeout', `the pattern \`${pattern.source}\` took longer than ${LIMIT_MS} ms`);
  } finally {
    patternContext.work = undefined;
  }
}

/** Returns the groups of a match. A group that did not match is null. */
const withNulls = (found: readonly (string | undefined)[]): Json[] =>
  found.map((text) => text ?? null);

/** Returns all matches of a text pattern. For a pattern literal the flags decide; no match gives null. */
function match(text: string, args: Arguments): Json {
  const literal = args.pattern(0);
  const pattern = literal ? compiled(literal.body, literal.flags) : compiled(args.text(0), 'g');
  return runPattern(pattern, (each) => {
    const found = text.match(each);
    return found ? withNulls([...found]) : literal ? null : [];
  });
}

const SLOT = /\$(?:([$&])|(\d\d?)|<([^>]*)>)/g;

/** Replaces `$1`, `$<name>`, `$&` and `$$` in a replacement. Other text is unchanged. */
function expandReplacement(to: string, found: readonly unknown[]): string {
  const named = found.at(-1);
  const groups: object | undefined =
    typeof named === 'object' && named !== null ? named : undefined;
  const captured = found.slice(0, groups ? -3 : -2);
  const asText = (group: unknown): string => (typeof group === 'string' ? group : '');
  const textAt = (at: number): string => asText(captured[at]);
  return to.replace(SLOT, (slot: string, sign?: string, digits?: string, name?: string) => {
    if (sign !== undefined) return sign === '$' ? '$' : textAt(0);
    if (digits === undefined)
      return groups ? asText(new Map(Object.entries(groups)).get(name ?? '')) : slot;
    const isGroup = (at: number): boolean => at > 0 && at < captured.length;
    if (isGroup(Number(digits))) return textAt(Number(digits));
    const first = Number(digits[0]);
    return isGroup(first) ? textAt(first) + digits.slice(1) : slot;
  });
}

/** Replaces matches. `more` has flags that are added to the flags of the pattern. */
function replaceMatches(text: string, { body, flags }: Pattern, to: string, more = ''): Json {
  const all = flags.includes('g') ? flags : flags + more;
  return runPattern(compiled(body, all), (pattern) => {
    let length = text.length;
    const replaced = text.replace(pattern, (...found: unknown[]) => {
      const piece = to.includes('$') ? expandReplacement(to, found) : to;
      length += piece.length;
      checkLength(length);
      return piece;
    });
    return replaced;
  });
}

type Pattern = PatternData['content'];

function splitMatches(text: string, { body, flags }: Pattern, limit: number | undefined): Json {
  return runPattern(compiled(body, flags), (pattern) => withNulls(text.split(pattern, limit)));
}

type Arguments = ReturnType<typeof argumentsOf>;

type TextMethod = (text: string, args: Arguments) => Json;

/** Maximum length of a result. It prevents that a wrong count fills the memory. */
const MAX_LENGTH = 16 * 1024 * 1024;

function checkLength(length: number): number {
  if (length <= MAX_LENGTH) return length;
  return raise('invalid_input', `the result would be longer than ${MAX_LENGTH} characters`);
}

// Replacements are literal: `$&` in a text from outside has no meaning.
export const TEXT_METHODS: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  ['length', (text) => text.length],
  ['includes', (text, args) => text.includes(args.text(0))],
  ['indexOf', (text, args) => text.indexOf(args.text(0), args.optionalNumber(1))],
  ['startsWith', (text, args) => text.startsWith(args.text(0), args.optionalNumber(1))],
  ['endsWith', (text, args) => text.endsWith(args.text(0), args.optionalNumber(1))],
  ['toLowerCase', (text) => text.toLowerCase()],
  ['toUpperCase', (text) => text.toUpperCase()],
  ['trim', (text) => text.trim()],
  ['split', split],
  ['slice', (text, args) => text.slice(args.optionalNumber(0), args.optionalNumber(1))],
  [
    'substring',
    (text, args) => text.substring(args.optionalNumber(0) ?? 0, args.optionalNumber(1)),
  ],
  ['replace', replace],
  ['replaceAll', replaceAll],
  ['match', match],
  ['padStart', (text, args) => text.padStart(checkLength(args.number(0)), args.optionalText(1))],
  ['padEnd', (text, args) => text.padEnd(checkLength(args.number(0)), args.optionalText(1))],
  ['repeat', (text, args) => repeated(text, args.number(0))],
  ['at', (text, args) => text.at(args.optionalNumber(0) ?? 0) ?? null],
]);

function split(text: string, args: Arguments): Json {
  const [pattern, limit] = [args.pattern(0), args.optionalNumber(1)];
  if (pattern) return splitMatches(text, pattern, limit);
  const by = args.optionalText(0);
  return by === undefined ? [text] : text.split(by, limit);
}

function replace(text: string, args: Arguments): Json {
  const pattern = args.pattern(0);
  if (pattern) return replaceMatches(text, pattern, args.text(1));
  const [from, to] = [args.text(0), args.text(1)];
  return text.replace(from, () => to);
}

function replaceAll(text: string, args: Arguments): Json {
  const pattern = args.pattern(0);
  if (pattern) return replaceMatches(text, pattern, args.text(1), 'g');
  const entries = args.entries(0) ?? [[args.text(0), args.text(1)] as const];
  // Each entry is replaced in the result of the previous one.
  return entries.reduce((result, [from, to]) => replaceEach(result, from, to), text);
}

function replaceEach(text: string, from: string, to: string): string {
  if (to.length > from.length) {
    const found = from === '' ? text.length + 1 : text.split(from).length - 1;
    checkLength(text.length + found * (to.length - from.length));
  }
  return text.replaceAll(from, () => to);
}

function repeated(text: string, count: number): string {
  if (!Number.isInteger(count) || count < 0) {
    raise('invalid_input', `\`repeat\` needs a whole number of at least 0, not \`${count}\``);
  }
  checkLength(text.length * count);
  return text.repeat(count);
}

const QUESTIONS = new Map<string, (value: Value) => boolean>([
  ['isArray', (value) => typeName(value) === 'array'],
  ['isObject', (value) => typeName(value) === 'object'],
  ['isString', (value) => typeName(value) === 'string'],
  ['isNumber', (value) => typeName(value) === 'number'],
  ['isBoolean', (value) => typeName(value) === 'boolean'],
  ['isNull', (value) => value.data === null],
  ['isDefined', (value) => value.data !== null],
]);

/** Returns the text whose methods the value has, which may be the source of parsed data; else absent. */
function textUnder(value: Value): string | undefined {
  if (typeof value.data === 'string') return value.data;
  return value.hasOwnText && !isReadNull(value) ? value.text : undefined;
}

export function hasMethod(value: Value, name: string): boolean {
  if (QUESTIONS.has(name)) return true;
  if (Array.isArray(value.data) && LIST_METHODS.has(name)) return true;
  return TEXT_METHODS.has(name) && textUnder(value) !== undefined;
}

function argumentsOf(method: string, values: readonly Value[]) {
  const valueAt = (position: number): Value | undefined => {
    const value = values[position];
    return value === undefined || value.data === null ? undefined : value;
  };
  const optionalText = (position: number): string | undefined => {
    const value = valueAt(position);
    return value && (typeof value.data === 'string' ? value.data : textOf(value));
  };
  const optionalNumber = (position: number): number | undefined => {
    const value = valueAt(position);
    if (value === undefined) return undefined;
    const number = numericOf(value.data);
    if (number !== undefined && !Number.isNaN(number)) return number;
    return raise('invalid_input', `\`${method}\` needs a number, not \`${textOf(value)}\``);
  };
  const missing = (position: number): never =>
    raise('invalid_input', `\`${method}\` needs ${position === 0 ? 'an' : 'a second'} argument`);
  /** Returns the keys of an object argument with the texts of their values. */
  const entries = (position: number): (readonly [string, string])[] | undefined => {
    const value = valueAt(position);
    if (value === undefined || typeName(value) !== 'object') return undefined;
    return entriesOf(value).map(([key, part]) => [key, textOf(part)] as const);
  };
  const pattern = (position: number): Pattern | undefined => {
    const data: unknown = valueAt(position)?.data;
    return data instanceof PatternData ? data.content : undefined;
  };
  return {
    pattern,
    entries,
    optionalText,
    optionalNumber,
    text: (position: number): string => optionalText(position) ?? missing(position),
    number: (position: number): number => optionalNumber(position) ?? missing(position),
  };
}

/** Calls a method. Fails with `expression_error` if the value has no such method. */
export function callMethod(value: Value, name: string, values: readonly Value[]): Value {
  const question = QUESTIONS.get(name);
  if (question) return computed(question(value), [value, ...values]);
  const args = argumentsOf(name, values);
  try {
    const list = Array.isArray(value.data) ? LIST_METHODS.get(name) : undefined;
    if (list) return list(value, args, values);
    const text = textUnder(value);
    const method = text === undefined ? undefined : TEXT_METHODS.get(name);
    if (method && text !== undefined) return computed(method(text, args), [value, ...values]);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    raise('invalid_input', `the result of \`${name}\` would be too long`);
  }
  return unknownMethod(value, name);
}

function unknownMethod(value: Value, name: string): never {
  const names = [...QUESTIONS.keys(), ...TEXT_METHODS.keys(), ...LIST_METHODS.keys()];
  const meant = names.includes(name) ? undefined : nearest(name, names);
  const hint = meant === undefined ? '' : `; did you mean \`${meant}\`?`;
  return raise('expression_error', `${kindName(value)} has no method \`${name}\`${hint}`);
}

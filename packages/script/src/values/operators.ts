// Implements the operators of expressions. They compare by value. `+` adds numbers and never joins texts.
import { isObject, type Json, plainText } from '@kernmantle/core/base';
import {
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  mergeDescriptors,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import type { BinaryOperator, Comparison } from '../syntax/ast.ts';
import {
  computed,
  elementsOf,
  isStructure,
  isTruthy,
  keysOf,
  kindName,
  listFrom,
  numericOf,
  ownMarks,
  shapeMarks,
  typeName,
} from './kinds.ts';
import { textOf } from './text.ts';

/** Converts a value to a number: true is 1, null is 0, and other values without a number are NaN. */
function numberOf(value: Value): number {
  const { data } = value;
  if (typeName(value) === 'null') return 0;
  return typeof data === 'boolean' ? Number(data) : (numericOf(data) ?? Number.NaN);
}

const ARITHMETIC: Readonly<Record<Arithmetic, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
};

function calculate(operator: Arithmetic, left: Value, right: Value): Value {
  if (operator === '+' && typeof left.data === 'string' && typeof right.data === 'string') {
    raise('expression_error', '`+` adds numbers and does not join text; use a template: `@a @b`');
  }
  return computed(ARITHMETIC[operator](numberOf(left), numberOf(right)), [left, right]);
}

const COMPARISON: Readonly<Record<Comparison, (a: number, b: number) => boolean>> = {
  '<': (a, b) => a < b,
  '>': (a, b) => a > b,
  '<=': (a, b) => a <= b,
  '>=': (a, b) => a >= b,
};

function compare(operator: Comparison, left: Value, right: Value): Value {
  const [a, b] = [numericOf(left.data), numericOf(right.data)];
  const holds = a !== undefined && b !== undefined && COMPARISON[operator](a, b);
  return computed(holds, [left, right]);
}

/** A number equals a text with that number, and a boolean equals its name as a text. */
function isEqualPlain(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a === typeof b) return false;
  if (typeof a === 'number' || typeof b === 'number') {
    const [x, y] = [numericOf(a), numericOf(b)];
    return x !== undefined && x === y;
  }
  return isNamedBy(a, b) || isNamedBy(b, a);
}

const isNamedBy = (a: Json, b: Json): boolean =>
  typeof a === 'boolean' && typeof b === 'string' && String(a) === b;

/** Compares values for `==`, without recursion. Null and undefined equal each other and nothing else. */
export const isEqual = (left: Value, right: Value): boolean => isSame(left.data, right.data);

function isSame(left: Json, right: Json): boolean {
  const open: [Json, Json][] = [[left, right]];
  for (let pair = open.pop(); pair; pair = open.pop()) {
    const [a, b] = pair;
    if (!isStructure(a) || !isStructure(b)) {
      if (!isEqualPlain(a, b)) return false;
      continue;
    }
    if (a === b) continue;
    const inside = Object.entries(a);
    const others = new Map(Object.entries(b));
    if (Array.isArray(a) !== Array.isArray(b) || inside.length !== others.size) return false;
    for (const [key, part] of inside) {
      const other = others.get(key);
      if (other === undefined) return false;
      open.push([part, other]);
    }
  }
  return true;
}

export const equals = (left: Value, right: Value): Value =>
  computed(isEqual(left, right), [left, right]);

/** Returns the items of one side of `~=`: null gives none, a text is split at commas. */
function itemsIn(data: Json): readonly Json[] {
  if (data === null) return [];
  if (Array.isArray(data)) return data;
  if (typeof data !== 'string') return [data];
  const text = data.trim();
  if (text.toLowerCase() === 'null') return [];
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function countOf<T>(items: readonly T[]): Map<T, number> {
  const counts = new Map<T, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}

/** Returns the key of an item. A number and all texts with that number have the same key. */
const keyOf = (item: Json): Json => (typeof item === 'string' ? (numericOf(item) ?? item) : item);

/** True if each item on the left has its own equal on the right. A text takes an equal text first. */
function coversPlain(left: readonly Json[], right: readonly Json[]): boolean {
  const [keys, available] = [countOf(left.map(keyOf)), countOf(right.map(keyOf))];
  for (const [key, count] of keys)
    if (Number.isNaN(key) || count > (available.get(key) ?? 0)) return false;
  const isText = (item: Json): item is string => typeof item === 'string';
  const texts = countOf(right.filter(isText));
  const numbers = countOf(right.filter((item) => !isText(item)));
  for (const [text, count] of countOf(left.filter(isText))) {
    const others = count - (texts.get(text) ?? 0);
    if (others <= 0) continue;
    const free = (numbers.get(keyOf(text)) ?? 0) - others;
    if (free < 0) return false;
    numbers.set(keyOf(text), free);
  }
  return true;
}

/** Maximum number of pairs of lists and objects that `~=` compares. */
const MOST_PAIRS = 250_000;

/** Matches lists and objects. A match moves to another partner if that lets more items fit. */
function coversWhole(left: readonly Json[], right: readonly Json[]): boolean {
  if (left.length > right.length) return false;
  if (left.length * right.length > MOST_PAIRS)
    raise('invalid_input', 'too many lists or objects to compare with `~=`');
  const fits = left.map((item) =>
    [...right.keys()].filter((at) => isSame(item, right[at] ?? null)),
  );
  const takenBy = new Map<number, number>();
  const place = (item: number, tried: Set<number>): boolean =>
    (fits[item] ?? []).some((at) => {
      if (tried.has(at)) return false;
      tried.add(at);
      const holder = takenBy.get(at);
      if (holder !== undefined && !place(holder, tried)) return false;
      takenBy.set(at, item);
      return true;
    });
  return left.every((_, item) => place(item, new Set()));
}

function isTolerated({ data: left }: Value, { data: right }: Value): boolean {
  if (isObject(left) || isObject(right)) return isSame(left, right);
  const [actual, expected] = [itemsIn(left), itemsIn(right)];
  if (actual.length === 0 || expected.length === 0) return actual.length === expected.length;
  const isPlain = (item: Json): boolean => !isStructure(item);
  return (
    coversPlain(actual.filter(isPlain), expected.filter(isPlain)) &&
    coversWhole(actual.filter(isStructure), expected.filter(isStructure))
  );
}

/** Returns `left ~= right`, which tolerates a shorter list on the left. It is meant for values from a model. */
const tolerates = (left: Value, right: Value): Value =>
  computed(isTolerated(left, right), [left, right]);

export const negate = (value: Value): Value => computed(!isTruthy(value), [value]);

type Plain = Exclude<BinaryOperator, '&&' | '||' | '??'>;
type Arithmetic = Exclude<Plain, Comparison | '==' | '!=' | '~=' | '!~='>;

/** Returns the function of a binary operator that evaluates both sides. */
export function operatorFunction(operator: Plain): (left: Value, right: Value) => Value {
  switch (operator) {
    case '==':
      return equals;
    case '!=':
      return (left, right) => negate(equals(left, right));
    case '~=':
      return tolerates;
    case '!~=':
      return (left, right) => negate(tolerates(left, right));
    case '<':
    case '>':
    case '<=':
    case '>=':
      return (left, right) => compare(operator, left, right);
    default:
      return (left, right) => calculate(operator, left, right);
  }
}

export const minus = (value: Value): Value => computed(-numberOf(value), [value]);

// Facts of a variable or of a round of a loop, which an element of a list does not need.
const PASSING = new Set(['name', 'definedAt', 'exported', 'key', 'index']);

/** True if the value and its parts have no marks, no own text and no other facts. */
const isBare = ({ meta, hasOwnText }: Value): boolean =>
  meta.descriptor === EMPTY &&
  !hasOwnText &&
  (meta.elements?.parts.size ?? 0) === 0 &&
  Object.keys(meta.origin).every((fact) => PASSING.has(fact));

function append(left: Value, right: Value): Value {
  const { data } = right;
  const isList = Array.isArray(data);
  // Loops collect one element per round. Creating a value for each would cost more than the rounds.
  if (isBare(left) && isBare(right)) {
    return makeValue([...(Array.isArray(left.data) ? left.data : []), ...(isList ? data : [data])]);
  }
  const more = isList ? elementsOf(right) : [right];
  // The number of new elements decides the position of the next one.
  const count = isList ? [makeValue(null, { descriptor: ownMarks(right) })] : [];
  return listFrom(left, [...elementsOf(left), ...more], count);
}

/** Returns `left += right`. The type of the left side decides. The marks of the whole left value stay. */
export function augment(left: Value, right: Value): Value {
  switch (typeName(left)) {
    case 'array':
      return append(left, right);
    case 'string':
      return computed(`${plainText(left.data)}${textOf(right)}`, [left, right]);
    case 'number':
      if (numericOf(right.data) === undefined) {
        raise('expression_error', `\`+=\` on a number needs a number, not ${kindName(right)}`);
      }
      return calculate('+', left, right);
    case 'object':
      return mergeObjects(left, right);
    default:
      return raise('expression_error', `\`+=\` cannot be used on ${kindName(left)}`);
  }
}

function mergeObjects(left: Value, right: Value): Value {
  if (typeName(right) !== 'object') {
    raise('expression_error', `\`+=\` on an object needs an object, not ${kindName(right)}`);
  }
  const parts = new Map<string, Value>();
  for (const side of [left, right]) {
    for (const key of keysOf(side)) parts.set(key, elementOf(side, key));
  }
  const shape = mergeDescriptors(shapeMarks(left), shapeMarks(right));
  return makeContainer(parts, EMPTY, shape);
}

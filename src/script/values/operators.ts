// The operators. Numbers where both sides can be numbers, no joining of texts, equality by value.
import { type Json, plainText } from '../../base/index.ts';
import {
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import { raise } from '../fault.ts';
import type { BinaryOperator } from '../syntax/ast.ts';
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

/** True is 1, null is 0; what is no number at all is NaN. */
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

/** A number equals text that is that number, a boolean the text that names it; texts as they are. */
function isEqualPlain(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a === typeof b) return false;
  if (typeof a === 'number' || typeof b === 'number') {
    const [x, y] = [numericOf(a), numericOf(b)];
    return x !== undefined && x === y;
  }
  return isNamedBy(a, b) || isNamedBy(b, a);
}

/** `true` and `"true"`, `false` and `"false"`. */
const isNamedBy = (a: Json, b: Json): boolean =>
  typeof a === 'boolean' && typeof b === 'string' && String(a) === b;

/**
 * `==`: null and undefined are equal to each other and to nothing else. Walks without recursion: both
 * sides may be nested as deep as JSON allows.
 */
export function isEqual(left: Value, right: Value): boolean {
  const open: [Json, Json][] = [[left.data, right.data]];
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

/** `==` as a value. */
export const equals = (left: Value, right: Value): Value =>
  computed(isEqual(left, right), [left, right]);

export const negate = (value: Value): Value => computed(!isTruthy(value), [value]);

type Plain = Exclude<BinaryOperator, '&&' | '||' | '??'>;
type Comparison = '<' | '>' | '<=' | '>=';
type Arithmetic = Exclude<Plain, Comparison | '==' | '!='>;

/** What an operator that looks at both its sides makes of them. */
export function applied(operator: Plain): (left: Value, right: Value) => Value {
  switch (operator) {
    case '==':
      return equals;
    case '!=':
      return (left, right) => negate(equals(left, right));
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

// Facts about a variable or a round of a loop, which an element of a list has no use for.
const PASSING = new Set(['name', 'definedAt', 'exported', 'key', 'index']);

/** Nothing but data: no marks, no text, no facts, also not inside. */
const isBare = ({ meta, hasOwnText }: Value): boolean =>
  meta.descriptor === EMPTY &&
  !hasOwnText &&
  (meta.elements?.parts.size ?? 0) === 0 &&
  Object.keys(meta.origin).every((fact) => PASSING.has(fact));

function append(left: Value, right: Value): Value {
  const { data } = right;
  const isList = Array.isArray(data);
  // Loops collect one by one, and a value per element and round would cost more than the rounds.
  if (isBare(left) && isBare(right)) {
    return makeValue([...(Array.isArray(left.data) ? left.data : []), ...(isList ? data : [data])]);
  }
  const more = isList ? elementsOf(right) : [right];
  // How many come in decides where the next one will stand.
  const count = isList ? [makeValue(null, { descriptor: ownMarks(right) })] : [];
  return listFrom(left, [...elementsOf(left), ...more], count);
}

/** `+=`: what the left side is decides, and what was marked as a whole stays so. */
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
      return raise('expression_error', `\`+=\` does not work on ${kindName(left)}`);
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

// Implements the operators. The compiler inlines the common cases (two numbers, a constant) and calls
// these functions for the rest. No message contains a value of the context, because the value may be
// secret and transcripts contain faults.
import { isObject, type Json } from '../base/index.ts';
import type { Arithmetic } from './syntax-tree.ts';
import { includesText } from './text-search.ts';

/** The remaining steps of an evaluation. An operation on data takes steps for each element that it reads. */
export interface Meter {
  left: number;
}

/** Fault of an evaluation. The exported functions of this folder turn it into an `Outcome`. */
export class EvaluationFault extends Error {
  readonly column: number;

  /** Without a column the fault is about the whole expression. */
  constructor(message: string, column = 1) {
    super(message);
    this.column = column;
  }
}

function charge(meter: Meter, steps: number): void {
  meter.left -= steps;
  if (meter.left < 0) throw new EvaluationFault('the evaluation takes too many steps');
}

/** Texts are compared and copied by machine words, so sixteen characters are one step. */
const textSteps = (length: number): number => length >>> 4;

function containsText(text: string, part: string, meter: Meter): boolean {
  if (part.length > text.length) return false;
  charge(meter, textSteps(text.length + part.length));
  return includesText(text, part);
}

export type Ordering = '<' | '>' | '<=' | '>=';

const ORDERINGS: Readonly<Record<Ordering, (a: number, b: number) => boolean>> = {
  '<': (a, b) => a < b,
  '>': (a, b) => a > b,
  '<=': (a, b) => a <= b,
  '>=': (a, b) => a >= b,
};

/** Maximum depth of compared data. Recursion must end before the stack overflows. */
const MAX_COMPARED_DEPTH = 1000;

function kindOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** Returns false for null, false, 0, "", [] and {}, and true for any other value. */
export function isTruthy(value: Json, meter: Meter): boolean {
  switch (typeof value) {
    case 'boolean':
      return value;
    case 'number':
      return value !== 0;
    case 'string':
      return value !== '';
    default:
      return value !== null && !isEmpty(value, meter);
  }
}

function isEmpty(value: Json[] | { [key: string]: Json }, meter: Meter): boolean {
  if (Array.isArray(value)) return value.length === 0;
  // The engine lists all keys, so each of them takes a step.
  const { length } = Object.keys(value);
  charge(meter, length);
  return length === 0;
}

/** Deep equality by type, independent of the order of keys. */
export function isEqual(a: Json, b: Json, meter: Meter, depth = 0): boolean {
  if (typeof a === 'string' && typeof b === 'string') {
    if (a.length !== b.length) return false;
    charge(meter, textSteps(a.length));
    return a === b;
  }
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (depth > MAX_COMPARED_DEPTH) {
    throw new EvaluationFault(`the values are nested deeper than ${MAX_COMPARED_DEPTH} levels`);
  }
  if (Array.isArray(a)) return Array.isArray(b) && areListsEqual(a, b, meter, depth);
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  charge(meter, keys.length);
  const { length } = Object.keys(b);
  charge(meter, length);
  if (keys.length !== length) return false;
  return keys.every(
    (key) => Object.hasOwn(b, key) && isEqual(a[key] as Json, b[key] as Json, meter, depth + 1),
  );
}

function areListsEqual(a: Json[], b: Json[], meter: Meter, depth: number): boolean {
  if (a.length !== b.length) return false;
  charge(meter, a.length);
  return a.every((item, index) => isEqual(item, b[index] as Json, meter, depth + 1));
}

export function isIn(left: Json, right: Json, column: number, meter: Meter): boolean {
  if (Array.isArray(right)) {
    charge(meter, right.length);
    for (let index = 0; index < right.length; index++) {
      if (isEqual(right[index] as Json, left, meter)) return true;
    }
    return false;
  }
  if (right === null) return false;
  if (typeof left === 'string') {
    charge(meter, textSteps(left.length));
    if (typeof right === 'string') return containsText(right, left, meter);
    if (isObject(right)) return Object.hasOwn(right, left);
  }
  throw new EvaluationFault(`\`in\` cannot look for ${kindOf(left)} in ${kindOf(right)}`, column);
}

/** Compares two values that are not both numbers. Null on either side gives false. */
export function isOrdered(
  operator: Ordering,
  a: Json,
  b: Json,
  column: number,
  meter: Meter,
): boolean {
  if (a === null || b === null) return false;
  if (typeof a === 'string' && typeof b === 'string') {
    return ORDERINGS[operator](compareText(a, b, meter), 0);
  }
  throw new EvaluationFault(
    `\`${operator}\` cannot compare ${kindOf(a)} with ${kindOf(b)}`,
    column,
  );
}

/** Compares by code point. JavaScript's own `<` uses UTF-16 units and sorts U+1F600 before U+FF01. */
function compareText(a: string, b: string, meter: Meter): number {
  const length = Math.min(a.length, b.length);
  charge(meter, textSteps(length));
  let at = 0;
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at === length ? a.length - b.length : compareTail(a, b, at);
}

/** The texts differ first at unit `at`; the differing code point may begin one unit earlier. */
function compareTail(a: string, b: string, at: number): number {
  const before = a.charCodeAt(at - 1);
  const start = before >= 0xd800 && before < 0xdc00 ? at - 1 : at;
  const difference = Number(a.codePointAt(start)) - Number(b.codePointAt(start));
  return difference === 0 ? Number(a.codePointAt(at)) - Number(b.codePointAt(at)) : difference;
}

/** Combines any two values. Throws for a result that is not finite. */
export function calculate(
  operator: Arithmetic,
  a: Json,
  b: Json,
  column: number,
  meter: Meter,
): Json {
  if (operator === '+' && typeof a === 'string' && typeof b === 'string') {
    charge(meter, textSteps(a.length + b.length));
    return a + b;
  }
  const [left, right] = [a ?? 0, b ?? 0];
  if (typeof left !== 'number' || typeof right !== 'number') {
    const message = `\`${operator}\` cannot combine ${kindOf(a)} with ${kindOf(b)}`;
    throw new EvaluationFault(message, column);
  }
  const result = apply(operator, left, right);
  if (Number.isFinite(result)) return result;
  throw new EvaluationFault(`the result of \`${operator}\` is too large`, column);
}

/** Adding 0 turns -0 into 0, because JSON has one zero. */
function apply(operator: Arithmetic, a: number, b: number): number {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b + 0;
    case '/':
      return b === 0 ? 0 : a / b + 0;
  }
}

export function negate(value: Json, column: number): number {
  if (typeof value === 'number') return 0 - value;
  if (value === null) return 0;
  throw new EvaluationFault(`\`-\` cannot negate ${kindOf(value)}`, column);
}

// Built-in methods: `@text.trim()`, `@list.join(", ")`, `@x.isArray()`. Lists and parsed files with a
// text of their own also answer to the methods of that text, where they have none of that name.
import { nearest } from '../base/index.ts';
import type { Value } from '../flow/index.ts';
import { raise } from './fault.ts';
import { LIST_METHODS } from './methods-list.ts';
import { type Arguments, TEXT_METHODS } from './methods-text.ts';
import { textOf } from './text-of.ts';
import { computed, kindName, numericOf, typeName } from './value-kinds.ts';

const QUESTIONS: ReadonlyMap<string, (value: Value) => boolean> = new Map([
  ['isArray', (value: Value) => typeName(value) === 'array'],
  ['isObject', (value: Value) => typeName(value) === 'object'],
  ['isString', (value: Value) => typeName(value) === 'string'],
  ['isNumber', (value: Value) => typeName(value) === 'number'],
  ['isBoolean', (value: Value) => typeName(value) === 'boolean'],
  ['isNull', (value: Value) => value.data === null],
  ['isDefined', (value: Value) => value.data !== null],
]);

/** The text whose methods a value has; undefined when it has none. */
function textUnder(value: Value): string | undefined {
  if (typeof value.data === 'string') return value.data;
  return value.hasOwnText ? value.text : undefined;
}

export function hasMethod(value: Value, name: string): boolean {
  if (QUESTIONS.has(name)) return true;
  if (Array.isArray(value.data) && LIST_METHODS.has(name)) return true;
  return TEXT_METHODS.has(name) && textUnder(value) !== undefined;
}

export const isListMethod = (name: string): boolean => LIST_METHODS.has(name);

function argumentsOf(method: string, values: readonly Value[]): Arguments {
  const given = (position: number): Value | undefined => {
    const value = values[position];
    return value === undefined || value.data === null ? undefined : value;
  };
  const optionalText = (position: number): string | undefined => {
    const value = given(position);
    return value && (typeof value.data === 'string' ? value.data : textOf(value));
  };
  const optionalNumber = (position: number): number | undefined => {
    const value = given(position);
    if (value === undefined) return undefined;
    const number = numericOf(value.data);
    if (number !== undefined && !Number.isNaN(number)) return number;
    return raise('invalid_input', `\`${method}\` needs a number, not \`${textOf(value)}\``);
  };
  const missing = (position: number): never =>
    raise('invalid_input', `\`${method}\` needs ${position === 0 ? 'an' : 'a second'} argument`);
  return {
    optionalText,
    optionalNumber,
    text: (position) => optionalText(position) ?? missing(position),
    number: (position) => optionalNumber(position) ?? missing(position),
  };
}

/** Never changes the receiver; an unknown method, or one the receiver does not have, is a fault. */
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
    raise('invalid_input', `\`${name}\` makes a text that is too long`);
  }
  return unknownMethod(value, name);
}

function unknownMethod(value: Value, name: string): never {
  const names = [...QUESTIONS.keys(), ...TEXT_METHODS.keys(), ...LIST_METHODS.keys()];
  const meant = names.includes(name) ? undefined : nearest(name, names);
  const hint = meant === undefined ? '' : `; did you mean \`${meant}\`?`;
  return raise('expression_error', `${kindName(value)} has no method \`${name}\`${hint}`);
}

// `.mx` of a value: what is known about it. The members are computed when read, and the view
// remembers whose it is, so that `.mx.data.b` has exactly the marks of `.b`.
import { getOwn, type Json, type JsonObject } from '../base/index.ts';
import {
  elementOf,
  estimateTokens,
  makeContainer,
  makeValue,
  type Value,
  valueContext,
  withOrigin,
  withText,
} from '../flow/index.ts';
import { textOf } from './text-of.ts';
import { computed, elementsOf, isStructure, ownMarks, typeName } from './value-kinds.ts';

/** What only the holder of a name knows. */
export interface MxFacts {
  readonly name?: string;
  readonly definedAt?: Json;
  readonly exported?: boolean;
}

/** Origin facts that steer this room and say nothing to a script. */
const INTERNAL = ['absent', 'bare', 'each', 'files', 'keep', 'namespace', 'open', 'parts'];

const subjects = new WeakMap<object, Value>();

function tokestOf(value: Value): number {
  const { origin } = value.meta;
  const file = getOwn(origin, 'filename') ?? getOwn(origin, 'file');
  return estimateTokens(textOf(value), typeof file === 'string' ? file : '');
}

function tokensOf(value: Value): number {
  const exact = getOwn(value.meta.origin, 'tokens');
  return typeof exact === 'number' ? exact : tokestOf(value);
}

/** On lists one number per element. */
const countOf = (value: Value, count: (value: Value) => number): Json =>
  Array.isArray(value.data) ? elementsOf(value).map((element) => count(element)) : count(value);

/** The members whose marks are exact; everything else has the marks of the whole. */
const EXACT: Readonly<Record<string, (value: Value) => Value | undefined>> = {
  data: (value) => withOrigin(withText(value, undefined), { bare: true }),
  text: (value) => computed(textOf(value), [value]),
  keys: (value) => ifObject(value, (keys) => computed(keys, [value])),
  values: (value) =>
    ifObject(value, (keys) =>
      makeContainer(
        keys.map((key) => elementOf(value, key)),
        ownMarks(value),
      ),
    ),
  entries: (value) =>
    ifObject(value, (keys) =>
      makeContainer(
        keys.map((key) => makeContainer([computed(key, []), elementOf(value, key)])),
        ownMarks(value),
      ),
    ),
};

const ifObject = (value: Value, make: (keys: string[]) => Value): Value | undefined =>
  isStructure(value.data) && !Array.isArray(value.data) ? make(Object.keys(value.data)) : undefined;

/** One member of a view with its exact marks; undefined when `value` is no view or has no such member. */
export function mxMember(value: Value, name: string): Value | undefined {
  const { data } = value;
  const subject = typeof data === 'object' && data !== null ? subjects.get(data) : undefined;
  return subject && Object.hasOwn(EXACT, name) ? EXACT[name]?.(subject) : undefined;
}

export function mxOf(value: Value, facts: MxFacts = {}): Value {
  const members = Object.getOwnPropertyDescriptors(valueContext(value));
  for (const name of INTERNAL) delete members[name];
  const define = (name: string, get: () => Json) => {
    members[name] = { get, enumerable: true };
  };
  const { origin } = value.meta;
  define('tools', () => getOwn(origin, 'tools') ?? []);
  define('type', () => typeName(value));
  define('tokens', () => countOf(value, tokensOf));
  define('tokest', () => countOf(value, tokestOf));
  for (const [name, fact] of Object.entries(facts)) {
    if (fact !== undefined) define(name, () => fact as Json);
  }
  for (const [name, read] of Object.entries(EXACT)) {
    if (isView(name, value)) define(name, () => read(value)?.data ?? null);
  }
  const view = Object.freeze(Object.defineProperties({}, members)) as JsonObject;
  subjects.set(view, value);
  return makeValue(view, { descriptor: value.meta.descriptor });
}

const isView = (name: string, value: Value): boolean =>
  name === 'data' || name === 'text' || typeName(value) === 'object';

// Builds `.mx`, the metadata of a value. Members are computed when read. The view refers to its value, so
// that `.mx.data.b` has exactly the marks of `.b`.
import { getOwn, type Json, type JsonObject, nearest, setOwn } from '@kernmantle/core/base';
import {
  elementOf,
  estimateValueTokens,
  makeContainer,
  makeValue,
  toolsIn,
  type Value,
  withOrigin,
  withText,
} from '@kernmantle/core/flow';
import {
  computed,
  elementsOf,
  isFunctionData,
  isStructure,
  keysOf,
  ownMarks,
  typeName,
} from './kinds.ts';
import { textOf } from './text.ts';

/** Facts about a variable or export that the value itself does not contain. */
export interface MxFacts {
  readonly name?: string;
  readonly definedAt?: Json;
  readonly exported?: boolean;
}

/** Origin entries for internal use. Scripts cannot read them. */
const INTERNAL = new Set(
  'absent bare facts files keep loaded namespace of open readNull told'.split(' '),
);

const subjects = new WeakMap<object, Value>();

function tokestOf(value: Value): number {
  const { origin } = value.meta;
  const file = getOwn(origin, 'filename') ?? getOwn(origin, 'file');
  return estimateValueTokens(textOf(value), typeof file === 'string' ? file : '');
}

function tokensOf(value: Value): number {
  const exact = getOwn(value.meta.origin, 'tokens');
  return typeof exact === 'number' ? exact : tokestOf(value);
}

/** Returns one count; for a list one count per element. */
const countOf = (value: Value, count: (value: Value) => number): Json =>
  Array.isArray(value.data) ? elementsOf(value).map((element) => count(element)) : count(value);

/** Members with exact marks. Other members have the marks of the whole value. */
const EXACT: Readonly<Record<string, (value: Value) => Value | undefined>> = {
  data: (value) => withOrigin(withText(value, undefined), { bare: true }),
  text: (value) => computed(textOf(value), [value]),
  keys: (value) => (typeName(value) === 'object' ? computed(keysOf(value), [value]) : undefined),
  values: (value) => ofKeys(value, (key) => elementOf(value, key)),
  entries: (value) =>
    ofKeys(value, (key) => makeContainer([computed(key, []), elementOf(value, key)])),
};

function ofKeys(value: Value, make: (key: string) => Value): Value | undefined {
  if (typeName(value) !== 'object') return undefined;
  return makeContainer(keysOf(value).map(make), ownMarks(value));
}

/** Returns one member of a view with its exact marks; `undefined` if `value` is not a view or has no such member. */
export function mxMember(value: Value, name: string): Value | undefined {
  const { data } = value;
  const subject = typeof data === 'object' && data !== null ? subjects.get(data) : undefined;
  return subject && Object.hasOwn(EXACT, name) ? EXACT[name]?.(subject) : undefined;
}

/** Returns the member of a view with a similar name; `undefined` if the name exists or nothing is similar. */
export function misspeltFact({ data }: Value, name: string): string | undefined {
  const isView = isStructure(data) && subjects.has(data) && !Object.hasOwn(data, name);
  return isView ? nearest(name, Object.keys(data)) : undefined;
}

function lengthOf(value: Value): number {
  const { data } = value;
  if (Array.isArray(data)) return data.length;
  return isStructure(data) ? Object.keys(data).length : textOf(value).length;
}

/** Returns the same as `@typeof`, but `text` for text that was loaded from a file. */
export function mxType(value: Value): string {
  const isText = typeof value.data === 'string' && value.meta.origin['loaded'] === true;
  return isText ? 'text' : typeName(value);
}

/** The expensive members are getters, because guards read `.mx` on every call. */
function factsOf(value: Value, facts: MxFacts): JsonObject {
  const { descriptor, origin } = value.meta;
  const data: unknown = value.data;
  // A function has the labels that it gives to its operations.
  const own = isFunctionData(data) ? data.signature.labels : [];
  return {
    labels:
      own.length > 0 ? [...new Set([...own, ...descriptor.labels])] : (descriptor.labels as Json),
    taint: descriptor.taint as Json,
    sources: descriptor.sources as Json,
    get tools() {
      return getOwn(origin, 'tools') ?? toolsIn([descriptor]);
    },
    name: facts.name ?? getOwn(origin, 'name') ?? null,
    type: mxType(value),
    get length() {
      return lengthOf(value);
    },
    get tokens() {
      return countOf(value, tokensOf);
    },
    get tokest() {
      return countOf(value, tokestOf);
    },
    definedAt: facts.definedAt ?? getOwn(origin, 'definedAt') ?? null,
    exported: facts.exported ?? getOwn(origin, 'exported') ?? false,
    get text() {
      return textOf(value);
    },
    data: value.data,
  };
}

export function mxOf(value: Value, facts: MxFacts = {}): Value {
  const view = factsOf(value, facts);
  for (const [name, fact] of Object.entries(value.meta.origin)) {
    if (!INTERNAL.has(name) && !Object.hasOwn(view, name)) setOwn(view, name, fact);
  }
  if (typeName(value) === 'object') {
    for (const name of ['keys', 'values', 'entries']) {
      const get = () => EXACT[name]?.(value)?.data ?? null;
      Object.defineProperty(view, name, { get, enumerable: true });
    }
  }
  subjects.set(Object.freeze(view), value);
  return makeValue(view, { descriptor: value.meta.descriptor });
}

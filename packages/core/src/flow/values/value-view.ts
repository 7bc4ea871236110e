// Provides the members of a value for scripts, guards and hooks (`.ctx`, `.mx`). They are read-only and
// lazy: the tokens of a long text are counted when they are read.
import { getOwn, type Json, type JsonObject, numberAt, textAt } from '../../base/index.ts';
import type { Value } from './value.ts';

const CODE =
  /\.(c|cc|cpp|cs|go|h|hpp|java|js|jsx|kt|lua|mjs|php|pl|py|r|rb|rs|scala|sh|sql|swift|ts|tsx)$/i;
const MARKUP = /\.(json|jsonl|ya?ml|xml|html?)$/i;

/** Estimates tokens by characters per token and kind of file: code is dense, markup repeats itself. */
export function estimateValueTokens(text: string, file = ''): number {
  const perToken = CODE.test(file) ? 3 : MARKUP.test(file) ? 5 : 4;
  return Math.ceil(text.length / perToken);
}

function typeOf(data: Json): string {
  if (data === null) return 'null';
  return Array.isArray(data) ? 'array' : typeof data;
}

function lengthOf(value: Value): number {
  const { data } = value;
  if (Array.isArray(data)) return data.length;
  return typeof data === 'object' && data !== null ? Object.keys(data).length : value.text.length;
}

const tokestOf = (value: Value): number =>
  estimateValueTokens(value.text, textAt(value.meta.origin, 'file'));

/** Returns the exact number of tokens if the origin has it, else the estimate. */
export const tokensOf = (value: Value): number =>
  numberAt(value.meta.origin, 'tokens') ?? tokestOf(value);

export const VALUE_FACTS: ViewTable<Value> = {
  labels: (value) => value.meta.descriptor.labels as Json,
  taint: (value) => value.meta.descriptor.taint as Json,
  sources: (value) => value.meta.descriptor.sources as Json,
  name: (value) => getOwn(value.meta.origin, 'name') ?? null,
  type: (value) => typeOf(value.data),
  length: lengthOf,
  tokens: tokensOf,
  tokest: tokestOf,
  definedAt: (value) => getOwn(value.meta.origin, 'definedAt') ?? null,
  exported: (value) => getOwn(value.meta.origin, 'exported') ?? false,
};

/** One function per member of a view. */
export type ViewTable<T> = Readonly<Record<string, (subject: T) => Json>>;

/** Returns an object whose members are computed when they are read. It serialises as JSON. */
export function lazyObject(members: Readonly<Record<string, () => Json>>): JsonObject {
  const view: JsonObject = {};
  for (const [name, get] of Object.entries(members)) {
    Object.defineProperty(view, name, { get, enumerable: true, configurable: false });
  }
  return view;
}

/** Returns the named members at once, or all of them lazily if no name is given. */
export function viewOf<T>(table: ViewTable<T>, subject: T, names?: readonly string[]): JsonObject {
  if (!names) {
    return lazyObject(
      Object.fromEntries(Object.entries(table).map(([name, read]) => [name, () => read(subject)])),
    );
  }
  const view: JsonObject = {};
  for (const name of names) {
    const read = Object.hasOwn(table, name) ? table[name] : undefined;
    if (read) view[name] = read(subject);
  }
  return view;
}

/** Returns the metadata of a value: marks, measures, and the facts of its origin. */
export function valueContext(value: Value): JsonObject {
  const members: Record<string, () => Json> = Object.create(null);
  for (const [name, fact] of Object.entries(value.meta.origin)) members[name] = () => fact;
  for (const [name, read] of Object.entries(VALUE_FACTS)) members[name] = () => read(value);
  return Object.freeze(lazyObject(members));
}

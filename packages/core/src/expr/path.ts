// Reads paths. INVARIANT: only own properties of objects are ever read. `constructor` and `__proto__` are names
// like any other, lists and texts have no members (not even `length`), and a missing step is null.
import { isObject, type Json, type JsonObject } from '../base/index.ts';

type ReadAt = (context: Json) => Json;

export function readPath(context: Json, path: readonly string[]): Json {
  let value: Json = context;
  for (let index = 0; index < path.length; index++) value = readName(value, path[index] as string);
  return value;
}

function readName(value: Json, name: string): Json {
  return isObject(value) && Object.hasOwn(value, name) ? (value[name] ?? null) : null;
}

export function compilePath(path: readonly string[]): ReadAt {
  const [first = '', second = ''] = path;
  if (path.length === 1) return (context) => readName(context, first);
  if (path.length > 2) return (context) => readPath(context, path);
  return (PAIRS[(hash(first) + hash(second)) % PAIRS.length] as Pair)(first, second);
}

type Pair = (first: string, second: string) => ReadAt;

const TOP = Object.prototype as unknown as JsonObject;
const NOTHING: JsonObject = Object.freeze({});

const parent = (value: Json): JsonObject =>
  typeof value === 'object' && value !== null ? (value as JsonObject) : NOTHING;

function own(object: JsonObject, name: string, value?: Json, inherited?: Json): Json {
  if (Object.getPrototypeOf(object) !== TOP || inherited !== undefined) {
    return readName(object, name);
  }
  return value === undefined ? null : value;
}

function hash(name: string): number {
  let sum = 0;
  for (let at = 0; at < name.length; at++) sum = (sum * 31 + name.charCodeAt(at)) & 0xffff;
  return sum;
}

// The list repeats one function on purpose, because engines cache property reads per position in the
// source and conditions consist mainly of paths of two names. Two paths that share a function are correct,
// only slower. Two calls of `hasOwn` would take longer than the rest of an evaluation. A property is its
// own if it exists, the object is a plain one, and `Object.prototype` has no such name. (The further
// parameters are local variables; no caller passes them.)
//
// biome-ignore format: one line for each place
const PAIRS: readonly Pair[] = [
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
  (a, b) => (c, o = parent(c), p = parent(own(o, a, o[a], TOP[a]))) => own(p, b, p[b], TOP[b]),
];

// Handles JSON values. Only own properties count, so a key called `__proto__` is an ordinary key. The depth
// is bounded. Each value has one canonical text, so that hashes and signatures agree.
import { fail, type Json, type JsonObject, messageOf, type Outcome, ok } from './outcome.ts';

const frozen = new WeakSet<object>();

const isContainer = (value: unknown): value is Json[] | JsonObject =>
  typeof value === 'object' && value !== null;

/**
 * Freezes a value with all of its elements and caches that. INVARIANT: everything below a cached value
 * is always frozen, whichever code froze it and however deep. Walks without recursion.
 */
export function freezeJson<T extends Json>(value: T): T {
  const open: Json[] = [value];
  while (open.length > 0) {
    const item = open.pop();
    if (!isContainer(item) || frozen.has(item)) continue;
    frozen.add(Object.freeze(item));
    for (const child of Object.values(item)) open.push(child);
  }
  return value;
}

/** True if this value is certainly frozen with all of its elements. */
export const isFrozenJson = (value: object): boolean => frozen.has(value);

/** The part of a type that JSON can represent, which is `never` for a function. */
type Data<T> = T extends Json | undefined
  ? T
  : T extends (...args: never[]) => unknown
    ? never
    : { [Key in keyof T]: Data<T[Key]> };

/** Returns data whose type is an interface, which the compiler does not accept as JSON. */
export const asJson = <T>(value: T & Data<T>): Json => value as Json;

export const MAX_DEPTH = 200;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the own property, or undefined: inherited names such as `constructor` do not count. */
export function getOwn(value: unknown, key: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Sets an own property, also for the key `__proto__`. */
export function setOwn(target: JsonObject, key: string, value: Json): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  } else target[key] = value;
}

/** Deep equality by type: `1` is not `"1"`, `[]` is not `{}`, key order does not matter. */
export function jsonEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, index) => jsonEqual(item, b[index]))
    );
  }
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && jsonEqual(a[key], b[key]));
}

/** Merges objects key by key, and `over` wins. Lists and all other values are replaced as a whole. */
export function mergeDeep(base: JsonObject, over: JsonObject): JsonObject {
  const merged: JsonObject = { ...base };
  for (const [key, above] of Object.entries(over)) {
    const below = getOwn(base, key);
    setOwn(merged, key, isObject(below) && isObject(above) ? mergeDeep(below, above) : above);
  }
  return merged;
}

function canonicalObject(value: JsonObject, depth: number): string {
  let text = '';
  for (const key of Object.keys(value).sort()) {
    if (text !== '') text += ',';
    // Most keys are words, which need no escaping.
    text += /^[a-z_]+$/.test(key) ? `"${key}":` : `${JSON.stringify(key)}:`;
    text += canonicalJson(value[key] as Json, depth);
  }
  return `{${text}}`;
}

/** Returns the text for hashes and signatures, with sorted keys and no blanks. Throws for a value that is not JSON. */
export function canonicalJson(value: Json, depth = 0): string {
  if (depth > MAX_DEPTH) throw new RangeError(`value is nested deeper than ${MAX_DEPTH} levels`);
  if (value === null || typeof value === 'boolean' || typeof value === 'string') {
    return JSON.stringify(value);
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`${value} is not a JSON number`);
    return JSON.stringify(value);
  }
  if (typeof value !== 'object') throw new TypeError(`a ${typeof value} is not a JSON value`);
  if (!Array.isArray(value)) return canonicalObject(value, depth + 1);
  let text = '';
  for (let at = 0; at < value.length; at++) {
    text += (at === 0 ? '' : ',') + canonicalJson(value[at] as Json, depth + 1);
  }
  return `[${text}]`;
}

/** Reason for which a value is refused although its text is JSON. Undefined: the value is accepted. */
type Flaw = 'deep' | 'not_finite' | undefined;

/** Returns `deep` before `not_finite`. Walks without recursion and at most `limit` levels deep. */
function flawOf(value: Json, limit: number): Flaw {
  let isFinite = typeof value !== 'number' || Number.isFinite(value);
  let level: readonly Json[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return 'deep';
    const next: Json[] = [];
    for (const item of level) {
      if (typeof item !== 'object' || item === null) continue;
      for (const child of Array.isArray(item) ? item : Object.values(item)) {
        if (typeof child === 'object') {
          if (child !== null) next.push(child);
        } else if (typeof child === 'number' && !Number.isFinite(child)) isFinite = false;
      }
    }
    level = next;
  }
  return isFinite ? undefined : 'not_finite';
}

/** True if lists and objects are nested deeper than `limit` levels. */
export const isDeeperThan = (value: Json, limit: number): boolean =>
  flawOf(value, limit) === 'deep';

/** True if JSON can represent all numbers in the value. `JSON.parse` reads `1e999` as infinity. */
export function isFiniteJson(value: Json): boolean {
  const open: Json[] = [value];
  // A value from a program may contain itself.
  const visited = new Set<object>();
  while (open.length > 0) {
    const item = open.pop();
    if (typeof item === 'number' && !Number.isFinite(item)) return false;
    if (!isContainer(item) || visited.has(item)) continue;
    visited.add(item);
    for (const child of Object.values(item)) open.push(child);
  }
  return true;
}

/**
 * Parses untrusted JSON text and never throws. Fails with `invalid_input` for invalid JSON (`detail.problem` is
 * the reason), for deep nesting and for a number that is too large (with `detail.not_finite`).
 */
export function parseJson(text: string, maxDepth = MAX_DEPTH): Outcome<Json> {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const problem = messageOf(error);
    return fail('invalid_input', `not valid JSON: ${problem}`, { problem });
  }
  const flaw = flawOf(value, maxDepth);
  if (flaw === 'deep') {
    return fail('invalid_input', `JSON is nested deeper than ${maxDepth} levels`);
  }
  if (flaw === 'not_finite') {
    return fail('invalid_input', 'JSON contains a number that is too large', { not_finite: true });
  }
  return ok(value);
}

/** Returns a copy of a value as JSON stores it, without undefined fields. Undefined becomes null. */
export const plainJson = (value: unknown): Json => JSON.parse(JSON.stringify(value ?? null));

/**
 * Returns a text for messages: a string as it is, null and undefined as an empty text, everything else as JSON.
 */
export function plainText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

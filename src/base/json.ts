// JSON values as this project handles them: own properties only (a key called `__proto__` is an
// ordinary key), bounded depth, and one canonical text per value so that hashes and signatures agree.
import { knownDepth } from './frozen-json.ts';
import { fail, type Json, type JsonObject, type Outcome, ok } from './outcome.ts';

export const MAX_DEPTH = 200;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The own property, or undefined: inherited names such as `constructor` do not exist. */
export function getOwn(value: unknown, key: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Sets an own property, also when the key is `__proto__`. */
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
export function jsonEqual(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, index) => jsonEqual(item, b[index] as Json))
    );
  }
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && jsonEqual(a[key] as Json, b[key] as Json));
}

/** Objects merge key by key, `over` wins; lists and everything else are replaced whole. */
export function mergeDeep(base: JsonObject, over: JsonObject): JsonObject {
  const merged: JsonObject = { ...base };
  for (const key of Object.keys(over)) {
    const [below, above] = [getOwn(base, key), over[key] as Json];
    setOwn(merged, key, isObject(below) && isObject(above) ? mergeDeep(below, above) : above);
  }
  return merged;
}

/** Most keys are words, and quoting a word needs no look at its characters. */
const quotedKey = (key: string): string =>
  /^[a-z_]+$/.test(key) ? `"${key}":` : `${JSON.stringify(key)}:`;

function canonicalObject(value: JsonObject, depth: number): string {
  let text = '';
  for (const key of Object.keys(value).sort()) {
    if (text !== '') text += ',';
    text += quotedKey(key) + canonicalJson(value[key] as Json, depth);
  }
  return `{${text}}`;
}

/** Keys sorted by code unit, no blanks: the text that is hashed and signed. Throws on non-JSON. */
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

/** How deep lists and objects are nested, counted no further than `limit` (walks without recursion). */
export function isDeeperThan(value: Json, limit: number): boolean {
  let level: Json[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true;
    const next: Json[] = [];
    for (const item of level) {
      if (typeof item !== 'object' || item === null) continue;
      const below = knownDepth(item);
      if (below !== undefined) {
        if (depth + below > limit) return true;
        continue;
      }
      for (const child of Object.values(item)) {
        if (typeof child === 'object' && child !== null) next.push(child);
      }
    }
    level = next;
  }
  return false;
}

/** JSON text from outside: never throws, refuses what is nested too deeply to be handled safely. */
export function parseJson(text: string, maxDepth = MAX_DEPTH): Outcome<Json> {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    return fail('invalid_input', `not valid JSON: ${(error as Error).message}`);
  }
  if (isDeeperThan(value, maxDepth)) {
    return fail('invalid_input', `JSON is nested deeper than ${maxDepth} levels`);
  }
  return ok(value);
}

/** For messages and lines: a text as it is, nothing as nothing, everything else as JSON. */
export function plainText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

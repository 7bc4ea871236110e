// JSON that will not change any more, and what was found out about it. A conversation is sent again
// every turn, and all but its end is what was sent before: how deep a message is nested and what its
// text is need to be asked once. What is remembered goes when the value goes.
import { fail, type Json, type JsonObject, messageOf, type Outcome, ok } from './outcome.ts';

interface Facts {
  /** Levels of lists and objects below this one. */
  readonly depth: number;
  text?: string;
  /** Of a list: the text between its brackets. */
  inner?: string;
}

const known = new WeakMap<object, Facts>();

const isContainer = (value: unknown): value is Json[] | { [key: string]: Json } =>
  typeof value === 'object' && value !== null;

/**
 * Freezes a value with everything in it, and remembers that. INVARIANT: everything below a value that
 * is remembered is frozen, whoever froze it and however far. Walks without recursion.
 */
export function freezeJson<T extends Json>(value: T): T {
  if (!isContainer(value) || known.has(value)) return value;
  let depth = 0;
  let level: Json[] = [value];
  for (let at = 0; level.length > 0; at++) {
    depth = Math.max(depth, at);
    const next: Json[] = [];
    for (const item of level) {
      Object.freeze(item);
      for (const child of Object.values(item as object) as Json[]) {
        if (!isContainer(child)) continue;
        const facts = known.get(child);
        if (facts === undefined) next.push(child);
        else depth = Math.max(depth, at + 1 + facts.depth);
      }
    }
    level = next;
  }
  known.set(value, { depth });
  return value;
}

/** Is this value frozen with everything in it, for certain? */
export const isFrozenJson = (value: object): boolean => known.has(value);

/** How deep a remembered value is nested; undefined when it has to be looked at. */
const knownDepth = (value: object): number | undefined => known.get(value)?.depth;

const innerOf = (list: readonly Json[], facts: Facts): string =>
  (facts.inner ??= list.map((item) => jsonText(item)).join(','));

/** The list with more at its end, remembered like the list itself: only what is new is looked at. */
export function growJson(list: Json[], more: readonly Json[]): Json[] {
  const [first, second] = [freezeJson(list), freezeJson([...more])];
  const [before, added] = [known.get(first) as Facts, known.get(second) as Facts];
  const grown = Object.freeze([...first, ...second]) as Json[];
  const texts = [innerOf(first, before), innerOf(second, added)].filter((text) => text !== '');
  known.set(grown, { depth: Math.max(before.depth, added.depth), inner: texts.join(',') });
  return grown;
}

/** Where remembered values are looked for: the messages of a request's body. */
const LEVELS = 3;

const textOf = (value: Json, { inner }: Facts): string =>
  inner === undefined ? JSON.stringify(value) : `[${inner}]`;

/** What is left of a type in JSON; nothing fits where a function is. */
type Data<T> = T extends Json | undefined
  ? T
  : T extends (...given: never[]) => unknown
    ? never
    : { [Key in keyof T]: Data<T[Key]> };

/** Data whose type is an interface, which the compiler does not take for JSON. */
export const asJson = <T>(value: T & Data<T>): Json => value as Json;

/** The text that `JSON.stringify` gives; the text of a remembered value is made once. */
export function jsonText(value: Json, levels = LEVELS): string {
  if (!isContainer(value)) return JSON.stringify(value);
  const facts = known.get(value);
  if (facts !== undefined) return (facts.text ??= textOf(value, facts));
  if (levels === 0) return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${value.map((item) => jsonText(item, levels - 1) ?? 'null').join(',')}]`;
  }
  const parts: string[] = [];
  for (const key of Object.keys(value)) {
    // What is no JSON has no text, and its key is left out.
    const text = jsonText(value[key] as Json, levels - 1) as string | undefined;
    if (text !== undefined) parts.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${parts.join(',')}}`;
}

// JSON values as this project handles them: own properties only (a key called `__proto__` is an
// ordinary key), bounded depth, and one canonical text per value so that hashes and signatures agree.

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

/** Objects merge key by key, `over` wins; lists and everything else are replaced whole. */
export function mergeDeep(base: JsonObject, over: JsonObject): JsonObject {
  const merged: JsonObject = { ...base };
  for (const [key, above] of Object.entries(over)) {
    const below = getOwn(base, key);
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
    value = JSON.parse(text);
  } catch (error) {
    return fail('invalid_input', `not valid JSON: ${messageOf(error)}`);
  }
  if (isDeeperThan(value, maxDepth)) {
    return fail('invalid_input', `JSON is nested deeper than ${maxDepth} levels`);
  }
  return ok(value);
}

/** The data of a value as JSON would carry it: views are read, fields that are not there left out. */
export const plainJson = (value: unknown): Json => JSON.parse(JSON.stringify(value ?? null));

/** For messages and lines: a text as it is, nothing as nothing, everything else as JSON. */
export function plainText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

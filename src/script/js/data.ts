// Data on its way into code blocks and out of them, always as text:
// `u` nothing · `v` JSON · `o` JSON of the data and of the numbers that JSON has no word for.
// The functions that are named `create…` run on the other side: their text is compiled there, so they
// use nothing but what they find there.
import { isObject, type Json, parseJson, plainText } from '../../base/index.ts';

type Path = readonly string[];

/** Where numbers stand that JSON has no word for. */
function oddNumbers(data: Json, path: Path, found: [string, string][]): [string, string][] {
  if (typeof data === 'number') {
    if (!Number.isFinite(data)) found.push([JSON.stringify(path), String(data)]);
  } else if (typeof data === 'object' && data !== null) {
    for (const [key, part] of Object.entries(data)) {
      if (typeof part === 'number' || (typeof part === 'object' && part !== null)) {
        oddNumbers(part, [...path, key], found);
      }
    }
  }
  return found;
}

export function dataText(data: Json | undefined): string {
  if (data === undefined) return 'u';
  const odd = oddNumbers(data, [], []);
  if (odd.length === 0) return `v${JSON.stringify(data)}`;
  return `o${JSON.stringify({ copy: data, odd })}`;
}

/** Crosses the border of the engine as it is: no NUL ends it, no mark of bytes or half character is lost. */
export const isPlainText = (text: string): boolean =>
  text.isWellFormed() && !text.includes('\0') && !text.includes('\ufeff');

const NUMBERS = new Map([NaN, Infinity, -Infinity].map((number) => [String(number), number]));

/** A list of keys as JSON text, or nothing. */
function readPath(text: Json | undefined): readonly Json[] | undefined {
  const path = typeof text === 'string' ? parseJson(text) : undefined;
  return path?.ok && Array.isArray(path.output) ? path.output : undefined;
}

/** Puts a number where it stood; steps only on what the data itself has, never on prototypes. */
function place(holder: Json, path: readonly Json[], number: number): void {
  let into = holder;
  for (const [step, part] of path.entries()) {
    const key = plainText(part);
    if (typeof into !== 'object' || into === null || !Object.hasOwn(into, key)) return;
    const fields = into as Record<string, Json>;
    if (step === path.length - 1) fields[key] = number;
    else into = fields[key] ?? null;
  }
}

/** Text of our own encoder. Blocks can influence what it says, so nothing in it is believed. */
export function readData(text: string): Json | undefined {
  if (text[0] === 'u') return undefined;
  const data = JSON.parse(text.slice(1)) as Json;
  if (text[0] !== 'o') return data;
  if (!isObject(data)) return null;
  const { copy = null, odd } = data;
  const holder = { copy };
  for (const pair of Array.isArray(odd) ? odd : []) {
    const [where, word] = Array.isArray(pair) ? pair : [];
    const path = readPath(where);
    const number = typeof word === 'string' ? NUMBERS.get(word) : undefined;
    if (path && number !== undefined) place(holder, ['copy', ...path], number);
  }
  return holder.copy;
}

// ---- the other side

type Bag = Record<PropertyKey, unknown>;

export interface Codec {
  encode(value: unknown): string;
  decode(text: string): unknown;
  /** The same data, which converts to `text`; in stages with the string methods it has not. */
  textual(data: unknown, text: string, isStage: boolean): unknown;
}

/** Values out. Runs a block's own code: getters, `toJSON`. */
export function createEncoder(): Codec['encode'] {
  /** What stands around a value, and the key of each in the one above; none: it is the same place. */
  type Key = string | number | undefined;
  type Above = { value: unknown; key: Key; up: Above | undefined };
  const { apply, ownKeys, getOwnPropertyDescriptor, setPrototypeOf } = Reflect;
  const { stringify } = JSON;
  const { isArray } = Array;
  const { isFinite } = Number;
  const { toISOString, getTime } = Date.prototype;
  const { toString: digits } = BigInt.prototype;
  const [TypeError_, String_, Number_] = [TypeError, String, Number];
  const [Boolean_, Date_] = [Boolean, Date];
  let odd: [string, string][] = [];

  /** A list that no block has a say in: setters and `toJSON` live on prototypes. */
  const bare = <T extends unknown[]>(made: T): T => {
    setPrototypeOf(made, null);
    return made;
  };
  const note = (number: number, key: Key, up: Above | undefined): void => {
    let path = key === undefined ? '' : stringify(String_(key));
    for (let above = up; above; above = above.up) {
      if (above.key === undefined) continue;
      path = stringify(String_(above.key)) + (path === '' ? '' : `,${path}`);
    }
    odd[odd.length] = bare([`[${path}]`, String_(number)]);
  };
  const object = (value: Bag, here: Above): unknown => {
    const copy = { __proto__: null } as unknown as Bag;
    const keys = ownKeys(value);
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at] as string | symbol;
      if (typeof key === 'symbol' || !getOwnPropertyDescriptor(value, key)?.enumerable) continue;
      const part = value[key];
      if (typeof part === 'function' || typeof part === 'symbol' || part === undefined) continue;
      copy[key] = plain(part, key, here);
    }
    return copy;
  };
  const list = (value: unknown[], here: Above): unknown => {
    const copy: unknown[] = bare([]);
    for (let at = 0; at < value.length; at++) {
      const part = value[at];
      const isData = typeof part !== 'function' && typeof part !== 'symbol' && part !== undefined;
      copy[at] = isData ? plain(part, at, here) : null;
    }
    return copy;
  };
  const plain = (value: unknown, key: Key, up: Above | undefined): unknown => {
    if (typeof value === 'number') {
      if (!isFinite(value)) note(value, key, up);
      return value;
    }
    if (typeof value === 'bigint') return apply(digits, value, []);
    if (typeof value !== 'object' || value === null) return value;
    for (let above = up; above; above = above.up) {
      if (above.value !== value) continue;
      throw new TypeError_('a js block cannot return data that contains itself');
    }
    if (value instanceof Date_) {
      return isFinite(apply(getTime, value, [])) ? apply(toISOString, value, []) : null;
    }
    if (value instanceof String_ || value instanceof Number_ || value instanceof Boolean_) {
      return plain(value.valueOf(), key, up);
    }
    const { toJSON } = value as Bag;
    const here = { value, key, up };
    if (typeof toJSON === 'function') return plain(apply(toJSON, value, ['']), undefined, here);
    return isArray(value) ? list(value, here) : object(value as Bag, here);
  };
  return (value) => {
    if (value === undefined) return 'u';
    if (typeof value === 'string') return `v${stringify(value)}`;
    if (typeof value === 'function' || typeof value === 'symbol') {
      throw new TypeError_(`a js block cannot return a ${typeof value}; return data`);
    }
    odd = bare([]);
    const copy = plain(value, undefined, undefined);
    const text = stringify(copy) as string | undefined;
    if (text === undefined) return 'u';
    if (odd.length === 0) return `v${text}`;
    return `o${stringify({ __proto__: null, copy, odd })}`;
  };
}

/** Values in. Runs nothing but itself. */
export function createDecoder(): Codec['decode'] {
  const { apply } = Reflect;
  const { parse } = JSON;
  const { slice } = String.prototype;
  const numbers: Bag = { NaN: 0 / 0, Infinity: 1 / 0, '-Infinity': -1 / 0 };
  const place = (holder: Bag, keys: string[], number: string): void => {
    let into = holder;
    let key = 'copy';
    for (let step = 0; step < keys.length; step++) {
      into = into[key] as Bag;
      key = keys[step] as string;
    }
    into[key] = numbers[number];
  };
  return (text) => {
    if (text[0] === 'u') return undefined;
    const data: unknown = parse(apply(slice, text, [1]));
    if (text[0] !== 'o') return data;
    const holder = data as { copy: unknown; odd: { 0: string; 1: string }[] };
    for (let at = 0; at < holder.odd.length; at++) {
      const pair = holder.odd[at] as { 0: string; 1: string };
      place(holder, parse(pair[0]) as string[], pair[1]);
    }
    return holder.copy;
  };
}

/** Data that speaks: what a string conversion gives is the text it came from. */
export function createTextual(): Codec['textual'] {
  const { apply, defineProperty, ownKeys, setPrototypeOf } = Reflect;
  const { get, set } = WeakMap.prototype;
  const { isArray } = Array;
  const texts = new WeakMap<object, string>();
  const textOf = (value: unknown): string => apply(get, texts, [value]) as string;
  const put = (target: object, key: PropertyKey, value: unknown): void => {
    defineProperty(target, key, { value, writable: true, configurable: true, enumerable: false });
  };
  const speaking = (above: object): object => {
    const target = Object.create(above) as object;
    const spoken = function (this: unknown): string {
      return textOf(this);
    };
    put(target, 'toString', spoken);
    put(target, Symbol.toPrimitive, spoken);
    return target;
  };
  const stringlike = (above: object): object => {
    const target = speaking(above);
    const methods = String.prototype as unknown as Bag;
    for (const key of ownKeys(methods)) {
      const method = methods[key];
      if (typeof method !== 'function' || key in target) continue;
      put(target, key, function (this: unknown, ...args: unknown[]) {
        return apply(method, textOf(this), args) as unknown;
      });
    }
    if ('length' in above) return target;
    const length = function (this: unknown): number {
      return textOf(this).length;
    };
    defineProperty(target, 'length', { get: length, configurable: true, enumerable: false });
    return target;
  };
  const [list, map] = [speaking(Array.prototype), speaking(Object.prototype)];
  let stages: { list: object; map: object } | undefined;
  return (data, text, isStage) => {
    if (typeof data !== 'object' || data === null) return data;
    apply(set, texts, [data, text]);
    if (isStage) {
      stages ??= { list: stringlike(Array.prototype), map: stringlike(Object.prototype) };
      setPrototypeOf(data, isArray(data) ? stages.list : stages.map);
    } else setPrototypeOf(data, isArray(data) ? list : map);
    return data;
  };
}

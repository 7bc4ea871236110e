// Encodes data for code blocks as text: `u` is undefined, `v` is JSON, `o` is JSON in which non-finite
// numbers are texts such as `"~NaN"`; any other text that starts with `~` gets one more `~`. The functions
// `create…` are compiled on the other side from their text, so they use only what exists there.
import type { Json } from '@kernmantle/core/base';
import type { JsArgument } from '../world.ts';

const hasOddNumber = (data: Json): boolean =>
  typeof data === 'number'
    ? !Number.isFinite(data)
    : typeof data === 'object' && data !== null && Object.values(data).some(hasOddNumber);

const encode = createEncoder();

export function dataText(data: Json | undefined): string {
  if (data === undefined) return 'u';
  return hasOddNumber(data) ? encode(data) : `v${JSON.stringify(data)}`;
}

/** True if a text crosses the border of the engine unchanged: no NUL, byte order mark or half character. */
export const isPlainText = (text: string): boolean =>
  text.isWellFormed() && !text.includes('\0') && !text.includes('\ufeff');

/** Decodes text of our encoder. A block can influence the text, so it is untrusted data. */
export const readData = createDecoder() as (text: string) => Json | undefined;

/** A value that crosses the border unchanged. */
export type Primitive = string | number | boolean;

/** Adds the parts of an argument and returns the letter of its kind (see `createArguments`). */
export function addArgument(argument: JsArgument, parts: Primitive[]): string {
  if (argument.kind === 'undefined') {
    parts.push('u');
    return 'd';
  }
  const { data } = argument;
  if (argument.kind === 'data') {
    const isPlain = typeof data === 'string' ? isPlainText(data) : typeof data !== 'object';
    parts.push(isPlain ? (data as Primitive) : dataText(data));
    return isPlain ? 'p' : 'd';
  }
  parts.push(dataText(data), argument.text);
  if (argument.kind === 'kept') parts.push(argument.type, dataText(argument.mx));
  return argument.kind === 'kept' ? 'k' : argument.isStage ? 's' : 't';
}

/** An object of a block with unknown members. */
export type Bag = Record<PropertyKey, unknown>;

export interface Codec {
  encode(value: unknown): string;
  decode(text: string): unknown;
  /** Returns the data with a conversion to `text`; in stages it also gets the string methods that it lacks. */
  textual(data: unknown, text: string, isStage: boolean): unknown;
}

/** Creates the encoder. It runs code of the block: getters and `toJSON`. */
export function createEncoder(): Codec['encode'] {
  /** The values that contain the current value. */
  type Above = { value: unknown; up: Above | undefined };
  const { apply, ownKeys, getOwnPropertyDescriptor, setPrototypeOf } = Reflect;
  const { stringify } = JSON;
  const { isArray } = Array;
  const { isFinite } = Number;
  const { toISOString, getTime } = Date.prototype;
  const { toString: digits } = BigInt.prototype;
  const [TypeError_, String_, Number_] = [TypeError, String, Number];
  const [Boolean_, Date_] = [Boolean, Date];
  let isOdd = false;

  const object = (value: Bag, here: Above): unknown => {
    const copy = { __proto__: null } as unknown as Bag;
    const keys = ownKeys(value);
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at] as string | symbol;
      if (typeof key === 'symbol' || !getOwnPropertyDescriptor(value, key)?.enumerable) continue;
      const part = value[key];
      if (typeof part === 'function' || typeof part === 'symbol' || part === undefined) continue;
      copy[key] = plain(part, here);
    }
    return copy;
  };
  const list = (value: unknown[], here: Above): unknown => {
    const copy: unknown[] = [];
    // A block must not influence the copy by setters or `toJSON` of a prototype, so the copy has no prototype.
    setPrototypeOf(copy, null);
    for (let at = 0; at < value.length; at++) {
      const part = value[at];
      const isData = typeof part !== 'function' && typeof part !== 'symbol' && part !== undefined;
      copy[at] = isData ? plain(part, here) : null;
    }
    return copy;
  };
  const plain = (value: unknown, up: Above | undefined): unknown => {
    if (typeof value === 'number') isOdd ||= !isFinite(value);
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
      return plain(value.valueOf(), up);
    }
    const { toJSON } = value as Bag;
    const here = { value, up };
    if (typeof toJSON === 'function') return plain(apply(toJSON, value, ['']), here);
    return isArray(value) ? list(value, here) : object(value as Bag, here);
  };
  const escaped = (_key: string, value: unknown): unknown => {
    if (typeof value === 'number') return isFinite(value) ? value : `~${value}`;
    return typeof value === 'string' && value[0] === '~' ? `~${value}` : value;
  };
  return (value) => {
    if (value === undefined) return 'u';
    if (typeof value === 'string') return `v${stringify(value)}`;
    if (typeof value === 'function' || typeof value === 'symbol') {
      throw new TypeError_(`a js block cannot return a ${typeof value}; return data`);
    }
    isOdd = false;
    const copy = plain(value, undefined);
    if (isOdd) return `o${stringify(copy, escaped)}`;
    const text = stringify(copy) as string | undefined;
    return text === undefined ? 'u' : `v${text}`;
  };
}

/** Creates the decoder, which runs no code of a block. */
export function createDecoder(): Codec['decode'] {
  const { apply } = Reflect;
  const { parse } = JSON;
  const { slice } = String.prototype;
  const numbers: Bag = { __proto__: null, '~NaN': 0 / 0, '~Infinity': 1 / 0, '~-Infinity': -1 / 0 };
  const read = (_key: string, value: unknown): unknown => {
    if (typeof value !== 'string' || value[0] !== '~') return value;
    return numbers[value] ?? apply(slice, value, [1]);
  };
  return (text) => {
    if (text[0] === 'u') return undefined;
    return parse(apply(slice, text, [1]), text[0] === 'o' ? read : undefined) as unknown;
  };
}

/** Creates a function that gives data a text: string conversion returns the text it was parsed from. */
export function createTextual(): Codec['textual'] {
  const { apply, defineProperty, ownKeys, setPrototypeOf } = Reflect;
  const { get, set } = WeakMap.prototype;
  const { isArray } = Array;
  const texts = new WeakMap<object, string>();
  const textOf = (value: unknown): string => apply(get, texts, [value]) as string;
  const put = (target: object, key: PropertyKey, value: unknown): void => {
    defineProperty(target, key, { value, writable: true, configurable: true, enumerable: false });
  };
  const convertible = (above: object): object => {
    const target = Object.create(above) as object;
    const toText = function (this: unknown): string {
      return textOf(this);
    };
    put(target, 'toString', toText);
    put(target, Symbol.toPrimitive, toText);
    return target;
  };
  const stringlike = (above: object): object => {
    const target = convertible(above);
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
  const [list, map] = [convertible(Array.prototype), convertible(Object.prototype)];
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

/** Creates a function that builds arguments. `shape` has one letter for the kind of each argument. */
export function createArguments({ decode, textual }: Pick<Codec, 'decode' | 'textual'>) {
  return (shape: string, parts: unknown[], free: string[], named: Bag): unknown[] => {
    const args = { __proto__: null, length: shape.length + free.length } as unknown as unknown[];
    let next = 0;
    for (let at = 0; at < shape.length; at++) {
      const kind = shape[at];
      const part = parts[next++];
      if (kind === 'p') args[at] = part;
      else if (kind === 'd') args[at] = decode(part as string);
      else if (kind === 'k') {
        const text = parts[next++];
        const type = parts[next++];
        const data = decode(part as string);
        args[at] = { text, data, type, mx: decode(parts[next++] as string) };
      } else args[at] = textual(decode(part as string), parts[next++] as string, kind === 's');
    }
    for (let at = 0; at < free.length; at++) args[shape.length + at] = named[free[at] as string];
    return args;
  };
}

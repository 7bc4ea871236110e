// Data on its way in and out of the realm of js blocks, always as text.
// `u` nothing · `v` JSON · `o` JSON of the data and of the numbers that JSON has no word for.

type Bag = Record<PropertyKey, unknown>;

export interface RealmCodec {
  encode(value: unknown): string;
  decode(text: string): unknown;
  /** The same data, which converts to `text`; in stages with the string methods it has not. */
  textual(data: unknown, text: string, isStage: boolean): unknown;
}

/** Values out. Runs a block's own code: getters, `toJSON`. */
export function createEncoder(): RealmCodec['encode'] {
  type Above = { value: unknown; up: Above | undefined };
  const { apply, ownKeys, getOwnPropertyDescriptor, setPrototypeOf } = Reflect;
  const { stringify } = JSON;
  const { isArray } = Array;
  const { isFinite } = Number;
  const { toISOString, getTime } = Date.prototype;
  const { toString: digits } = BigInt.prototype;
  const { slice } = String.prototype;
  const [TypeError_, String_, Number_, Boolean_, Date_] = [
    TypeError,
    String,
    Number,
    Boolean,
    Date,
  ];
  let odd: [string, string][] = [];

  /** A list that no block has a say in: setters and `toJSON` live on prototypes. */
  const bare = <T extends unknown[]>(made: T): T => {
    setPrototypeOf(made, null);
    return made;
  };
  const object = (value: Bag, path: string, here: Above): unknown => {
    const copy = { __proto__: null } as unknown as Bag;
    const keys = ownKeys(value);
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at] as string | symbol;
      if (typeof key === 'symbol' || !getOwnPropertyDescriptor(value, key)?.enumerable) continue;
      const part = value[key];
      if (typeof part === 'function' || typeof part === 'symbol' || part === undefined) continue;
      copy[key] = plain(part, `${path},${stringify(key)}`, here);
    }
    return copy;
  };
  const list = (value: unknown[], path: string, here: Above): unknown => {
    const copy: unknown[] = bare([]);
    for (let at = 0; at < value.length; at++) {
      const part = value[at];
      const isData = typeof part !== 'function' && typeof part !== 'symbol' && part !== undefined;
      copy[at] = isData ? plain(part, `${path},"${at}"`, here) : null;
    }
    return copy;
  };
  const plain = (value: unknown, path: string, up: Above | undefined): unknown => {
    if (typeof value === 'number') {
      if (!isFinite(value)) odd[odd.length] = bare([`[${path}]`, String_(value)]);
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
      return plain(value.valueOf(), path, up);
    }
    const { toJSON } = value as Bag;
    const here = { value, up };
    if (typeof toJSON === 'function') return plain(apply(toJSON, value, ['']), path, here);
    return isArray(value) ? list(value, path, here) : object(value as Bag, path, here);
  };
  /** Paths are lists of keys below the value itself, so the first comma goes. */
  const trimmed = (): [string, string][] => {
    for (let at = 0; at < odd.length; at++) {
      const pair = odd[at] as [string, string];
      if (pair[0][1] === ',') pair[0] = `[${apply(slice, pair[0], [2])}`;
    }
    return odd;
  };
  return (value) => {
    if (value === undefined) return 'u';
    if (typeof value === 'string') return `v${stringify(value)}`;
    if (typeof value === 'function' || typeof value === 'symbol') {
      throw new TypeError_(`a js block cannot return a ${typeof value}; return data`);
    }
    odd = bare([]);
    const copy = plain(value, '', undefined);
    if (copy === undefined) return 'u';
    if (odd.length === 0) return `v${stringify(copy)}`;
    return `o${stringify({ __proto__: null, copy, odd: trimmed() })}`;
  };
}

/** Values in. Runs nothing but itself. */
export function createDecoder(): RealmCodec['decode'] {
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
export function createTextual(): RealmCodec['textual'] {
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

// Taken away, or fenced in, before any block runs. Every function in the `js-realm` files is turned
// into text and compiled in the realm of the blocks: names in it mean that realm's own, and nothing
// may be imported.

type Bag = Record<PropertyKey, unknown>;

/** See the invariant in `js-realm.ts` for why each of these is here. */
export function fenceRealm(): void {
  const { apply, defineProperty } = Reflect;
  const [String_, Symbol_] = [String, Symbol];
  const { for: symbolFor, keyFor } = Symbol;
  const { slice } = String.prototype;
  const put = (target: object, key: PropertyKey, value: unknown, isFixed: boolean): void => {
    const [writable, configurable] = [!isFixed, !isFixed];
    defineProperty(target, key, { value, writable, configurable, enumerable: false });
  };
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'FinalizationRegistry']) {
    Reflect.deleteProperty(globalThis, name);
  }
  put(Error, 'prepareStackTrace', undefined, true);
  put(Error, 'stackTraceLimit', undefined, true);
  put(Error, 'captureStackTrace', () => undefined, false);
  const ours = (key: unknown) => apply(symbolFor, Symbol_, [`block:${String_(key)}`]);
  put(Symbol, 'for', ours, false);
  put(
    Symbol,
    'keyFor',
    (symbol: symbol) => {
      const key = apply(keyFor, Symbol_, [symbol]);
      return key === undefined ? undefined : apply(slice, key, ['block:'.length]);
    },
    false,
  );
}

/** Says whether everything that blocks without loops rely on is still what it was at the start. */
export function watchRealm(): () => boolean {
  type Saved = { of: object; key: PropertyKey; value: unknown; next: Saved | undefined };
  const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const { get: find } = Map.prototype;
  const globals = globalThis as unknown as Bag;
  const watched: object[] = [
    Object,
    Array,
    String,
    Number,
    Boolean,
    Math,
    JSON,
    ...[Object, Array, String, Number, Boolean, Function].map(
      ({ prototype }) => prototype as object,
    ),
    getPrototypeOf([][Symbol.iterator]()) as object,
    getPrototypeOf(''[Symbol.iterator]()) as object,
    getPrototypeOf(getPrototypeOf([][Symbol.iterator]()) as object) as object,
  ];
  const counts = new Map<object, number>();
  let saved: Saved | undefined;
  for (const of of watched) {
    const keys = ownKeys(of);
    counts.set(of, keys.length);
    for (const key of keys) {
      const { value, get } = getOwnPropertyDescriptor(of, key) as PropertyDescriptor;
      saved = { of, key, value: get ?? value, next: saved };
    }
  }
  const names = 'Object Array String Number Boolean Math JSON parseInt parseFloat undefined NaN';
  for (const key of names.split(' ')) {
    saved = { of: globals, key, value: globals[key], next: saved };
  }
  return () => {
    for (let at = 0; at < watched.length; at++) {
      const of = watched[at] as object;
      if (ownKeys(of).length !== apply(find, counts, [of])) return false;
    }
    for (let item = saved; item; item = item.next) {
      const found = getOwnPropertyDescriptor(item.of, item.key);
      if (!found || !Object.is(found.get ?? found.value, item.value)) return false;
    }
    return true;
  };
}

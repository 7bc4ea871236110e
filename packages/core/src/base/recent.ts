// Bounded caches of recent results in two generations. A full younger generation replaces the older one.
// A read needs almost no bookkeeping, so every operation can afford one.
import type { Clock } from './ports.ts';

export function createRecent<K, V>(size: number) {
  let young = new Map<K, V>();
  let old = new Map<K, V>();
  const set = (key: K, value: V): V => {
    if (young.size >= size) [old, young] = [young, new Map()];
    young.set(key, value);
    return value;
  };
  return {
    get(key: K): V | undefined {
      const value = young.get(key);
      if (value !== undefined) return value;
      const aged = old.get(key);
      return aged === undefined ? undefined : set(key, aged);
    },
    set,
  };
}

/** Time in which a check of a file stays fresh. A change takes effect after this time at the latest. */
const FRESH_MS = 20;

/** Records the time of the last check, so that code that checks a file many times in a call reads it once. */
export function createFreshness(clock: Pick<Clock, 'monotonic'>) {
  let since = Number.NEGATIVE_INFINITY;
  return {
    /** True if the last check is still fresh. */
    isRecent: () => clock.monotonic() - since < FRESH_MS,
    /** Called before a check, never after it: the next check must find changes that happen during this one. */
    begin() {
      since = clock.monotonic();
    },
    /** Called after the caller's own write, so that the next check reads the file. */
    forget() {
      since = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Creates a cache like `createRecent` for ordered pairs of keys. `size` counts pairs. */
export function createRecentPairs<K, V>(size: number) {
  let young = new Map<K, Map<K, V>>();
  let old = young;
  let count = 0;
  const set = (left: K, right: K, value: V): V => {
    if (count >= size) [old, young, count] = [young, new Map(), 0];
    const row = young.get(left) ?? new Map<K, V>();
    young.set(left, row.set(right, value));
    count += 1;
    return value;
  };
  return {
    get(left: K, right: K): V | undefined {
      const value = young.get(left)?.get(right);
      if (value !== undefined) return value;
      const aged = old.get(left)?.get(right);
      return aged === undefined ? undefined : set(left, right, aged);
    },
    set,
  };
}

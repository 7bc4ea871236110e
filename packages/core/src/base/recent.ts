// Bounded caches of recent results in two generations: the older one is dropped when the younger one is
// full. A read needs no bookkeeping, so that every operation can afford a look-up.
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
      const found = young.get(key);
      if (found !== undefined) return found;
      const aged = old.get(key);
      return aged === undefined ? undefined : set(key, aged);
    },
    set,
  };
}

/** How long a look at a file counts. A change takes effect after this time at the latest. */
const FRESH_MS = 20;

/** For code that checks a file many times in a call and would read the disk each time. */
export function createFreshness(clock: Pick<Clock, 'monotonic'>) {
  let since = Number.NEGATIVE_INFINITY;
  return {
    /** True if the last look is recent enough. */
    isRecent: () => clock.monotonic() - since < FRESH_MS,
    /** Call it before looking, never after: the next look must see changes during this one. */
    begin() {
      since = clock.monotonic();
    },
    /** Called after an own write, so that the next check looks at the file. */
    forget() {
      since = Number.NEGATIVE_INFINITY;
    },
  };
}

/** The same for ordered pairs; `size` counts pairs. */
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
      const found = young.get(left)?.get(right);
      if (found !== undefined) return found;
      const aged = old.get(left)?.get(right);
      return aged === undefined ? undefined : set(left, right, aged);
    },
    set,
  };
}

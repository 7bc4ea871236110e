// Bounded memories of what was computed lately: two generations, the older one forgotten when the
// younger is full. No bookkeeping per read, which is what a look-up on every operation can afford.
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

/** For so long a look at a file counts: a change there is in force this much later at the latest. */
const LOOK_MS = 20;

/** For whoever is asked many times in a call what a file says, and would ask the disk each time. */
export function createLooks(clock: Pick<Clock, 'monotonic'>) {
  let since = Number.NEGATIVE_INFINITY;
  return {
    /** Was the last look recent enough to count still? */
    isRecent: () => clock.monotonic() - since < LOOK_MS,
    /** Say so before looking, never after: what changes meanwhile must be seen by the next look. */
    begin() {
      since = clock.monotonic();
    },
    /** After a write of our own: the next question looks. */
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

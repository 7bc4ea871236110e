// Implements a test clock that does not advance while a store works, and otherwise moves to the end of the next wait.
import type { Store } from '@kernmantle/core/store';
import { DIRECT } from './late-store.ts';
import type { TestClock } from './registry.ts';

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Counts calls without an answer, so that `createSleep` can stop the clock during them. */
export function countCalls(store: Store): { store: Store; isBusy: () => boolean } {
  let calls = 0;
  const counting = new Proxy(store, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function' || DIRECT.has(name)) return method;
      return async (...args: unknown[]): Promise<unknown> => {
        calls += 1;
        const answer: unknown = await Reflect.apply(method, target, args);
        calls -= 1;
        return answer;
      };
    },
  });
  return { store: counting, isBusy: () => calls > 0 };
}

/** Returns a sleep in the time of the clock. The earliest wait advances the clock, unless the store is busy. */
export function createSleep(clock: TestClock, isBusy: () => boolean) {
  const ends = new Set<number>();
  return async (ms: number, signal: AbortSignal): Promise<void> => {
    // A worker can wait for parts of a millisecond, but a store refuses a time that is not whole.
    const end = clock.now() + Math.ceil(ms);
    ends.add(end);
    do {
      await turn();
      if (!isBusy() && Math.min(...ends) === end) clock.pass(end - clock.now());
    } while (clock.now() < end && !signal.aborted);
    ends.delete(end);
  };
}

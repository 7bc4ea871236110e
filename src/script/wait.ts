// Waiting only when something waits: most of a script runs in one tick, and a promise per node would
// cost more than the node.
import { whenDone as andThen, isPromise, type MaybePromise } from '../flow/index.ts';

export { andThen, isPromise };

/** One after the other, in order, without growing the stack; stops when `visit` answers true. */
export function eachInTurn<T>(
  items: readonly T[],
  visit: (item: T, index: number) => MaybePromise<boolean>,
  from = 0,
): MaybePromise<void> {
  for (let at = from; at < items.length; at++) {
    const stop = visit(items[at] as T, at);
    if (isPromise(stop)) return waitForRest(items, visit, stop, at);
    if (stop) return;
  }
}

/** Once something waited, the rest may too: a loop, so that a long list is no long chain. */
async function waitForRest<T>(
  items: readonly T[],
  visit: (item: T, index: number) => MaybePromise<boolean>,
  first: Promise<boolean>,
  index: number,
): Promise<void> {
  if (await first) return;
  for (let at = index + 1; at < items.length; at++) {
    if (await visit(items[at] as T, at)) return;
  }
}

export function mapInTurn<T, U>(
  items: readonly T[],
  make: (item: T, index: number) => MaybePromise<U>,
): MaybePromise<U[]> {
  const made: U[] = [];
  const done = eachInTurn(items, (item, index) =>
    andThen(make(item, index), (result) => {
      made.push(result);
      return false;
    }),
  );
  return andThen(done, () => made);
}

/** Runs `work`; what it throws or rejects with goes to `caught`. */
export function attempt<T>(
  work: () => MaybePromise<T>,
  caught: (error: unknown) => MaybePromise<T>,
): MaybePromise<T> {
  try {
    const value = work();
    return isPromise(value) ? Promise.resolve(value).catch(caught) : value;
  } catch (error) {
    return caught(error);
  }
}

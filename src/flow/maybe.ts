// Waiting only when something waits: most operations finish in the same tick, and a promise per
// stage would cost more than the stages do.
import { type Failure, fail, type Outcome } from '../base/index.ts';

export type MaybePromise<T> = T | Promise<T>;

/** Also true for promises of another realm (code blocks run in a global object of their own). */
export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}

export function whenDone<T, U>(
  value: MaybePromise<T>,
  next: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return isPromise(value) ? Promise.resolve(value).then(next) : next(value);
}

/** A bug, not an expected failure; the first line of its message is all that leaves the room. */
export function crashed(place: string, error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  return fail('internal_error', `${place} failed: ${text.split('\n', 1)[0] ?? ''}`, { place });
}

/** Runs something foreign: whatever it throws or rejects with comes back as a fault. */
export function shielded<T>(
  place: string,
  work: () => MaybePromise<Outcome<T>>,
): MaybePromise<Outcome<T>> {
  try {
    const answer = work();
    return isPromise(answer)
      ? Promise.resolve(answer).catch((error: unknown) => crashed(place, error))
      : answer;
  } catch (error) {
    return crashed(place, error);
  }
}

/** One after the other, in order; stops early when `visit` answers true. */
export function eachInTurn<T>(
  items: readonly T[],
  visit: (item: T, index: number) => MaybePromise<boolean | undefined>,
  from = 0,
): MaybePromise<void> {
  for (let index = from; index < items.length; index++) {
    const stop = visit(items[index] as T, index);
    if (isPromise(stop)) {
      return stop.then((done) => (done ? undefined : eachInTurn(items, visit, index + 1)));
    }
    if (stop) return;
  }
}

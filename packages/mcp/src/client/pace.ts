// Provides backoff, rate limits and deadlines, which bound the cost of a server that fails, sends too
// many messages or does not answer.
import { type Clock, fail, type Outcome } from '@kernmantle/core/base';
import type { PoolCall } from './pool.ts';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
const MAX_TIMER = 2 ** 31 - 1;

/** Returns the backoff after this number of failures in a row. */
export const pauseAfter = (failures: number): number =>
  failures <= 0 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 16));

/** Returns a limiter that accepts at most this many calls per second. */
export function createRate(most: number, clock: Pick<Clock, 'monotonic'>): () => boolean {
  let [since, count] = [Number.NEGATIVE_INFINITY, 0];
  return () => {
    const now = clock.monotonic();
    if (now - since >= 1000) [since, count] = [now, 0];
    return ++count <= most;
  };
}

/** Returns the answer. Fails with `cancelled` or `timeout` if the caller stops waiting before it. */
export async function waitedFor<T>(
  answer: Promise<Outcome<T>>,
  { signal, timeoutMs }: Pick<PoolCall, 'signal' | 'timeoutMs'>,
): Promise<Outcome<T>> {
  const { promise: stopped, resolve } = Promise.withResolvers<Outcome<never>>();
  const onAbort = (): void => resolve(fail('cancelled', 'the call was cancelled', { sent: false }));
  const words = `the server was not ready within ${timeoutMs} ms`;
  const timer = setTimeout(
    () => resolve(fail('timeout', words, { timeout_ms: timeoutMs, sent: false })),
    Math.min(timeoutMs, MAX_TIMER),
  );
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const first = await Promise.race([answer, stopped]);
  clearTimeout(timer);
  signal.removeEventListener('abort', onAbort);
  return first;
}

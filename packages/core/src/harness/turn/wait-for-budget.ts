// Waits for a free amount in a budget. A reservation is not spent: a request that does not fit beside others asks
// for a shorter answer first, and otherwise waits until one of them is settled. A standing reservation (of
// hooks, detached children or an interrupted thread) counts as used. INVARIANT: a thread that waits never has a
// reservation of a request, so no two threads wait for each other.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Amounts, ThreadStatus } from '../../store/index.ts';
import { allThreads, isEnded, THREAD_STATUSES } from '../../store/index.ts';
import type { EffectiveLimits, LimitAmounts, RequestPlan } from '../limits/limit.ts';
import { type Shortage, shortageFault, shortageIn } from '../thread/budget.ts';
import { deadlineFault, STOPS_WAIT, watchForInterruption } from '../thread/interruption.ts';
import type { BudgetHolder, HarnessPorts, Interruptible, Interruption } from '../thread/thread.ts';

/** Interval at which a waiting thread sweeps expired leases, whose reservations are never settled. */
const POLL_MS = 10_000;
const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));

/** Returns the limits, none above the current use plus this room. */
export function limitsWithin({ limits, used }: RequestPlan, room: Amounts): EffectiveLimits {
  const within: { -readonly [name in keyof EffectiveLimits]: EffectiveLimits[name] } = {
    ...limits,
  };
  for (const [kind, rest] of Object.entries(room) as [keyof Amounts, bigint][]) {
    const value = (used[kind] ?? 0n) + rest;
    const own = limits[kind];
    if (!own || own.value > value) within[kind] = { value, from: 'parent', declared: true };
  }
  return within;
}

/** True if the request would fit once every other request is settled at zero. */
const isPassing = ({ kind, used, standing, max }: Shortage, least: LimitAmounts): boolean =>
  used + standing + (least[kind] ?? 0n) <= max;

/** The part of a thread that waits for a free amount in a budget. */
type BudgetWaiter = BudgetHolder & Interruptible;

interface Tried<T> {
  /** Present if the request began or failed for good. */
  readonly outcome?: Outcome<T>;
  /** The budget that other requests have reserved. */
  readonly short?: Shortage;
}

/** Tries the full request, then a shorter one that fits the free room. */
async function tryNow<T>(
  thread: BudgetWaiter,
  least: LimitAmounts,
  reserve: (room: Amounts) => Promise<Outcome<T>>,
): Promise<Tried<T>> {
  const room: { -readonly [kind in keyof Amounts]: bigint } = {};
  for (;;) {
    const outcome = await reserve(room);
    const short = outcome.ok ? undefined : shortageIn(outcome);
    if (!short) return { outcome };
    const { kind, max, used, reserved } = short;
    const needed = least[kind] ?? 0n;
    if (!isPassing(short, least)) return { outcome: shortageFault(thread, short, needed) };
    const rest = max - used - reserved;
    // The free room has shrunk since, or was not enough.
    if (rest < needed || (room[kind] ?? rest + 1n) <= rest) return { short };
    room[kind] = rest;
  }
}

/** Returns the threads that have not ended, in the tree whose budget is short. One of them settles next. */
async function atWorkBelow({ store }: HarnessPorts, within: string): Promise<Outcome<string[]>> {
  const found = await allThreads(store, { within, status: OPEN });
  return found.ok ? ok(found.output.map(({ id }) => id)) : found;
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Returns the failure of a wait that ended early. At the deadline it is a limit. */
const calledOff = (thread: BudgetWaiter, interruption: Interruption): Failure =>
  interruption.cause() === 'duration'
    ? deadlineFault(thread, fail('timeout', 'the request waited for other requests'))
    : fail('cancelled', 'the request was cancelled while it waited for other requests', {
        sent: false,
      });

/** Waits in the queue of this budget until the request begins or fails for good. */
async function waitAndTry<T>(
  thread: BudgetWaiter,
  first: Shortage,
  again: () => Promise<Tried<T>>,
): Promise<Outcome<T>> {
  const { ports } = thread;
  const line = ports.threads.live.queueUp(first.thread);
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  const { signal } = interruption;
  const look = setInterval(() => void ports.store.sweep(), POLL_MS);
  try {
    await Promise.race([line.isFirst, aborted(signal)]);
    for (let { thread: within } = first; !signal.aborted; ) {
      const over = new AbortController();
      const threads = await atWorkBelow(ports, within);
      if (!threads.ok) return threads;
      const heads = ports.store.changes(
        { threads: threads.output },
        AbortSignal.any([signal, over.signal]),
      );
      // The subscription precedes the try, so that no settlement is missed.
      const moved = heads[Symbol.asyncIterator]().next();
      const { outcome, short = first } = await again();
      if (!outcome) await moved;
      over.abort();
      if (outcome) return outcome;
      within = short.thread;
    }
    return calledOff(thread, interruption);
  } finally {
    clearInterval(look);
    line.leave();
    interruption.release();
  }
}

/**
 * Reserves at once, or after a wait for other requests. Fails with a limit if use, standing reservations and the
 * smallest such request do not fit together.
 */
export async function whenThereIsRoom<T>(
  thread: BudgetWaiter,
  least: LimitAmounts,
  reserve: (room: Amounts) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const again = (): Promise<Tried<T>> => tryNow(thread, least, reserve);
  const { outcome, short } = await again();
  if (outcome) return outcome;
  return short
    ? await waitAndTry(thread, short, again)
    : fail('internal_error', 'the reservation was not tried');
}

// What is only reserved is not spent: a request that does not fit because of others under way asks for
// a shorter answer first, and else waits until one of them is settled. What nobody gives back soon
// (hooks, detached children, what an interrupted thread left open) counts as used. INVARIANT: who waits
// holds no reservation of a request, so nobody waits for somebody who waits.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Amounts, ThreadStatus } from '../../store/index.ts';
import { allThreads, isEnded, THREAD_STATUSES } from '../../store/index.ts';
import type { EffectiveLimits, LimitAmounts, RequestPlan } from '../limits/limit.ts';
import { type Shortage, shortageFault, shortageIn } from '../thread/budget.ts';
import { deadlineFault, STOPS_WAIT, watchForInterruption } from '../thread/interruption.ts';
import type { BudgetHolder, HarnessPorts, Interruptible, Interruption } from '../thread/thread.ts';

/** How often, while waiting, it is looked whose process is gone: for those nobody waits. */
const LOOK_MS = 10_000;
const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));

/** The limits, none higher than what was used and this. */
export function limitsWithin({ limits, used }: RequestPlan, room: Amounts): EffectiveLimits {
  const within: { -readonly [name in keyof EffectiveLimits]: EffectiveLimits[name] } = {
    ...limits,
  };
  for (const [kind, left] of Object.entries(room) as [keyof Amounts, bigint][]) {
    const value = (used[kind] ?? 0n) + left;
    const own = limits[kind];
    if (!own || own.value > value) within[kind] = { value, from: 'parent', declared: true };
  }
  return within;
}

/** Would it fit if everything under way came to nothing? */
const isPassing = ({ kind, used, standing, max }: Shortage, least: LimitAmounts): boolean =>
  used + standing + (least[kind] ?? 0n) <= max;

/** A thread that waits for room in a budget. */
type Waiting = BudgetHolder & Interruptible;

interface Tried<T> {
  /** It was done, or will not be. */
  readonly outcome?: Outcome<T>;
  /** Whose budget is held by others. */
  readonly short?: Shortage;
}

/** Asks for all, then for as much as is free just now. */
async function tryNow<T>(
  thread: Waiting,
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
    const left = max - used - reserved;
    // What was free a moment ago is gone, or was not enough.
    if (left < needed || (room[kind] ?? left + 1n) <= left) return { short };
    room[kind] = left;
  }
}

/** Threads at this one and below it: who settles a reservation, or spawns who will, is among them. */
async function atWorkBelow({ store }: HarnessPorts, within: string): Promise<Outcome<string[]>> {
  const found = await allThreads(store, { within, status: OPEN });
  return found.ok ? ok(found.output.map(({ id }) => id)) : found;
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** The wait was called off: at the deadline that is a limit, otherwise nothing has happened. */
const calledOff = (thread: Waiting, interruption: Interruption): Failure =>
  interruption.cause() === 'duration'
    ? deadlineFault(thread, fail('timeout', 'waiting for requests under way'))
    : fail('cancelled', 'called off while it waited for requests under way', { sent: false });

/** Until it is done or cannot be; whoever waits for the same budget gets it in the order of asking. */
async function waitAndTry<T>(
  thread: Waiting,
  first: Shortage,
  again: () => Promise<Tried<T>>,
): Promise<Outcome<T>> {
  const { ports } = thread;
  const line = ports.threads.live.queueUp(first.thread);
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  const { signal } = interruption;
  const look = setInterval(() => void ports.store.sweep(), LOOK_MS);
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
      // Listens before it tries: what is settled in between is not missed.
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
 * Reserves at once, or as soon as there is room; a limit when what was used, what nobody gives back
 * soon and the smallest such request do not fit together.
 */
export async function whenThereIsRoom<T>(
  thread: Waiting,
  least: LimitAmounts,
  reserve: (room: Amounts) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const again = (): Promise<Tried<T>> => tryNow(thread, least, reserve);
  const { outcome, short } = await again();
  if (outcome) return outcome;
  return short
    ? await waitAndTry(thread, short, again)
    : fail('internal_error', 'nothing was tried');
}

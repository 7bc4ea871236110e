// Waiting for threads, here or in another process. Nothing is polled: what runs here is a promise,
// everything else is watched in the registry. A child that a dead process left behind is resumed by
// whoever waits for it.
import { fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { isEnded, type ThreadRow } from '../../store/index.ts';
import type { Ending } from '../loop.ts';
import { deadlineFault, STOPS_STREAM, watchForInterruption } from '../thread/interruption.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { obeySignals } from '../thread/signals.ts';
import type { CalledOff, HarnessPorts, Thread } from '../thread/thread.ts';
import { unfinished } from './children.ts';

/** How often, while waiting, leases of other processes are looked at. */
const LOOK_MS = 10_000;

/** The result of a thread that has ended; undefined for one that has not. */
export function resultOf(row: ThreadRow): ThreadResult | undefined {
  if (!isEnded(row.status)) return undefined;
  const { id, status, cost, result } = row;
  const bare: ThreadResult = {
    thread_id: id,
    status,
    outputs: {},
    text: '',
    reason: '',
    cost,
  };
  return { ...bare, ...(result as unknown as Partial<ThreadResult> | undefined), status };
}

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });

/** Does nobody work on it although somebody should? */
const isUnfinished = ({ status, lease_until }: ThreadRow, now: number): boolean =>
  status === 'interrupted' ||
  (['spawning', 'running', 'terminating'].includes(status) && (lease_until ?? 0) < now);

async function watchEnd(
  ports: HarnessPorts,
  row: ThreadRow,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const { id, seq } = row;
  for await (const { kind, ...happened } of ports.store.watch({ thread: id, seq }, signal)) {
    if (kind !== 'status') continue;
    const { status } = happened as unknown as { status: ThreadRow['status'] };
    if (!isEnded(status) && status !== 'interrupted') continue;
    const now = ports.store.thread(id);
    if (!now.ok) return undefined;
    const result = resultOf(now.output);
    if (result) return result;
    if (now.output.status === 'interrupted') return await adopt(ports, id, signal);
  }
  return undefined;
}

async function adopt(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const resumed = await Promise.race([ports.threads.resume(id), aborted(signal)]);
  if (resumed?.ok) return resumed.output;
  // Somebody else was quicker, or it cannot go on here: its end is in the registry, if there is one.
  const row = ports.store.thread(id);
  return row.ok ? resultOf(row.output) : undefined;
}

/** The result, or undefined when the signal came first. */
export async function awaitEnd(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<Outcome<ThreadResult | undefined>> {
  const live = ports.threads.live.get(id);
  if (live) return ok(await Promise.race([live.done, aborted(signal)]));
  // Whose process is gone is not waited for: nobody will end it.
  ports.store.interruptExpired();
  const row = ports.store.thread(id);
  if (!row.ok) return row;
  const result = resultOf(row.output);
  if (result) return ok(result);
  return ok(
    isUnfinished(row.output, ports.clock.now())
      ? await adopt(ports, id, signal)
      : await watchEnd(ports, row.output, signal),
  );
}

const open = (thread: Thread) =>
  unfinished(thread.ports, thread.place.id).filter(({ detached }) => !detached);

/** One round: until all have ended, somebody steers the parent, or its time is up. */
async function waitRound(thread: Thread): Promise<CalledOff | undefined> {
  const { ports } = thread;
  const interruption = watchForInterruption(thread, STOPS_STREAM);
  const look = setInterval(() => ports.store.interruptExpired(), LOOK_MS);
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, interruption.signal]);
  await Promise.race([
    Promise.all(open(thread).map(({ id }) => awaitEnd(ports, id, signal))),
    aborted(interruption.signal),
  ]);
  over.abort();
  clearInterval(look);
  interruption.release();
  return interruption.cause();
}

const outOfTime = (thread: Thread): Ending => {
  const { code, detail } = deadlineFault(thread, fail('timeout', 'waiting for its children')).error;
  return { status: 'limit', reason: detail.message, code };
};

/**
 * A parent that has said its last word waits for its children; it still obeys signals and its
 * deadline. Answers with an ending when that is how it ends.
 */
export async function waitForChildren(thread: Thread): Promise<Ending | undefined> {
  for (;;) {
    if (thread.control.stopped) return thread.control.ending;
    const told = obeySignals(thread);
    if (told) return told;
    if (open(thread).length === 0) return undefined;
    const cause = await waitRound(thread);
    if (cause === 'duration') return outOfTime(thread);
    if (cause === 'lost') return { status: 'interrupted', reason: 'its lease was lost' };
    const still = open(thread);
    if (still.length > 0 && still.every(({ status }) => status === 'interrupted')) {
      if (thread.control.stopped) continue;
      const names = still.map(({ id }) => id).join(', ');
      return { status: 'failed', reason: `children cannot go on: ${names}`, code: 'spawn_failed' };
    }
  }
}

/** For answers: the packed marks are for the pipeline, not for the reader. */
export function shownResult(result: ThreadResult): JsonObject {
  return Object.fromEntries(Object.entries(result).filter(([name]) => name !== 'marks'));
}

// Waiting for threads, here or in another process. Nothing is polled: what runs here is a promise,
// everything else is watched in the registry. A child that a dead process left behind is resumed by
// whoever waits for it.
import { fail, isObject, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import {
  isEnded,
  THREAD_STATUSES,
  type ThreadFilter,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '../../store/index.ts';
import type { Ending } from '../loop.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import {
  deadlineFault,
  hearInReplay,
  obeySignals,
  STOPS_STREAM,
  watchForInterruption,
} from '../thread/interruption.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { CalledOff, HarnessPorts, Thread } from '../thread/thread.ts';

/** How often, while waiting, leases of other processes are looked at. */
const LOOK_MS = 10_000;

/** The result of a thread that has ended; undefined for one that has not. */
export function resultOf(row: ThreadRow): ThreadResult | undefined {
  if (!isEnded(row.status)) return undefined;
  const { id: thread_id, status, cost, result } = row;
  const { code, marks, outputs = {}, text, reason } = isObject(result) ? result : {};
  return {
    thread_id,
    status,
    outputs,
    text: plainText(text),
    reason: plainText(reason),
    cost,
    ...(typeof code === 'string' && { code }),
    ...(marks !== undefined && { marks: packMarks(unpackMarks(marks)) }),
  };
}

/** Of this kind, in the registry; in these states or in any. */
export async function childrenOf(
  { store }: Pick<HarnessPorts, 'store'>,
  filter: Pick<ThreadFilter, 'parent' | 'kind' | 'status'>,
): Promise<ThreadSummary[]> {
  const rows: ThreadSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.query({ ...filter, limit: 500, ...(cursor && { cursor }) });
    if (!page.ok) return rows;
    rows.push(...page.output.rows);
    cursor = page.output.next_cursor;
    if (cursor === undefined) return rows;
  }
}

const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));

/** Children in the registry that have not ended, hooks left out. */
export const unfinished = (ports: HarnessPorts, parent: string): Promise<ThreadSummary[]> =>
  childrenOf(ports, { parent, status: OPEN, kind: 'thread' });

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
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const over = new AbortController();
  const heads = ports.store.changes({ threads: [id] }, AbortSignal.any([signal, over.signal]));
  const moved = heads[Symbol.asyncIterator]();
  try {
    // What moved between the look and the first change is seen by looking again.
    for (;;) {
      const next = moved.next();
      const now = await ports.store.thread(id);
      const result = now.ok ? resultOf(now.output) : undefined;
      if (!now.ok || result) return result;
      if (now.output.status === 'interrupted') return await adopt(ports, id, signal);
      if ((await next).done) return undefined;
    }
  } finally {
    over.abort();
  }
}

async function adopt(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const resumed = await Promise.race([ports.threads.resume(id), aborted(signal)]);
  if (resumed?.ok) return resumed.output;
  // Somebody else was quicker, or it cannot go on here: its end is in the registry, if there is one.
  const row = await ports.store.thread(id);
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
  await ports.store.sweep();
  const row = await ports.store.thread(id);
  if (!row.ok) return row;
  const result = resultOf(row.output);
  if (result) return ok(result);
  return ok(
    isUnfinished(row.output, ports.clock.now())
      ? await adopt(ports, id, signal)
      : await watchEnd(ports, id, signal),
  );
}

const registeredChildren = async ({ ports, place }: Thread): Promise<ThreadSummary[]> =>
  (await unfinished(ports, place.id)).filter(({ detached }) => !detached);

/** Those at work here count until their parent was told, also when the registry has their end. */
async function openChildren(thread: Thread): Promise<ReadonlySet<string>> {
  const registered = await registeredChildren(thread);
  const here = thread.ports.threads.live
    .childrenOf(thread.place.id)
    .map((live) => live.thread.place)
    .filter(({ detached, kind }) => !detached && kind === 'thread');
  return new Set([...registered, ...here].map(({ id }) => id));
}

/** One round: until all have ended, somebody steers the parent, or its time is up. */
async function waitRound(thread: Thread): Promise<CalledOff | undefined> {
  const { ports } = thread;
  const interruption = await watchForInterruption(thread, STOPS_STREAM);
  const look = setInterval(() => void ports.store.sweep(), LOOK_MS);
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, interruption.signal]);
  const children = await openChildren(thread);
  await Promise.race([
    Promise.all([...children].map((id) => awaitEnd(ports, id, signal))),
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
    await hearInReplay(thread);
    const told = obeySignals(thread);
    if (told) return told;
    if ((await openChildren(thread)).size === 0) return undefined;
    const cause = await waitRound(thread);
    if (cause === 'duration') return outOfTime(thread);
    if (cause === 'lost') return { status: 'interrupted', reason: 'its lease was lost' };
    const still = await registeredChildren(thread);
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

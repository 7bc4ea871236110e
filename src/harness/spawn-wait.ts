// Waiting for threads, here or in another process. Nothing is polled: what runs here is a promise,
// everything else is watched in the registry. A child that a dead process left behind is resumed by
// whoever waits for it.
import { type Json, type Outcome, ok } from '../base/index.ts';
import { isEnded, type ThreadRow } from '../store/index.ts';
import type { Ending } from './loop.ts';
import { unfinished } from './spawn-family.ts';
import type { ThreadContext } from './thread-context.ts';
import { obeySignals } from './thread-signals.ts';
import type { ThreadResult, World } from './world.ts';

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
const isLeft = ({ status, lease_until }: ThreadRow, now: number): boolean =>
  status === 'interrupted' ||
  (['spawning', 'running', 'terminating'].includes(status) && (lease_until ?? 0) < now);

async function watchEnd(
  world: World,
  row: ThreadRow,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const { id, seq } = row;
  for await (const { kind, ...happened } of world.store.watch({ thread: id, seq }, signal)) {
    if (kind !== 'status') continue;
    const { status } = happened as unknown as { status: ThreadRow['status'] };
    if (!isEnded(status) && status !== 'interrupted') continue;
    const now = world.store.thread(id);
    if (!now.ok) return undefined;
    const result = resultOf(now.output);
    if (result) return result;
    if (now.output.status === 'interrupted') return await adopt(world, id, signal);
  }
  return undefined;
}

async function adopt(
  world: World,
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const resumed = await Promise.race([world.resume(id), aborted(signal)]);
  if (resumed?.ok) return resumed.output;
  // Somebody else was quicker, or it cannot go on here: its end is in the registry, if there is one.
  const row = world.store.thread(id);
  return row.ok ? resultOf(row.output) : undefined;
}

/** The result, or undefined when the signal came first. */
export async function awaitEnd(
  world: World,
  id: string,
  signal: AbortSignal,
): Promise<Outcome<ThreadResult | undefined>> {
  const live = world.live.get(id);
  if (live) return ok(await Promise.race([live.done, aborted(signal)]));
  const row = world.store.thread(id);
  if (!row.ok) return row;
  const result = resultOf(row.output);
  if (result) return ok(result);
  return ok(
    isLeft(row.output, world.clock.now())
      ? await adopt(world, id, signal)
      : await watchEnd(world, row.output, signal),
  );
}

/** Tells as soon as the registry holds a signal for this thread. */
function signalled({ world, id }: ThreadContext, over: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    const end = world.store.onSignal((thread) => {
      if (thread === id) resolve(undefined);
    });
    over.addEventListener('abort', () => {
      end();
      resolve(undefined);
    });
  });
}

/**
 * A parent that has said its last word waits for its children; it still obeys signals. Answers with
 * an ending when it was told to end another way.
 */
export async function waitForChildren(thread: ThreadContext): Promise<Ending | undefined> {
  const { world, id } = thread;
  for (;;) {
    if (thread.stopped) return thread.ending;
    const told = obeySignals(thread);
    if (told) return told;
    const open = unfinished(thread).filter(({ detached }) => !detached);
    if (open.length === 0) return undefined;
    const over = new AbortController();
    const stop = AbortSignal.any([over.signal, thread.signal]);
    const look = setInterval(() => world.store.interruptExpired(), LOOK_MS);
    await Promise.race([
      Promise.all(open.map((child) => awaitEnd(world, child.id, stop))),
      signalled(thread, stop),
    ]);
    clearInterval(look);
    over.abort();
    const still = unfinished({ world, id }).filter(({ detached }) => !detached);
    const isStuck = still.length > 0 && still.every(({ status }) => status === 'interrupted');
    if (isStuck && !thread.stopped) {
      const names = still.map((child) => child.id).join(', ');
      return { status: 'failed', reason: `children cannot go on: ${names}`, code: 'spawn_failed' };
    }
  }
}

/** For answers: the packed marks are for the pipeline, not for the reader. */
export function shownResult({ marks: _, ...result }: ThreadResult): Json {
  return result as unknown as Json;
}

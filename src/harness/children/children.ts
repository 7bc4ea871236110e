// What happens to children when their parent ends: a normal end waits for them, every other end
// stops them first. A detached child lives on unless the whole tree is ended.
import { fail, isObject, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import {
  type Amounts,
  isEnded,
  type OpenReservation,
  THREAD_STATUSES,
  type ThreadFilter,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '../../store/index.ts';
import { packCost, unpackCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { apartKey } from '../thread/budget.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import {
  deadlineFault,
  hearInReplay,
  obeySignals,
  STOPS_WAIT,
  stopThread,
  watchForInterruption,
} from '../thread/interruption.ts';
import { type Recorded, readJournal } from '../thread/journal-event.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { CalledOff, HarnessPorts, Thread } from '../thread/thread.ts';

// Waiting for threads, here or in another process. Nothing is polled: what runs here is a promise,
// everything else is watched in the registry. A child that a dead process left behind is resumed by
// whoever waits for it.

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

/** Threads of its hooks that have not ended. */
export const openHooks = (ports: HarnessPorts, parent: string): Promise<ThreadSummary[]> =>
  childrenOf(ports, { parent, status: OPEN, kind: 'hook' });

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
    for (let tried = 0; ; ) {
      const next = moved.next();
      const now = await ports.store.thread(id);
      const result = now.ok ? resultOf(now.output) : undefined;
      if (!now.ok || result) return result;
      const { status, seq } = now.output;
      if (status === 'interrupted' && seq !== tried) {
        tried = seq;
        const adopted = await adopt(ports, id, signal);
        // Where several machines share a store, somebody else goes on with it then.
        if (adopted || !ports.store.fleet) return adopted;
      }
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
    !ports.store.fleet && isUnfinished(row.output, ports.clock.now())
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
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
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

/** How it ends when its time is up during this. */
export const outOfTime = (thread: Thread, during: string): Ending => {
  const { code, detail } = deadlineFault(thread, fail('timeout', during)).error;
  return { status: 'limit', reason: detail.message, code };
};

/**
 * A parent that has said its last word waits for its children; it still obeys signals and its
 * deadline. Answers with an ending when that is how it ends.
 */
async function waitForChildren(thread: Thread): Promise<Ending | undefined> {
  const { ports } = thread;
  for (;;) {
    if (thread.control.stopped) return thread.control.ending;
    await hearInReplay(thread);
    // Who has nobody to wait for has ended, also in a process that goes.
    const isLeft = thread.control.leaving && (await openChildren(thread)).size === 0;
    const told = isLeft ? undefined : obeySignals(thread);
    if (told) return told;
    if (isLeft || (await openChildren(thread)).size === 0) {
      if (ports.store.fleet) await countOthers(thread);
      return undefined;
    }
    const cause = await waitRound(thread);
    if (cause === 'duration') return outOfTime(thread, 'waiting for its children');
    if (cause === 'lost') return { status: 'interrupted', reason: 'its lease was lost' };
    const still = ports.store.fleet ? [] : await registeredChildren(thread);
    if (still.length > 0 && still.every(({ status }) => status === 'interrupted')) {
      if (thread.control.stopped || thread.control.leaving) continue;
      const names = still.map(({ id }) => id).join(', ');
      return { status: 'failed', reason: `children cannot go on: ${names}`, code: 'spawn_failed' };
    }
  }
}

/** Children that another process brought to their end: nobody has told this one. */
async function countOthers(thread: Thread): Promise<void> {
  const { ports, place, budget, journal } = thread;
  if (budget.meter.read().spawns === 0 || !(await journal.flush())) return;
  const history = await readJournal(ports.store, place.id);
  if (history.ok) await catchUp(thread, history.output, []);
}

/** For answers: the packed marks are for the pipeline, not for the reader. */
export function shownResult(result: ThreadResult): JsonObject {
  return Object.fromEntries(Object.entries(result).filter(([name]) => name !== 'marks'));
}

/** A person or a hook wants the tree gone: then nobody is spared. */
const WHOLE_TREE: ReadonlySet<Ending['status']> = new Set(['aborted', 'terminated', 'killed']);
/** The thread will go on later, and so may its children. */
export const RESTS: ReadonlySet<ThreadStatus> = new Set(['paused', 'waiting', 'needs_input']);

const stopsAs = ({ status }: Ending): Ending['status'] =>
  status === 'aborted' || status === 'killed' || status === 'interrupted' ? status : 'terminated';

async function stopChildren(thread: Thread, ending: Ending): Promise<void> {
  const isSpared = ({ place: { detached } }: Thread): boolean =>
    detached && !WHOLE_TREE.has(ending.status) && ending.status !== 'interrupted';
  const children = thread.ports.threads.live
    .childrenOf(thread.place.id)
    .filter((child) => !isSpared(child.thread));
  const status = stopsAs(ending);
  const reason = `its parent \`${thread.place.id}\` ended ${ending.status}: ${ending.reason}`;
  for (const child of children) stopThread(child.thread, { status, reason });
  await Promise.all(children.map(({ done }) => done));
  if (ending.status !== 'interrupted') await signalOthers(thread, ending);
}

/** Children that another process runs, or none, hear of it through the registry. */
async function signalOthers({ ports, place: { id } }: Thread, ending: Ending): Promise<void> {
  const kind = ending.status === 'killed' ? 'kill' : 'terminate';
  const key = `parent:${id}:${kind}`;
  for (const child of await unfinished(ports, id)) {
    if (child.detached && !WHOLE_TREE.has(ending.status)) continue;
    const payload = { reason: ending.reason };
    await ports.store.signal({ thread: child.id, kind, payload, key, by: id });
  }
}

/** An abort goes up as well: the whole tree ends, this branch first. */
async function abortTree({ ports, place: { id, chain } }: Thread, ending: Ending): Promise<void> {
  const root = chain.at(-1) ?? id;
  if (root === id) return;
  const reason = `thread \`${id}\` aborted the tree: ${ending.reason}`;
  const live = ports.threads.live.get(root);
  const { code } = ending;
  if (live) stopThread(live.thread, { status: 'aborted', reason, ...(code && { code }) });
  else {
    const [kind, key] = ['terminate', `abort:${id}`];
    await ports.store.signal({ thread: root, kind, payload: { reason }, key, by: id });
  }
}

/** The child's cost is its parent's too, and its end is in the parent's journal. */
export function tellParent({ ports, place }: Thread, result: ThreadResult): void {
  const above = ports.threads.live.get(place.parent ?? '')?.thread;
  if (above && place.kind !== 'hook' && isEnded(result.status)) countChild(above, result);
}

export function countChild(
  { budget: { meter }, journal }: Thread,
  result: Pick<ThreadResult, 'thread_id' | 'status' | 'reason' | 'cost'>,
): void {
  const cost = unpackCost(result.cost);
  if (cost.ok) meter.countChild(cost.output);
  const { thread_id, status, reason } = result;
  journal.note(
    { type: 'child_end', data: { thread_id, status, reason, cost: result.cost } },
    { cost: packCost(meter.read()) },
  );
}

const isHandedOver = ({ control }: Thread, { status }: Ending): boolean =>
  control.leaving !== undefined && !control.stopped && status === 'interrupted';

/** Those that run here are handed over as well; whoever goes on with the thread takes them up. */
async function leaveWithChildren(thread: Thread, ending: Ending): Promise<Ending> {
  const { live } = thread.ports.threads;
  await Promise.all(live.childrenOf(thread.place.id).map(({ done }) => done));
  return ending;
}

/** Called once the loop is over and before the end is recorded; answers with the ending that counts. */
export async function endFamily(thread: Thread, ending: Ending): Promise<Ending> {
  if (RESTS.has(ending.status)) return ending;
  if (isHandedOver(thread, ending)) return await leaveWithChildren(thread, ending);
  const isOwnAbort =
    ending.status === 'aborted' && thread.place.kind !== 'hook' && !thread.control.stopped;
  let final = ending;
  if (ending.status === 'completed') {
    const instead = await waitForChildren(thread);
    if (!instead) return ending;
    final = { ...instead, ...(ending.text === undefined ? {} : { text: ending.text }) };
    if (RESTS.has(final.status)) return final;
    if (isHandedOver(thread, final)) return await leaveWithChildren(thread, final);
  }
  await stopChildren(thread, final);
  if (final.status === 'aborted')
    thread.journal.note({ type: 'snapshot', data: { reason: final.reason } });
  if (isOwnAbort) await abortTree(thread, final);
  return final;
}

// What became of a thread's children while no process ran it: counted before it goes on.

/** Children that events of this type name. */
export const namedIn = (
  history: readonly Recorded[],
  type: 'spawn' | 'child_end',
): ReadonlySet<string> =>
  new Set(
    history.flatMap((event) =>
      (event.type === 'spawn' || event.type === 'child_end') && event.type === type
        ? [event.data.thread_id]
        : [],
    ),
  );

/** What was set apart for a detached child is free again when it has ended. */
async function apartOfEnded(
  { ports }: Thread,
  open: readonly OpenReservation[],
): Promise<{ key: string; actual: Amounts }[]> {
  const free: { key: string; actual: Amounts }[] = [];
  for (const { key } of open) {
    if (!key.endsWith(apartKey(''))) continue;
    const child = await ports.store.thread(key.slice(0, -apartKey('').length));
    if (!child.ok || isEnded(child.output.status)) free.push({ key, actual: {} });
  }
  return free;
}

const LEFT: ReadonlySet<ThreadSummary['status']> = new Set<ThreadSummary['status']>([
  'spawning',
  'running',
  'interrupted',
  'terminating',
]);

/** Children that a lost process left in the middle go on beside their parent. */
export async function adoptChildren(thread: Thread): Promise<void> {
  const { ports, place } = thread;
  await ports.store.sweep();
  for (const { id, status } of await childrenOf(ports, { parent: place.id, kind: 'thread' })) {
    // One that another process holds refuses; its end is found in the registry.
    if (LEFT.has(status) && !ports.threads.live.get(id)) void ports.threads.resume(id);
  }
}

/** Each end is noted once, however often the thread is resumed. A spawn is noted with its child. */
export async function catchUp(
  thread: Thread,
  history: readonly Recorded[],
  open: readonly OpenReservation[],
): Promise<void> {
  const { ports, place, budget, journal } = thread;
  const [spawned, ended] = [namedIn(history, 'spawn'), namedIn(history, 'child_end')];
  const settle = await apartOfEnded(thread, open);
  if (settle.length > 0) {
    const cost = packCost(budget.meter.read());
    journal.note({ type: 'cost_update', data: { cost } }, { settle });
  }
  for (const { id, directive, runner, detached, status } of await childrenOf(ports, {
    parent: place.id,
    kind: 'thread',
  })) {
    // Of a registry of version 1: there a child could be born before its parent noted it.
    if (!spawned.has(id)) {
      budget.meter.countSpawn();
      const data = { thread_id: id, directive, runner, detached };
      journal.note({ type: 'spawn', data }, { cost: packCost(budget.meter.read()) });
    }
    if (ended.has(id) || !isEnded(status)) continue;
    const row = await ports.store.thread(id);
    const result = row.ok ? resultOf(row.output) : undefined;
    if (result) countChild(thread, result);
  }
}

// What happens to children when their parent ends: a normal end waits for them, every other end
// stops them first. A detached child lives on unless the whole tree is ended.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Failure,
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import {
  type JournalEvent,
  type OpenWork,
  openWork,
  project,
  readJournal,
} from '../../journal/index.ts';
import {
  type Amounts,
  allThreads,
  type Held,
  isEnded,
  type OpenReservation,
  type Store,
  THREAD_STATUSES,
  type ThreadFilter,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '../../store/index.ts';
import { type Cost, createCostMeter, packCost, unpackCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { apartKey } from '../thread/budget.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import {
  deadlineFault,
  obeySignals,
  STOPS_WAIT,
  stopThread,
  watchForInterruption,
} from '../thread/interruption.ts';
import type { ThreadResult, WatchPort } from '../thread/ports.ts';
import type { CalledOff, HarnessPorts, Thread } from '../thread/thread.ts';
import { transcriberOf, withLease } from '../thread/with-lease.ts';
import { finalAccount } from '../turn/turn-account.ts';

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

/** Children of this kind in the registry, in these states or in any. */
const childrenOf = (
  { store }: Pick<HarnessPorts, 'store'>,
  filter: Pick<ThreadFilter, 'parent' | 'kind' | 'status'>,
): Promise<Outcome<ThreadSummary[]>> => allThreads(store, filter);

/** How a thread ends whose children cannot be read: it can be resumed, and nothing of them is lost. */
export const childrenUnreadable = ({ error: { code, detail } }: Failure): Ending => ({
  status: 'interrupted',
  reason: `its children cannot be read: ${detail.message}`,
  code,
});

const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));

/** Children in the registry that have not ended, hooks left out. */
const unfinished = (ports: Pick<HarnessPorts, 'store'>, parent: string) =>
  childrenOf(ports, { parent, status: OPEN, kind: 'thread' });

/** Threads of the hooks of a thread. Absent `status`: in all states. */
export const hooksOf = (
  ports: Pick<HarnessPorts, 'store'>,
  parent: string,
  status?: readonly ThreadStatus[],
): Promise<Outcome<ThreadSummary[]>> =>
  childrenOf(ports, { parent, kind: 'hook', ...(status && { status }) });

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });

/** Does nobody work on it although somebody should? */
const isUnfinished = ({ status, lease_until }: ThreadRow, now: number): boolean =>
  status === 'interrupted' ||
  (['spawning', 'running', 'terminating'].includes(status) && (lease_until ?? 0) < now);

/** How often the questions of a child that rests are looked at: an answer moves no thread. */
const ANSWER_MS = 500;
/** An answer may come between the question and the rest of a script. */
const ANSWER_SLACK_MS = 2000;

/** When the questions of a thread that rests were answered; undefined: one is open, or nothing is new. */
async function answeredAt(
  { store }: HarnessPorts,
  { id, status, updated }: ThreadRow,
): Promise<number | undefined> {
  if (status !== 'waiting' && status !== 'needs_input') return undefined;
  const found = await store.approvals({ thread: id, limit: 1000 });
  const all = found.ok ? found.output : [];
  if (all.some(({ state }) => state === 'pending')) return undefined;
  const times = all.map(({ decided, expires = 0 }) => decided ?? expires);
  const last = Math.max(0, ...times);
  return last >= updated - ANSWER_SLACK_MS ? last : undefined;
}

/** Until a thread has ended. One that was interrupted, or whose question was answered, is resumed here. */
async function watchEnd(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const moved = ports.store.changes({ threads: [id] }, either)[Symbol.asyncIterator]();
  try {
    // A second look finds threads that moved between the first look and the first change.
    for (let [tried, obeyed, next] = [0, 0, moved.next()]; ; ) {
      const now = await ports.store.thread(id);
      const result = now.ok ? resultOf(now.output) : undefined;
      if (!now.ok || result) return result;
      const { status, seq } = now.output;
      // Where several machines share a store, an answer queues the thread.
      const answered = ports.store.fleet ? undefined : await answeredAt(ports, now.output);
      if (status === 'interrupted' && seq !== tried) {
        tried = seq;
        const adopted = await adopt(ports, id, signal);
        // Where several machines share a store, somebody else goes on with it then.
        if (adopted || !ports.store.fleet) return adopted;
      } else if (answered !== undefined && answered !== obeyed) {
        obeyed = answered;
        await adopt(ports, id, signal);
        continue;
      }
      const isAsked = !ports.store.fleet && RESTS.has(status);
      const change = await (isAsked ? Promise.race([next, sleep(ANSWER_MS)]) : next);
      if (change?.done) return undefined;
      if (change) next = moved.next();
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

async function registeredChildren({ ports, place }: Thread): Promise<Outcome<ThreadSummary[]>> {
  const found = await unfinished(ports, place.id);
  return found.ok ? ok(found.output.filter(({ detached }) => !detached)) : found;
}

/** Those at work here count until their parent was told, also when the registry has their end. */
async function openChildren(thread: Thread): Promise<Outcome<ReadonlySet<string>>> {
  const registered = await registeredChildren(thread);
  if (!registered.ok) return registered;
  const here = thread.ports.threads.live
    .childrenOf(thread.place.id)
    .map((live) => live.thread.place)
    .filter(({ detached, kind }) => !detached && kind === 'thread');
  return ok(new Set([...registered.output, ...here].map(({ id }) => id)));
}

/** One round: until all have ended, somebody steers the parent, or its time is up. */
async function waitRound(
  thread: Thread,
  children: ReadonlySet<string>,
): Promise<CalledOff | undefined> {
  const { ports } = thread;
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  const look = setInterval(() => void ports.store.sweep(), LOOK_MS);
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, interruption.signal]);
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
    await thread.journal.catchUp();
    // Who has nobody to wait for has ended, also in a process that goes.
    const before = thread.control.leaving ? await openChildren(thread) : undefined;
    if (before?.ok === false) return childrenUnreadable(before);
    const told = before?.output.size === 0 ? undefined : obeySignals(thread);
    if (told) return told;
    const open = before?.output.size === 0 ? before : await openChildren(thread);
    if (!open.ok) return childrenUnreadable(open);
    if (open.output.size === 0) {
      const counts = await countOthers(thread);
      return counts.ok ? undefined : childrenUnreadable(counts);
    }
    const cause = await waitRound(thread, open.output);
    if (cause === 'duration') return outOfTime(thread, 'waiting for its children');
    if (cause === 'lost') return { status: 'interrupted', reason: 'its lease was lost' };
    const found = ports.store.fleet ? ok([]) : await registeredChildren(thread);
    if (!found.ok) return childrenUnreadable(found);
    const still = found.output;
    if (still.length > 0 && still.every(({ status }) => status === 'interrupted')) {
      if (thread.control.stopped || thread.control.leaving) continue;
      const names = still.map(({ id }) => id).join(', ');
      return { status: 'failed', reason: `children cannot go on: ${names}`, code: 'spawn_failed' };
    }
  }
}

/** Children that another process brought to their end: nobody has told this one. */
async function countOthers(thread: Thread): Promise<Outcome<null>> {
  const { ports, place, budget, journal } = thread;
  if (budget.meter.read().spawns === 0) return ok(null);
  await journal.catchUp();
  if (!(await journal.flush())) return ok(null);
  const history = await readJournal(ports.store, place.id);
  return history.ok ? await catchUp(thread, project(openWork, history.output), []) : history;
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
  if (ending.status !== 'interrupted') await endOthers(thread, ending);
}

/** Children that another process runs get a signal; the end of those that nobody runs is written here. */
async function endOthers(thread: Thread, ending: Ending): Promise<void> {
  const { store, watch } = thread.ports;
  const { id: by } = thread.place;
  const status = ending.status === 'killed' ? 'killed' : 'terminated';
  const reason = `its parent \`${by}\` ended ${ending.status}: ${ending.reason}`;
  // The thread ends whatever can be read of its children.
  await endBelow(store, by, status, by, {
    watch,
    reason,
    sparesDetached: !WHOLE_TREE.has(ending.status),
  });
  await countOthers(thread);
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

/**
 * The child's cost is its parent's too, and its end is in the parent's journal. A child that waits for a
 * person goes on when somebody has answered, as long as its parent runs here.
 */
export function tellParent({ ports, place }: Thread, result: ThreadResult): void {
  const above = ports.threads.live.get(place.parent ?? '');
  if (!above || place.kind === 'hook') return;
  if (isEnded(result.status)) countChild(above.thread, result);
  else if (!ports.store.fleet && (result.status === 'waiting' || result.status === 'needs_input')) {
    const over = new AbortController();
    void above.done.then(() => over.abort());
    void watchEnd(ports, place.id, over.signal);
  }
}

/** Children that were counted, by the writer of their parent: each once. */
const counted = new WeakMap<Thread['journal'], Set<string>>();

export function countChild(
  { budget: { meter }, journal }: Thread,
  result: Pick<ThreadResult, 'thread_id' | 'status' | 'reason' | 'cost'>,
): void {
  const known = counted.get(journal) ?? new Set();
  counted.set(journal, known.add(result.thread_id));
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
  const found = await childrenOf(ports, { parent: place.id, kind: 'thread' });
  // The thread takes up children that cannot be read now when it waits for them.
  for (const { id, status } of found.ok ? found.output : []) {
    // One that another process holds refuses; its end is found in the registry.
    if (LEFT.has(status) && !ports.threads.live.get(id)) void ports.threads.resume(id);
  }
}

/** Each end is noted once, however often the thread is resumed. A spawn is noted with its child. */
export async function catchUp(
  thread: Thread,
  work: Pick<OpenWork, 'children'>,
  open: readonly OpenReservation[],
): Promise<Outcome<null>> {
  const { ports, place, budget, journal } = thread;
  const children = await childrenOf(ports, { parent: place.id, kind: 'thread' });
  if (!children.ok) return children;
  const settle = await apartOfEnded(thread, open);
  if (settle.length > 0) {
    const cost = packCost(budget.meter.read());
    journal.note({ type: 'cost_update', data: { cost } }, { settle });
  }
  for (const { id, status } of children.output) {
    if (!work.children.has(id) || counted.get(journal)?.has(id) || !isEnded(status)) continue;
    const row = await ports.store.thread(id);
    const result = row.ok ? resultOf(row.output) : undefined;
    if (result) countChild(thread, result);
  }
  return ok(null);
}

/** A thread that cannot read a signal is ended from outside, with everything below it. */
type EndedFromOutside = 'terminated' | 'killed' | 'failed';
interface EndOptions {
  readonly watch?: WatchPort;
  readonly reason?: string;
}

/** How long a child that another process runs has to end before its parent does. */
const STOP_MS = 3000;

async function untilEnded(store: Store, id: string): Promise<void> {
  const signal = AbortSignal.timeout(STOP_MS);
  const moved = store.changes({ threads: [id] }, signal)[Symbol.asyncIterator]();
  // What moved between the look and the first change is seen by looking again.
  for (;;) {
    const next = moved.next();
    const row = await store.thread(id);
    if (!row.ok || isEnded(row.output.status) || (await next).done) break;
  }
  await moved.return?.();
}

/** Hooks and children of a thread end before it does, and so do those below them. */
async function endBelow(
  store: Store,
  id: string,
  status: EndedFromOutside,
  by: string,
  { sparesDetached, ...more }: EndOptions & { readonly sparesDetached: boolean },
): Promise<Outcome<null>> {
  const kind = status === 'killed' ? 'kill' : 'terminate';
  const end = status === 'failed' ? 'terminated' : status;
  const hooks = await hooksOf({ store }, id, OPEN);
  const children = hooks.ok ? await unfinished({ store }, id) : hooks;
  if (!hooks.ok) return hooks;
  if (!children.ok) return children;
  await Promise.all(
    [...hooks.output, ...children.output].map(async (child) => {
      if (child.detached && sparesDetached) return;
      const payload = more.reason === undefined ? {} : { reason: more.reason };
      const key = `parent:${id}:${kind}`;
      await store.signal({ thread: child.id, kind, payload, key, by });
      const ended = await endUnattended(store, child.id, end, by, more);
      if (ended.ok || ended.error.code !== 'lease_held') return;
      // Somebody is at work on it and obeys, or it comes to rest before that.
      await untilEnded(store, child.id);
      await endUnattended(store, child.id, end, by, more);
    }),
  );
  return ok(null);
}

/** Children that have ended and are not in the journal of their parent: their ends, and the cost with theirs. */
async function withUncounted(store: Store, id: string, cost: Cost) {
  const meter = createCostMeter(() => 0, cost);
  const history = await readJournal(store, id);
  const open = history.ok ? project(openWork, history.output).children : undefined;
  const children = await childrenOf({ store }, { parent: id, kind: 'thread' });
  if (!children.ok) return children;
  const events: JournalEvent[] = [];
  for (const child of children.output) {
    const row = open?.has(child.id) === false ? undefined : await store.thread(child.id);
    const result = row?.ok ? resultOf(row.output) : undefined;
    const used = result && unpackCost(result.cost);
    if (!result || !used?.ok) continue;
    meter.countChild(used.output);
    const { thread_id, status, reason } = result;
    events.push({ type: 'child_end', data: { thread_id, status, reason, cost: result.cost } });
  }
  return ok({ events, cost: packCost(meter.read()) });
}

/**
 * Takes the thread and writes its end, after that of all below it. `lease_held` when somebody is at work on
 * it, unless `force`: then whoever it was can no longer write, nor act. `thread_ended` when it has ended.
 */
export async function endUnattended(
  store: Store,
  id: string,
  status: EndedFromOutside,
  by: string,
  { force = false, watch, reason = `${status} by ${by}` }: EndOptions & { force?: boolean } = {},
): Promise<Outcome<null>> {
  const lease = { owner: by, ...(force && { force }) };
  const transcribe = watch && transcriberOf(watch, id);
  const work = async (held: Held) => {
    const { row } = held;
    const sparesDetached = status === 'failed';
    const options = { sparesDetached, reason, ...(watch && { watch }) };
    const below = await endBelow(store, id, status, by, options);
    const { settle, cost: used } = finalAccount(held);
    const counts = below.ok ? await withUncounted(store, id, used) : below;
    if (!counts.ok) return counts;
    const { events, cost } = counts.output;
    // The end of a detached child frees its reservation.
    const apart = row.detached && row.parent !== undefined ? [apartKey(id)] : [];
    const kind = { killed: 'kill', terminated: 'terminate', failed: 'fail' }[status];
    const signal: JournalEvent = { type: 'signal', data: { kind, by } };
    const end: JournalEvent = { type: 'thread_end', data: { status, reason, cost } };
    return ok({
      events: [signal, ...events, end] as const,
      status,
      cost,
      settle: [...settle, ...apart.map((key) => ({ key, actual: {} }))],
      result: { thread_id: id, status, outputs: {}, text: '', reason, cost },
    });
  };
  const ended = await withLease(store, id, lease, work, transcribe);
  if (ended.ok) watch?.done?.(id);
  return ended;
}

// Waits for the children of a thread, ends them with their parent and counts their cost. A normal end waits for the
// children. Every other end stops them. A detached child continues unless the whole tree ends.
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
  isEnded,
  type LeasedThread,
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
import { detachedKey } from '../thread/budget.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import {
  deadlineFault,
  handleSignals,
  STOPS_WAIT,
  stopThread,
  watchForInterruption,
} from '../thread/interruption.ts';
import type { ThreadResult, WatchPort } from '../thread/ports.ts';
import type {
  BudgetHolder,
  CalledOff,
  Control,
  HarnessPorts,
  Interruptible,
  Lineage,
  Thread,
} from '../thread/thread.ts';
import { transcriberOf, withLease } from '../thread/with-lease.ts';
import { finalAccount } from '../turn/turn-account.ts';

/** Interval at which a waiting thread sweeps expired leases of other processes. */
const POLL_MS = 10_000;

/** Returns the result of a thread that has ended, and `undefined` for every other thread. */
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

/** Returns the children of one kind in the store. Absent `status`: children in every state. */
const childrenOf = (
  { store }: Pick<HarnessPorts, 'store'>,
  filter: Pick<ThreadFilter, 'parent' | 'kind' | 'status'>,
): Promise<Outcome<ThreadSummary[]>> => allThreads(store, filter);

/** Ending of a thread whose children cannot be read. It can be resumed, and nothing of its children is lost. */
export const childrenUnreadable = ({ error: { code, detail } }: Failure): Ending => ({
  status: 'interrupted',
  reason: `its children cannot be read: ${detail.message}`,
  code,
});

const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));

const unfinished = (ports: Pick<HarnessPorts, 'store'>, parent: string) =>
  childrenOf(ports, { parent, status: OPEN, kind: 'thread' });

/** Returns the threads of a thread's hooks. Absent `status`: hooks in every state. */
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

/** True if no process works on the thread although one should. */
const isUnfinished = ({ status, lease_until }: ThreadRow, now: number): boolean =>
  status === 'interrupted' ||
  (['spawning', 'running', 'terminating'].includes(status) && (lease_until ?? 0) < now);

/** Interval at which the approval requests of a parked child are read. An answer does not change the thread. */
const ANSWER_MS = 500;
/** An answer can arrive before the script that asked has parked. */
const ANSWER_SLACK_MS = 2000;

/** Returns the time at which the requests of a parked thread were answered. `undefined`: no answer is new. */
async function answeredAt(
  { store }: HarnessPorts,
  { id, status, updated }: ThreadRow,
): Promise<number | undefined> {
  if (status !== 'waiting' && status !== 'needs_input') return undefined;
  const approvals = await store.approvals({ thread: id, limit: 1000 });
  const all = approvals.ok ? approvals.output : [];
  if (all.some(({ state }) => state === 'pending')) return undefined;
  const times = all.map(({ decided, expires = 0 }) => decided ?? expires);
  const last = Math.max(0, ...times);
  return last >= updated - ANSWER_SLACK_MS ? last : undefined;
}

/** Waits for the end of a thread. Resumes it here if it is `interrupted` or its requests were answered. */
async function watchEnd(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<ThreadResult | undefined> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const moved = ports.store.changes({ threads: [id] }, either)[Symbol.asyncIterator]();
  try {
    // The second read finds threads that changed between the first read and the first change.
    for (let [tried, handled, next] = [0, 0, moved.next()]; ; ) {
      const now = await ports.store.thread(id);
      const result = now.ok ? resultOf(now.output) : undefined;
      if (!now.ok || result) return result;
      const { status, seq } = now.output;
      // In a shared store an answer queues the thread.
      const answered = ports.store.fleet ? undefined : await answeredAt(ports, now.output);
      if (status === 'interrupted' && seq !== tried) {
        tried = seq;
        const adopted = await adopt(ports, id, signal);
        // In a shared store another process resumes the thread then.
        if (adopted || !ports.store.fleet) return adopted;
      } else if (answered !== undefined && answered !== handled) {
        handled = answered;
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
  // Another process was faster, or the thread cannot be resumed here. If it has ended, the store has its end.
  const row = await ports.store.thread(id);
  return row.ok ? resultOf(row.output) : undefined;
}

/** Returns the result, or `undefined` if the signal was aborted first. */
export async function awaitEnd(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal,
): Promise<Outcome<ThreadResult | undefined>> {
  const live = ports.threads.live.get(id);
  if (live) return ok(await Promise.race([live.done, aborted(signal)]));
  // A thread of a lost process never ends by itself. The sweep marks it as `interrupted`.
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

/** A thread in its tree, and the ports that reach its relatives. */
type InTree = Pick<Thread, 'ports' | 'place'>;

async function registeredChildren({ ports, place }: InTree): Promise<Outcome<ThreadSummary[]>> {
  const open = await unfinished(ports, place.id);
  return open.ok ? ok(open.output.filter(({ detached }) => !detached)) : open;
}

/** Returns the ids of open children. A child of this process is open until its parent has counted it. */
async function openChildren(parent: InTree): Promise<Outcome<ReadonlySet<string>>> {
  const registered = await registeredChildren(parent);
  if (!registered.ok) return registered;
  const here = parent.ports.threads.live
    .childrenOf(parent.place.id)
    .map((live) => live.thread.place)
    .filter(({ detached, kind }) => !detached && kind === 'thread');
  return ok(new Set([...registered.output, ...here].map(({ id }) => id)));
}

/** Waits until all children have ended, a signal for the parent arrives, or its time is up. */
async function waitRound(
  ports: HarnessPorts,
  parent: Interruptible,
  children: ReadonlySet<string>,
): Promise<CalledOff | undefined> {
  const interruption = await watchForInterruption(parent, STOPS_WAIT);
  const look = setInterval(() => void ports.store.sweep(), POLL_MS);
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

/** Returns the ending of a thread whose time is up during this wait. */
export const outOfTime = (thread: Pick<Thread, 'budget'>, during: string): Ending => {
  const { code, detail } = deadlineFault(thread, fail('timeout', during)).error;
  return { status: 'limit', reason: detail.message, code };
};

/**
 * Waits for the children after the last reply of the parent. The parent still handles signals and its deadline.
 * Returns the ending that one of them causes.
 */
async function waitForChildren(thread: Thread): Promise<Ending | undefined> {
  const { ports } = thread;
  for (;;) {
    if (thread.control.stopped) return thread.control.ending;
    await thread.journal.catchUp();
    // A thread without open children ends, even if this process is leaving.
    const before = thread.control.leaving ? await openChildren(thread) : undefined;
    if (before?.ok === false) return childrenUnreadable(before);
    const ending = before?.output.size === 0 ? undefined : handleSignals(thread);
    if (ending) return ending;
    const open = before?.output.size === 0 ? before : await openChildren(thread);
    if (!open.ok) return childrenUnreadable(open);
    if (open.output.size === 0) {
      const counts = await countOthers(thread);
      return counts.ok ? undefined : childrenUnreadable(counts);
    }
    const cause = await waitRound(ports, thread, open.output);
    if (cause === 'duration') return outOfTime(thread, 'waiting for its children');
    if (cause === 'lost') return { status: 'interrupted', reason: 'its lease was lost' };
    const registered = ports.store.fleet ? ok([]) : await registeredChildren(thread);
    if (!registered.ok) return childrenUnreadable(registered);
    const still = registered.output;
    if (still.length > 0 && still.every(({ status }) => status === 'interrupted')) {
      if (thread.control.stopped || thread.control.leaving) continue;
      const names = still.map(({ id }) => id).join(', ');
      return { status: 'failed', reason: `children cannot resume: ${names}`, code: 'spawn_failed' };
    }
  }
}

/** A parent thread, which counts the cost and the end of each child. */
type Parent = BudgetHolder & Pick<Thread, 'journal'>;

/** Counts children whose end another process wrote, because that process does not notify this one. */
async function countOthers(thread: Parent): Promise<Outcome<null>> {
  const { ports, place, budget, journal } = thread;
  if (budget.meter.read().spawns === 0) return ok(null);
  await journal.catchUp();
  if (!(await journal.flush())) return ok(null);
  const history = await readJournal(ports.store, place.id);
  return history.ok ? await catchUp(thread, project(openWork, history.output), []) : history;
}

/** Returns the result for an answer, without the packed marks, which only the pipeline reads. */
export function shownResult(result: ThreadResult): JsonObject {
  return Object.fromEntries(Object.entries(result).filter(([name]) => name !== 'marks'));
}

/** Endings of the whole tree. They end detached children too. */
const WHOLE_TREE: ReadonlySet<Ending['status']> = new Set(['aborted', 'terminated', 'killed']);
/** Statuses of a parked thread. Its children are not stopped. */
export const RESTS: ReadonlySet<ThreadStatus> = new Set(['paused', 'waiting', 'needs_input']);

const stopsAs = ({ status }: Ending): Ending['status'] =>
  status === 'aborted' || status === 'killed' || status === 'interrupted' ? status : 'terminated';

async function stopChildren(thread: Parent, ending: Ending): Promise<void> {
  const isSpared = ({ detached }: Lineage): boolean =>
    detached && !WHOLE_TREE.has(ending.status) && ending.status !== 'interrupted';
  const children = thread.ports.threads.live
    .childrenOf(thread.place.id)
    .filter((child) => !isSpared(child.thread.place));
  const status = stopsAs(ending);
  const reason = `its parent \`${thread.place.id}\` ended ${ending.status}: ${ending.reason}`;
  for (const child of children) stopThread(child.thread, { status, reason });
  await Promise.all(children.map(({ done }) => done));
  if (ending.status !== 'interrupted') await endOthers(thread, ending);
}

/** Sends a signal to children that another process runs, and writes the end of children that no process runs. */
async function endOthers(thread: Parent, ending: Ending): Promise<void> {
  const { store, watch } = thread.ports;
  const { id: by } = thread.place;
  const status = ending.status === 'killed' ? 'killed' : 'terminated';
  const reason = `its parent \`${by}\` ended ${ending.status}: ${ending.reason}`;
  // The thread ends even if its children cannot be read.
  await endBelow(store, by, status, by, {
    watch,
    reason,
    sparesDetached: !WHOLE_TREE.has(ending.status),
  });
  await countOthers(thread);
}

/** Ends the whole tree after an abort, because an abort also goes up to the root. */
async function abortTree({ ports, place: { id, chain } }: InTree, ending: Ending): Promise<void> {
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
 * Adds the cost and the end of a child to its parent's journal. A parked child is resumed after the answer of a
 * person, for as long as its parent runs here.
 */
export function signalParent({ ports, place }: InTree, result: ThreadResult): void {
  const above = ports.threads.live.get(place.parent ?? '');
  if (!above || place.kind === 'hook') return;
  if (isEnded(result.status)) countChild(above.thread, result);
  else if (!ports.store.fleet && (result.status === 'waiting' || result.status === 'needs_input')) {
    const over = new AbortController();
    void above.done.then(() => over.abort());
    void watchEnd(ports, place.id, over.signal);
  }
}

/** Children that each parent has counted, so that each is counted once. */
const counted = new WeakMap<Thread['journal'], Set<string>>();

export function countChild(
  { budget: { meter }, journal }: Pick<Thread, 'budget' | 'journal'>,
  result: Pick<ThreadResult, 'thread_id' | 'status' | 'reason' | 'cost'>,
): void {
  const ids = counted.get(journal) ?? new Set();
  counted.set(journal, ids.add(result.thread_id));
  const cost = unpackCost(result.cost);
  if (cost.ok) meter.countChild(cost.output);
  const { thread_id, status, reason } = result;
  journal.note(
    { type: 'child_end', data: { thread_id, status, reason, cost: result.cost } },
    { cost: packCost(meter.read()) },
  );
}

const isHandedOver = (control: Control, { status }: Ending): boolean =>
  control.leaving !== undefined && !control.stopped && status === 'interrupted';

/** Waits for the children of this process, which stop too. The next process resumes them. */
async function leaveWithChildren({ ports, place }: InTree, ending: Ending): Promise<Ending> {
  await Promise.all(ports.threads.live.childrenOf(place.id).map(({ done }) => done));
  return ending;
}

/** Ends or awaits the children after the loop and before the end is recorded. Returns the ending that counts. */
export async function endDescendants(thread: Thread, ending: Ending): Promise<Ending> {
  const { place, control } = thread;
  if (RESTS.has(ending.status)) return ending;
  if (isHandedOver(control, ending)) return await leaveWithChildren(thread, ending);
  const isOwnAbort = ending.status === 'aborted' && place.kind !== 'hook' && !control.stopped;
  let final = ending;
  if (ending.status === 'completed') {
    const instead = await waitForChildren(thread);
    if (!instead) return ending;
    final = { ...instead, ...(ending.text === undefined ? {} : { text: ending.text }) };
    if (RESTS.has(final.status)) return final;
    if (isHandedOver(control, final)) return await leaveWithChildren(thread, final);
  }
  await stopChildren(thread, final);
  if (final.status === 'aborted')
    thread.journal.note({ type: 'snapshot', data: { reason: final.reason } });
  if (isOwnAbort) await abortTree(thread, final);
  return final;
}

/** Returns settlements that free the reservations of detached children that have ended. */
async function settlementsOfEnded(
  store: Store,
  open: readonly OpenReservation[],
): Promise<{ key: string; actual: Amounts }[]> {
  const free: { key: string; actual: Amounts }[] = [];
  for (const { key } of open) {
    if (!key.endsWith(detachedKey(''))) continue;
    const child = await store.thread(key.slice(0, -detachedKey('').length));
    if (!child.ok || isEnded(child.output.status)) free.push({ key, actual: {} });
  }
  return free;
}

const UNATTENDED: ReadonlySet<ThreadSummary['status']> = new Set<ThreadSummary['status']>([
  'spawning',
  'running',
  'interrupted',
  'terminating',
]);

/** Resumes children that a lost process left in the middle. They run beside their parent. */
export async function adoptChildren({ ports, place }: InTree): Promise<void> {
  await ports.store.sweep();
  const found = await childrenOf(ports, { parent: place.id, kind: 'thread' });
  // Children that cannot be read now are found when the thread waits for them.
  for (const { id, status } of found.ok ? found.output : []) {
    // A resume fails if another process has the lease. That child's end appears in the store.
    if (UNATTENDED.has(status) && !ports.threads.live.get(id)) void ports.threads.resume(id);
  }
}

/** Counts each child that has ended, once, however often the thread is resumed. */
export async function catchUp(
  thread: Parent,
  work: Pick<OpenWork, 'children'>,
  open: readonly OpenReservation[],
): Promise<Outcome<null>> {
  const { ports, place, budget, journal } = thread;
  const children = await childrenOf(ports, { parent: place.id, kind: 'thread' });
  if (!children.ok) return children;
  const settle = await settlementsOfEnded(ports.store, open);
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

/** Ending of a thread that cannot read a signal. It is ended from outside, with its descendants. */
type EndedFromOutside = 'terminated' | 'killed' | 'failed';
interface EndOptions {
  readonly watch?: WatchPort;
  readonly reason?: string;
}

/** Time that a child in another process has for its end before its parent ends. */
const STOP_MS = 3000;

async function untilEnded(store: Store, id: string): Promise<void> {
  const signal = AbortSignal.timeout(STOP_MS);
  const moved = store.changes({ threads: [id] }, signal)[Symbol.asyncIterator]();
  // The thread can change between the read and the first change, so it is read again.
  for (;;) {
    const next = moved.next();
    const row = await store.thread(id);
    if (!row.ok || isEnded(row.output.status) || (await next).done) break;
  }
  await moved.return?.();
}

/** Ends the hooks and children of a thread, and their descendants, before the thread itself ends. */
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
      // The owner of the lease handles the signal, or the thread parks before that.
      await untilEnded(store, child.id);
      await endUnattended(store, child.id, end, by, more);
    }),
  );
  return ok(null);
}

/** Returns the `child_end` events that the parent's journal does not have, and the cost with those children. */
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
 * Claims a thread and writes its end, after the ends of its descendants. Fails with `thread_ended`, and with
 * `lease_held` if another process has its lease, unless `force` takes the lease away.
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
  const work = async (leased: LeasedThread) => {
    const { row } = leased;
    const sparesDetached = status === 'failed';
    const options = { sparesDetached, reason, ...(watch && { watch }) };
    const below = await endBelow(store, id, status, by, options);
    const { settle, cost: used } = finalAccount(leased);
    const counts = below.ok ? await withUncounted(store, id, used) : below;
    if (!counts.ok) return counts;
    const { events, cost } = counts.output;
    // The end of a detached child frees its reservation.
    const apart = row.detached && row.parent !== undefined ? [detachedKey(id)] : [];
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

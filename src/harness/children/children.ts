// What happens to children when their parent ends: a normal end waits for them, every other end
// stops them first. A detached child lives on unless the whole tree is ended.
import {
  type Amounts,
  isEnded,
  type OpenReservation,
  type ThreadSummary,
} from '../../store/index.ts';
import { packCost, unpackCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { apartKey } from '../thread/budget.ts';
import { stopThread } from '../thread/interruption.ts';
import type { Recorded } from '../thread/journal-event.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { Thread } from '../thread/thread.ts';
import { childrenOf, resultOf, unfinished, waitForChildren } from './wait.ts';

/** A person or a hook wants the tree gone: then nobody is spared. */
const WHOLE_TREE: ReadonlySet<Ending['status']> = new Set(['aborted', 'terminated', 'killed']);
/** The thread will go on later, and so may its children. */
const GOES_ON: ReadonlySet<Ending['status']> = new Set(['paused', 'waiting', 'needs_input']);

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

/** Called once the loop is over and before the end is recorded; answers with the ending that counts. */
export async function endFamily(thread: Thread, ending: Ending): Promise<Ending> {
  if (GOES_ON.has(ending.status)) return ending;
  const isOwnAbort =
    ending.status === 'aborted' && thread.place.kind !== 'hook' && !thread.control.stopped;
  let final = ending;
  if (ending.status === 'completed') {
    const instead = await waitForChildren(thread);
    if (!instead) return ending;
    final = { ...instead, ...(ending.text === undefined ? {} : { text: ending.text }) };
    if (GOES_ON.has(final.status)) return final;
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

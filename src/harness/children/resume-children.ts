// What became of a thread's children while no process ran it: put into its books before it goes on.
import {
  type Amounts,
  isEnded,
  type OpenReservation,
  type ThreadSummary,
} from '../../store/index.ts';
import { packCost } from '../limits/cost.ts';
import { apartKey } from '../thread/budget.ts';
import type { Recorded } from '../thread/journal-event.ts';
import type { Thread } from '../thread/thread.ts';
import { countChild } from './children.ts';
import { resultOf } from './wait.ts';

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

async function childrenOf({ ports, place: { id } }: Thread): Promise<ThreadSummary[]> {
  const rows: ThreadSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await ports.store.query({
      parent: id,
      kind: 'thread',
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    });
    if (!page.ok) return rows;
    rows.push(...page.output.rows);
    cursor = page.output.next_cursor;
    if (cursor === undefined) return rows;
  }
}

const LEFT: ReadonlySet<ThreadSummary['status']> = new Set<ThreadSummary['status']>([
  'spawning',
  'running',
  'interrupted',
  'terminating',
]);

/** Children that a lost process left in the middle go on beside their parent. */
export async function adoptChildren(thread: Thread): Promise<void> {
  const { ports } = thread;
  await ports.store.sweep();
  for (const { id, status } of await childrenOf(thread)) {
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
  const { ports, budget, journal } = thread;
  const [spawned, ended] = [namedIn(history, 'spawn'), namedIn(history, 'child_end')];
  const settle = await apartOfEnded(thread, open);
  if (settle.length > 0) {
    const cost = packCost(budget.meter.read());
    journal.note({ type: 'cost_update', data: { cost } }, { settle });
  }
  for (const { id, directive, runner, detached, status } of await childrenOf(thread)) {
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

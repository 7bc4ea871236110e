// What became of a thread's children while no process ran it: put into its books before it goes on.
import { isEnded, type ThreadSummary } from '../../store/index.ts';
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

/**
 * A spawn that was set aside and never came about costs nothing; one that did is a spawn. What was
 * set apart for a detached child is free again when there is none, or when it has ended.
 */
function settleSpawns({ ports, place: { id } }: Thread): void {
  const open = ports.store.openReservations(id);
  const prefix = `${id}:spawn:`;
  for (const { key } of open.ok ? open.output : []) {
    if (key.startsWith(prefix)) {
      if (ports.store.thread(key.slice(prefix.length)).ok) ports.store.settle(key, { spawns: 1n });
      else ports.store.cancel(key);
    } else if (key.endsWith(apartKey(''))) {
      const child = ports.store.thread(key.slice(0, -apartKey('').length));
      if (!child.ok || isEnded(child.output.status)) ports.store.cancel(key);
    }
  }
}

function childrenOf({ ports, place: { id } }: Thread): ThreadSummary[] {
  const rows: ThreadSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = ports.store.query({
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
export function adoptChildren(thread: Thread): void {
  const { ports } = thread;
  ports.store.interruptExpired();
  for (const { id, status } of childrenOf(thread)) {
    // One that another process holds refuses; its end is found in the registry.
    if (LEFT.has(status) && !ports.threads.live.get(id)) void ports.threads.resume(id);
  }
}

/** Each spawn and each end is noted once, however often the thread is resumed. */
export function catchUp(thread: Thread, history: readonly Recorded[]): void {
  const {
    ports,
    budget: { meter },
    journal,
  } = thread;
  settleSpawns(thread);
  const [spawned, ended] = [namedIn(history, 'spawn'), namedIn(history, 'child_end')];
  for (const { id, directive, runner, detached, status } of childrenOf(thread)) {
    if (!spawned.has(id)) {
      meter.countSpawn();
      const cost = packCost(meter.read());
      journal.note(
        { type: 'spawn', data: { thread_id: id, directive, runner, detached } },
        { cost },
      );
    }
    if (ended.has(id) || !isEnded(status)) continue;
    const row = ports.store.thread(id);
    const result = row.ok ? resultOf(row.output) : undefined;
    if (result) countChild(thread, result);
  }
}

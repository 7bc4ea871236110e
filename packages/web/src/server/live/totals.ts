// Counts threads per group. The registry is counted once, page by page. Then every change of a
// thread updates the counts. Pruned threads are found by the next full count.
import { type Clock, type Outcome, ok } from '@kernmantle/core/base';
import {
  type Approval,
  isEnded,
  type Store,
  type ThreadStatus,
  type ThreadSummary,
  threadPages,
} from '@kernmantle/core/store';
import type { Totals } from '../../model/api.ts';

type StatusGroup = 'open' | 'asks' | 'ended' | 'hook';

const AGAIN_MS = 5 * 60_000;

const groupOf = (status: ThreadStatus, kind: ThreadSummary['kind']): StatusGroup => {
  if (kind === 'hook') return 'hook';
  if (isEnded(status)) return 'ended';
  return status === 'needs_input' ? 'asks' : 'open';
};

export const NO_TOTALS: Totals = { waits: 0, at_work: 0, ended: 0, due: 0 };

export function createTotals(store: Pick<Store, 'query'>, clock: Clock) {
  const groups = new Map<string, StatusGroup>();
  const counts: Record<StatusGroup, number> = { open: 0, asks: 0, ended: 0, hook: 0 };
  /** Threads that moved during the count. They are newer than their page. */
  const moved = new Set<string>();
  let counting: Promise<Outcome<null>> | undefined;
  let countedAt: number | undefined;

  function put(id: string, group: StatusGroup): void {
    const before = groups.get(id);
    if (before === group) return;
    if (before) counts[before] -= 1;
    counts[group] += 1;
    groups.set(id, group);
  }

  async function countAll(): Promise<Outcome<null>> {
    const ids = new Set<string>();
    moved.clear();
    for await (const page of threadPages(store, {})) {
      if (!page.ok) return page;
      for (const { id, status, kind } of page.output) {
        ids.add(id);
        if (!moved.has(id) || !groups.has(id)) put(id, groupOf(status, kind));
      }
    }
    for (const [id, group] of groups) {
      if (ids.has(id) || moved.has(id)) continue;
      groups.delete(id);
      counts[group] -= 1;
    }
    countedAt = clock.monotonic();
    return ok(null);
  }

  return {
    /** Counts a moved thread. Returns false if it needs the kind of the thread. */
    move(id: string, status: ThreadStatus, kind?: ThreadSummary['kind']): boolean {
      if (counting) moved.add(id);
      const before = groups.get(id);
      if (kind === undefined && before === undefined) return false;
      put(id, groupOf(status, kind ?? (before === 'hook' ? 'hook' : 'thread')));
      return true;
    },

    async read(pending: readonly Approval[]): Promise<Outcome<Totals>> {
      const isOld = countedAt === undefined || clock.monotonic() - countedAt > AGAIN_MS;
      if (isOld) {
        counting ??= countAll().finally(() => {
          counting = undefined;
        });
        const counted = await counting;
        if (!counted.ok) return counted;
      }
      const threadIds = new Set(pending.map(({ thread }) => thread ?? ''));
      const waiting = [...threadIds].filter((id) => groups.get(id) === 'open').length;
      return ok({
        waits: counts.asks + waiting,
        at_work: counts.open - waiting,
        ended: counts.ended,
        due: pending.length,
      });
    },
  };
}

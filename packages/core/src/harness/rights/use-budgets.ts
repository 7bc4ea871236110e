// Enforces limits on the number of uses of a tool. A token block limits a thread and its descendants, so each use
// counts for every block that names the tool. INVARIANT: a use is always in the journal, in the intent of its
// call, before it is counted, and it is counted before the call begins. If two processes take the last use at
// the same time, at least one of them reads both uses. A limit is never exceeded, and uses of a lost process are
// not returned.
import { type Failure, fail, getOwn, type Json, type Outcome, ok } from '../../base/index.ts';
import { readStored } from '../../journal/index.ts';
import { type Answer, allThreads, type Store, type StoredEvent } from '../../store/index.ts';
import type { CallIntent, HarnessPorts, Thread, UseBudget } from '../thread/thread.ts';

type Counts = Pick<Store, 'query' | 'read'>;

const COUNTED = ['tool_call', 'tool_result', 'fork'] as const;

/** Returns the number of uses in a journal. A call that never began does not count. */
function usesIn(events: readonly StoredEvent[], tool: string): number {
  let below = 0;
  const taken = new Set<string>();
  const byCall = new Map<Json, string>();
  for (const { type, data } of events) {
    const { call_id = null, use, key = '', unused } = data;
    if (type === 'tool_call' && data.tool === tool && use !== undefined) {
      // A call that is made again after a crash or a pause is the same use.
      const name = JSON.stringify([key, use]);
      taken.add(name);
      byCall.set(call_id, name);
    } else if (type === 'tool_result') {
      if (unused === true) taken.delete(byCall.get(call_id) ?? '');
      byCall.delete(call_id);
    } else if (type === 'fork') below += Number(getOwn(data.uses, tool) ?? 0);
  }
  return taken.size + below;
}

async function threadsWithin(store: Counts, thread: string): Answer<string[]> {
  const found = await allThreads(store, { within: thread });
  return found.ok ? ok(found.output.map(({ id }) => id)) : found;
}

/** Returns the number of uses by a thread and its descendants. */
export async function usesWithin(
  store: Counts,
  { thread, tool }: Pick<UseBudget, 'thread' | 'tool'>,
): Answer<number> {
  const threads = await threadsWithin(store, thread);
  if (!threads.ok) return threads;
  let count = 0;
  for (const id of threads.output) {
    const events = await readStored(store, id, COUNTED);
    if (!events.ok) return events;
    count += usesIn(events.output, tool);
  }
  return ok(count);
}

interface UsePlace {
  readonly ports: { readonly store: Counts } & Pick<HarnessPorts, 'threads' | 'replay'>;
  readonly journal: Pick<Thread['journal'], 'flush' | 'lost'>;
}

function usedUp({ tool, max, thread, directive }: UseBudget): Failure {
  const times = max === 1 ? 'once' : `${max} times`;
  return fail(
    'permission_denied',
    `tool \`${tool}\` can be used ${times} in thread \`${thread}\` and its descendants, and no use is left; \`uses="${max}"\` in the permissions of directive \`${directive}\` sets the limit`,
    { missing: '', rule: 'uses', attempted: tool, uses: max, thread, directive },
  );
}

/** Takes one use of each limit with the intent that `note` writes. Calls of one process queue for a limit. */
export async function takeUse(
  { ports: { store, threads, replay }, journal }: UsePlace,
  budgets: readonly UseBudget[],
  note: () => Promise<Outcome<null>>,
): Promise<Outcome<null>> {
  // In a replay, refusals come from the journal.
  if (replay) return await note();
  // The first block is the same for all threads that share a limit.
  const top = budgets.at(-1);
  const place = threads.live.queueUp(`uses:${top?.thread}:${top?.tool}`);
  await place.isFirst;
  try {
    const recorded = await note();
    if (!recorded.ok) return recorded;
    await journal.flush();
    const lost = journal.lost();
    if (lost) return lost;
    for (const budget of budgets) {
      const count = await usesWithin(store, budget);
      if (!count.ok) return count;
      if (count.output > budget.max) return usedUp(budget);
    }
    return ok(null);
  } finally {
    place.leave();
  }
}

/** Returns the next use. A call that is repeated after it began is one more use. */
export const nextUse = (before: CallIntent | undefined): NonNullable<CallIntent['use']> => {
  const { n, isBegun } = before?.use ?? { n: 0, isBegun: false };
  return { n: isBegun ? n + 1 : n, isBegun: false };
};

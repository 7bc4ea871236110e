// How often a tool may be used. A block of a token says it for a thread and everything below it, so each
// use counts for every block above that names the tool. INVARIANT: a use stands in the journal, in the
// intent of its call, before it is counted, and it is counted before the call begins. Of two that take the
// last one at once, in two processes, at least one sees the other: a budget is never passed, and what a
// lost process took is not given back.
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { readStored } from '../../journal/index.ts';
import { type Answer, allThreads, type Store, type StoredEvent } from '../../store/index.ts';
import type { CallIntent, HarnessPorts, Thread, UseBudget } from '../thread/thread.ts';

type Counts = Pick<Store, 'query' | 'read'>;

const COUNTED = ['tool_call', 'tool_result'] as const;

/** Uses of a tool that stand in a journal; what never began is there again. */
function usesIn(events: readonly StoredEvent[], tool: string): number {
  const taken = new Set<string>();
  const byCall = new Map<Json, string>();
  for (const { type, data } of events) {
    const { call_id = null, use, key = '', unused } = data;
    if (type === 'tool_call' && data.tool === tool && use !== undefined) {
      // The same call again, after a crash or a rest, is the same use.
      const name = JSON.stringify([key, use]);
      taken.add(name);
      byCall.set(call_id, name);
    } else if (type === 'tool_result') {
      if (unused === true) taken.delete(byCall.get(call_id) ?? '');
      byCall.delete(call_id);
    }
  }
  return taken.size;
}

async function threadsWithin(store: Counts, thread: string): Answer<string[]> {
  const found = await allThreads(store, { within: thread });
  return found.ok ? ok(found.output.map(({ id }) => id)) : found;
}

/** In a thread and everything below it. */
async function usesWithin(store: Counts, { thread, tool }: UseBudget): Answer<number> {
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
    `\`${tool}\` may be used ${times} in thread \`${thread}\` and below it, and that is used up: \`uses="${max}"\` in the permissions of directive \`${directive}\` says so`,
    { missing: '', rule: 'uses', attempted: tool, uses: max, thread, directive },
  );
}

/**
 * One use for each of these budgets, taken with the intent that `note` writes. Those of one process that want
 * the same wait for one another, so that the first of them has it.
 */
export async function takeUse(
  { ports: { store, threads, replay }, journal }: UsePlace,
  budgets: readonly UseBudget[],
  note: () => Promise<Outcome<null>>,
): Promise<Outcome<null>> {
  // Who was refused then is refused again: that stands in the journal.
  if (replay) return await note();
  // The highest of them is the same for all that share any.
  const top = budgets.at(-1);
  const place = threads.live.queueUp(`uses:${top?.thread}:${top?.tool}`);
  await place.isFirst;
  try {
    const noted = await note();
    if (!noted.ok) return noted;
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

/** A call that is done again after it began is one more use. */
export const nextUse = (before: CallIntent | undefined): NonNullable<CallIntent['use']> => {
  const { n, isBegun } = before?.use ?? { n: 0, isBegun: false };
  return { n: isBegun ? n + 1 : n, isBegun: false };
};

// Reads data of a registry for tests. The port itself reads many threads at once.
import { type Outcome, ok } from '@kernmantle/core/base';
import type { Store, StoredEvent } from '@kernmantle/core/store';
import type { BudgetState } from '../../packages/core/src/store/port.ts';
import { timeoutMs } from './soak.ts';

export async function budgetOf(store: Store, thread: string): Promise<Outcome<BudgetState>> {
  const states = await store.budgets([thread]);
  if (!states.ok) return states;
  const [state] = states.output;
  if (!state) throw new Error(`no budget of ${thread}`);
  return ok(state);
}

/** Reads until a thread has recorded a matching event, or until the time limit. */
export async function untilEvent(
  store: Store,
  is: (event: StoredEvent) => boolean,
  signal: AbortSignal = AbortSignal.timeout(timeoutMs(20_000)),
): Promise<void> {
  const seen = new Map<string, number>();
  const isNew = async (thread: string): Promise<boolean> => {
    const events = await store.read(thread, { after: seen.get(thread) ?? 0 });
    const found = events.ok ? events.output : [];
    seen.set(thread, found.at(-1)?.seq ?? seen.get(thread) ?? 0);
    return found.some(is);
  };
  const heads = store.changes({}, signal)[Symbol.asyncIterator]();
  for (let next = heads.next(); ; next = heads.next()) {
    const page = await store.query({ limit: 500 });
    for (const { id } of page.ok ? page.output.rows : []) if (await isNew(id)) return;
    if ((await next).done) return;
  }
}

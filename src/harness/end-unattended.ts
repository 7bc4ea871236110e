// Ending a thread that nobody is at work on, or that no longer answers: it cannot read a signal, so
// its end is written for it, and its books are closed with it.
import { type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Store } from '../store/index.ts';
import { packCost } from './cost.ts';
import { leftBooks } from './thread-books.ts';

const LEASE_MS = 30_000;

/**
 * Takes the thread and writes its end. `lease_held` when somebody is at work on it, unless `force`:
 * then whoever it was can no longer append, nor act.
 */
export function endUnattended(
  store: Store,
  id: string,
  status: 'terminated' | 'killed',
  by: string,
  { force = false }: { force?: boolean } = {},
): Outcome<null> {
  const lease = store.claim(id, by, LEASE_MS, { force });
  if (!lease.ok) return lease;
  const row = store.thread(id);
  if (!row.ok) return row;
  const { epoch, seq } = lease.output;
  const { settle, cost: used } = leftBooks({ store }, row.output);
  const cost = packCost(used);
  const reason = `${status} by ${by}`;
  const result: JsonObject = { thread_id: id, status, outputs: {}, text: '', reason, cost };
  const events = [
    { type: 'signal', data: { kind: status === 'killed' ? 'kill' : 'terminate', by } },
    { type: 'thread_end', data: { status, reason, cost } },
  ];
  const written = store.append(id, seq, epoch, events, { status, cost, settle, result });
  store.release(id, epoch);
  return written.ok ? ok(null) : written;
}

// Ending threads that nobody is at work on: they cannot read a signal, so the end is written for them.
import { type JsonObject, type Outcome, ok } from '../base/index.ts';
import { isEnded, type Store, type ThreadStatus } from '../store/index.ts';

const LEASE_MS = 30_000;

/**
 * Takes the thread and writes its end. `lease_held` when somebody is at work on it, unless `force`:
 * then whoever it was can no longer append, nor act.
 */
export function endThread(
  store: Store,
  id: string,
  status: 'terminated' | 'killed',
  by: string,
  force = false,
): Outcome<ThreadStatus> {
  const lease = store.claim(id, by, LEASE_MS, { force });
  if (!lease.ok) return lease;
  const row = store.thread(id);
  if (!row.ok) return row;
  const { epoch, seq } = lease.output;
  const reason = `${status} by ${by}`;
  const { cost } = row.output;
  const result: JsonObject = { thread_id: id, status, outputs: {}, text: '', reason, cost };
  const events = [{ type: 'thread_end', data: { status, reason, cost } }];
  const written = store.append(id, seq, epoch, events, { status, result });
  store.release(id, epoch);
  return written.ok ? ok(status) : written;
}

/** Threads below, deepest first, that have not ended. */
export function livingBelow(store: Store, id: string): Outcome<string[]> {
  const page = store.query({ within: id, limit: 500 });
  if (!page.ok) return page;
  return ok(
    page.output.rows
      .filter((row) => row.id !== id && !isEnded(row.status))
      .sort((a, b) => b.depth - a.depth)
      .map((row) => row.id),
  );
}

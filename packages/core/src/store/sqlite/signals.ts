// Sends and reads signals. A signal raises `wakes` of its thread and gets that number, so the numbers have
// no gaps, and a thread has a pending signal if `wakes > acknowledged`. A thread without a lease is queued in the
// same commit, so no signal is lost.
import { fail, type Outcome, ok } from '../../base/index.ts';
import { type SignalText, signalPayload } from '../encode.ts';
import type { Signal } from '../port.ts';
import { isEnded, noThread, type ThreadStatus } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';
import type { CachedLease } from './leased-thread.ts';
import type { Registry } from './threads.ts';

const MAX_READ = 1000;
const WAKE = `UPDATE threads SET wakes = wakes + 1,
  queued = CASE WHEN owner IS NULL THEN min(coalesce(queued, ?1), ?1) ELSE queued END
  WHERE id = ?2 RETURNING wakes, queued`;
const STATUS = 'SELECT status FROM threads WHERE id = ?';
const INSERT =
  'INSERT INTO signals (thread, number, kind, payload, key, sender, ts) VALUES (?, ?, ?, ?, ?, ?, ?)';
const AFTER = `SELECT thread, number, kind, payload, key, sender AS "by", ts FROM signals
  WHERE thread = ? AND number > ? ORDER BY number LIMIT ${MAX_READ}`;

const NOTHING: readonly Signal[] = [];

type SignalRow = Omit<Signal, 'payload'> & { payload: string };

export const signalsAfter = (connection: Connection, thread: string, number: number): Signal[] =>
  connection
    .all<SignalRow>(AFTER, thread, number)
    .map((row) => ({ ...row, payload: signalPayload(row.payload, row.number, row.kind) }));

/** Sends a signal. Fails with `thread_ended` or `not_found` before any write. */
export function sendSignal(
  { connection, held: leases, feed }: Registry,
  { thread, kind, text, key, by }: SignalText,
  now: number,
): Outcome<{ number: number }> {
  const row = connection.get<{ status: ThreadStatus }>(STATUS, thread);
  if (!row) return noThread(thread);
  const sql = 'SELECT number FROM signals WHERE thread = ? AND key = ?';
  const before = connection.get<{ number: number }>(sql, thread, key);
  if (before) return ok({ number: before.number });
  const { status } = row;
  if (isEnded(status)) {
    const message = `thread \`${thread}\` has ended (${status}) and cannot get signal \`${kind}\``;
    return fail('thread_ended', message, { thread, status });
  }
  const woken = connection.get<{ wakes: number; queued: number | null }>(WAKE, now, thread);
  if (!woken) return noThread(thread);
  const { wakes: number, queued } = woken;
  connection.run(INSERT, thread, number, kind, text, key, by, now);
  if (kind === 'kill') leases.forgetWords();
  connection.afterCommit(() => feed.said({ thread, number, kind }));
  if (queued !== null) connection.afterCommit(() => feed.queued());
  return ok({ number });
}

/** Returns the signals that were not delivered before, and marks them as delivered. */
export function undelivered(
  { connection, held: leases }: Registry,
  thread: string,
  lease: CachedLease,
  wakes: number,
): readonly Signal[] {
  if (wakes <= lease.delivered) return NOTHING;
  const signals = signalsAfter(connection, thread, lease.delivered);
  leases.markDelivered(lease, signals.at(-1)?.number ?? lease.delivered);
  return signals;
}

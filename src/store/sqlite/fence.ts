// The right to write, and the writing of the thread's own row. INVARIANT: sequence, epoch and lease
// are looked at inside the transaction that changes the row, so a process that was frozen past its
// lease, or lost the thread to another, writes nothing.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { CommitText } from '../encode.ts';
import type { Commit, Signal } from '../port.ts';
import { isEnded, type ThreadStatus } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';
import { EVENTS_A_THREAD } from './file/schema.ts';

export interface FenceRow {
  number: number;
  root: string;
  depth: number;
  seq: number;
  epoch: number;
  status: ThreadStatus;
  lease_until: number | null;
  wakes: number;
  heard: number;
}

const ROW = `SELECT number, root, depth, seq, epoch, status, lease_until, wakes, heard
  FROM threads WHERE id = ?`;

export const readFence = (connection: Connection, thread: string): FenceRow | undefined =>
  connection.get<FenceRow>(ROW, thread);

/** `unheard` are the signals after a number. */
export function checkFence(
  row: FenceRow,
  thread: string,
  { expect, heard = 0, events }: Commit,
  now: number,
  unheard: (after: number) => readonly Signal[],
): Outcome<null> {
  const { seq, epoch, lease_until: until } = row;
  const detail = { thread, seq, epoch };
  if (epoch !== expect.epoch) {
    return fail('stale_epoch', `thread \`${thread}\` is held by somebody else now`, detail);
  }
  if (seq !== expect.seq) {
    const message = `thread \`${thread}\` is at event ${seq}, not ${expect.seq}`;
    return fail('conflict', message, { ...detail, expected: expect.seq });
  }
  if (until === null || until <= now) {
    const message = `the lease of thread \`${thread}\` ${until === null ? 'was given back' : 'ran out'}`;
    return fail('lease_expired', message, { ...detail, until });
  }
  if (seq + events.length >= EVENTS_A_THREAD) {
    return fail('invalid_input', `thread \`${thread}\` has no room for more events`, detail);
  }
  const obeyed = Math.max(row.heard, heard);
  if (!expect.quiet || row.wakes <= obeyed) return ok(null);
  const signals = unheard(obeyed).map((signal): JsonObject => ({ ...signal }));
  return fail('signalled', `thread \`${thread}\` was spoken to meanwhile`, { thread, signals });
}

// Most commits are events, cost and amounts: columns without an index.
const ALWAYS = `UPDATE threads SET seq = ?, updated = ?, cost = coalesce(?, cost),
  attempt = coalesce(?, attempt), budget = coalesce(?, budget)`;

/** Writes the row, with the account when that changes; answers with the status it has now. */
export function writeFenced(
  connection: Connection,
  row: FenceRow,
  { commit, events, cost }: CommitText,
  budget: string | undefined,
  now: number,
): ThreadStatus {
  const { status = row.status, attempt, release } = commit;
  // Nobody hears what was not said.
  const heard = Math.max(row.heard, Math.min(commit.heard ?? 0, row.wakes));
  let sql = ALWAYS;
  const values: SQLInputValue[] = [
    row.seq + events.length,
    now,
    cost ?? null,
    attempt ?? null,
    budget ?? null,
  ];
  if (commit.status !== undefined) {
    sql += ', status = ?, ended = ?';
    values.push(status, isEnded(status) ? now : null);
  }
  if (heard !== row.heard) {
    sql += ', heard = ?';
    values.push(heard);
  }
  if (release) {
    // Parked or over. INVARIANT: what was let go with an unheard signal is queued, so nobody is stuck.
    const wake = row.wakes > heard ? now : release === true ? null : release.wake;
    sql += ', owner = NULL, lease_until = NULL, queued = ?';
    values.push(isEnded(status) ? null : wake);
  }
  connection.run(`${sql} WHERE number = ?`, ...values, row.number);
  return status;
}

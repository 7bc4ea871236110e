// The right to write, and the writing of the thread's own row, in one statement: sequence, epoch and
// lease are looked at where the row is changed, so a process that was frozen past its lease, or lost
// the thread to another, writes nothing. The text is made of the parts that a commit has.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type JsonObject, type Outcome } from '../../base/index.ts';
import type { CommitText } from '../encode.ts';
import type { Commit, Signal } from '../port.ts';
import { isEnded, noThread, THREAD_STATUSES, type ThreadStatus } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';

export interface Passed {
  wakes: number;
  lease_ms: number;
  status: ThreadStatus;
}

interface Fenced {
  wakes: number;
  lease_until: number | null;
  status: ThreadStatus;
}

export const ENDED = THREAD_STATUSES.filter(isEnded)
  .map((status) => `'${status}'`)
  .join(', ');

interface Part {
  sql: string;
  values: readonly SQLInputValue[];
}

// The `max` of what was heard before and what this commit has heard; nobody hears what was not said.
const HEARD = 'max(heard, min(?, wakes))';

function statusPart({ status }: Commit, now: number): Part | undefined {
  if (status === undefined) return undefined;
  return isEnded(status)
    ? { sql: 'status = ?, ended = ?', values: [status, now] }
    : { sql: 'status = ?, ended = NULL', values: [status] };
}

/** Parked or over. INVARIANT: what was let go with an unheard signal is queued, so nobody is stuck. */
function releasePart({ release, status, heard = 0 }: Commit, now: number): Part | undefined {
  if (release === undefined) return undefined;
  const free = 'owner = NULL, lease_until = NULL';
  if (status !== undefined && isEnded(status)) return { sql: `${free}, queued = NULL`, values: [] };
  const wake = release === true ? null : release.wake;
  const over = status === undefined ? `WHEN status IN (${ENDED}) THEN NULL ` : '';
  const sql = `${free}, queued = CASE ${over}WHEN wakes > ${HEARD} THEN ? ELSE ? END`;
  return { sql, values: [heard, now, wake] };
}

function partsOf({ commit, cost }: CommitText, now: number): Part[] {
  const { heard, attempt } = commit;
  const parts = [
    heard === undefined ? undefined : { sql: `heard = ${HEARD}`, values: [heard] },
    statusPart(commit, now),
    cost === undefined ? undefined : { sql: 'cost = ?', values: [cost] },
    attempt === undefined ? undefined : { sql: 'attempt = ?', values: [attempt] },
    releasePart(commit, now),
  ];
  return parts.filter((part) => part !== undefined);
}

const fencedBy = (parts: readonly Part[], isQuiet: boolean): string =>
  `UPDATE threads SET seq = ?, updated = ?${parts.map(({ sql }) => `, ${sql}`).join('')}
  WHERE id = ? AND seq = ? AND epoch = ? AND lease_until > ?${isQuiet ? ` AND wakes <= ${HEARD}` : ''}`;
const FENCED = 'SELECT wakes, lease_until, status FROM threads WHERE id = ?';
const PLAIN = fencedBy([], false);

/** Undefined: nothing was written; ask `whyNot`. */
export function passFence(
  connection: Connection,
  thread: string,
  encoded: CommitText,
  now: number,
): Passed | undefined {
  const { commit } = encoded;
  const { seq, epoch, quiet } = commit.expect;
  const parts = partsOf(encoded, now);
  const values = parts.flatMap((part) => part.values);
  // Most commits are events and nothing else.
  const sql = parts.length === 0 && !quiet ? PLAIN : fencedBy(parts, quiet === true);
  const end = quiet ? [commit.heard ?? 0] : [];
  const to = seq + encoded.events.length;
  const isHeld = connection.run(sql, to, now, ...values, thread, seq, epoch, now, ...end) === 1;
  // Two statements: what RETURNING gives goes through a table of its own and costs twice as much.
  const row = isHeld ? connection.get<Fenced>(FENCED, thread) : undefined;
  if (!row) return undefined;
  const { wakes, status, lease_until: until } = row;
  return { wakes, status, lease_ms: until === null ? 0 : until - now };
}

const LOOK = 'SELECT seq, epoch, lease_until, wakes, heard FROM threads WHERE id = ?';

interface Looked {
  seq: number;
  epoch: number;
  lease_until: number | null;
  wakes: number;
  heard: number;
}

function refusedBy(row: Looked, thread: string, { seq, epoch }: Commit['expect'], now: number) {
  const detail = { thread, seq: row.seq, epoch: row.epoch };
  if (detail.epoch !== epoch) {
    return fail('stale_epoch', `thread \`${thread}\` is held by somebody else now`, detail);
  }
  if (detail.seq !== seq) {
    const message = `thread \`${thread}\` is at event ${detail.seq}, not ${seq}`;
    return fail('conflict', message, { ...detail, expected: seq });
  }
  const { lease_until: until } = row;
  if (until !== null && until > now) return undefined;
  const message = `the lease of thread \`${thread}\` ${until === null ? 'was given back' : 'ran out'}`;
  return fail('lease_expired', message, { ...detail, until });
}

/** Undefined: the fence holds. `unheard` are the signals after a number. */
export function whyNot(
  connection: Connection,
  thread: string,
  commit: Commit,
  now: number,
  unheard: (after: number) => readonly Signal[],
): Outcome<never> | undefined {
  const row = connection.get<Looked>(LOOK, thread);
  if (!row) return noThread(thread);
  const refused = refusedBy(row, thread, commit.expect, now);
  if (refused || !commit.expect.quiet) return refused;
  const heard = Math.max(row.heard, commit.heard ?? 0);
  if (row.wakes <= heard) return undefined;
  const signals = unheard(heard).map((signal): JsonObject => ({ ...signal }));
  return fail('signalled', `thread \`${thread}\` was spoken to meanwhile`, { thread, signals });
}

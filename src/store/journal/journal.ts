// A thread's journal: what it is about to do and what came of it, in order. INVARIANT: the sequence
// has no gap and no fork. Whoever appends names the sequence number it knows and the epoch of its
// lease; if either is not the registry's, nothing is written.
import {
  type Clock,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Amounts } from '../amounts.ts';
import type { Budgets } from '../budgets/budgets.ts';
import type { Database, Row } from '../database/database.ts';
import type { EventLog, NewEvent } from '../database/event-log.ts';
import { isEnded, noThread, type ThreadStatus } from '../thread-id.ts';

export interface StoredEvent {
  thread: string;
  seq: number;
  ts: number;
  turn: number;
  type: string;
  data: JsonObject;
}

/** What else changes in the same commit. */
export interface Change {
  status?: ThreadStatus;
  cost?: JsonObject;
  result?: Json;
  attempt?: number;
  settle?: readonly { key: string; actual: Amounts }[];
  /** Done first, in the same commit; when it is refused, that is the answer and nothing is written. */
  first?: () => Outcome<null>;
}

export interface Journal {
  /**
   * Compare-and-set: `conflict` when the sequence is another, `stale_epoch` when somebody else holds
   * the thread, `lease_expired` when the lease has run out (renew it, or claim again). After any
   * other failure the append may have been committed: read the thread's `seq` and `epoch` again.
   */
  append(
    thread: string,
    expectedSeq: number,
    epoch: number,
    events: readonly NewEvent[],
    change?: Change,
  ): Outcome<{ seq: number }>;
  /** Events after sequence number `after`, oldest first. */
  read(thread: string, after?: number, limit?: number): Outcome<StoredEvent[]>;
  /** The latest events, oldest first. */
  readLast(thread: string, count: number): Outcome<StoredEvent[]>;
  /** `intent` events whose `data.call` has no `result` yet: what a crash left open. */
  openCalls(thread: string): Outcome<StoredEvent[]>;
}

const COLUMNS = 'thread, seq, ts, turn, type, data';
const MAX_READ = 10_000;

export function toEvent(row: Row): StoredEvent {
  const { data, ...rest } = row;
  return {
    ...(rest as unknown as StoredEvent),
    data: JSON.parse(data as string) as JsonObject,
  };
}

// The lease is looked at in the same statement: a process that was frozen past it appends nothing.
const HELD = 'id = ? AND seq = ? AND epoch = ? AND (lease_until IS NULL OR lease_until > ?)';
const STEP = `UPDATE threads SET seq = ?, updated = ? WHERE ${HELD}`;
const STEP_AND_CHANGE = `UPDATE threads SET seq = ?, updated = ?, status = coalesce(?, status),
  cost = coalesce(?, cost), attempt = coalesce(?, attempt), ended = CASE ? WHEN 1 THEN ? WHEN 0 THEN NULL ELSE ended END
  WHERE ${HELD}`;

export function createJournal(
  database: Database,
  clock: Clock,
  log: EventLog,
  budgets: Pick<Budgets, 'charge'>,
): Journal {
  function whyNot(thread: string, expectedSeq: number, epoch: number): Outcome<never> {
    const row = database.get(
      'SELECT seq, epoch, owner, lease_until FROM threads WHERE id = ?',
      thread,
    );
    if (!row) return noThread(thread);
    const detail = { thread, seq: row['seq'] as number, epoch: row['epoch'] as number };
    if (row['epoch'] !== epoch) {
      return fail('stale_epoch', `thread \`${thread}\` is held by somebody else now`, detail);
    }
    if (row['seq'] !== expectedSeq) {
      const message = `thread \`${thread}\` is at event ${String(row['seq'])}, not ${expectedSeq}`;
      return fail('conflict', message, { ...detail, expected: expectedSeq });
    }
    const until = row['lease_until'] as number;
    return fail('lease_expired', `the lease of thread \`${thread}\` ran out`, { ...detail, until });
  }

  function step(thread: string, from: number, to: number, epoch: number, change: Change): boolean {
    const { status, cost, attempt } = change;
    const now = clock.now();
    if (status === undefined && cost === undefined && attempt === undefined) {
      return database.run(STEP, to, now, thread, from, epoch, now) === 1;
    }
    const ends = status === undefined ? null : isEnded(status) ? 1 : 0;
    const spent = cost === undefined ? null : JSON.stringify(cost);
    // biome-ignore format: in the order of the statement
    return database.run(
      STEP_AND_CHANGE, to, now, status ?? null, spent, attempt ?? null, ends, now,
      thread, from, epoch, now,
    ) === 1;
  }

  function settleAll(list: NonNullable<Change['settle']>): Outcome<null> {
    for (const { key, actual } of list) {
      const settled = budgets.charge(key, actual);
      if (!settled.ok) return settled;
    }
    return ok(null);
  }

  return {
    append(thread, expectedSeq, epoch, events, change = {}) {
      const seq = expectedSeq + events.length;
      return database.write(() => {
        const first = change.first?.();
        if (first && !first.ok) return first;
        if (!step(thread, expectedSeq, seq, epoch, change)) {
          return whyNot(thread, expectedSeq, epoch);
        }
        const written = log.events(thread, expectedSeq, events);
        if (!written.ok) return written;
        if (change.status !== undefined) log.status(thread, seq, change.status);
        if (change.result !== undefined) {
          const text = JSON.stringify(change.result);
          database.run('UPDATE thread_data SET result = ? WHERE thread = ?', text, thread);
        }
        const settled = settleAll(change.settle ?? []);
        return settled.ok ? ok({ seq }) : settled;
      });
    },
    read: (thread, after = 0, limit = MAX_READ) =>
      database.read(() =>
        ok(
          database
            .all(
              `SELECT ${COLUMNS} FROM thread_events WHERE thread = ? AND seq > ? AND data IS NOT NULL ORDER BY seq LIMIT ?`,
              thread,
              after,
              Math.min(limit, MAX_READ),
            )
            .map(toEvent),
        ),
      ),
    readLast: (thread, count) =>
      database.read(() => {
        const sql = `SELECT ${COLUMNS} FROM thread_events WHERE thread = ? AND data IS NOT NULL ORDER BY seq DESC LIMIT ?`;
        return ok(database.all(sql, thread, Math.min(count, MAX_READ)).map(toEvent).reverse());
      }),
    openCalls: (thread) =>
      database.read(() => {
        const sql = `SELECT ${COLUMNS} FROM thread_events WHERE thread = ?1 AND type = 'intent' AND
          seq IN (SELECT intent FROM calls WHERE thread = ?1 AND result IS NULL) ORDER BY seq`;
        return ok(database.all(sql, thread).map(toEvent));
      }),
  };
}

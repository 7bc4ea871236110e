// Who may act for a thread. A lease has a deadline and an epoch; every claim raises the epoch, so
// what an earlier holder still tries is refused.
import { type Clock, fail, type Outcome, ok } from '../../base/index.ts';
import type { Database, Row } from '../database/database.ts';
import type { EventLog } from '../database/event-log.ts';
import { AT_WORK, isEnded, noThread, THREAD_STATUSES, type ThreadStatus } from '../thread-id.ts';

export interface Lease {
  thread: string;
  epoch: number;
  /** Milliseconds since 1970. */
  until: number;
  seq: number;
}

export interface Pulse {
  /** As `isHeld` answers. */
  held: boolean;
  /** True in doubt: whoever reads the signals finds out. */
  called: boolean;
}

export interface Leases {
  /** A thread was created with a lease of ours. */
  born(thread: string, ttlMs: number): void;
  /**
   * `lease_held` while another owner's lease runs, unless that owner is certainly gone or `force`
   * (to kill what does not answer); `thread_ended` when there is nothing left to do, unless
   * `reopen` (to go back to a snapshot of it).
   */
  claim(
    thread: string,
    owner: string,
    ttlMs: number,
    options?: { force?: boolean; reopen?: boolean },
  ): Outcome<Lease>;
  /** Also after the deadline, as long as nobody else has claimed: `stale_epoch` else. */
  renew(thread: string, epoch: number, ttlMs: number): Outcome<Lease>;
  /** Gives the thread free; a stale epoch gives nothing free and is no error. */
  release(thread: string, epoch: number): Outcome<null>;
  /** To be asked just before every effect. False in doubt, also when the registry cannot be read. */
  isHeld(thread: string, epoch: number): boolean;
  /** The same, and with one question more: was anything said to the thread after this signal? */
  pulse(thread: string, epoch: number, lastSignal: number): Pulse;
  /** Threads at work whose lease ended or whose holder is gone become `interrupted`. */
  interruptExpired(): Outcome<string[]>;
  /** Threads that ended, whose holder was lost before it gave them free: what it left to do is open. */
  unreleased(): Outcome<Pick<Lease, 'thread' | 'epoch' | 'seq'>[]>;
}

/** The longest lease. A deadline further away was set before the clock was put back: it holds nothing. */
export const MAX_LEASE_MS = 600_000;
/** A thread that was made but never claimed was dropped by a crash, after this time. */
const UNCLAIMED_MS = 60_000;

const LOOK = `SELECT epoch, lease_until,
  (SELECT max(id) FROM signals WHERE thread = threads.id) AS said FROM threads WHERE id = ?`;

const ENDED = THREAD_STATUSES.filter(isEnded)
  .map((status) => `'${status}'`)
  .join(', ');
const UNRELEASED = `SELECT id, epoch, seq, owner, lease_until FROM threads
  WHERE owner IS NOT NULL AND status IN (${ENDED})`;
const PLACES = AT_WORK.map(() => '?').join(', ');
const OWNERS = `SELECT DISTINCT owner FROM threads WHERE status IN (${PLACES}) AND owner IS NOT NULL`;
const EXPIRED = `SELECT id, seq FROM threads WHERE status IN (${PLACES}) AND
  (lease_until <= ? OR lease_until > ? OR (lease_until IS NULL AND updated <= ?)
    OR owner IN (SELECT value FROM json_each(?)))`;

export function createLeases(
  database: Database,
  clock: Clock,
  log: EventLog,
  isGone: (owner: string) => boolean,
): Leases {
  /** Deadlines of our own leases by the clock that cannot be set back. */
  const deadlines = new Map<string, { epoch: number; deadline: number }>();

  const untilOf = (now: number, ttlMs: number): number => now + Math.min(ttlMs, MAX_LEASE_MS);
  function keep(thread: string, epoch: number, ttlMs: number): void {
    deadlines.set(thread, { epoch, deadline: untilOf(clock.monotonic(), ttlMs) });
  }

  function pulse(thread: string, epoch: number, lastSignal: number): Pulse {
    const found = database.read(() => ok(database.get(LOOK, thread)));
    if (!found.ok || !found.output) return { held: false, called: true };
    const { epoch: current, lease_until: until, said } = found.output;
    // INVARIANT: both clocks must agree. The wall clock is what other processes go by; the other
    // one still counts when somebody sets the wall clock back.
    const own = deadlines.get(thread);
    const isOver = own && (own.epoch !== epoch || own.deadline <= clock.monotonic());
    const held = !isOver && current === epoch && Number(until ?? 0) > clock.now();
    return { held, called: Number(said ?? 0) > lastSignal };
  }

  return {
    born: (thread, ttlMs) => keep(thread, 1, ttlMs),
    claim(thread, owner, ttlMs, { force = false, reopen = false } = {}) {
      const claimed = database.write((): Outcome<Lease> => {
        const row = database.get(
          'SELECT status, seq, epoch, owner, lease_until FROM threads WHERE id = ?',
          thread,
        );
        if (!row) return noThread(thread);
        const now = clock.now();
        const [held, until] = [row['owner'] as string | null, Number(row['lease_until'] ?? 0)];
        if (!reopen && isEnded(row['status'] as ThreadStatus)) {
          const message = `thread \`${thread}\` has ended: ${row['status'] as string}`;
          return fail('thread_ended', message, { thread, status: row['status'] as string });
        }
        if (
          !force &&
          held !== null &&
          held !== owner &&
          until > now &&
          until <= now + MAX_LEASE_MS &&
          !isGone(held)
        ) {
          const message = `thread \`${thread}\` is held by \`${held}\``;
          return fail('lease_held', message, { thread, owner: held, until });
        }
        const [epoch, end] = [(row['epoch'] as number) + 1, untilOf(now, ttlMs)];
        const sql = 'UPDATE threads SET epoch = ?, owner = ?, lease_until = ? WHERE id = ?';
        database.run(sql, epoch, owner, end, thread);
        return ok({ thread, epoch, until: end, seq: row['seq'] as number });
      });
      if (claimed.ok) keep(thread, claimed.output.epoch, ttlMs);
      return claimed;
    },
    renew(thread, epoch, ttlMs) {
      const renewed = database.write((): Outcome<Lease> => {
        const until = untilOf(clock.now(), ttlMs);
        const row = database.get('SELECT seq, epoch FROM threads WHERE id = ?', thread);
        if (!row) return noThread(thread);
        if (row['epoch'] !== epoch) {
          return fail('stale_epoch', `thread \`${thread}\` is held by somebody else now`, {
            thread,
            epoch: row['epoch'] as number,
          });
        }
        database.run('UPDATE threads SET lease_until = ? WHERE id = ?', until, thread);
        return ok({ thread, epoch, until, seq: row['seq'] as number });
      });
      if (renewed.ok) keep(thread, epoch, ttlMs);
      else deadlines.delete(thread);
      return renewed;
    },
    release(thread, epoch) {
      deadlines.delete(thread);
      return database.write(() => {
        const sql =
          'UPDATE threads SET owner = NULL, lease_until = NULL WHERE id = ? AND epoch = ?';
        database.run(sql, thread, epoch);
        return ok(null);
      });
    },
    isHeld: (thread, epoch) => pulse(thread, epoch, 0).held,
    pulse,
    unreleased: () =>
      database.read(() => {
        const isLost = ({ owner, lease_until }: Row): boolean =>
          Number(lease_until ?? 0) <= clock.now() || isGone(owner as string);
        const lost = database.all(UNRELEASED).filter(isLost);
        return ok(
          lost.map(({ id, epoch, seq }) => ({
            thread: id as string,
            epoch: epoch as number,
            seq: seq as number,
          })),
        );
      }),
    interruptExpired() {
      const now = clock.now();
      const times = [now, now + MAX_LEASE_MS, now - UNCLAIMED_MS];
      const found = database.read(() => {
        const gone = database
          .all(OWNERS, ...AT_WORK)
          .map(({ owner }) => owner as string)
          .filter((owner) => isGone(owner));
        const isAny = database.get(EXPIRED, ...AT_WORK, ...times, JSON.stringify(gone));
        return ok({ gone, isAny: isAny !== undefined });
      });
      if (!found.ok) return found;
      const { gone, isAny } = found.output;
      if (!isAny) return ok([]);
      return database.write(() => {
        const expired = database.all(EXPIRED, ...AT_WORK, ...times, JSON.stringify(gone));
        for (const row of expired) {
          const sql = `UPDATE threads SET status = 'interrupted', epoch = epoch + 1, owner = NULL,
            lease_until = NULL, updated = ? WHERE id = ?`;
          database.run(sql, now, row['id'] as string);
          log.status(row['id'] as string, row['seq'] as number, 'interrupted');
        }
        return ok(expired.map((row) => row['id'] as string));
      });
    },
  };
}

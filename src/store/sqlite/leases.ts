// Who may act for a thread. A lease has a deadline and an epoch; every claim raises the epoch, so
// what an earlier holder still tries is refused. A lease whose process is certainly gone is over.
import { type Clock, fail, type Outcome, ok } from '../../base/index.ts';
import type { Held, Lease, Owner, Renewed, Wanted } from '../port.ts';
import { AT_WORK, isEnded, noThread, type ThreadStatus } from '../thread-id.ts';
import type { Feed } from './feed.ts';
import { ENDED } from './fence.ts';
import { byLength, type Connection } from './file/connection.ts';
import type { Effects } from './file/group.ts';
import type { HeldThreads } from './held.ts';
import type { SignalRows } from './signals.ts';
import { MAX_LEASE_MS, type ThreadRows } from './threads.ts';

export interface LeaseParts {
  connection: Connection;
  clock: Clock;
  held: HeldThreads;
  threads: ThreadRows;
  signals: SignalRows;
  feed: Pick<Feed, 'moved' | 'queued'>;
  isGone: (owner: string) => boolean;
}

interface Abandoned {
  id: string;
  seq: number;
  status: ThreadStatus;
}

export interface LeaseRows {
  claim(
    thread: string,
    owner: Owner,
    how: { force?: true; reopen?: true },
    effects: Effects,
  ): Outcome<Held>;
  /** Is anything there to be taken? And if not, when the next one is due. */
  nextQueued(projects: readonly string[]): { due: boolean; at: number | undefined };
  take(owner: Owner, wanted: Wanted, effects: Effects): Outcome<Held[]>;
  renew(leases: readonly Lease[], ttlMs: number, effects: Effects): Outcome<Renewed[]>;
  release(lease: Lease, again: boolean, effects: Effects): Outcome<null>;
  /** What a sweep would change now. */
  abandoned(): Abandoned[];
  interrupt(effects: Effects): Outcome<string[]>;
  /** Threads that ended, whose holder was lost before it let them go. */
  unreleased(): (Lease & { seq: number })[];
}

/** A thread that was let go while at work, or made and never claimed, was dropped by a crash. */
const UNCLAIMED_MS = 60_000;

const CLAIM = `UPDATE threads SET epoch = epoch + 1, owner = ?, lease_until = ?, queued = NULL WHERE id = ?`;
const RENEW = `UPDATE threads SET lease_until = ?1 WHERE owner IS NOT NULL AND (id, epoch) IN
  (SELECT value ->> 0, value ->> 1 FROM json_each(?2)) RETURNING id, epoch, wakes`;
// What was let go with an unheard signal is queued, as by a commit.
const RELEASE = `UPDATE threads SET owner = NULL, lease_until = NULL, queued = CASE
    WHEN status IN (${ENDED}) THEN NULL WHEN ?1 OR wakes > heard THEN ?2 END
  WHERE id = ?3 AND epoch = ?4 AND owner IS NOT NULL RETURNING queued`;
const takeable = byLength(
  (places) => `FROM threads WHERE queued IS NOT NULL AND owner IS NULL AND project IN (${places})`,
);
const OWNERS = `SELECT DISTINCT owner FROM threads WHERE owner IS NOT NULL AND status NOT IN (${ENDED})`;
const WORK = AT_WORK.map((status) => `'${status}'`).join(', ');
const ABANDONED = `SELECT id, seq, status FROM threads WHERE status NOT IN (${ENDED}) AND (
  (owner IS NOT NULL AND (lease_until <= ?1 OR lease_until > ?2 OR owner IN (SELECT value FROM json_each(?4))))
  OR (owner IS NULL AND queued IS NULL AND status IN (${WORK}) AND updated <= ?3))`;
const INTERRUPT = `UPDATE threads SET status = 'interrupted', seq = seq + 1, epoch = epoch + 1, owner = NULL,
  lease_until = NULL, queued = ?1, updated = ?1 WHERE id = ?2`;
const LET_GO = `UPDATE threads SET epoch = epoch + 1, owner = NULL, lease_until = NULL, queued = ?1 WHERE id = ?2`;
const UNRELEASED = `SELECT id AS thread, epoch, seq, owner, lease_until FROM threads
  WHERE owner IS NOT NULL AND status IN (${ENDED})`;
const INTERRUPTED = JSON.stringify({ status: 'interrupted', reason: 'its process is gone' });

interface Unreleased extends Lease {
  seq: number;
  owner: string;
  lease_until: number | null;
}

interface Claimable {
  status: ThreadStatus;
  owner: string | null;
  lease_until: number | null;
}

/** May this owner have a thread that is in this state? */
function checkClaim(
  { clock, isGone }: LeaseParts,
  thread: string,
  row: Claimable,
  owner: string,
  how: { force?: true; reopen?: true },
): Outcome<null> {
  const { status, owner: holder, lease_until } = row;
  if (!how.reopen && isEnded(status)) {
    return fail('thread_ended', `thread \`${thread}\` has ended: ${status}`, { thread, status });
  }
  const now = clock.now();
  const until = lease_until ?? 0;
  if (how.force || holder === null || holder === owner) return ok(null);
  if (until <= now || until > now + MAX_LEASE_MS || isGone(holder)) return ok(null);
  return fail('lease_held', `thread \`${thread}\` is held by \`${holder}\``, {
    thread,
    owner: holder,
    until,
  });
}

export function createLeaseRows(parts: LeaseParts): LeaseRows {
  const { connection, clock, held, threads, signals, feed, isGone } = parts;
  const untilOf = (ttlMs: number): number => clock.now() + Math.min(ttlMs, MAX_LEASE_MS);

  function hold(thread: string, owner: Owner, effects: Effects): Outcome<Held> {
    connection.run(CLAIM, owner.owner, untilOf(owner.ttlMs), thread);
    return threads.hold(thread, clock.now(), effects);
  }

  function abandoned(): Abandoned[] {
    const now = clock.now();
    const gone = connection
      .all<{ owner: string }>(OWNERS)
      .map(({ owner }) => owner)
      .filter((owner) => isGone(owner));
    const times = [now, now + MAX_LEASE_MS, now - UNCLAIMED_MS];
    return connection.all<Abandoned>(ABANDONED, ...times, JSON.stringify(gone));
  }

  /** At work: interrupted. Else (claimed and not begun): free again, as it was. */
  function letGo({ id: thread, seq, status }: Abandoned, effects: Effects): string[] {
    const now = clock.now();
    effects.after(() => feed.queued());
    if (!AT_WORK.includes(status)) {
      connection.run(LET_GO, now, thread);
      return [];
    }
    connection.run(INTERRUPT, now, thread);
    const event = { type: 'status', turn: 0, ts: now, text: INTERRUPTED };
    threads.events(thread, seq, [event], now);
    effects.after(() => feed.moved([{ thread, seq: seq + 1, status: 'interrupted' }]));
    return [thread];
  }

  return {
    abandoned,
    claim(thread, owner, how, effects) {
      const sql = 'SELECT status, owner, lease_until FROM threads WHERE id = ?';
      const row = connection.get<Claimable>(sql, thread);
      if (!row) return noThread(thread);
      const free = checkClaim(parts, thread, row, owner.owner, how);
      return free.ok ? hold(thread, owner, effects) : free;
    },
    nextQueued(projects) {
      const sql = `SELECT min(queued) AS at ${takeable(projects.length)}`;
      const at = connection.get<{ at: number | null }>(sql, ...projects)?.at ?? undefined;
      return { due: at !== undefined && at <= clock.now(), at };
    },
    take(owner, { count, projects }, effects) {
      const sql = `SELECT id ${takeable(projects.length)} AND queued <= ? ORDER BY priority DESC, queued, id LIMIT ?`;
      const taken: Held[] = [];
      for (const { id } of connection.all<{ id: string }>(sql, ...projects, clock.now(), count)) {
        const got = hold(id, owner, effects);
        if (got.ok) taken.push(got.output);
      }
      return ok(taken);
    },
    renew(leases, ttlMs, effects) {
      const wanted = JSON.stringify(leases.map(({ thread, epoch }) => [thread, epoch]));
      const until = untilOf(ttlMs);
      const rows = connection.all<{ id: string; epoch: number; wakes: number }>(
        RENEW,
        until,
        wanted,
      );
      const found = new Map(rows.map((row) => [row.id, row]));
      const renewed: Renewed[] = [];
      for (const { thread, epoch } of leases) {
        const row = found.get(thread);
        const known = held.get(thread);
        if (!row || row.epoch !== epoch) {
          effects.after(() => held.drop(thread, epoch));
          continue;
        }
        const said = known ? signals.untold(thread, known, row.wakes, effects) : [];
        renewed.push({ thread, lease_ms: until - clock.now(), signals: said });
      }
      return ok(renewed);
    },
    release({ thread, epoch }, again, effects) {
      const row = connection.get<{ queued: number | null }>(
        RELEASE,
        again ? 1 : 0,
        clock.now(),
        thread,
        epoch,
      );
      effects.after(() => held.drop(thread, epoch));
      if (row && row.queued !== null) effects.after(() => feed.queued());
      return ok(null);
    },
    interrupt: (effects) => ok(abandoned().flatMap((row) => letGo(row, effects))),
    unreleased() {
      const rows = connection.all<Unreleased>(UNRELEASED);
      return rows
        .filter(({ owner, lease_until }) => (lease_until ?? 0) <= clock.now() || isGone(owner))
        .map(({ thread, epoch, seq }) => ({ thread, epoch, seq }));
    },
  };
}

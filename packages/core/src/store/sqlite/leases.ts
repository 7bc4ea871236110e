// Implements leases of threads. A lease has a deadline and an epoch. Every claim raises the epoch, so a write of an
// earlier owner is refused. A lease ends at once if its process is certainly gone.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { Lease, LeasedThread, Owner, Renewed, Wanted } from '../port.ts';
import { AT_WORK, interruption, isEnded, noThread, type ThreadStatus } from '../thread-id.ts';
import { byLength } from './file/connection.ts';
import { ENDED } from './file/schema.ts';
import { undelivered } from './signals.ts';
import { holdThread, insertEvents, MAX_LEASE_MS, type Registry } from './threads.ts';

interface Abandoned {
  number: number;
  id: string;
  seq: number;
  status: ThreadStatus;
  owner: string | null;
}

type How = { force?: true; reopen?: true };

/** A running thread without a lease, or a new one that was never claimed, is abandoned after this time. */
const UNCLAIMED_MS = 60_000;

const CLAIM = `UPDATE threads SET epoch = epoch + 1, owner = ?, lease_until = ?, queued = NULL WHERE id = ?`;
const RENEW = `UPDATE threads SET lease_until = ?1 WHERE owner IS NOT NULL AND (id, epoch) IN
  (SELECT value ->> 0, value ->> 1 FROM json_each(?2)) RETURNING id, epoch, wakes`;
// A thread that is released with a pending signal is queued, as by a commit. `?1`: time of `again`.
const RELEASE = `UPDATE threads SET owner = NULL, lease_until = NULL, queued = CASE
    WHEN status IN (${ENDED}) THEN NULL WHEN ?1 IS NOT NULL THEN ?1 WHEN wakes > acknowledged THEN ?2 END
  WHERE id = ?3 AND epoch = ?4 AND owner IS NOT NULL RETURNING queued`;
const takeable = byLength(
  (places) =>
    `FROM threads WHERE queued IS NOT NULL AND owner IS NULL AND tenant IS ? AND project IN (${places})`,
);
const OWNERS = `SELECT DISTINCT owner FROM threads WHERE owner IS NOT NULL AND status NOT IN (${ENDED})`;
const WORK = AT_WORK.map((status) => `'${status}'`).join(', ');
const ABANDONED = `SELECT number, id, seq, status, owner FROM threads WHERE status NOT IN (${ENDED}) AND (
  (owner IS NOT NULL AND (lease_until <= ?1 OR lease_until > ?2 OR owner IN (SELECT value FROM json_each(?4))))
  OR (owner IS NULL AND queued IS NULL AND status IN (${WORK}) AND updated <= ?3))`;
const INTERRUPT = `UPDATE threads SET status = 'interrupted', seq = seq + 1, epoch = epoch + 1, owner = NULL,
  lease_until = NULL, queued = ?1, updated = ?1 WHERE id = ?2`;
const ABANDON = `UPDATE threads SET epoch = epoch + 1, owner = NULL, lease_until = NULL, queued = ?1 WHERE id = ?2`;
const UNRELEASED = `SELECT id AS thread, epoch, seq, status, owner, lease_until FROM threads
  WHERE owner IS NOT NULL AND status IN (${ENDED})`;

interface Claimable {
  status: ThreadStatus;
  owner: string | null;
  lease_until: number | null;
}

/** Checks if this owner may claim a thread. Fails with `thread_ended` or `lease_held`. */
function checkClaim(
  { clock, isGone }: Registry,
  thread: string,
  row: Claimable,
  owner: string,
  how: How,
): Outcome<null> {
  const { status, owner: current, lease_until } = row;
  if (!how.reopen && isEnded(status)) {
    return fail('thread_ended', `thread \`${thread}\` has ended: ${status}`, { thread, status });
  }
  const now = clock.now();
  const until = lease_until ?? 0;
  if (how.force || current === null || current === owner) return ok(null);
  if (until <= now || until > now + MAX_LEASE_MS || isGone(current)) return ok(null);
  const message = `thread \`${thread}\` is leased by \`${current}\``;
  return fail('lease_held', message, { thread, owner: current, until });
}

const untilOf = ({ clock }: Registry, ttlMs: number): number =>
  clock.now() + Math.min(ttlMs, MAX_LEASE_MS);

function grantLease(registry: Registry, thread: string, owner: Owner): Outcome<LeasedThread> {
  const until = untilOf(registry, owner.ttlMs);
  registry.connection.run(CLAIM, owner.owner, until, thread);
  return holdThread(registry, thread, registry.clock.now());
}

export function claimThread(
  registry: Registry,
  thread: string,
  owner: Owner,
  how: How,
): Outcome<LeasedThread> {
  const sql = 'SELECT status, owner, lease_until FROM threads WHERE id = ?';
  const row = registry.connection.get<Claimable>(sql, thread);
  if (!row) return noThread(thread);
  const free = checkClaim(registry, thread, row, owner.owner, how);
  return free.ok ? grantLease(registry, thread, owner) : free;
}

/** Returns the time at which the next queued thread is due. Undefined: no thread is queued. */
export function nextQueued({ connection }: Registry, { tenant, projects }: Wanted) {
  const sql = `SELECT min(queued) AS at ${takeable(projects.length)}`;
  return connection.get<{ at: number | null }>(sql, tenant || null, ...projects)?.at ?? undefined;
}

export function takeThreads(
  registry: Registry,
  owner: Owner,
  { count, tenant, projects }: Wanted,
): Outcome<LeasedThread[]> {
  const { connection, clock } = registry;
  const sql = `SELECT id ${takeable(projects.length)} AND queued <= ? ORDER BY priority DESC, queued, id LIMIT ?`;
  const values = [tenant || null, ...projects, clock.now(), count];
  const taken: LeasedThread[] = [];
  for (const { id } of connection.all<{ id: string }>(sql, ...values)) {
    const lease = grantLease(registry, id, owner);
    if (lease.ok) taken.push(lease.output);
  }
  return ok(taken);
}

export function renewLeases(
  registry: Registry,
  leases: readonly Lease[],
  ttlMs: number,
): Outcome<Renewed[]> {
  const { connection, held: cache, clock } = registry;
  const pairs = JSON.stringify(leases.map(({ thread, epoch }) => [thread, epoch]));
  const until = untilOf(registry, ttlMs);
  type Row = { id: string; epoch: number; wakes: number };
  const rows = new Map(connection.all<Row>(RENEW, until, pairs).map((row) => [row.id, row]));
  const renewed: Renewed[] = [];
  for (const { thread, epoch } of leases) {
    const row = rows.get(thread);
    const entry = cache.get(thread);
    if (!row || row.epoch !== epoch) {
      connection.afterCommit(() => cache.drop(thread, epoch));
      continue;
    }
    const signals = entry ? undelivered(registry, thread, entry, row.wakes) : [];
    renewed.push({ thread, lease_ms: until - clock.now(), signals });
  }
  return ok(renewed);
}

export function releaseLease(
  { connection, clock, held: cache, feed }: Registry,
  { thread, epoch }: Lease,
  { again, delayMs = 0 }: { again?: true; delayMs?: number },
): Outcome<null> {
  const now = clock.now();
  const values = [again ? now + delayMs : null, now, thread, epoch];
  const row = connection.get<{ queued: number | null }>(RELEASE, ...values);
  connection.afterCommit(() => cache.drop(thread, epoch));
  if (row && row.queued !== null) connection.afterCommit(() => feed.queued());
  return ok(null);
}

/** Returns the threads that a sweep would change now. */
export function findAbandoned({ connection, clock, isGone }: Registry): Abandoned[] {
  const now = clock.now();
  const gone = connection
    .all<{ owner: string }>(OWNERS)
    .map(({ owner }) => owner)
    .filter((owner) => isGone(owner));
  const times = [now, now + MAX_LEASE_MS, now - UNCLAIMED_MS];
  return connection.all<Abandoned>(ABANDONED, ...times, JSON.stringify(gone));
}

/** Interrupts a running thread. A thread that was claimed and never started is queued again. */
function abandonLease(registry: Registry, lost: Abandoned): string[] {
  const { connection, clock, feed, isGone } = registry;
  const { number, id: thread, seq, status, owner } = lost;
  const now = clock.now();
  connection.afterCommit(() => feed.queued());
  if (!AT_WORK.includes(status)) {
    connection.run(ABANDON, now, thread);
    return [];
  }
  connection.run(INTERRUPT, now, thread);
  const data = owner === null ? interruption(undefined, true) : interruption(owner, isGone(owner));
  const event = { type: 'status', turn: 0, ts: now, text: JSON.stringify(data) };
  insertEvents(connection, number, seq, [event], now);
  connection.afterCommit(() => feed.moved({ thread, seq: seq + 1, status: 'interrupted' }));
  return [thread];
}

export const interruptAbandoned = (registry: Registry): Outcome<string[]> =>
  ok(findAbandoned(registry).flatMap((lost) => abandonLease(registry, lost)));

/** Returns ended threads whose owner was lost before it released them. */
export function findUnreleased({ connection, clock, isGone }: Registry) {
  return connection
    .all<Lease & Claimable & { seq: number; owner: string }>(UNRELEASED)
    .filter(({ owner, lease_until }) => (lease_until ?? 0) <= clock.now() || isGone(owner))
    .map(({ thread, epoch, seq }) => ({ thread, epoch, seq }));
}

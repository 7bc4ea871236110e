// Implements leases of threads on a server. A lease has a deadline on the clock of the server and an epoch. Every
// claim raises the epoch, so the writes of an earlier owner are refused. Jobs only show which threads are queued:
// the row decides who gets the lease.
import { type Failure, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Lease, LeasedThread, Leases, Owner, Renewed, Wanted } from '@kernmantle/core/store';
import { createBell, noThread, type ThreadStatus } from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import type { ListeningFeed } from './feed.ts';
import { type FetchedJob, type JobQueues, queueName } from './jobs.ts';
import type { ServerRegistry } from './registry.ts';
import { signalsOfEach } from './signals.ts';
import { cacheLeases, claimChildren } from './threads.ts';

export interface LeaseParts extends ServerRegistry {
  readonly jobs: JobQueues;
  readonly feed: ListeningFeed;
}

/** Pause before another try if a due thread was locked, and the longest pause without a message. */
const [BUSY_MS, IDLE_MS] = [1000, 5000];
/** Interval in which one process looks for missing jobs. */
const MEND_MS = 60_000;

interface ClaimColumns {
  o_refused: 'not_found' | 'store_newer' | 'thread_ended' | 'lease_held' | null;
  o_status: ThreadStatus;
  o_owner: string | null;
  o_until: number | null;
  o_tenant: string | null;
  o_project: string;
  o_format: number;
  o_dropped: string[];
}

function refusalOf(thread: string, row: ClaimColumns): Failure {
  const { o_status: status, o_owner: owner, o_until: until } = row;
  if (row.o_refused === 'not_found') return noThread(thread);
  if (row.o_refused === 'store_newer') {
    const message = `thread \`${thread}\` was continued by a newer kernmantle (journal ${row.o_format}); update kernmantle`;
    return fail('store_newer', message, { thread, journal: row.o_format });
  }
  if (row.o_refused === 'thread_ended') {
    return fail('thread_ended', `thread \`${thread}\` has ended: ${status}`, { thread, status });
  }
  return fail('lease_held', `thread \`${thread}\` is leased by \`${owner}\``, {
    thread,
    owner,
    until,
  });
}

const CLAIM = 'SELECT * FROM km_claim($1, $2, $3, $4, $5, $6, $7, $8)';

async function claimOnce(
  parts: LeaseParts,
  thread: string,
  { owner, ttlMs }: Owner,
  how: { force?: true; reopen?: true },
  gone: readonly string[],
): Promise<Outcome<LeasedThread>> {
  const { database, jobs, clock, maxLeaseMs, formats } = parts;
  const sentAt = clock.monotonic();
  const [force, reopen] = [how.force === true, how.reopen === true];
  const answer = await database.write(
    async (sql) => {
      const values = [thread, owner, ttlMs, maxLeaseMs, force, reopen, gone, formats.at(-1)];
      const row = await sql.get<ClaimColumns>(CLAIM, ...values);
      if (!row || row.o_refused !== null) {
        throw new RefusedWrite(row ? refusalOf(thread, row) : noThread(thread));
      }
      const name = queueName(row.o_format, row.o_tenant ?? undefined, row.o_project);
      await jobs.drop(sql, name, row.o_dropped);
      return claimChildren(sql, [thread]);
    },
    { lane: thread },
  );
  if (!answer.ok) return answer;
  cacheLeases(parts, answer.output, sentAt);
  const [lease] = answer.output.all;
  return lease ? ok(lease) : noThread(thread);
}

async function claim(
  parts: LeaseParts,
  thread: string,
  owner: Owner,
  how: { force?: true; reopen?: true },
): Promise<Outcome<LeasedThread>> {
  const claimed = await claimOnce(parts, thread, owner, how, []);
  if (claimed.ok || claimed.error.code !== 'lease_held') return claimed;
  const { owner: current } = claimed.error.detail;
  const isFree = typeof current === 'string' && parts.isGone(current);
  return isFree ? claimOnce(parts, thread, owner, how, [current]) : claimed;
}

const DUE = `SELECT p.project, f.format, (SELECT t.queued FROM threads t WHERE t.project = p.project
    AND coalesce(t.tenant, '') = $2 AND t.format = f.format AND t.queued IS NOT NULL
    ORDER BY t.queued LIMIT 1) - km_now() AS wait
  FROM unnest($1::text[]) AS p(project), unnest($3::int[]) AS f(format)`;

interface Due {
  project: string;
  format: number;
  wait: number | null;
}

interface TakeColumns {
  o_thread: string;
  o_job: string;
  o_verdict: 'taken' | 'drop' | 'back';
  o_at: number | null;
  o_priority: number | null;
}

/** Queue of one journal format. */
type Queue = Readonly<{ name: string; format: number }>;
type Fetched = FetchedJob & { readonly queue: Queue };

/** Fetches an equal share from each queue. The unused share of a queue goes to the next one. */
async function fetchFairly(
  jobs: JobQueues,
  sql: Sql,
  queues: readonly Queue[],
  count: number,
): Promise<Fetched[]> {
  const fetched: Fetched[] = [];
  let open = [...queues];
  while (open.length > 0 && fetched.length < count) {
    const more: Queue[] = [];
    for (const [at, queue] of open.entries()) {
      const share = Math.ceil((count - fetched.length) / (open.length - at));
      if (share === 0) break;
      const jobsOfQueue = await jobs.fetch(sql, queue.name, share);
      fetched.push(...jobsOfQueue.map((job) => ({ ...job, queue })));
      if (jobsOfQueue.length === share) more.push(queue);
    }
    open = more;
  }
  return fetched;
}

const TAKE = 'SELECT * FROM km_take($1, $2, $3, $4, $5)';
const TAKEN = 'SELECT id FROM threads WHERE owner = $1 AND work = ANY ($2)';
/** Maximum number of rounds of one call, because fetched jobs can be superfluous or locked. */
const ROUNDS = 20;

interface Taking {
  readonly taken: { readonly thread: string; readonly job: string }[];
  /** Jobs that are put back into their queue. */
  readonly back: (Fetched & { priority: number; at: number | undefined })[];
  dropped: number;
}

async function takeOnce(
  { jobs, maxLeaseMs, formats }: LeaseParts,
  sql: Sql,
  { owner, ttlMs }: Owner,
  fetched: readonly Fetched[],
): Promise<Taking> {
  const state: Taking = { taken: [], back: [], dropped: 0 };
  if (fetched.length === 0) return state;
  const [threads, ids] = [fetched.map(({ thread }) => thread), fetched.map(({ id }) => id)];
  const [ttl, format] = [Math.min(ttlMs, maxLeaseMs), formats.at(-1)];
  const of = new Map(fetched.map((job) => [job.id, job]));
  for (const row of await sql.all<TakeColumns>(TAKE, threads, ids, owner, ttl, format)) {
    const { o_thread: thread, o_job, o_verdict, o_at } = row;
    const job = of.get(o_job);
    if (!job) continue;
    if (o_verdict === 'taken') {
      state.taken.push({ thread, job: o_job });
      // The next job of the thread is in the queue of our format.
      if (job.queue.format !== format) await jobs.drop(sql, job.queue.name, [job.id]);
    } else if (o_verdict === 'back') {
      state.back.push({ ...job, priority: row.o_priority ?? 0, at: o_at ?? undefined });
    } else {
      state.dropped += 1;
      await jobs.drop(sql, job.queue.name, [job.id]);
    }
  }
  return state;
}

/** Claims due threads. Jobs and rows change in one transaction, so a process that dies in it claims no thread. */
async function takeDue(
  parts: LeaseParts,
  owner: Owner,
  queues: readonly Queue[],
  count: number,
): Promise<Outcome<LeasedThread[]>> {
  const { database, jobs, clock } = parts;
  const sentAt = clock.monotonic();
  let mine: { thread: string; job: string }[] = [];
  const taken = await database.write(
    async (sql) => {
      const back: Taking['back'] = [];
      mine = [];
      for (let round = 0; round < ROUNDS; round++) {
        const fetched = await fetchFairly(jobs, sql, queues, count - mine.length);
        const round = await takeOnce(parts, sql, owner, fetched);
        mine.push(...round.taken);
        back.push(...round.back);
        if (round.dropped + round.back.length === 0 || mine.length === count) break;
      }
      for (const job of back) await jobs.putBack(sql, job.queue.name, job);
      return claimChildren(
        sql,
        mine.map(({ thread }) => thread),
      );
    },
    {
      written: async (sql) => {
        const ids = mine.map(({ job }) => job);
        const rows = await sql.all<{ id: string }>(TAKEN, owner.owner, ids);
        const threads = rows.map(({ id }) => id);
        return threads.length === 0 ? undefined : claimChildren(sql, threads);
      },
    },
  );
  if (!taken.ok) return taken;
  cacheLeases(parts, taken.output, sentAt);
  return ok([...taken.output.all]);
}

/** Rotates a list, so that the first entry is the last one next time. */
function createTurns() {
  let turn = 0;
  return <T>(all: readonly T[]): T[] => {
    const at = all.length === 0 ? 0 : turn++ % all.length;
    return [...all.slice(at), ...all.slice(0, at)];
  };
}

function createTaking(parts: LeaseParts) {
  const inTurn = createTurns();

  /** Tries once. `wait`: time until a thread can be due. */
  async function tryTo(
    owner: Owner,
    { count, projects }: Wanted,
    tenant: string | undefined,
  ): Promise<Outcome<{ held: LeasedThread[]; wait: number }>> {
    const due = await parts.database.read((sql) =>
      sql.all<Due>(DUE, projects, tenant ?? '', parts.formats),
    );
    if (!due.ok) return due;
    const waits = due.output.flatMap(({ wait }) => (wait === null ? [] : [wait]));
    const next = Math.min(IDLE_MS, ...waits.filter((wait) => wait > 0));
    const queues = due.output
      .filter(({ wait }) => wait !== null && wait <= 0)
      .map(({ project, format }) => ({ name: queueName(format, tenant, project), format }));
    if (queues.length === 0) return ok({ held: [], wait: next });
    const leases = await takeDue(parts, owner, inTurn(queues), count);
    return leases.ok ? ok({ held: leases.output, wait: Math.min(next, BUSY_MS) }) : leases;
  }

  return async (owner: Owner, wanted: Wanted): Promise<Outcome<LeasedThread[]>> => {
    const { count, projects, waitMs = 0 } = wanted;
    const tenant = wanted.tenant === '' ? undefined : wanted.tenant;
    if (projects.length === 0 || count < 1) return ok([]);
    if (waitMs === 0) {
      const result = await tryTo(owner, wanted, tenant);
      return result.ok ? ok(result.output.held) : result;
    }
    const bell = createBell(parts.feed, AbortSignal.timeout(waitMs));
    const off = parts.feed.onQueue((project, whose) => {
      if (project === undefined || (whose === tenant && projects.includes(project))) bell.ring();
    });
    let again: NodeJS.Timeout | undefined;
    try {
      while (await bell.rings()) {
        const result = await tryTo(owner, wanted, tenant);
        if (!result.ok) return bell.isOver() ? ok([]) : result;
        if (result.output.held.length > 0) return ok(result.output.held);
        clearTimeout(again);
        again = setTimeout(bell.ring, Math.max(1, result.output.wait));
      }
      return ok([]);
    } finally {
      clearTimeout(again);
      off();
      bell.remove();
    }
  };
}

const RENEW = 'SELECT * FROM km_renew($1, $2, $3)';

interface RenewColumns {
  o_thread: string;
  o_wakes: number;
  o_tenant: string | null;
  o_project: string;
  o_work: string | null;
}

async function renew(
  { database, clock, held: cache, jobs, maxLeaseMs, formats }: LeaseParts,
  leases: readonly Lease[],
  ttlMs: number,
): Promise<Outcome<Renewed[]>> {
  if (leases.length === 0) return ok([]);
  const [sentAt, ttl] = [clock.monotonic(), Math.min(ttlMs, maxLeaseMs)];
  const [ids, epochs] = [leases.map(({ thread }) => thread), leases.map(({ epoch }) => epoch)];
  const answer = await database.write(
    async (sql) => {
      const rows = await sql.all<RenewColumns>(RENEW, ids, epochs, ttl);
      const called = rows.flatMap(({ o_thread, o_wakes }) => {
        const last = cache.get(o_thread)?.delivered ?? o_wakes;
        return o_wakes > last ? [[o_thread, last] as const] : [];
      });
      return { rows, signals: await signalsOfEach(sql, called) };
    },
    { plain: true },
  );
  if (!answer.ok) return answer;
  const { rows, signals } = answer.output;
  const live = new Map(rows.map((row) => [row.o_thread, row]));
  const working = new Map<string, string[]>();
  for (const { o_tenant, o_project, o_work } of rows) {
    if (o_work === null) continue;
    // A leased thread has our format.
    const name = queueName(formats.at(-1) ?? 0, o_tenant ?? undefined, o_project);
    working.set(name, [...(working.get(name) ?? []), o_work]);
  }
  // The lease alone decides, so this does not wait for the queue.
  void jobs.touch(working).catch(() => {});
  const renewed: Renewed[] = [];
  for (const { thread, epoch } of leases) {
    if (!live.has(thread)) {
      cache.drop(thread, epoch);
      continue;
    }
    cache.renew(thread, epoch, sentAt + ttl);
    const fresh = cache.tell(thread, epoch, signals.get(thread) ?? []);
    renewed.push({ thread, lease_ms: ttl, signals: fresh });
  }
  return ok(renewed);
}

async function release(
  { database, held: cache, jobs }: LeaseParts,
  { thread, epoch }: Lease,
  { again, delayMs = 0 }: { again?: true; delayMs?: number },
): Promise<Outcome<null>> {
  const answer = await database.write(
    async (sql) => {
      const values = [thread, epoch, again === true, delayMs];
      const row = await sql.get<{ was: boolean }>(
        'SELECT km_release($1, $2, $3, $4) AS was',
        ...values,
      );
      if (row?.was) await jobs.follow(sql, [thread]);
      return null;
    },
    { lane: thread },
  );
  cache.drop(thread, epoch);
  return answer;
}

const OWNERS = 'SELECT DISTINCT owner FROM threads WHERE owner IS NOT NULL';
const LOST = 'SELECT * FROM km_lost($1, $2)';
const SWEEP = 'SELECT * FROM km_sweep($1, $2, $3, $4)';

interface LostColumns {
  o_thread: string;
  o_epoch: number;
  o_seq: number;
  o_ended: boolean;
}

async function findLost({ isGone, maxLeaseMs }: LeaseParts, sql: Sql) {
  const owners = await sql.all<{ owner: string }>(OWNERS);
  const gone = owners.map(({ owner }) => owner).filter((owner) => isGone(owner));
  return { gone, found: await sql.all<LostColumns>(LOST, maxLeaseMs, gone) };
}

const MENDER = `INSERT INTO about (name, value) VALUES ('mended', km_now()::text)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value
    WHERE about.value::bigint <= excluded.value::bigint - ${MEND_MS} RETURNING value`;
const QUEUES = 'SELECT DISTINCT format, project, tenant FROM threads WHERE queued IS NOT NULL';
const unmadeOf = (table: string): string => `UPDATE threads SET job = NULL WHERE id IN (
    SELECT t.id FROM threads t WHERE t.queued IS NOT NULL AND t.owner IS NULL AND t.project = $1
      AND coalesce(t.tenant, '') = $2 AND t.format = $4 AND NOT EXISTS (SELECT 1 FROM ${table} j
        WHERE j.name = $3 AND j.id = t.job AND j.state < 'active')
      ORDER BY t.id LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING id`;

/** Creates the jobs of queued threads that have none. */
async function mendJobs({ database, jobs }: LeaseParts): Promise<void> {
  const mine = await database.write((sql) => sql.get(MENDER));
  if (!mine.ok || !mine.output) return;
  await jobs.supervise();
  const queues = await database.read((sql) =>
    sql.all<{ format: number; project: string; tenant: string | null }>(QUEUES),
  );
  for (const { format, project, tenant } of queues.ok ? queues.output : []) {
    const name = queueName(format, tenant ?? undefined, project);
    const values = [project, tenant ?? '', name, format];
    await database.write(async (sql) => {
      const rows = await sql.all<{ id: string }>(unmadeOf(jobs.table), ...values);
      const ids = rows.map(({ id }) => id);
      if (ids.length > 0) await jobs.follow(sql, ids);
    });
  }
}

/** Repairs jobs in a process that sweeps regularly. The first sweep of a process repairs nothing. */
function createMending(parts: LeaseParts) {
  let next: number | undefined;
  return async (): Promise<void> => {
    const now = parts.clock.monotonic();
    const isDue = next !== undefined && now >= next;
    next = isDue ? now + MEND_MS : (next ?? now);
    // After a failure, the next sweep tries again.
    if (isDue) await mendJobs(parts).catch(() => {});
  };
}

async function sweep(parts: LeaseParts): ReturnType<Leases['sweep']> {
  const { database, jobs, feed, maxLeaseMs } = parts;
  // Most sweeps find no lost thread, so they need no write.
  const check = await database.read((sql) => findLost(parts, sql));
  if (!check.ok) return check;
  const { found, gone } = check.output;
  const lost = found.filter(({ o_ended }) => !o_ended);
  const [ids, epochs] = [lost.map((row) => row.o_thread), lost.map((row) => row.o_epoch)];
  type Swept = { o_thread: string; o_seq: number; o_interrupted: boolean };
  const swept = await (lost.length === 0
    ? ok([])
    : database.write(async (sql) => {
        const rows = await sql.all<Swept>(SWEEP, ids, epochs, maxLeaseMs, gone);
        await jobs.follow(
          sql,
          rows.map(({ o_thread }) => o_thread),
        );
        return rows;
      }));
  if (!swept.ok) return swept;
  const interrupted: string[] = [];
  for (const { o_thread: thread, o_seq: seq, o_interrupted } of swept.output) {
    if (!o_interrupted) continue;
    interrupted.push(thread);
    feed.moved({ thread, seq, status: 'interrupted' });
  }
  const unreleased = found
    .filter(({ o_ended }) => o_ended)
    .map(({ o_thread, o_epoch, o_seq }) => ({ thread: o_thread, epoch: o_epoch, seq: o_seq }));
  return ok({ interrupted, unreleased });
}

export function serverLeases(parts: LeaseParts): Leases {
  const take = createTaking(parts);
  const mend = createMending(parts);
  return {
    claim: (thread, owner, how = {}) => claim(parts, thread, owner, how),
    take,
    renew: (leases, ttlMs) => renew(parts, leases, ttlMs),
    release: (lease, how = {}) => release(parts, lease, how),
    async sweep() {
      const swept = await sweep(parts);
      if (swept.ok) await mend();
      return swept;
    },
  };
}

// Prepares a restored registry, whose threads continued after the backup. Every earlier lease becomes too old to
// write. Running threads are interrupted, so a call without a result has an unknown outcome and is not repeated.
// Earlier workers are removed.
import { fail, ok } from '@kernmantle/core/base';
import type { RestoredStore } from '@kernmantle/core/runtime';
import type { Answer } from '@kernmantle/core/store';
import { GONE_MS } from '@kernmantle/core/store';
import { type Database, openDatabase, type Sql, sqlOf } from './connection.ts';
import { RefusedWrite, troubleOf } from './errors.ts';
import { createJobs, type JobQueues } from './jobs.ts';
import { checkForm, type OwnedDatabase } from './migrate.ts';

/** Added to epochs and versions. It is more than the claims of any thread since the backup. */
const RAISED_BY = 1_000_000;
const BATCH = 1000;

const ALIVE = `SELECT count(*) AS count FROM workers WHERE heartbeat > km_now() - ${GONE_MS}`;
const LOST = `SELECT id, epoch FROM threads WHERE NOT km_ended(status)
  AND (owner IS NOT NULL OR (queued IS NULL AND km_at_work(status))) ORDER BY id`;
// Every lease ends now.
const SWEEP = `SELECT count(*) FILTER (WHERE o_interrupted) AS count FROM km_sweep($1, $2, 0, '{}')`;
// A thread that ended and was not released is unchanged, because the process that sweeps writes its transcript.
const RAISE = `UPDATE threads SET epoch = epoch + ${RAISED_BY}, job = NULL, work = NULL,
  lease_until = CASE WHEN owner IS NOT NULL THEN 0 END`;
// Versions after the backup are used again with other content, so they must differ from those in a cache.
const RAISE_ACCOUNTS = `UPDATE budgets SET version = version + ${RAISED_BY}`;
const COUNT = `SELECT count(*) AS threads, coalesce(max(updated), 0) AS until FROM threads`;
const QUEUED = `SELECT id FROM threads WHERE queued IS NOT NULL AND job IS NULL ORDER BY id LIMIT ${BATCH}`;

interface Counted {
  count: number;
}

async function setBack(sql: Sql, jobs: JobQueues): Promise<Omit<RestoredStore, 'queued'>> {
  await sql.executeSql('LOCK TABLE threads IN EXCLUSIVE MODE');
  const alive = await sql.get<Counted>(ALIVE);
  if (alive && alive.count > 0) {
    const message = `${alive.count} workers were alive in the last ${GONE_MS / 1000} seconds; stop all of them, then try again`;
    throw new RefusedWrite(fail('conflict', message, { workers: alive.count }));
  }
  const counts = await sql.get<{ threads: number; until: number }>(COUNT);
  const lost = await sql.all<{ id: string; epoch: number }>(LOST);
  const [ids, epochs] = [lost.map(({ id }) => id), lost.map(({ epoch }) => epoch)];
  const swept = await sql.get<Counted>(SWEEP, ids, epochs);
  await sql.executeSql(RAISE);
  await sql.executeSql(RAISE_ACCOUNTS);
  // The jobs are created again from the rows.
  await sql.executeSql(`DELETE FROM ${jobs.table}`);
  for (const table of ['workers', 'places', 'waiting'])
    await sql.executeSql(`DELETE FROM ${table}`);
  const { threads = 0, until = 0 } = counts ?? {};
  return { threads, until, interrupted: swept?.count ?? 0 };
}

/** Creates the jobs of queued threads. If it is stopped, the sweep of a worker completes it. */
async function makeJobs(database: Database, jobs: JobQueues): Answer<number> {
  for (let total = 0; ; ) {
    const step = await database.write(async (sql) => {
      const ids = (await sql.all<{ id: string }>(QUEUED)).map(({ id }) => id);
      if (ids.length > 0) await jobs.follow(sql, ids);
      return ids.length;
    });
    if (!step.ok) return step;
    total += step.output;
    if (step.output < BATCH) return ok(total);
  }
}

/** Runs once, before any worker uses the restored server. Fails with `conflict` if workers are running. */
export async function setRestored(options: OwnedDatabase): Answer<RestoredStore> {
  const opened = await openDatabase({ ...options, connections: 2 });
  if (!opened.ok) return opened;
  const database = opened.output;
  const jobs = createJobs(options.place);
  let client: Awaited<ReturnType<Database['connect']>> | undefined;
  try {
    const ready = await checkForm(database, options);
    if (!ready.ok) return ready;
    client = await database.connect({ query_timeout: 0 });
    await client.query('BEGIN; SET LOCAL statement_timeout = 0');
    const counts = await setBack(sqlOf(client), jobs);
    await client.query('COMMIT');
    const queued = await makeJobs(database, jobs);
    return queued.ok ? ok({ ...counts, queued: queued.output }) : queued;
  } catch (error) {
    return troubleOf(error, options.shown).failure;
  } finally {
    await client?.end().catch(() => {});
    await jobs.close();
    await database.close();
  }
}

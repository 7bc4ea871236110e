// Implements the queue of a fleet: jobs of pg-boss follow the rows of threads. A queued thread has one job, whose id
// is in its row. INVARIANT: jobs are always created, moved and dropped in the transaction that changes the row, and
// a job never decides: `km_take` claims a thread only if its row allows it. A worker drops a superfluous job that it
// fetches, and the sweep creates a missing one, so pg-boss can lose, repeat and delay jobs. The policy is not
// `stately`, because a thread with two jobs would then make every fetch of its queue return no job.
import type { PgBoss, QueueOptions } from 'pg-boss';
import type { DatabaseAddress, Sql } from './connection.ts';
import { loadDrivers } from './drivers/load.ts';
import { RefusedWrite } from './errors.ts';
import type { Jobs } from './registry.ts';

/** A worker that is silent for this time loses its job. */
const HEARTBEAT_SECONDS = 10;
const QUEUE = {
  policy: 'short',
  heartbeatSeconds: HEARTBEAT_SECONDS,
  retryLimit: 1000,
  expireInSeconds: 86_400,
  // A thread can be queued for years.
  retentionSeconds: 10 * 365 * 86_400,
} as const satisfies QueueOptions & { policy: string };
const SILENT_MS = 6000;

export interface FetchedJob {
  readonly id: string;
  readonly thread: string;
}

interface WaitingJob extends FetchedJob {
  readonly priority: number;
  /** Start time of the job. Undefined: at once. */
  readonly at: number | undefined;
}

interface FollowRow {
  o_thread: string;
  o_tenant: string | null;
  o_project: string;
  o_format: number;
  o_priority: number;
  o_at: number | null;
  o_job: string | null;
  o_made: boolean;
  o_dropped: string[];
}

const plain = (text: string): string =>
  text.replace(/[^A-Za-z0-9_-]/gu, (sign) => `/${Buffer.from(sign).toString('hex')}/`);

/** Returns the name of a queue. Each journal format, tenant and project has its own queue. */
export function queueName(format: number, tenant: string | undefined, project: string): string {
  // The name `-` means no tenant, so a tenant with this name is escaped.
  const whose = tenant === undefined ? '-' : tenant === '-' ? '/2d/' : plain(tenant);
  return `threads.f${format}.${whose}.${plain(project)}`;
}

const schemaOf = ({ schema }: DatabaseAddress): string => `${schema}_jobs`;

/** Starts pg-boss with its own connection, for calls outside our transactions. */
async function createEngine(place: DatabaseAddress, migrate: boolean): Promise<PgBoss> {
  const drivers = await loadDrivers();
  if (!drivers.ok) throw new RefusedWrite(drivers);
  const options = {
    connectionString: place.url,
    application_name: 'kernmantle jobs',
    schema: schemaOf(place),
    max: 1,
    query_timeout: SILENT_MS,
    migrate,
    createSchema: migrate,
    supervise: false,
    schedule: false,
    reindex: false,
    monitorVacuum: false,
    monitorIntervalSeconds: 2,
  };
  const engine = new drivers.output.PgBoss(options);
  // Each call throws its own errors.
  engine.on('error', () => {});
  try {
    await engine.start();
    return engine;
  } catch (error) {
    await engine.stop({ graceful: false }).catch(() => {});
    throw error;
  }
}

/** Migrates the tables of pg-boss. Throws errors of the server. */
export async function migrateJobs(place: DatabaseAddress): Promise<void> {
  const engine = await createEngine(place, true);
  await engine.stop({ graceful: false });
}

/** Starts pg-boss and creates queues, each on its first use. */
function createQueues(place: DatabaseAddress) {
  let engine: Promise<PgBoss> | undefined;
  const ready = new Map<string, Promise<void>>();

  function started(): Promise<PgBoss> {
    engine ??= createEngine(place, false).catch((error: unknown) => {
      engine = undefined;
      throw error;
    });
    return engine;
  }

  return {
    started,
    /** Returns pg-boss after this queue is created. */
    async withQueue(name: string): Promise<PgBoss> {
      const boss = await started();
      let creation = ready.get(name);
      if (!creation) {
        creation = boss.createQueue(name, QUEUE).catch((error: unknown) => {
          ready.delete(name);
          throw error;
        });
        ready.set(name, creation);
      }
      await creation;
      return boss;
    },
    async close(): Promise<void> {
      const boss = await engine?.catch(() => undefined);
      await boss?.stop({ graceful: false }).catch(() => {});
    },
  };
}

export type JobQueues = ReturnType<typeof createJobs>;

/** Creates the jobs. The first use loads and connects pg-boss. */
export function createJobs(place: DatabaseAddress) {
  const { started, withQueue, close } = createQueues(place);

  async function insert(db: Sql, name: string, jobs: readonly WaitingJob[]): Promise<void> {
    const boss = await withQueue(name);
    const rows = jobs.map(({ id, thread, priority, at }) => ({
      id,
      data: { thread },
      singletonKey: thread,
      priority,
      ...(at !== undefined && { startAfter: new Date(at).toISOString() }),
    }));
    await boss.insert(name, rows, { db });
  }

  async function drop(db: Sql, name: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const boss = await withQueue(name);
    await boss.deleteJob(name, [...ids], { db });
  }

  /** Moves a waiting job to another time. A lost job is created again. */
  async function move(db: Sql, name: string, job: WaitingJob & { at: number }): Promise<void> {
    const boss = await withQueue(name);
    const startAfter = new Date(job.at).toISOString();
    const { updated } = await boss.update(name, undefined, { id: job.id, startAfter, db });
    if (updated === 0) await insert(db, name, [job]);
  }

  async function follow(db: Sql, threads: readonly string[]): Promise<void> {
    const rows = await db.all<FollowRow>('SELECT * FROM km_follow($1)', threads);
    const created = new Map<string, WaitingJob[]>();
    for (const row of rows) {
      const { o_thread: thread, o_priority: priority, o_at: at, o_job: id } = row;
      const name = queueName(row.o_format, row.o_tenant ?? undefined, row.o_project);
      await drop(db, name, row.o_dropped);
      if (id === null || at === null) continue;
      const job = { id, thread, priority, at };
      if (row.o_made) created.set(name, [...(created.get(name) ?? []), job]);
      else await move(db, name, job);
    }
    for (const [name, jobs] of created) await insert(db, name, jobs);
  }

  return {
    follow,
    drop,
    /** Fetches jobs and locks them until the transaction ends. Other calls get other jobs. */
    async fetch(db: Sql, name: string, count: number): Promise<FetchedJob[]> {
      const boss = await withQueue(name);
      const jobs = await boss.fetch<{ thread: string }>(name, { batchSize: count, db });
      return jobs.map(({ id, data }) => ({ id, thread: data.thread }));
    },
    /** Puts a fetched job back, to wait until `at` or for the next fetch. */
    async putBack(db: Sql, name: string, job: WaitingJob): Promise<void> {
      await drop(db, name, [job.id]);
      await insert(db, name, [job]);
    },
    /** Reports that these jobs are alive. The sweep repairs a missed report. */
    async touch(jobs: ReadonlyMap<string, readonly string[]>): Promise<void> {
      for (const [name, ids] of jobs) {
        const boss = await withQueue(name);
        await boss.touch(name, [...ids]);
      }
    },
    /** Queues the jobs of lost workers again, for all queues. One process at a time does it. */
    async supervise(): Promise<void> {
      await (await started()).supervise();
    },
    /** Table of the jobs of the queue, for checks whether a job exists. */
    table: `${schemaOf(place)}.job`,
    close,
  } satisfies Jobs & Record<string, unknown>;
}

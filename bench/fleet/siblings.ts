// Measures one root with 50 children on three workers. Every commit of a child changes the account of the root. The
// figures are the commits per second and the number of repeated commits.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { must, openAt, TTL_MS } from './holder.ts';
import { prepare } from './prepare.ts';
import { start } from './processes.ts';
import { type FleetRow, type FleetRun, told } from './row.ts';
import { type BenchInputs, benchThread, MODEL_MS } from './work.ts';

const [CHILDREN, WORKERS, STEPS] = [50, 3, 20];
const SLOTS = Math.ceil(CHILDREN / WORKERS);
const INPUTS: BenchInputs = { steps: STEPS };
/** Number of commits: two for each step. The commit that ends the thread changes no account. */
const COMMITS = CHILDREN * STEPS * 2;
const SCHEMA = 'b_siblings';

/** Creates a root that waits for its queued children. */
async function queueChildren(address: string): Promise<void> {
  const store = await openAt(address);
  const lease = { owner: 'bench', ttlMs: TTL_MS };
  const root = must(await store.createThread({ ...benchThread('root', INPUTS), start: { lease } }));
  must(
    await store.commit('root', {
      expect: { seq: root.row.seq, epoch: root.epoch },
      events: [{ type: 'status', data: { status: 'waiting' } }],
      status: 'waiting',
      release: true,
      children: Array.from({ length: CHILDREN }, (_, at) => benchThread(`child${at}`, INPUTS)),
    }),
  );
  await store.close();
}

const BETWEEN = `SELECT max(ts) - min(ts) AS ms, count(*) FILTER (WHERE type = 'thread_end') AS ended
  FROM thread_events WHERE type IN ('turn_start', 'thread_end')`;
/** Calls of the function that writes a commit, under its current and its earlier name. */
const CALLS = `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_user_functions
  WHERE schemaname = $1 AND funcname IN ('km_write', 'km_commit')`;

export async function run({ url, databaseMillis }: FleetRun): Promise<FleetRow[]> {
  const counted = new URL(url);
  counted.searchParams.set('options', '-c track_functions=pl');
  const address = await prepare(counted.href, SCHEMA);
  await queueChildren(address);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`SET search_path = ${SCHEMA}`);
  const calls = async (): Promise<number> => {
    const { rows } = await client.query<{ calls: string }>(CALLS, [SCHEMA]);
    return Number(rows[0]?.calls ?? 0);
  };
  const between = async (): Promise<{ seconds: number; ended: number }> => {
    const { rows } = await client.query<{ ms: string | null; ended: string }>(BETWEEN);
    return { seconds: Number(rows[0]?.ms ?? 0) / 1000, ended: Number(rows[0]?.ended ?? 0) };
  };
  const [before, callsBefore] = [databaseMillis(), await calls()];
  const args = [address, String(SLOTS), String(MODEL_MS)];
  const workers = Array.from({ length: WORKERS }, () => start('./loop-worker.ts', args));
  for (const worker of workers) await worker.said('up');
  while ((await between()).ended < CHILDREN) await sleep(200);
  for (const worker of workers) await worker.end();
  const { seconds } = await between();
  const cpu = (databaseMillis() - before) / COMMITS;
  // A connection reports its calls at its end at the latest.
  const tries = (await calls()) - callsBefore - CHILDREN;
  await client.end();
  return [
    told('commits a second under one root', COMMITS / seconds, 'a second', `${CHILDREN} children`),
    told('repeated tries of a commit', tries / COMMITS - 1, 'a commit'),
    told('CPU of the database for such a commit', cpu, 'ms'),
  ];
}

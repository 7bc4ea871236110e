// Measures the throughput of the fleet's loop over the store, without the harness. pgbench runs the same statements
// on the same server, so the difference is the cost of Node and of this code.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { must, openAt } from './holder.ts';
import { findPgbench, runPgbench, scriptOf } from './pgbench.ts';
import { prepare } from './prepare.ts';
import { start } from './processes.ts';
import { record } from './record.ts';
import { type FleetRow, type FleetRun, told } from './row.ts';
import { treeMillis } from './server.ts';
import { type BenchInputs, benchThread, MODEL_MS } from './work.ts';

const INPUTS: BenchInputs = { steps: 10, signal: 5 };
const [SLOTS, WORKERS, EACH] = [20, 3, 10];
const CLIENTS = SLOTS * WORKERS;
const THREADS = CLIENTS * EACH;

async function queue(address: string): Promise<void> {
  const store = await openAt(address);
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < THREADS) {
      next += 1;
      must(await store.createThread(benchThread(`t${next}`, INPUTS)));
    }
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  await store.close();
}

/** Returns the seconds between the first step and the last end by the clock of the database, and the ended threads. */
async function between(url: string, schema: string): Promise<{ seconds: number; ended: number }> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`SET search_path = ${schema}`);
  const { rows } = await client.query<{ ms: string | null; ended: string }>(
    `SELECT max(ts) - min(ts) AS ms, count(*) FILTER (WHERE type = 'thread_end') AS ended
     FROM thread_events WHERE type IN ('turn_start', 'thread_end')`,
  );
  await client.end();
  return { seconds: Number(rows[0]?.ms ?? 0) / 1000, ended: Number(rows[0]?.ended ?? 0) };
}

async function ours(url: string): Promise<{ perSecond: number; cpuMs: number }> {
  const schema = 'b_loop';
  const address = await prepare(url, schema);
  await queue(address);
  const args = [address, String(SLOTS), String(MODEL_MS)];
  const workers = Array.from({ length: WORKERS }, () => start('./loop-worker.ts', args));
  for (const worker of workers) await worker.said('up');
  for (;;) {
    const { ended } = await between(url, schema);
    if (ended === THREADS) break;
    await sleep(200);
  }
  const cpu = workers.reduce((sum, { pid }) => sum + treeMillis(pid), 0);
  for (const worker of workers) await worker.end();
  const { seconds } = await between(url, schema);
  const steps = THREADS * INPUTS.steps;
  return { perSecond: steps / seconds, cpuMs: cpu / steps };
}

async function theirs(url: string, program: string): Promise<number> {
  const [from, to] = ['b_record', 'b_pgbench'];
  const { life } = await record(await prepare(url, from), INPUTS);
  await queue(await prepare(url, to));
  const script = scriptOf(life, from, to);
  runPgbench(program, script, { url, schema: to, clients: CLIENTS, each: EACH });
  const { seconds, ended } = await between(url, to);
  if (ended !== THREADS) throw new Error(`pgbench ended ${ended} of ${THREADS} threads`);
  return (THREADS * INPUTS.steps) / seconds;
}

export async function run({ url, databaseMillis, say }: FleetRun): Promise<FleetRow[]> {
  const before = databaseMillis();
  const { perSecond, cpuMs } = await ours(url);
  const database = (databaseMillis() - before) / (THREADS * INPUTS.steps);
  const rows = [
    told('steps a second, three workers', perSecond, 'a second', `${CLIENTS} threads at once`),
    told('CPU of a step in workers', cpuMs, 'ms'),
    told('CPU of a step in the database, with queueing', database, 'ms'),
  ];
  const program = findPgbench();
  if (program === undefined) {
    say('  pgbench is neither in the PATH nor below /usr/lib/postgresql: nothing to compare with');
    return rows;
  }
  const base = await theirs(url, program);
  const ratio = perSecond / base;
  return [
    ...rows,
    told('steps a second, pgbench with the same statements', base, 'a second'),
    {
      name: 'throughput against pgbench',
      value: ratio,
      unit: 'x',
      target: 'at least 0.5 x',
      ok: ratio >= 0.5,
    },
  ];
}

// Measures a whole turn with the harness and a provider: CPU of the worker and of the database, the bytes that the
// database writes, and the same turn on SQLite in one process.
import pg from 'pg';
import { prepare } from './prepare.ts';
import { openProduct } from './product.ts';
import { type FleetRow, type FleetRun, told } from './row.ts';
import { treeMillis } from './server.ts';

const [TURNS, THREADS] = [50, 24];
const DIRECTIVE = `turns_${TURNS}`;

interface Written {
  log: number;
  disk: number;
}

async function writtenBy(url: string): Promise<Written> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ log: string; disk: string }>(
    `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS log,
       pg_database_size(current_database()) AS disk`,
  );
  await client.end();
  return { log: Number(rows[0]?.log), disk: Number(rows[0]?.disk) };
}

/** Returns the CPU milliseconds of a turn in one process on SQLite with all features. */
async function onSqlite(): Promise<number> {
  const product = await openProduct('', [DIRECTIVE]);
  const threads = await product.runtime.threads({});
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const { run } = threads.output;
  const some = (count: number): Promise<unknown> =>
    Promise.all(Array.from({ length: count }, () => run({ directive: DIRECTIVE })));
  await some(4);
  const before = process.cpuUsage();
  await some(THREADS);
  const { user, system } = process.cpuUsage(before);
  await product.close();
  return (user + system) / 1000 / (THREADS * (TURNS + 1));
}

export async function run({ url, databaseMillis }: FleetRun): Promise<FleetRow[]> {
  const base = await onSqlite();
  const address = await prepare(url, 'b_turn');
  const product = await openProduct(address, [DIRECTIVE]);
  const workers: number[] = [];
  for (let index = 0; index < 3; index++) workers.push(await product.startWorker(8));
  const some = async (count: number): Promise<void> => {
    const ids: string[] = [];
    for (let index = 0; index < count; index++) ids.push(await product.enqueue(DIRECTIVE));
    await product.ended(ids, 120_000);
  };
  await some(6);
  const cpu = (): number => workers.reduce((sum, pid) => sum + treeMillis(pid), 0);
  const [worker, database, written, began] = [
    cpu(),
    databaseMillis(),
    await writtenBy(url),
    performance.now(),
  ];
  await some(THREADS);
  const turns = THREADS * (TURNS + 1);
  const seconds = (performance.now() - began) / 1000;
  const [workerMs, databaseMs] = [(cpu() - worker) / turns, (databaseMillis() - database) / turns];
  const after = await writtenBy(url);
  await product.stopWorkers();
  await product.close();
  const beside = `on SQLite ${base.toFixed(2)} ms in one process`;
  return [
    told('CPU of the worker for a turn', workerMs, 'ms', beside),
    told('CPU of the database for a turn', databaseMs, 'ms'),
    told('turns a second, three workers', turns / seconds, 'a second'),
    told('log of the database for a turn', (after.log - written.log) / 1024 / turns, 'KB'),
    told('disk of the database for a turn', (after.disk - written.disk) / 1024 / turns, 'KB'),
  ];
}

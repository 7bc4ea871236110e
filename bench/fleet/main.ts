// `npm run bench:fleet [-- --only loop,latency --json]`: prints the figures of a fleet of three workers, over a real
// server on this machine that writes to its disk. Each row has its own schema and a time limit.
import { parseArgs } from 'node:util';
import type { FleetRow, FleetRun } from './row.ts';
import { startServer } from './server.ts';

const SUITES = [
  'loop',
  'latency',
  'watchers',
  'large',
  'siblings',
  'turn',
  'memory',
  'idle',
] as const;
/** Time limit of a row. A row that exceeds it is reported as not finished. */
const MOST_SECONDS = 300;

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
    store: { type: 'string' },
  },
});
const chosen = values.only?.split(',');
const wrong = chosen?.find((name) => !SUITES.some((suite) => suite === name));
if (wrong !== undefined) {
  process.stderr.write(`unknown row \`${wrong}\`; there are: ${SUITES.join(' ')}\n`);
  process.exit(2);
}
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const figure = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));

interface Suite {
  run(run: FleetRun): Promise<FleetRow[]>;
}

async function within(seconds: number, work: Promise<FleetRow[]>): Promise<FleetRow[]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not over after ${seconds} s`)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const server = await startServer();
const rows: (FleetRow & { suite: string })[] = [];
for (const suite of SUITES) {
  if (chosen && !chosen.includes(suite)) continue;
  say(`${suite} …`);
  try {
    const { run } = (await import(`./${suite}.ts`)) as Suite;
    const { url, port } = server;
    const found = await within(
      MOST_SECONDS,
      run({ url, port, databaseMillis: () => server.cpuMillis(), say }),
    );
    for (const row of found) {
      rows.push({ suite, ...row });
      const mark = row.target === '' ? '    ' : row.ok ? 'ok  ' : 'MISS';
      const aim = row.target === '' ? '' : ` (${row.target})`;
      const beside = row.beside === undefined ? '' : `, ${row.beside}`;
      if (values.json) continue;
      process.stdout.write(
        `${mark} ${row.name}: ${figure(row.value)} ${row.unit}${beside}${aim}\n`,
      );
    }
  } catch (error) {
    const name = error instanceof Error ? error.message : String(error);
    rows.push({ suite, name, value: Number.NaN, unit: '', target: 'runs', ok: false });
    say(`MISS ${suite}: ${name}`);
  }
}
await server.stop();
if (values.json) {
  const find = (name: string): number | undefined => rows.find((row) => row.name === name)?.value;
  const costs = {
    worker_ms: find('CPU of the worker for a turn'),
    database_ms: find('CPU of the database for a turn'),
    log_kb: find('log of the database for a turn'),
    disk_kb: find('disk of the database for a turn'),
    source: `bench:fleet, ${new Date().toISOString().slice(0, 10)}`,
  };
  process.stdout.write(`${JSON.stringify({ rows, costs }, null, 2)}\n`);
}
process.exit(rows.every(({ ok }) => ok) ? 0 : 1);

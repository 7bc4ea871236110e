// Runs every benchmark and prints one row each, with progress on stderr: `npm run bench`. `-- --json` prints data,
// `-- trust flow` runs some of them.
import type { BenchRow } from './row.ts';

const args = process.argv.slice(2);
const json = args.includes('--json');
const chosen = args.filter((arg) => !arg.startsWith('-'));
const SUITES = [
  'expr',
  'trust',
  'flow',
  'items',
  'memory',
  'schedules',
  'stream',
  'llm',
  'store-port',
  'harness',
  'turn-calls',
  'harness-stream',
  'harness-growth',
  'harness-compact',
  'harness-concurrent',
  'script',
  'mcp',
  'web',
  'web-page',
  'import',
  'cli',
];
const names = SUITES.filter((name) => chosen.length === 0 || chosen.includes(name));

const figure = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));

const rows: BenchRow[] = [];
for (const name of names) {
  process.stderr.write(`${name} …\n`);
  const { bench } = (await import(`./${name}.ts`)) as {
    bench(): Promise<BenchRow[]>;
  };
  for (const row of await bench()) {
    rows.push(row);
    if (json) continue;
    const { ours, base, ratio, unit, target, ok } = row;
    process.stdout.write(
      `${ok ? 'ok  ' : 'MISS'} ${row.name}: ${figure(ours)} ${unit} against ${figure(base)}, ` +
        `ratio ${figure(ratio)} (${target})\n`,
    );
  }
}
if (json) process.stdout.write(`${JSON.stringify({ rows }, null, 2)}\n`);

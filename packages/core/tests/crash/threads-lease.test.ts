// Who may go on with a thread: at once when its process is gone, and not before its lease is up when
// that process is only frozen. Real processes, killed and stopped.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  endLives,
  kill,
  type Life,
  live,
  openRegistry,
  rowsOf,
} from '@kernmantle/test-support/crash-driver';
import { type CrashStage, crashStage, linesOf } from '@kernmantle/test-support/crash-project';
import { afterEach, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../src/base/index.ts';
import { openSqliteStore, type Store } from '../../src/store/index.ts';

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

const TOOLS = ['look', 'put', 'write'];
const effects = (stage: CrashStage): number => TOOLS.flatMap((name) => linesOf(stage, name)).length;

/** A life that has begun to work. */
async function atWork(stage: CrashStage): Promise<Life> {
  const life = live(stage);
  await life.said('event', 8);
  return life;
}

/** Between two commits: in the middle of one it would hold up everybody else. */
async function freeze({ child }: Life, { fixture }: CrashStage): Promise<void> {
  const file = `${fixture.root}/.ai/threads/registry.db`;
  for (;;) {
    child.kill('SIGSTOP');
    const probe = await openSqliteStore({ file, clock: systemClock, patienceMs: 100 });
    // A write that somebody else holds up is not answered in time.
    const isFree = probe.ok && (await probe.output.audit([])).ok;
    if (probe.ok) await probe.output.close();
    if (isFree) return;
    child.kill('SIGCONT');
    await sleep(5);
  }
}

/** The registry as a process sees it after every lease has run out. */
async function laterStore({ fixture }: CrashStage): Promise<Store> {
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + 31_000 };
  const opened = await openSqliteStore({ file: `${fixture.root}/.ai/threads/registry.db`, clock });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  return opened.output;
}

const hasProof = process.platform === 'linux';

test.runIf(hasProof)(
  'a thread whose process was killed goes on before its lease is up (only Linux can tell)',
  async () => {
    made = await crashStage();
    await kill(await atWork(made));
    const store = await openRegistry(made);
    const [row] = await rowsOf(store);
    expect(row?.status).toBe('running');
    expect(row?.lease_until).toBeGreaterThan(systemClock.now());
    const next = live(made);
    await next.over;
    expect(next.lines.at(-1)).toContain('"completed"');
    // Taken over, not waited out: the lease of the dead one would still run.
    expect((await rowsOf(store)).every(({ status }) => status !== 'running')).toBe(true);
    expect((await rowsOf(store)).find(({ id }) => id === row?.id)?.epoch).toBeGreaterThan(
      row?.epoch ?? 0,
    );
    await store.close();
  },
);

test('a thread whose process is frozen is not taken from it before its lease is up', async () => {
  made = await crashStage();
  const life = await atWork(made);
  await freeze(life, made);
  const store = await openRegistry(made);
  const [row] = await rowsOf(store);
  const late = await store.sweep();
  expect(late, JSON.stringify(late)).toMatchObject({ ok: true, output: { interrupted: [] } });
  expect(await store.claim(row?.id ?? '', { owner: 'somebody else', ttlMs: 30_000 })).toMatchObject(
    {
      ok: false,
      error: { code: 'lease_held' },
    },
  );
  const next = live(made);
  await next.over;
  expect(next.lines.at(-1)).toContain('lease_held');
  life.child.kill('SIGCONT');
  await life.over;
  expect(life.lines.at(-1)).toContain('"completed"');
  await store.close();
});

test('a process frozen past its lease neither appends nor performs when it goes on', async () => {
  made = await crashStage();
  const life = await atWork(made);
  await freeze(life, made);
  const store = await laterStore(made);
  expect(await store.sweep()).toMatchObject({ ok: true });
  const before = await rowsOf(store);
  expect(before.every(({ status }) => status === 'interrupted')).toBe(true);
  const done = effects(made);
  life.child.kill('SIGCONT');
  await life.over;
  expect(life.lines.at(-1)).toContain('"interrupted"');
  expect((await rowsOf(store)).map(({ seq }) => seq)).toEqual(before.map(({ seq }) => seq));
  // A tool that was at work when it was frozen may finish; nothing is begun.
  expect(effects(made) - done).toBeLessThanOrEqual(1);
  const last = live(made);
  await last.over;
  expect(last.lines.at(-1)).toContain('"completed"');
  const written = linesOf(made, 'write');
  expect(new Set(written).size).toBe(written.length);
  await store.close();
});

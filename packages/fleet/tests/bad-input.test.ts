// What goes wrong around a fleet, from a key that is missing to a disk that is full: whoever asks is told
// what it is, and nothing is lost. Addresses that are none are in cli-address.test.ts.
import { systemClock } from '@kernmantle/core/base';
import { runCommand } from '@kernmantle/test-support/command-line';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import { describe, expect, inject, test } from 'vitest';
import { type CliStage, openCliStage } from './support/cli-stage.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];
const idIn = (output: string): string => /look_[\w-]+/.exec(output)?.[0] ?? '';

async function openMigrated(): Promise<CliStage> {
  const stage = await openCliStage(server, LOOK, SEEN);
  await stage.km('store', 'migrate');
  return stage;
}

/** Commands of one process share its output: nothing else is typed meanwhile. */
async function untilReturned({ sql }: CliStage, count = 1): Promise<void> {
  const asked =
    "SELECT DISTINCT thread FROM thread_events WHERE data LIKE '%returned by a worker%'";
  await expect.poll(() => sql(asked), { timeout: timeoutMs(60_000), interval: 50 }).toBe(count);
}

// A thread holds on for ten seconds, and may be tried more than once.
const SLOW = { timeout: timeoutMs(120_000) };

describe.skipIf(server === '')('over a server (needs PostgreSQL)', SLOW, () => {
  test('why a worker hands a thread back is said to whoever looks', async () => {
    const stage = await openMigrated();
    const { km, work, fixture } = stage;
    const leave = await work({ env: { ...fixture.env, ANTHROPIC_API_KEY: undefined } });
    const first = idIn((await km('run', 'look', '--detach')).output);
    await untilReturned(stage);
    // It is taken and handed back again and again; between that it is at work.
    const told = async () => (await km('doctor')).output;
    await expect.poll(told, { timeout: timeoutMs(60_000) }).toContain('returned by a worker');
    expect((await km('threads', 'stop', first)).code).toBe(0);
    const running = km('run', 'look');
    await untilReturned(stage, 2);
    await leave();
    await work();
    const ran = await running;
    expect(ran.output).toContain('needs a key: set `ANTHROPIC_API_KEY`');
    expect(ran.output).toContain('seen');
    expect(ran.code).toBe(0);
    for (const words of [['tail'], ['show']]) {
      expect((await km('threads', ...words, 'last')).output).toContain('returned by a worker');
    }
    expect((await km('doctor')).output).not.toContain('handed back');
    expect((await km('replay', 'last')).code).toBe(0);
  });

  test('the last worker goes: whoever looks on is told, or leaves', async () => {
    const stage = await openMigrated();
    const { km, work, fixture, sql } = stage;
    const leave = await work({ env: { ...fixture.env, ANTHROPIC_API_KEY: undefined } });
    await expect.poll(() => sql('SELECT 1 FROM workers'), { timeout: timeoutMs(60_000) }).toBe(1);
    const running = km('run', 'look', '--no-wait');
    await untilReturned(stage);
    await leave();
    const ran = await running;
    expect(ran.output).toContain('no worker serves thread');
    expect(ran.code).toBe(1);
    await work();
    expect((await km('threads', 'wait', idIn(ran.output))).code).toBe(0);
  });

  test('a role without rights is told what it may not', async () => {
    const stage = await openMigrated();
    const user = `poor_${new URL(stage.address).searchParams.get('schema')}`;
    await stage.sql(`CREATE ROLE ${user} LOGIN PASSWORD 'poor-secret'`);
    const own = new URL(stage.address);
    [own.username, own.password] = [user, 'poor-secret'];
    const { root, env } = stage.fixture;
    const at = (url: URL, ...words: string[]) =>
      runCommand(words, root, { ...env, KERNMANTLE_STORE: url.href });
    try {
      const ran = await at(own, 'run', 'look');
      expect(ran.code).toBe(1);
      expect(ran.output).toContain('cannot use schema');
      own.searchParams.set('schema', `${user}_none`);
      const made = await at(own, 'store', 'migrate');
      expect(made.code).toBe(1);
      expect(made.output).toContain('denies this user a required right');
      expect(made.output + ran.output).not.toContain('poor-secret');
    } finally {
      await stage.sql(`DROP ROLE ${user}`);
    }
  });

  test('a full disk of the server: a clear error, and threads go on when there is room', async () => {
    const stage = await openMigrated();
    const { km, work, sql } = stage;
    const queued = await km('run', 'look', '--detach');
    // As the server says it when it cannot extend a file.
    await sql(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$`);
    await sql(`CREATE TRIGGER full_disk BEFORE INSERT ON thread_events
      FOR EACH STATEMENT EXECUTE FUNCTION full_disk()`);
    const refused = await km('run', 'look', '--detach');
    expect(refused.output).toContain('the disk is full');
    expect(refused.code).toBe(1);
    await work();
    await expect.poll(() => stage.news.length, { timeout: timeoutMs(60_000) }).toBeGreaterThan(1);
    expect((await km('threads', 'ls')).output).toContain(idIn(queued.output));
    await sql('DROP TRIGGER full_disk ON thread_events');
    expect((await km('threads', 'wait', idIn(queued.output))).code).toBe(0);
    expect((await km('threads', 'ls', '--json')).output.match(/"id":/g)).toHaveLength(1);
  });

  test('the clock of a worker is ten minutes off: threads go on all the same, and doctor says so', async () => {
    const stage = await openMigrated();
    const off = { ...systemClock, now: () => systemClock.now() + 600_000 };
    await stage.work({ clock: off });
    const ran = await stage.km('run', 'look');
    expect(ran.code).toBe(0);
    await expect
      .poll(() => stage.sql('SELECT 1 FROM workers'), { timeout: timeoutMs(60_000) })
      .toBe(1);
    expect((await stage.km('doctor')).output).toMatch(/its clock is (10 m|9 m 59).* ahead/);
  });
});

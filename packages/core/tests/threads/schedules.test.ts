// Schedules of a project over real SQLite, with a clock that the test sets: what a tick becomes, whatever servers,
// clocks and database do.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { got } from '@kernmantle/test-support/fleet-stage';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import {
  directive,
  openStage,
  READ,
  read,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import {
  openSchedules,
  type ProjectSchedules,
  type Runtime,
  type ScheduleRequest,
  signFiles,
} from '../../src/runtime/index.ts';
import type { LeasedThread } from '../../src/store/index.ts';

const ADA = { who: 'ada', channel: 'cli' } as const;
const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
const START = Date.parse('2027-03-01T00:00:00Z');

interface Clocked {
  now(): number;
  monotonic(): number;
  set(time: number): void;
}

function createClock(begin: number): Clocked {
  let time = begin;
  return { now: () => time, monotonic: () => performance.now(), set: (next) => void (time = next) };
}

const LOOK = directive('look', {
  permissions: READ,
  limits: '<turns>4</turns><spend>0.30</spend>',
  inputs: '<input name="why" type="string" required="false"/>',
});

interface Scene extends Stage {
  clock: Clocked;
  schedules: ProjectSchedules;
  news: { outcome: string }[];
  add(more?: Partial<ScheduleRequest>): Promise<void>;
  /** Fires what is due at a time, from one server. */
  at(time: number, from?: ProjectSchedules): Promise<void>;
  /** Runs or ends all queued threads. */
  work(end?: 'run' | 'leave'): Promise<LeasedThread[]>;
  another(): Promise<ProjectSchedules>;
  database<T>(work: (database: DatabaseSync) => T): T;
}

async function scene(
  files: Record<string, string> = {},
  isSigned = true,
  begin = START,
): Promise<Scene> {
  const clock = createClock(begin);
  const play = { look: [read('notes/a.txt'), { text: 'seen' }] };
  const made = await openStage({ ...LOOK, ...files }, play, { clock });
  const { fixture, runtime, threads } = made;
  if (isSigned) got(signFiles(runtime, [join(fixture.root, '.ai/directives/look.md')], ADA));
  const schedules = await openSchedules(runtime);
  const news: { outcome: string }[] = [];
  const take = { owner: 'a-server', ttlMs: 60_000 };
  return {
    ...made,
    clock,
    schedules,
    news,
    async add(more = {}) {
      const request = { name: 's', directive: 'look', cron: '* * * * *', tz: 'UTC', ...more };
      got(await schedules.add(request, ADA));
    },
    async at(time, from = schedules) {
      clock.set(time);
      got(await from.fireDue('', (one) => news.push(one)));
    },
    async work(end = 'run') {
      const queued = got(await threads.store.take(take, { count: 50, projects: [fixture.root] }));
      for (const leased of end === 'run' ? queued : []) {
        got(await threads.resumeLeased(leased, clock.monotonic()));
      }
      return queued;
    },
    async another() {
      const other: Runtime = await fixture.open({ clock });
      onTestFinished(() => other.close());
      return await openSchedules(other);
    },
    database(work) {
      const database = new DatabaseSync(join(fixture.root, '.ai/threads/registry.db'));
      try {
        return work(database);
      } finally {
        database.close();
      }
    },
  };
}

const outcomes = async ({ schedules }: Scene, name = 's'): Promise<string[]> =>
  got(await schedules.show(name))
    .fires.toSorted((a, b) => (a.tick < b.tick ? -1 : 1))
    .map(({ outcome }) => outcome);
const codeOf = (outcome: { ok: boolean; error?: { code: string } }) => outcome.error?.code ?? 'ok';

test('a tick starts one run in the name of the person, on the surface `schedule`', async () => {
  const made = await scene();
  await made.add({ inputs: { why: 'so' } });
  await made.at(START + MINUTE - 1);
  expect(await outcomes(made)).toEqual([]);
  await made.at(START + MINUTE);
  await made.at(START + MINUTE + 1);
  expect(await outcomes(made)).toEqual(['started']);
  const [leased] = await made.work();
  const thread = got(await made.threads.store.thread(leased?.thread ?? ''));
  expect(thread).toMatchObject({ status: 'completed', inputs: { why: 'so' } });
  const [start] = got(await made.threads.store.read(thread.id, { types: ['thread_start'] }));
  expect(start?.data.ran).toMatchObject({ by: { who: 'ada', surface: 'schedule' } });
  const shown = got(await made.schedules.show('s'));
  expect(shown).toMatchObject({ state: 'active', outcome: 'started', cron: '* * * * *' });
  expect(shown.fires).toMatchObject([{ thread: thread.id, status: 'completed' }]);
  expect(Number(shown.spent_today)).toBeGreaterThan(0);
  const rows = got(await made.threads.store.auditRows({ limit: 100 }));
  const acts = rows.map(({ operation, caller }) => `${operation} ${caller}`);
  expect(acts).toContain('schedule add ada');
});

// Each half contains a clock change of the zone. The soak has 1,000 ticks in all.
const HALVES = ['2027-03-27T12:00:00Z', '2027-10-30T12:00:00Z'];
test.each(HALVES)(
  'two servers, restarts, clock steps of two hours from %s: one row a tick, one thread at most',
  async (begin) => {
    const ticks = runs(90, 500);
    const made = await scene({}, true, Date.parse(begin));
    await made.add({ cron: '*/10 * * * *', tz: 'Europe/Berlin' });
    let seed = 7;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    let servers = [made.schedules, await made.another()];
    for (let count = 1; count <= ticks; count++) {
      const step = random() < 0.05 ? (random() < 0.5 ? 2 * HOUR : -2 * HOUR) : 0;
      made.clock.set(
        Date.parse(begin) + count * 10 * MINUTE + step + Math.round(random() * 30_000),
      );
      const both = await Promise.all(servers.map((server) => server.fireDue('', () => {})));
      expect(both.flatMap((one) => (one.ok ? [] : one.error))).toEqual([]);
      if (random() < 0.02) servers = [made.schedules, await made.another()];
      // Ends what was started, so that later ticks start runs too.
      made.database((database) =>
        database.exec("UPDATE threads SET status = 'completed', owner = NULL, queued = NULL"),
      );
    }
    made.database((database) => {
      const of = (sql: string) => database.prepare(sql).all();
      const rows = of('SELECT tick, count(*) AS n FROM schedule_fires GROUP BY tick');
      // Ticks of the whole time, some of them while the clock was ahead.
      expect(rows.length).toBeGreaterThanOrEqual(ticks);
      expect(rows.every(({ n }) => n === 1)).toBe(true);
      const [sums] = of(`SELECT (SELECT count(*) FROM threads) AS threads,
      (SELECT count(DISTINCT thread) FROM schedule_fires) AS fired`);
      expect(sums?.['threads']).toBe(sums?.['fired']);
      expect(Number(sums?.['threads'])).toBeGreaterThan(ticks * 0.5);
    });
  },
  timeoutMs(120_000),
);

test('three days down at a tick a minute: one run, and every other tick is recorded', async () => {
  const made = await scene();
  await made.add();
  await made.at(START + 3 * DAY + 30_000);
  const all = got(await made.threads.store.query({})).rows;
  expect(all).toHaveLength(1);
  const counted = made.database((database) =>
    database.prepare('SELECT outcome, count(*) AS n FROM schedule_fires GROUP BY outcome').all(),
  );
  expect(counted.map((row) => ({ ...row }))).toEqual([
    { outcome: 'missed', n: 3 * 24 * 60 - 1 },
    { outcome: 'started', n: 1 },
  ]);
  await made.at(START + 3 * DAY + 31_000);
  expect(got(await made.threads.store.query({})).rows).toHaveLength(1);
});

test('a missed tick runs within the grace alone, and never with `skip`', async () => {
  const made = await scene();
  await made.add({ name: 'once', cron: '0 3 * * *', grace_ms: HOUR });
  await made.add({ name: 'late', cron: '0 1 * * *', grace_ms: HOUR });
  await made.add({ name: 'skip', cron: '0 3 * * *', missed: 'skip' });
  await made.at(START + 3.5 * HOUR);
  expect(await outcomes(made, 'once')).toEqual(['started']);
  expect(await outcomes(made, 'late')).toEqual(['missed']);
  expect(await outcomes(made, 'skip')).toEqual(['missed']);
  // On time is not missed.
  await made.at(START + DAY + 3 * HOUR + 20_000);
  expect(await outcomes(made, 'skip')).toEqual(['missed', 'started']);
});

test('overlap: `skip` leaves ticks out, `wait` starts one, `stop` terminates and starts', async () => {
  const made = await scene();
  for (const overlap of ['skip', 'wait', 'stop'] as const)
    await made.add({ name: overlap, overlap });
  await made.at(START + MINUTE);
  await made.at(START + 2 * MINUTE);
  await made.at(START + 2 * MINUTE + 2000);
  await made.at(START + 3 * MINUTE);
  expect(await outcomes(made, 'skip')).toEqual(['started', 'overlap', 'overlap']);
  expect(await outcomes(made, 'wait')).toEqual(['started', 'waiting', 'overlap']);
  // No process ran the queued thread, so it was ended at once, and the waiting tick started.
  expect(await outcomes(made, 'stop')).toEqual(['started', 'started', 'waiting']);
  const first = got(await made.schedules.show('stop')).fires.at(-1);
  expect(first?.status).toBe('terminated');
  await made.work();
  await made.at(START + 3 * MINUTE + 1000);
  expect(await outcomes(made, 'wait')).toEqual(['started', 'started', 'overlap']);
  expect(got(await made.schedules.show('skip')).fires).toHaveLength(3);
});

test('a tick that waits is missed when a person resumes the schedule, and later ticks start', async () => {
  const made = await scene();
  await made.add({ overlap: 'wait' });
  await made.at(START + MINUTE);
  await made.at(START + 2 * MINUTE);
  got(await made.schedules.resume('s', ADA));
  await made.work();
  await made.at(START + 2 * MINUTE + 1000);
  await made.at(START + 3 * MINUTE);
  expect(await outcomes(made)).toEqual(['started', 'missed', 'started']);
});

test('a run that waits for a person is not over', async () => {
  const made = await scene();
  await made.add();
  await made.at(START + MINUTE);
  made.database((database) =>
    database.exec("UPDATE threads SET status = 'waiting', queued = NULL, owner = NULL"),
  );
  await made.at(START + 2 * MINUTE);
  expect(await outcomes(made)).toEqual(['started', 'overlap']);
});

test('50 ticks of 0.30 under 1.00 a day spend at most 1.00, and the next day begins anew', async () => {
  const made = await scene();
  await made.add({ spend_per_day: '1.00' });
  for (let tick = 1; tick <= 50; tick++) {
    await made.at(START + tick * MINUTE);
    // Every run uses its whole limit.
    made.database((database) =>
      database.exec(`UPDATE threads SET status = 'completed', queued = NULL, owner = NULL,
        budget = json_set(budget, '$.used.spend', budget ->> '$.limits.spend')`),
    );
  }
  const shown = got(await made.schedules.show('s'));
  const used = got(await made.threads.store.query({ limit: 100 })).rows.length;
  expect(used).toBe(4);
  expect(shown.spent_today).toBe('1.00');
  expect(shown.outcome).toBe('budget');
  await made.at(START + DAY + MINUTE);
  expect(got(await made.schedules.show('s'))).toMatchObject({ outcome: 'started' });
});

test('a manual run counts to the day, and leaves the next tick alone', async () => {
  const made = await scene();
  await made.add({ spend_per_day: '0.50', cron: '@daily' });
  const { next } = got(await made.schedules.show('s'));
  const { thread_id } = got(await made.schedules.run('s', ADA));
  got(await made.schedules.run('s', ADA));
  expect(codeOf(await made.schedules.run('s', ADA))).toBe('spend_exceeded');
  const shown = got(await made.schedules.show('s'));
  expect(shown).toMatchObject({ next, outcome: 'manual' });
  expect(shown.fires.map(({ thread }) => thread)).toContain(thread_id);
  const limits = got(await made.threads.store.query({})).rows.length;
  expect(limits).toBe(2);
});

test('a row that nobody signed starts nothing, and five refusals pause it', async () => {
  const made = await scene();
  await made.add();
  await made.add({ name: 'other' });
  const change = (sql: string) => made.database((database) => database.exec(sql));
  change(
    `UPDATE schedules SET body = replace(body, '"look"', '"core/assistant"') WHERE name = 's'`,
  );
  for (let count = 1; count <= 8; count++) await made.at(START + count * 3 * MINUTE);
  const shown = got(await made.schedules.show('s'));
  expect(shown).toMatchObject({ state: 'broken', outcome: 'refused' });
  expect(shown.fires.filter(({ outcome }) => outcome === 'refused')).toHaveLength(5);
  expect(made.news.filter(({ outcome }) => outcome === 'paused')).toHaveLength(1);
  const threads = got(await made.threads.store.query({ limit: 100 })).rows;
  expect(threads.every(({ directive: name }) => name === 'look')).toBe(true);
  // The row of another schedule, under another name or id, is refused as well.
  change(`UPDATE schedules SET body = (SELECT body FROM schedules WHERE name = 'other'),
    signature = (SELECT signature FROM schedules WHERE name = 'other') WHERE name = 's'`);
  expect(got(await made.schedules.show('s')).state).toBe('broken');
});

test('a directive that is changed after `add` is refused at the fire, and told', async () => {
  const notify = 'unsigned: allow\nnotify: { command: "cat >> told.jsonl" }\n';
  const made = await scene({ '../home/policy.yaml': notify });
  await made.add();
  rmSync(join(made.fixture.root, '.ai/directives/look.md'));
  made.fixture.write('.ai/directives/look.md', LOOK['.ai/directives/look.md'] ?? '');
  await made.at(START + MINUTE);
  const [fire] = got(await made.schedules.show('s')).fires;
  expect(fire).toMatchObject({ outcome: 'refused' });
  expect(fire?.reason).toContain('only signed directives');
  for (let count = 2; count <= 5; count++) await made.at(START + count * MINUTE);
  expect(got(await made.schedules.show('s')).state).toBe('paused');
  await made.at(START + 20 * MINUTE);
  expect(await outcomes(made)).toHaveLength(5);
});

test('what cannot be scheduled is refused at `add`, and leaves nothing', async () => {
  const made = await scene({}, false);
  const add = async (more: Partial<ScheduleRequest>) =>
    codeOf(
      await made.schedules.add(
        { name: 's', directive: 'look', cron: '@daily', tz: 'UTC', ...more },
        ADA,
      ),
    );
  expect(await add({})).toBe('permission_denied');
  got(signFiles(made.runtime, [join(made.fixture.root, '.ai/directives/look.md')], ADA));
  expect(await add({ cron: '61 * * * *' })).toBe('usage');
  expect(await add({ tz: 'Mars/One' })).toBe('usage');
  expect(await add({ name: 'a b' })).toBe('usage');
  expect(await add({ name: 'x'.repeat(41) })).toBe('usage');
  expect(await add({ inputs: { nope: 1 } })).toBe('invalid_input');
  expect(await add({ directive: 'none' })).toBe('not_found');
  expect(await add({ spend_per_day: '-1' })).toBe('usage');
  expect(got(await made.schedules.list())).toEqual([]);
  expect(await add({})).toBe('ok');
  expect(await add({})).toBe('conflict');
});

test('a pause lets ticks pass, a removal lets the run go on, and an added name is new', async () => {
  const made = await scene();
  await made.add();
  got(await made.schedules.pause('s', ADA));
  await made.at(START + 5 * MINUTE);
  expect(await outcomes(made)).toEqual([]);
  got(await made.schedules.resume('s', ADA));
  await made.at(START + 5 * MINUTE + 1);
  expect(await outcomes(made)).toEqual([]);
  await made.at(START + 6 * MINUTE);
  expect(await outcomes(made)).toEqual(['started']);
  const before = got(await made.schedules.show('s'));
  got(await made.schedules.remove('s', ADA));
  expect(codeOf(await made.schedules.show('s'))).toBe('not_found');
  const [leased] = await made.work();
  expect(got(await made.threads.store.thread(leased?.thread ?? '')).status).toBe('completed');
  await made.add();
  const again = got(await made.schedules.show('s'));
  expect(again.id).not.toBe(before.id);
  expect(again.fires).toEqual([]);
});

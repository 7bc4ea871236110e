// Schedules that real worker processes fire over a real server, while they are killed.
import { join } from 'node:path';
import { openSchedules, signFiles } from '@kernmantle/core/runtime';
import { must } from '@kernmantle/test-support/registry';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { openWorkerStage } from './support/worker-stage.ts';

const url = inject('postgres');
const reason = url === '' ? ' (skipped: no server can be started here)' : '';
const ADA = { who: 'ada', channel: 'cli' } as const;
const KILLS = runs(3, 20);
const EACH = 4;

test.skipIf(url === '')(
  `three workers, ${KILLS} kills: one row a tick, one thread a row, and all of them complete${reason}`,
  { timeout: timeoutMs(300_000) },
  async () => {
    const stage = await openWorkerStage(url);
    const { runtime, fixture, threads } = stage;
    must(signFiles(runtime, [join(fixture.root, '.ai/directives/greet.md')], ADA));
    const schedules = await openSchedules(runtime);
    const schema = new URL(stage.store).searchParams.get('schema') ?? '';
    const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
    await client.connect();
    const rows = async (sql: string) => (await client.query<Record<string, string>>(sql)).rows;
    const workers = [stage.work(), stage.work(), stage.work()];
    await Promise.all(workers.map((worker) => worker.hears('ready')));
    for (let kill = 0; kill < KILLS; kill++) {
      for (let count = 0; count < EACH; count++) {
        const request = {
          name: `s${kill}_${count}`,
          directive: 'greet',
          cron: '@hourly',
          tz: 'UTC',
        };
        must(await schedules.add(request, ADA));
      }
      // The last tick is due now, for all workers at once.
      await rows(
        `UPDATE schedules SET next = next - 3600000 WHERE name LIKE 's${kill}!_%' ESCAPE '!'`,
      );
      const [first] = workers.splice(kill % 3, 1, stage.work());
      const fired = () =>
        rows(`SELECT 1 FROM schedule_fires f JOIN schedules s ON s.id = f.schedule
          WHERE s.name LIKE 's${kill}!_%' ESCAPE '!'`);
      await expect
        .poll(async () => (await fired()).length > 0, { timeout: timeoutMs(60_000) })
        .toBe(true);
      first?.child.kill('SIGKILL');
    }
    const patient = { timeout: timeoutMs(120_000) };
    const open = () =>
      rows(`SELECT s.name, t.status FROM schedules s LEFT JOIN schedule_fires f ON f.schedule = s.id
        LEFT JOIN threads t ON t.id = f.thread WHERE t.status IS DISTINCT FROM 'completed'`);
    await expect.poll(open, patient).toEqual([]);
    const [sums] = await rows(`SELECT count(*) AS fires, count(DISTINCT thread) AS fired,
      (SELECT count(*) FROM threads) AS threads FROM schedule_fires`);
    expect(Number(sums?.['fires'])).toBeGreaterThanOrEqual(KILLS * EACH);
    expect(sums).toMatchObject({ fired: sums?.['fires'], threads: sums?.['fires'] });
    const [row] = must(await threads.store.query({ limit: 1 })).rows;
    expect(must(await threads.store.scheduleOf(row?.id ?? ''))).toMatch(/^s\d+_\d$/);
    expect(must(await schedules.servers()).length).toBeGreaterThan(0);
    await client.end();
  },
);

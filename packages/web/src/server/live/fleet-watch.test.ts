import { ok } from '@kernmantle/core/base';
import type { Fleet, Store, WorkerRow } from '@kernmantle/core/store';
import { expect, test } from 'vitest';
import { createFleetWatch } from './fleet-watch.ts';

const row = (id: string, heartbeat: number): WorkerRow => ({
  id,
  host: id,
  version: '1',
  journal: 2,
  slots: 4,
  busy: 1,
  tenants: [''],
  projects: [],
  draining: false,
  memory: 1,
  started: 0,
  heartbeat,
  clock_off: 0,
});

/** A fleet whose time and workers the test sets. */
function openStage() {
  let [now, looks] = [0, 0];
  let workers: WorkerRow[] = [];
  const fleet: Partial<Fleet> = {
    place: 'postgres://db/km',
    now: async () => ok(now),
    workers: async () => {
      looks += 1;
      return ok(workers);
    },
    queues: async () => ok([]),
    limits: async () => ok([{ scope: 'tenant:a', spend_per_day: 2_500_000_000n }]),
  };
  const store: Partial<Store> = {
    fleet: fleet as Fleet,
    query: async () => ok({ rows: [] }),
  };
  const clock = { now: () => now, monotonic: () => now };
  const served = () => ok({ project: 'prj_1', items: 'sha256:1' });
  const watch = createFleetWatch({ store: store as Store, clock, served });
  const seen = async () => {
    const read = await watch.read();
    if (!read.ok || !read.output) throw new Error('no fleet');
    return read.output;
  };
  return {
    watch,
    seen,
    looks: () => looks,
    at(time: number, list: WorkerRow[]) {
      [now, workers] = [time, list];
    },
  };
}

test('who was lost is shown as gone for a while; who left is not', async () => {
  const stage = openStage();
  const moods = async () => (await stage.seen()).workers.map(({ id, gone }) => `${id} ${gone}`);
  stage.at(10_000, [row('a', 9000), row('b', 9000), row('c', 9000)]);
  expect(await moods()).toEqual(['a false', 'b false', 'c false']);
  // `b` says good-bye; `c` says nothing any more.
  stage.at(12_000, [row('a', 12_000), row('c', 9000)]);
  expect(await moods()).toEqual(['a false', 'c false']);
  stage.at(24_500, [row('a', 24_000)]);
  expect(await moods()).toEqual(['a false', 'c true']);
  stage.at(30_000, [row('a', 29_000), row('c', 29_500)]);
  expect(await moods()).toEqual(['a false', 'c false']);
  stage.at(700_000, [row('a', 699_000)]);
  expect(await moods()).toEqual(['a false']);
});

test('a look is kept for a second, and taken again when threads move or after three', async () => {
  const stage = openStage();
  stage.at(10_000, []);
  await Promise.all([stage.seen(), stage.seen(), stage.seen()]);
  expect(stage.looks()).toBe(1);
  stage.at(11_500, []);
  expect(stage.watch.isDue()).toBe(false);
  stage.watch.move();
  expect(stage.watch.isDue()).toBe(true);
  expect((await stage.seen()).limits).toEqual([{ scope: 'tenant:a', spend_per_day: 2.5 }]);
  expect(stage.watch.isDue()).toBe(false);
  stage.at(14_500, []);
  expect(stage.watch.isDue()).toBe(true);
});

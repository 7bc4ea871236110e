// Real worker processes over a real server.
import { expectSame } from '@kernmantle/test-support/expect-same';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startProxy } from './faults/proxy.ts';
import {
  openWorkerStage,
  PROJECT_ID,
  startWorkerProcess,
  type WorkerStage,
} from './support/worker-stage.ts';

const url = inject('postgres');
const reason = url === '' ? ' (skipped: no server can be started here)' : '';
const onServer = test.skipIf(url === '');
/** Several processes are started, on a machine that may be busy. */
const LONG = { timeout: timeoutMs(120_000) };
const patient = { timeout: timeoutMs(60_000) };

const queue = async ({ threads }: WorkerStage, directive: string): Promise<string> =>
  must(await threads.enqueue({ directive })).thread;

const statusOf = async ({ threads }: WorkerStage, id: string): Promise<string> =>
  must(await threads.store.thread(id)).status;

const fleetOf = ({ threads }: WorkerStage) => {
  const { fleet } = threads.store;
  if (!fleet) throw new Error('no fleet');
  return fleet;
};

onServer(`two workers share what is queued, and leave in good order${reason}`, LONG, async () => {
  const stage = await openWorkerStage(url);
  const ids: string[] = [];
  for (let at = 0; at < 12; at++) ids.push(await queue(stage, 'greet'));
  const before = must(await fleetOf(stage).queues());
  expect(before).toMatchObject([{ project: PROJECT_ID, ready: 12, served_by: 0 }]);
  const workers = [stage.work(['--slots', '2']), stage.work(['--slots', '2'])];
  const done = () => workers.flatMap(({ said }) => said.filter(({ kind }) => kind === 'done'));
  await expect.poll(() => done().length, patient).toBe(12);
  expect(new Set(done().map(({ thread }) => thread))).toEqual(new Set(ids));
  for (const id of ids) expect(await statusOf(stage, id)).toBe('completed');
  await Promise.all(workers.map((worker) => worker.hears('ready')));
  await expect
    .poll(async () => must(await fleetOf(stage).workers()).map(({ slots }) => slots))
    .toEqual([2, 2]);
  expect(workers[0]?.said[0]).toMatchObject({
    kind: 'ready',
    slots: 2,
    tenants: [],
    projects: [{ project: PROJECT_ID, sticky: false }],
  });
  for (const { child } of workers) child.kill('SIGTERM');
  expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0]);
  for (const { said, errors } of workers) {
    expect(said.at(-1)).toMatchObject({ kind: 'ended', left: [] });
    expect(JSON.stringify(said) + errors()).not.toContain(new URL(url).password);
  }
  expect(must(await fleetOf(stage).workers())).toEqual([]);
});

/** A model that is silent at the first question, and answers from then on. */
function silentOnce() {
  let asked = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    answer: async () => {
      asked += 1;
      if (asked === 1) await promise;
      return { text: 'done' };
    },
    end: () => resolve(),
  };
}

onServer(
  `a killed worker's thread goes on at another, from where it was${reason}`,
  LONG,
  async () => {
    const model = silentOnce();
    const stage = await openWorkerStage(url, model.answer);
    const first = stage.work();
    await first.hears('ready');
    const id = await queue(stage, 'talk');
    await expect.poll(() => stage.asked(), patient).toBe(1);
    const second = stage.work();
    await second.hears('ready');
    first.child.kill('SIGKILL');
    await second.hears('done');
    model.end();
    expect(second.said.find(({ kind }) => kind === 'done')).toMatchObject({
      thread: id,
      status: 'completed',
    });
    expect(stage.asked()).toBe(2);
    const events = must(await stage.threads.store.read(id));
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));
    expect(events.filter(({ data }) => data.cause === 'process_lost')).toHaveLength(1);
    const again = must(await stage.threads.replay(id));
    expectSame(again);
  },
);

onServer(`told to end it drains, and a second signal does not wait${reason}`, LONG, async () => {
  const model = silentOnce();
  const stage = await openWorkerStage(url, model.answer);
  const first = stage.work();
  await first.hears('ready');
  await queue(stage, 'talk');
  await expect.poll(() => stage.asked(), patient).toBe(1);
  first.child.kill('SIGTERM');
  await first.hears('draining');
  // The request is in flight: its answer is awaited, unless somebody insists.
  first.child.kill('SIGTERM');
  expect(await first.ended).toBe(130);
  model.end();
  const second = stage.work();
  await second.hears('done');
  second.child.kill('SIGINT');
  expect(await second.ended).toBe(0);
});

onServer(`the answer that is under way is kept when it hands over${reason}`, LONG, async () => {
  const model = silentOnce();
  const stage = await openWorkerStage(url, model.answer);
  const first = stage.work();
  await first.hears('ready');
  const id = await queue(stage, 'talk');
  await expect.poll(() => stage.asked(), patient).toBe(1);
  first.child.kill('SIGTERM');
  await first.hears('draining');
  model.end();
  expect(await first.ended).toBe(0);
  if ((await statusOf(stage, id)) !== 'completed') await stage.work().hears('done');
  expect(await statusOf(stage, id)).toBe('completed');
  expect(stage.asked()).toBe(1);
});

onServer(
  `other items: handed back, said, and taken when the disk has them${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const id = await queue(stage, 'greet');
    const { fixture } = stage;
    const file = '.ai/knowledge/more.md';
    fixture.write(file, '---\nname: more\ntitle: More\n---\nMore.\n');
    const worker = stage.work();
    await worker.hears('handed_back', 2);
    expect(worker.said.find(({ kind }) => kind === 'handed_back')).toMatchObject({
      thread: id,
      code: 'items_differ',
      reason: expect.stringContaining('no worker serves it with those'),
    });
    const [row] = must(await fleetOf(stage).queues());
    expect(row).toMatchObject({ served_by: 0 });
    const { rmSync } = await import('node:fs');
    rmSync(`${fixture.root}/${file}`);
    await worker.hears('done');
    expect(await statusOf(stage, id)).toBe('completed');
    worker.child.kill('SIGTERM');
    expect(await worker.ended).toBe(0);
  },
);

onServer(
  `what nobody began goes on with today's items, when a person says so${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const { fixture, store, threads } = stage;
    const id = await queue(stage, 'greet');
    const { created } = must(await threads.store.thread(id));
    fixture.write('.ai/knowledge/more.md', '---\nname: more\ntitle: More\n---\nMore.\n');
    const today = await fixture.open({ store });
    onTestFinished(() => today.close());
    const own = must(await today.threads());
    const refused = await own.resume(id, AbortSignal.abort());
    expect(refused.ok ? '' : refused.error.code).toBe('lease_held');
    await own.resume(id, AbortSignal.abort(), { items: 'today' });
    const { items } = must(today.served());
    expect(must(await threads.store.thread(id))).toMatchObject({ items });
    // It waits since it was queued again, not since 1970.
    const [row] = must(await fleetOf(stage).queues());
    expect(row).toMatchObject({ items, ready: 1, served_by: 0 });
    expect(row?.oldest).toBeGreaterThanOrEqual(created);
    const worker = stage.work();
    await worker.hears('done');
    expect(await statusOf(stage, id)).toBe('completed');
  },
);

onServer(
  `what a worker cannot serve it refuses at the start, with what to do${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const { fixture, store } = stage;
    await queue(stage, 'greet');
    const stranger = stage.work([], { KERNMANTLE_HOME: `${fixture.home}-other` });
    expect(await stranger.ended).not.toBe(0);
    expect(JSON.stringify(stranger.said)).toContain('store_foreign');
    const twice = stage.work([
      '--project',
      fixture.root,
      '--project',
      `${fixture.root}/../project`,
    ]);
    expect(await twice.ended).toBe(2);
    expect(JSON.stringify(twice.said)).toContain('the same project');
    const nowhere = startWorkerProcess([], fixture.root, fixture.env);
    expect(await nowhere.ended).toBe(2);
    expect(JSON.stringify(nowhere.said)).toContain('--store postgres://');
    fixture.write('.ai/config/project.yaml', 'id: nothing\n');
    const unnamed = startWorkerProcess(['--store', store], fixture.root, fixture.env);
    expect(await unnamed.ended).toBe(3);
    expect(JSON.stringify(unnamed.said)).toContain('project.yaml');
    expect(must(await fleetOf(stage).queues())).toMatchObject([{ ready: 1 }]);
  },
);

onServer(
  `tenants have workers of their own, and sticky threads their place${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const { fixture, store } = stage;
    const acme = await fixture.open({ store, tenant: 'acme' });
    const threads = must(await acme.threads());
    const own = await queue(stage, 'greet');
    const theirs = must(await threads.enqueue({ directive: 'greet' })).thread;
    const worker = stage.work([
      '--tenant',
      'acme',
      '--tenant',
      'other',
      '--sticky',
      '--slots',
      '1',
    ]);
    await worker.hears('done');
    expect(worker.said.filter(({ kind }) => kind === 'claimed')).toMatchObject([
      { thread: theirs, tenant: 'acme' },
    ]);
    expect(worker.said[0]).toMatchObject({
      projects: [{ sticky: true }],
      tenants: ['acme', 'other'],
    });
    expect(await statusOf(stage, own)).toBe('spawning');
    const placed = must(await stage.threads.store.read(theirs, { types: ['status'] }));
    expect(placed.some(({ data }) => data.by === worker.said[0]?.worker)).toBe(true);
    expectSame(must(await stage.threads.replay(theirs)));
    await acme.close();
    worker.child.kill('SIGTERM');
    expect(await worker.ended).toBe(0);
  },
);

/** What a thread leaves that takes down its worker: the store's own words count, so the real one is asked. */
onServer(
  `a thread that takes down its process again and again is failed${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const { store } = stage.threads;
    const id = await queue(stage, 'talk');
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const schema = new URL(stage.store).searchParams.get('schema');
    for (let at = 0; at < 5; at++) {
      const owner = { owner: `elsewhere:${at}`, ttlMs: 10_000 };
      const [held] = must(
        await store.take(owner, { count: 1, projects: [PROJECT_ID], waitMs: 9000 }),
      );
      expect(held?.thread).toBe(id);
      if (!held) return;
      const { epoch, row } = held;
      const events = [
        { type: 'status', data: { status: 'running' } },
        { type: 'signal', data: { kind: 'resume', by: owner.owner } },
      ] as const;
      must(await store.commit(id, { expect: { seq: row.seq, epoch }, events, status: 'running' }));
      await client.query(`UPDATE ${schema}.threads SET lease_until = 1 WHERE id = $1`, [id]);
      // The worker was announced once and is silent since: it is known to be gone.
      const silent = `INSERT INTO ${schema}.workers VALUES ($1, '{}', 1, 1, 0)`;
      await client.query(silent, [owner.owner]);
      expect(must(await store.sweep()).interrupted).toEqual([id]);
    }
    await client.end();
    const worker = stage.work();
    await worker.hears('done');
    expect(worker.said.find(({ kind }) => kind === 'done')).toMatchObject({
      thread: id,
      status: 'failed',
      reason: expect.stringContaining('was lost 5 times'),
    });
    expect(stage.asked()).toBe(0);
    expect(await statusOf(stage, id)).toBe('failed');
    worker.child.kill('SIGTERM');
    expect(await worker.ended).toBe(0);
  },
);

onServer(
  `a worker that starts while the database is away waits for it, and ends when it is told to${reason}`,
  LONG,
  async () => {
    const stage = await openWorkerStage(url);
    const { fixture, store } = stage;
    const proxy = await startProxy(Number(new URL(url).port));
    onTestFinished(() => proxy.close());
    const away = new URL(store);
    away.port = String(proxy.port);
    await proxy.close();
    const start = (address: URL) =>
      startWorkerProcess(['--store', address.href], fixture.root, fixture.env);
    const [first, second] = [start(away), start(away)];
    await Promise.all([first, second].map((worker) => worker.hears('store_gone')));
    expect(first.said).toMatchObject([{ kind: 'store_gone', code: 'store_failed' }]);
    second.child.kill('SIGTERM');
    expect(await second.ended).toBe(0);
    expect(second.said.at(-1)).toMatchObject({ kind: 'ended', taken: 0, left: [] });
    const back = await startProxy(Number(new URL(url).port), proxy.port);
    onTestFinished(() => back.close());
    const id = await queue(stage, 'greet');
    await first.hears('done');
    const kinds = first.said.map(({ kind }) => kind);
    expect(kinds).toEqual(['store_gone', 'store_back', 'ready', 'claimed', 'done']);
    expect(await statusOf(stage, id)).toBe('completed');
    expect(JSON.stringify(first.said) + first.errors()).not.toContain(new URL(url).password);
  },
);

onServer(
  `a worker that is not let in, or finds no tables, ends at once${reason}`,
  LONG,
  async () => {
    const { fixture, store } = await openWorkerStage(url);
    const wrong = new URL(store);
    wrong.password = 'not-this-one';
    const empty = new URL(store);
    empty.searchParams.set('schema', 't_worker_nothing');
    for (const [address, why] of [
      [wrong, 'check name and password'],
      [empty, 'run the migration first'],
    ] as const) {
      const worker = startWorkerProcess(['--store', address.href], fixture.root, fixture.env);
      expect(await worker.ended).toBe(1);
      expect(JSON.stringify(worker.said) + worker.errors()).toContain(why);
      expect(worker.said.map(({ kind }) => kind)).not.toContain('store_gone');
    }
  },
);

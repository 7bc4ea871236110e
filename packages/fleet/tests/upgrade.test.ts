// A rolling upgrade: workers of today beside those of a program that writes another form of the journal,
// which is made here. Real processes over a real server.
import { systemClock } from '@kernmantle/core/base';
import { must } from '@kernmantle/test-support/registry';
import { ofToday, timeoutMs } from '@kernmantle/test-support/soak';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { migrateServerStore, openServerStore } from '../src/postgres/address.ts';
import { FUNCTIONS, JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { noServer, openServerStores } from './support/server-stores.ts';
import { openWorkerStage, type WorkerStage } from './support/worker-stage.ts';

const url = inject('postgres');
const onServer = test.skipIf(url === '');
const LONG = { timeout: timeoutMs(180_000) };
const patient = { timeout: timeoutMs(60_000) };
const TODAY = Math.max(...JOURNAL_FORMATS);
const [OLD, NEXT] = [[TODAY], [TODAY, TODAY + 1]];

/** Questions that are answered one by one. */
function heldBack() {
  const waiting: (() => void)[] = [];
  let isOpen = false;
  return {
    answer: async () => {
      if (!isOpen) await new Promise<void>((resolve) => void waiting.push(resolve));
      return { text: 'done' };
    },
    count: () => waiting.length,
    open(): void {
      isOpen = true;
      for (const go of waiting) go();
    },
  };
}

/** The project as the next program has it; its migration is a step of its own. */
async function openNext({ fixture, store }: WorkerStage) {
  const runtime = await fixture.open({
    store,
    openStore: ({ clock, identity }) =>
      openServerStore(store, { clock, ...(identity && { identity }), formats: NEXT }),
  });
  onTestFinished(() => runtime.close());
  return runtime;
}

const queue = async (threads: WorkerStage['threads'], directive = 'talk'): Promise<string> =>
  must(await threads.enqueue({ directive })).thread;

async function look<R extends object>({ store }: WorkerStage, text: string): Promise<R[]> {
  const address = new URL(store);
  const schema = address.searchParams.get('schema') ?? '';
  address.searchParams.delete('schema');
  const client = new pg.Client({ connectionString: address.href });
  await client.connect();
  try {
    return (await client.query<R>(text.replaceAll('@@', schema))).rows;
  } finally {
    await client.end();
  }
}

async function formats(stage: WorkerStage): Promise<Record<string, number>> {
  const rows = await look<{ id: string; format: number }>(
    stage,
    'SELECT id, format FROM @@.threads',
  );
  return Object.fromEntries(rows.map(({ id, format }) => [id, format]));
}

const CASES: readonly (readonly [title: string, check: () => Promise<void>])[] = [
  [
    'old workers take what they read, and are drained while new ones go on with all of it',
    async () => {
      const model = heldBack();
      const stage = await openWorkerStage(url, model.answer);
      const { store } = stage.threads;
      const old = [stage.work(['--slots', '2']), stage.work(['--slots', '2'])];
      const before: string[] = [];
      for (let at = 0; at < 8; at++) before.push(await queue(stage.threads));
      await expect.poll(model.count, patient).toBe(4);

      // The next program works with nothing before its migration; that one locks nobody out.
      const early = await openNext(stage);
      expect(await early.registry.open()).toMatchObject({
        error: { code: 'store_failed', detail: { message: expect.stringContaining('journal 2') } },
      });
      const { identity } = await new Promise<{ identity?: Uint8Array }>((resolve, reject) => {
        stage.fixture
          .open({
            openStore(options) {
              resolve(options);
              return Promise.resolve({ ok: false, error: { code: 'x', detail: { message: 'x' } } });
            },
          })
          .then((runtime) => runtime.registry.open().then(() => runtime.close()))
          .catch(reject);
      });
      const key = identity ? { identity } : {};
      must(await migrateServerStore(stage.store, { clock: systemClock, ...key, formats: NEXT }));
      expect(
        await migrateServerStore(stage.store, { clock: systemClock, ...key, formats: OLD }),
      ).toMatchObject({ error: { code: 'store_newer' } });
      const late = stage.work(['--slots', '2']);
      await expect.poll(model.count, patient).toBe(6);

      // What the next program queues is of its form: nobody of the old ones takes it, and that is said.
      const next = must(await (await openNext(stage)).threads());
      const after = [await queue(next), await queue(next, 'greet')];
      const made = await formats(stage);
      expect(after.map((id) => made[id])).toEqual([TODAY + 1, TODAY + 1]);
      expect(before.map((id) => made[id])).toEqual(before.map(() => TODAY));
      const names = await look<{ name: string }>(
        stage,
        'SELECT DISTINCT name FROM @@_jobs.job ORDER BY name',
      );
      expect(names.map(({ name }) => name.split('.')[1])).toEqual([`f${TODAY}`, `f${TODAY + 1}`]);
      expect(must((await store.fleet?.queues()) ?? { ok: true, output: [] })).toMatchObject([
        { ready: 4, served_by: 0 },
      ]);
      const owner = { owner: 'old', ttlMs: 1000 };
      expect(await store.claim(after[0] ?? '', owner)).toMatchObject({
        error: { code: 'store_newer', detail: { journal: TODAY + 1 } },
      });

      const fresh = stage.workAs(NEXT);
      await fresh.hears('ready');
      await expect
        .poll(async () => must(await store.thread(after[1] ?? '')).status, patient)
        .toBe('completed');
      expect(must((await store.fleet?.queues()) ?? { ok: true, output: [] })).toEqual([]);
      for (const worker of [...old, late]) worker.child.kill('SIGTERM');
      for (const worker of [...old, late]) await worker.hears('draining');
      model.open();
      for (const worker of [...old, late]) {
        expect(await worker.ended).toBe(0);
        expect(worker.said.at(-1)).toMatchObject({ kind: 'ended', left: [] });
      }

      const all = [...before, ...after];
      const statuses = async () =>
        Promise.all(all.map(async (id) => must(await store.thread(id)).status));
      await expect.poll(statuses, patient).toEqual(all.map(() => 'completed'));
      for (const id of all) {
        const events = must(await store.read(id));
        expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));
      }
      const taken = new Set(
        fresh.said.filter(({ kind }) => kind === 'done').map((one) => one.thread),
      );
      const ended = await formats(stage);
      for (const id of all) expect(ended[id]).toBe(taken.has(id) || after.includes(id) ? 3 : 2);
      expect(taken.size).toBeGreaterThanOrEqual(4);
      expect(await look(stage, 'SELECT name FROM @@_jobs.job')).toEqual([]);
      fresh.child.kill('SIGTERM');
      expect(await fresh.ended).toBe(0);
    },
  ],
  [
    'a thread that a new worker hands over waits among the new, whoever wakes it',
    async () => {
      const stores = await openServerStores(url);
      onTestFinished(() => stores.close());
      const [old, next] = [await stores.open(), await stores.open(systemClock, NEXT)];
      const wanted = { count: 5, projects: ['p'] };
      const take = async (store: typeof old, owner: string) =>
        must(await store.take({ owner, ttlMs: 60_000 }, wanted)).map(({ thread }) => thread);
      for (const id of ['a', 'b']) {
        must(
          await old.createThread({
            id,
            directive: 'd',
            version: '1',
            runner: 'safety',
            project: 'p',
            limits: {},
            inputs: null,
            budget: {},
            events: [],
            start: { queue: {} },
          }),
        );
      }
      expect((await take(next, 'new')).sort()).toEqual(['a', 'b']);
      // The jobs that they came from were of the old form.
      expect(await stores.query('SELECT name FROM @@_jobs.job')).toEqual([]);
      const { epoch, seq } = must(await old.thread('a'));
      must(
        await next.commit('a', {
          expect: { seq, epoch },
          events: [{ type: 'note', data: {} }],
          status: 'waiting',
          release: true,
        }),
      );
      must(
        await next.release(
          { thread: 'b', epoch: must(await old.thread('b')).epoch },
          { again: true },
        ),
      );
      must(await old.signal({ thread: 'a', kind: 'message', payload: {}, key: 'k', by: 'me' }));
      expect(await take(old, 'old')).toEqual([]);
      const jobs = await stores.query<{ name: string }>('SELECT name FROM @@_jobs.job');
      expect(jobs.map(({ name }) => name)).toEqual(Array(2).fill(`threads.f${TODAY + 1}.-.p`));
      expect((await take(next, 'new')).sort()).toEqual(['a', 'b']);
    },
  ],
  [
    'the functions on a server are those of the source, each once',
    async () => {
      const stores = await openServerStores(url);
      onTestFinished(() => stores.close());
      const there = await stores.query<{ name: string }>(
        `SELECT proname AS name FROM pg_proc WHERE pronamespace = '@@'::regnamespace ORDER BY 1`,
      );
      const written = [...FUNCTIONS.matchAll(/CREATE OR REPLACE FUNCTION (\w+)\(/g)].map(
        ([, name]) => name,
      );
      expect(there.map(({ name }) => name)).toEqual(
        written.toSorted((a = '', b = '') => (a < b ? -1 : 1)),
      );
      expect(new Set(written).size).toBe(written.length);
    },
  ],
];

for (const [title, check] of ofToday(CASES, 1)) onServer(`${title}${noServer(url)}`, LONG, check);

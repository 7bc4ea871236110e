// The queue on a real server: jobs and rows say the same, whoever crashes, overtakes or comes late.
import { systemClock } from '@kernmantle/core/base';
import type { LeasedThread, Store } from '@kernmantle/core/store';
import { timeoutMs } from '@kernmantle/test-support/soak';
import {
  aThread,
  begin,
  codeOf,
  must,
  owner,
  writerOf,
} from '@kernmantle/test-support/store-suite/stage';
import fc from 'fast-check';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { queueName } from '../src/postgres/jobs.ts';
import { JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { noServer, openServerStores, type ServerStores } from './support/server-stores.ts';

const url = inject('postgres');
const QUEUE = { start: { queue: {} } };
const ONE = { count: 1, projects: ['one'] };
const quiet = { expect: { seq: 0, epoch: 0, quiet: true as const } };

let opened: ServerStores | undefined;
afterEach(async () => {
  await opened?.close();
  opened = undefined;
});

async function stage(): Promise<ServerStores> {
  opened = await openServerStores(url);
  return opened;
}

const names = (all: readonly LeasedThread[]): string[] => all.map(({ thread }) => thread);
const said = (thread: string, key: string) => ({
  thread,
  kind: 'message',
  payload: {},
  key,
  by: 'me',
});

/** State and thread of every job there is. */
const jobsOf = async (on: ServerStores): Promise<string[]> => {
  const text = `SELECT state || ' ' || (data ->> 'thread') AS job FROM @@_jobs.job ORDER BY 1`;
  return (await on.query<{ job: string }>(text)).map(({ job }) => job);
};

test('no two queues share a name, and the engine takes every name', () => {
  const word = fc.oneof(
    fc.string({ maxLength: 5 }),
    fc.constantFrom('-', '', '/2d/', '.', 'a.b', 'ü', '𝄞'),
  );
  fc.assert(
    fc.property(fc.option(word, { nil: undefined }), word, fc.option(word), word, (a, b, c, d) => {
      const [one, two] = [queueName(2, a, b), queueName(2, c ?? undefined, d)];
      expect(one === two).toBe(a === (c ?? undefined) && b === d);
      expect(one).toMatch(/^threads\.f\d\.[\w.\-/]*$/);
    }),
  );
});

describe.skipIf(url === '')(`jobs${noServer(url)}`, () => {
  test('what is queued is one job; whoever takes it holds it by that job until it is let go', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    must(await store.createThread(aThread('t', QUEUE)));
    expect(await jobsOf(on)).toEqual(['created t']);
    const [held] = must(await other.take(owner('there'), ONE));
    expect(await jobsOf(on)).toEqual(['active t']);
    must(await other.renew(held ? [held] : [], 1000));
    const writer = writerOf(other, held as LeasedThread);
    await writer.must({ status: 'running' });
    await writer.must({ ...quiet, status: 'waiting', release: true });
    expect(await jobsOf(on)).toEqual([]);
    must(await store.signal(said('t', 'a')));
    must(await store.signal(said('t', 'b')));
    expect(await jobsOf(on)).toEqual(['created t']);
    // A person comes first.
    const mine = writerOf(store, must(await store.claim('t', owner('me'))));
    expect(await jobsOf(on)).toEqual([]);
    expect(must(await other.take(owner('there'), ONE))).toEqual([]);
    await mine.must({ acknowledged: 2, status: 'completed', release: true });
    expect(await jobsOf(on)).toEqual([]);
  });

  test('fifty takers share what is queued, and nobody gets what another has', async () => {
    const on = await stage();
    const stores = await Promise.all([on.open(), on.open(), on.open()]);
    const [store] = stores;
    const ids = Array.from({ length: 120 }, (_, index) => `t${index}`);
    for (let at = 0; at < ids.length; at += 20) {
      const some = ids.slice(at, at + 20);
      const made = some.map((id) => store.createThread(aThread(id, QUEUE)));
      for (const one of await Promise.all(made)) must(one);
    }
    const got: string[] = [];
    const takers = Array.from({ length: 50 }, async (_, index) => {
      const from = stores[index % 3] as Store;
      for (;;) {
        const held = must(await from.take(owner(`w${index}`), { count: 3, projects: ['one'] }));
        got.push(...names(held));
        if (held.length === 0 && got.length >= ids.length) return;
      }
    });
    await Promise.all(takers);
    expect(got.sort()).toEqual([...ids].sort());
    const rows = await on.query<{ epoch: number }>('SELECT DISTINCT epoch FROM @@.threads');
    expect(rows).toEqual([{ epoch: 1 }]);
  });

  test('parking crosses signals 300 times: nobody is stuck, nobody runs twice', {
    timeout: timeoutMs(120_000),
  }, async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    const threads = ['a', 'b', 'c'];
    for (const id of threads) {
      const writer = await begin(store, id);
      await writer.must({ status: 'waiting', release: true });
    }
    const running = new Set<string>();
    const heard = new Map<string, number>();
    const over = new AbortController();
    const work = async (from: Store, name: string): Promise<void> => {
      while (!over.signal.aborted) {
        const wanted = { count: 2, projects: ['one'], waitMs: 200 };
        for (const held of must(await from.take(owner(name), wanted))) {
          expect(running.has(held.thread)).toBe(false);
          running.add(held.thread);
          const writer = writerOf(from, held);
          let last = held.acknowledged;
          for (;;) {
            last = must(await from.signals(held.thread)).at(-1)?.number ?? last;
            running.delete(held.thread);
            const park = {
              ...quiet,
              acknowledged: last,
              status: 'waiting',
              release: true,
            } as const;
            const parked = await writer.commit(park);
            if (parked.ok) break;
            expect(codeOf(parked)).toBe('signalled');
            running.add(held.thread);
          }
          heard.set(held.thread, Math.max(heard.get(held.thread) ?? 0, last));
        }
      }
    };
    const workers = [work(store, 'one'), work(other, 'two'), work(other, 'three')];
    const speaking = threads.map(async (id) => {
      for (let n = 1; n <= 100; n++) must(await store.signal(said(id, `k${n}`)));
    });
    await Promise.all(speaking);
    await expect
      .poll(() => threads.map((id) => heard.get(id)), { timeout: timeoutMs(20_000) })
      .toEqual([100, 100, 100]);
    over.abort();
    await Promise.all(workers);
    expect(await jobsOf(on)).toEqual([]);
  });

  test('a process that is gone inside its take has taken nothing; after it, its lease runs out', async () => {
    const on = await stage();
    const store = await on.open();
    must(await store.createThread(aThread('t', QUEUE)));
    // Job and row are its own, and the transaction is still open, when it is cut off.
    await on.query('BEGIN; LOCK TABLE @@.thread_data');
    const taking = store.take(owner('dead'), ONE);
    const isInside = `SELECT 1 FROM pg_stat_activity WHERE application_name = '@@'
      AND wait_event_type = 'Lock'`;
    await expect.poll(() => on.query(isInside)).toHaveLength(1);
    await on.cut();
    await on.query('ROLLBACK');
    const [held] = must(await taking);
    expect(held).toMatchObject({ thread: 't', epoch: 1 });
    // It is lost after it was taken: others find it when its time is up.
    await on.query('UPDATE @@.threads SET lease_until = 1');
    const other = await on.open();
    expect(must(await other.sweep()).interrupted).toEqual(['t']);
    const [next] = must(await other.take(owner('alive'), ONE));
    expect(next).toMatchObject({ thread: 't', epoch: 3, row: { status: 'interrupted' } });
    // The zombie: nothing that it does counts, and nothing of the next is touched.
    expect(codeOf(await writerOf(store, held as LeasedThread).commit({ release: true }))).toBe(
      'stale_epoch',
    );
    must(await store.release(held as LeasedThread, { again: true }));
    expect(must(await store.renew([held as LeasedThread], 1000))).toEqual([]);
    expect(await jobsOf(on)).toEqual(['active t']);
    expect(must(await store.take(owner('dead'), ONE))).toEqual([]);
    await writerOf(other, next as LeasedThread).must({ status: 'completed', release: true });
    expect(await jobsOf(on)).toEqual([]);
  });

  test('whatever the engine loses, repeats or keeps too long, rows decide', async () => {
    const on = await stage();
    const store = await on.open();
    const name = queueName(Math.max(...JOURNAL_FORMATS), undefined, 'one');
    const more = (thread: string, state: string) =>
      on.query(
        `INSERT INTO @@_jobs.job (name, data, state, singleton_key, policy, created_on)
          VALUES ($1, $2, $3, $4, 'short', now() - interval '1 hour')`,
        name,
        { thread },
        state,
        thread,
      );
    const held = await begin(store, 'held');
    must(await store.createThread(aThread('queued', QUEUE)));
    const ended = await begin(store, 'ended');
    await ended.must({ status: 'completed', release: true });
    for (const thread of ['held', 'ended', 'nobody']) await more(thread, 'created');
    for (const thread of ['held', 'queued']) await more(thread, 'retry');
    // Jobs of those that are not to be had do not stand in the way.
    expect(names(must(await store.take(owner(), ONE)))).toEqual(['queued']);
    await held.must();
    expect(must(await store.take(owner(), { ...ONE, count: 9 }))).toEqual([]);
    // Its job is gone, and nobody said so: whoever sweeps makes another.
    must(await store.createThread(aThread('lost', QUEUE)));
    await on.query(`DELETE FROM @@_jobs.job WHERE state = 'created'`);
    expect(must(await store.take(owner(), ONE))).toEqual([]);
    must(await store.sweep());
    must(await store.sweep());
    expect(names(must(await store.take(owner(), ONE)))).toEqual(['lost']);
    expect(await jobsOf(on)).toEqual(['active lost', 'active queued']);
  });

  test('timers: what is for later is found when its time comes, whatever time it is here', async () => {
    const on = await stage();
    const wrong = { ...systemClock, now: () => Date.now() + 600_000 };
    const [store, other] = [await on.open(wrong), await on.open()];
    const first = await begin(store, 'first');
    must(await store.release(first, { again: true, delayMs: 120 }));
    const waiting = other.take(owner(), { ...ONE, waitMs: 20_000 });
    expect(names(must(await waiting))).toEqual(['first']);
    const third = await begin(store, 'third');
    await third.must({ status: 'waiting', release: { wake: wrong.now() + 100 } });
    expect(names(must(await other.take(owner(), { ...ONE, waitMs: 20_000 })))).toEqual(['third']);
    // A word ends the waiting, and there is still one job.
    const second = await begin(store, 'second');
    must(await store.release(second, { again: true, delayMs: 3_600_000 }));
    expect(must(await other.take(owner(), ONE))).toEqual([]);
    const soon = other.take(owner(), { ...ONE, waitMs: 20_000 });
    must(await store.signal(said('second', 'k')));
    expect(names(must(await soon))).toEqual(['second']);
    expect(await jobsOf(on)).toEqual(['active first', 'active second', 'active third']);
  });

  test('projects are visited in turn, and tenants never see each other', async () => {
    const on = await stage();
    const store = await on.open();
    for (let n = 0; n < 12; n++) {
      const project = n < 8 ? 'large' : 'small';
      must(await store.createThread(aThread(`t${n}`, { ...QUEUE, project, tenant: 'a' })));
    }
    must(await store.createThread(aThread('other', { ...QUEUE, project: 'large', tenant: 'b' })));
    const wanted = { count: 4, projects: ['large', 'small', 'none'], tenant: 'a' };
    const shares: string[][] = [];
    for (let n = 0; n < 3; n++) {
      const held = must(await store.take(owner(), wanted));
      shares.push(held.map(({ row }) => row.project).sort());
    }
    const half = ['large', 'large', 'small', 'small'];
    expect(shares).toEqual([half, half, ['large', 'large', 'large', 'large']]);
    expect(must(await store.take(owner(), wanted))).toEqual([]);
  });

  test('connections that are ended under those who wait are made again', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    for (let round = 0; round < 5; round++) {
      const waiting = other.take(owner('there'), { ...ONE, waitMs: 30_000 });
      must(await store.createThread(aThread(`before${round}`, QUEUE)));
      expect(names(must(await waiting))).toEqual([`before${round}`]);
      const next = other.take(owner('there'), { ...ONE, waitMs: 30_000 });
      expect(await on.cut()).toBeGreaterThan(0);
      must(await store.createThread(aThread(`after${round}`, QUEUE)));
      expect(names(must(await next))).toEqual([`after${round}`]);
    }
  });
});

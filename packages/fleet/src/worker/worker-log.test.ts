import { fail, ok } from '@kernmantle/core/base';
import type { LeasedThread, NewEvent, Store } from '@kernmantle/core/store';
import { openMemoryStore } from '@kernmantle/test-support/late-store';
import { makeClock, must } from '@kernmantle/test-support/registry';
import { aThread } from '@kernmantle/test-support/store-suite/stage';
import { turn } from '@kernmantle/test-support/store-time';
import { expect, onTestFinished, test } from 'vitest';
import type { WorkerNews, WorkerProject } from './run-thread.ts';
import { startWorker } from './worker.ts';
import { countCrashes, MAX_CRASHES } from './worker-log.ts';

async function openLab() {
  const clock = makeClock();
  const gone = new Set<string>();
  const own = await openMemoryStore({ clock, isGone: (name) => gone.has(name) });
  const store: Store = {
    ...own,
    take: (owner, wanted) => own.take(owner, { ...wanted, waitMs: 0 }),
  };
  onTestFinished(() => store.close());
  let count = 0;
  return {
    store,
    clock,
    /** A worker takes it, does this much, and is lost. */
    async crash(work: (held: LeasedThread) => Promise<unknown>): Promise<number> {
      count += 1;
      const owner = `w${count}`;
      const [held] = must(await store.take({ owner, ttlMs: 9000 }, { count: 1, projects: ['p'] }));
      if (!held) throw new Error('nothing is queued');
      const looked = must(await countCrashes(store, held, owner));
      if (looked.crashes < MAX_CRASHES) await work(looked.held);
      gone.add(owner);
      await store.sweep();
      return looked.crashes;
    },
  };
}

const say = (
  store: Store,
  { thread, epoch, row }: LeasedThread,
  events: [NewEvent, ...NewEvent[]],
) => store.commit(thread, { expect: { seq: row.seq, epoch }, events, status: 'running' });

const BEGIN: [NewEvent, ...NewEvent[]] = [
  { type: 'status', data: { status: 'running' } },
  { type: 'signal', data: { kind: 'resume', by: 'w' } },
  { type: 'tool_call', data: { tool: 'fs/read_file' } },
];
const born = (id: string) => aThread(id, { project: 'p', start: { queue: {} } });

test('a process that is lost at work is counted each time, and one that was lost before it began too', async () => {
  for (const isBegun of [true, false]) {
    const { store, crash } = await openLab();
    must(await store.createThread(born('t')));
    const counted: number[] = [];
    for (let at = 0; at < 6; at++) {
      counted.push(await crash(async (held) => isBegun && must(await say(store, held, BEGIN))));
    }
    expect(counted).toEqual([0, 1, 2, 3, 4, 5]);
  }
});

test('who got further in between is no danger', async () => {
  const { store, crash } = await openLab();
  must(await store.createThread(born('t')));
  const reply: NewEvent = { type: 'tool_result', data: { call_id: 'c' } };
  for (let at = 0; at < 12; at++) {
    const counted = await crash(async (held) => must(await say(store, held, [...BEGIN, reply])));
    expect(counted).toBe(at === 0 ? 0 : 1);
  }
});

test('a thread that rested and takes down whoever loads it is found out', async () => {
  const { store, crash, clock } = await openLab();
  must(await store.createThread(born('t')));
  const [held] = must(await store.take({ owner: 'a', ttlMs: 9000 }, { count: 1, projects: ['p'] }));
  if (!held) throw new Error('nothing is queued');
  const { epoch, row } = held;
  must(
    await store.commit('t', {
      expect: { seq: row.seq, epoch },
      events: [...BEGIN, { type: 'status', data: { status: 'waiting' } }],
      status: 'waiting',
      release: { wake: clock.now() },
    }),
  );
  const counted: number[] = [];
  for (let at = 0; at < 12 && (counted.at(-1) ?? 0) < MAX_CRASHES; at++) {
    counted.push(await crash(async () => {}));
  }
  expect(counted.at(-1)).toBe(MAX_CRASHES);
  expect(counted.length).toBeLessThan(12);
});

test('what was handed back in good order is not counted, however often', async () => {
  const { store, crash, clock } = await openLab();
  must(await store.createThread(born('t')));
  await crash(async (held) => must(await say(store, held, BEGIN)));
  const stop = new AbortController();
  const news: WorkerNews[] = [];
  const project: WorkerProject = {
    id: 'p',
    items: async () => ok('i'),
    threads: {
      resumeLeased: async () => fail('model_unavailable', 'the provider has no key'),
      requeueAll: async () => {},
    },
    close: async () => {},
  };
  const ended = startWorker({
    id: 'w9',
    version: '0',
    store,
    projects: [project],
    slots: 1,
    signal: stop.signal,
    clock,
    // Only hand-backs move the clock, so no lease expires.
    async wait(ms, signal) {
      await turn();
      if (ms < 1000 || signal.aborted) return;
      await new Promise((end) => signal.addEventListener('abort', end, { once: true }));
    },
    onNews(one) {
      if (one.kind !== 'handed_back') return;
      news.push(one);
      clock.pass(one.again_ms);
      if (news.length > 2 * MAX_CRASHES) stop.abort();
    },
  });
  expect(await ended).toMatchObject({ ok: true });
  expect(must(await store.thread('t')).status).toBe('interrupted');
});

test('after so many a worker ends it as failed, with what it was at, and does not touch it', async () => {
  const { store, crash, clock } = await openLab();
  must(await store.createThread(born('t')));
  for (let at = 0; at < MAX_CRASHES; at++) {
    await crash(async (held) => must(await say(store, held, BEGIN)));
  }
  const stop = new AbortController();
  const touched: string[] = [];
  const project: WorkerProject = {
    id: 'p',
    items: async () => ok('i'),
    threads: {
      resumeLeased: async ({ thread }) => fail('internal_error', String(touched.push(thread))),
      requeueAll: async () => {},
    },
    close: async () => {},
  };
  const onNews = ({ kind }: WorkerNews): void => void (kind === 'done' && stop.abort());
  const options = { id: 'w9', version: '0', store, projects: [project], slots: 1, clock, onNews };
  await startWorker({ ...options, signal: stop.signal });
  expect(touched).toEqual([]);
  const row = must(await store.thread('t'));
  expect(row).toMatchObject({ status: 'failed', result: { status: 'failed' } });
  expect(JSON.stringify(row.result)).toContain(
    'was lost 5 times in a call of `fs/read_file` without progress',
  );
  expect(row.owner).toBeUndefined();
});

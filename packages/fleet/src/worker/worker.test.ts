import { fail, type Outcome, ok, plainText } from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import type { Fleet, LeasedThread, Store, ThreadStatus, WorkerRow } from '@kernmantle/core/store';
import { openMemoryStore } from '@kernmantle/test-support/late-store';
import { makeClock, must, type TestClock } from '@kernmantle/test-support/registry';
import { aThread } from '@kernmantle/test-support/store-suite/stage';
import { countCalls, createSleep, turn } from '@kernmantle/test-support/store-time';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import type { WorkerNews, WorkerProject } from './run-thread.ts';
import { openWhenBack, startWorker } from './worker.ts';

type WorkerOptions = Parameters<typeof startWorker>[0];

type GoOn = (held: LeasedThread) => Promise<Outcome<ThreadResult>>;

const result = (thread_id: string, status: ThreadStatus): Outcome<ThreadResult> =>
  ok({ thread_id, status, outputs: {}, text: '', reason: '', cost: {} });

/** Ends a thread as whoever holds it would. */
const endIn =
  (store: Store, status: ThreadStatus = 'completed'): GoOn =>
  async ({ thread, epoch, row }) => {
    const events = [{ type: 'status', data: { status } }] as const;
    const expect = { seq: row.seq, epoch };
    const done = await store.commit(thread, { expect, events, status, release: true });
    return done.ok ? result(thread, status) : done;
  };

interface Yard {
  store: Store;
  clock: TestClock;
  gone: Set<string>;
  news: WorkerNews[];
  /** How long the worker wanted to wait, for what; time passes at once. */
  waits: number[];
  released: { thread: string; delayMs: number | undefined }[];
  items: { now: string };
  stop: AbortController;
  start(
    goOn: GoOn,
    more?: Partial<WorkerOptions & WorkerProject & { isStill: boolean }>,
  ): ReturnType<typeof startWorker>;
  queue(id: string, more?: Parameters<typeof aThread>[1]): Promise<void>;
  statusOf(id: string): Promise<ThreadStatus>;
  until(test: () => boolean): Promise<void>;
}

/** A store in memory that answers `take` at once. A wait of the worker moves the clock. */
async function openYard(change: (store: Store) => Partial<Store> = () => ({})): Promise<Yard> {
  const clock = makeClock();
  const gone = new Set<string>();
  const opened = await openMemoryStore({ clock, isGone: (name) => gone.has(name) });
  const { store: own, isBusy } = countCalls(opened);
  const sleep = createSleep(clock, isBusy);
  const stop = new AbortController();
  const [news, waits, released]: [WorkerNews[], number[], Yard['released']] = [[], [], []];
  const quick: Store = {
    ...own,
    take: (owner, wanted) => turn().then(() => own.take(owner, { ...wanted, waitMs: 0 })),
    release(lease, how) {
      if (how?.again) released.push({ thread: lease.thread, delayMs: how.delayMs });
      return own.release(lease, how);
    },
  };
  const store: Store = { ...quick, ...change(quick) };
  const items = { now: 'sha256:a' };
  onTestFinished(async () => {
    stop.abort();
    await own.close();
  });
  const yard: Yard = {
    store,
    clock,
    gone,
    news,
    waits,
    released,
    items,
    stop,
    start(goOn, { threads, isSticky = false, isStill = false, ...more } = {}) {
      const project: WorkerProject = {
        id: 'p',
        isSticky,
        items: async () => ok(items.now),
        threads: { resumeLeased: goOn, requeueAll: async () => {}, ...threads },
        close: async () => {},
      };
      return startWorker({
        id: 'w1',
        version: '0',
        store,
        projects: [project],
        slots: 4,
        signal: stop.signal,
        onNews: (one) => void news.push(one),
        clock,
        random: () => 0,
        async wait(ms, signal) {
          waits.push(ms);
          if (ms === 60_000) await new Promise((end) => signal.addEventListener('abort', end));
          await (isStill ? turn() : sleep(ms, signal));
        },
        ...more,
      });
    },
    async queue(id, more = {}) {
      must(await own.createThread(aThread(id, { project: 'p', start: { queue: {} }, ...more })));
    },
    statusOf: async (id) => must(await own.thread(id)).status,
    async until(isSo) {
      while (!isSo()) await turn();
    },
  };
  return yard;
}

const kinds = ({ news }: Yard): string[] => news.map(({ kind }) => kind);

test('each queued thread is worked on once, and never more at a time than there are places', () =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.nat(20), async (slots, count) => {
      const yard = await openYard();
      for (let at = 0; at < count; at++) await yard.queue(`t${at}`);
      const [seen, end] = [new Map<string, number>(), endIn(yard.store)];
      let [now, most] = [0, 0];
      const goOn: GoOn = async (held) => {
        seen.set(held.thread, (seen.get(held.thread) ?? 0) + 1);
        now += 1;
        most = Math.max(most, now);
        await turn();
        const done = await end(held);
        now -= 1;
        return done;
      };
      const ended = yard.start(goOn, { slots });
      await yard.until(() => kinds(yard).filter((kind) => kind === 'done').length === count);
      yard.stop.abort();
      expect(await ended).toEqual(ok({ taken: count, left: [] }));
      expect([...seen.values()]).toEqual(Array.from({ length: count }, () => 1));
      expect(most).toBeLessThanOrEqual(slots);
    }),
    { numRuns: 20 },
  ));

test('a thread that parks gives its place back at once', async () => {
  const yard = await openYard();
  await yard.queue('asks');
  await yard.queue('works');
  const park = endIn(yard.store, 'waiting');
  const end = endIn(yard.store);
  const ended = yard.start((held) => (held.thread === 'asks' ? park(held) : end(held)), {
    slots: 1,
  });
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  expect(await ended).toEqual(ok({ taken: 2, left: [] }));
  expect(kinds(yard)).toEqual(['claimed', 'parked', 'claimed', 'done', 'draining']);
  expect(await yard.statusOf('asks')).toBe('waiting');
});

test('what was started with other items is handed back, ever later, until the disk has them', async () => {
  const yard = await openYard();
  await yard.queue('t', { items: 'sha256:b' });
  const ended = yard.start(endIn(yard.store));
  await yard.until(() => yard.released.length === 8);
  expect(yard.released.map(({ delayMs }) => delayMs)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000,
  ]);
  expect(yard.news[0]).toMatchObject({ kind: 'handed_back', code: 'items_differ', thread: 't' });
  expect(JSON.stringify(yard.news[0])).toContain('no worker serves it with those');
  yard.items.now = 'sha256:b';
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  expect(await ended).toMatchObject({ ok: true });
});

const fleetOf = (workers: WorkerRow[]): Fleet =>
  ({
    workers: async () => ok(workers),
    announce: async () => ok(null),
    leave: async () => ok(null),
  }) as Partial<Fleet> as Fleet;

const worker = (id: string, items: string, draining = false): WorkerRow => ({
  id,
  host: id,
  version: '0',
  journal: 2,
  slots: 1,
  busy: 0,
  tenants: [''],
  memory: 0,
  projects: [{ project: 'p', items }],
  draining,
  started: 0,
  heartbeat: 0,
  clock_off: 0,
});

test('what another worker has the items for can be had there soon', async () => {
  const yard = await openYard(() => ({ fleet: fleetOf([worker('w2', 'sha256:b')]) }));
  await yard.queue('t', { items: 'sha256:b' });
  const ended = yard.start(endIn(yard.store));
  await yard.until(() => yard.released.length === 7);
  yard.stop.abort();
  await ended;
  const delays = yard.released.slice(0, 7).map(({ delayMs }) => delayMs);
  expect(delays).toEqual([100, 200, 400, 800, 1600, 2000, 2000]);
  expect(JSON.stringify(yard.news[0])).toContain('another worker has them');
});

test('what cannot begin here is queued again ever later, whoever let it go, and said each time', async () => {
  for (const isLetGo of [false, true]) {
    const yard = await openYard();
    await yard.queue('t');
    let tries = 0;
    const ended = yard.start(async (held) => {
      tries += 1;
      if (tries > 3) return await endIn(yard.store)(held);
      if (isLetGo) await yard.store.release(held);
      return fail('model_unavailable', 'the provider has no key');
    });
    await yard.until(() => kinds(yard).includes('done'));
    yard.stop.abort();
    await ended;
    expect(yard.released.map(({ delayMs }) => delayMs)).toEqual([1000, 2000, 4000]);
    const said = yard.news.filter(({ kind }) => kind === 'handed_back');
    expect(said).toHaveLength(3);
    expect(said[0]).toMatchObject({
      code: 'model_unavailable',
      reason: 'the provider has no key',
      again_ms: 1000,
    });
    expect(await yard.statusOf('t')).toBe('completed');
    // Whoever looks at it sees why, and its journal does not grow with every try.
    const reasons = must(await yard.store.read('t')).map(({ data }) => plainText(data.reason));
    expect(reasons.filter((reason) => reason.startsWith('returned'))).toEqual([
      'returned by a worker (w1): the provider has no key',
    ]);
  }
});

test('a bug in what goes on with a thread is a refusal, and the thread is not lost', async () => {
  const yard = await openYard();
  await yard.queue('t');
  let tries = 0;
  const ended = yard.start((held) => {
    tries += 1;
    if (tries === 1) throw new Error('oh');
    return endIn(yard.store)(held);
  });
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  await ended;
  expect(kinds(yard)).toEqual(['claimed', 'handed_back', 'claimed', 'done', 'draining']);
});

test.each(['stale_epoch', 'lease_expired'] as const)(
  'what somebody else has by now is let go, and not handed back: %s',
  async (code) => {
    const yard = await openYard();
    await yard.queue('t');
    const ended = yard.start(async (held) => {
      must(await yard.store.claim(held.thread, { owner: 'w2', ttlMs: 9000 }, { force: true }));
      return fail(code, 'somebody else has it');
    });
    await yard.until(() => kinds(yard).includes('let_go'));
    yard.stop.abort();
    await ended;
    expect(yard.released).toEqual([]);
  },
);

test('a lease that ran out while nobody else came is no reason to leave a thread for long', async () => {
  const yard = await openYard();
  await yard.queue('t');
  let tries = 0;
  const ended = yard.start(async (held) => {
    tries += 1;
    if (tries > 1) return await endIn(yard.store)(held);
    await yard.store.release(held, { again: true, delayMs: 30_000 });
    return fail('lease_expired', 'the disk was full for too long');
  });
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  await ended;
  expect(yard.released.map(({ delayMs }) => delayMs)).toEqual([30_000, 1000]);
  expect(kinds(yard)).toEqual(['claimed', 'handed_back', 'claimed', 'done', 'draining']);
});

test('a store that is gone is said once, asked ever more rarely, and worked with when it is back', async () => {
  let left = 9;
  const yard = await openYard(({ take }) => ({
    async take(...given) {
      left -= 1;
      return left >= 0 ? fail('store_failed', 'the server is gone') : await take(...given);
    },
    sweep: async () => fail('store_failed', 'the server is gone'),
  }));
  await yard.queue('t');
  const ended = yard.start(endIn(yard.store));
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  await ended;
  expect(kinds(yard)).toEqual(['store_gone', 'store_back', 'claimed', 'done', 'draining']);
  const asked = yard.waits.filter((ms) => ![5, 1800, 2700, 60_000].includes(Math.round(ms)));
  expect(asked).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
});

test('a store of somebody else ends the worker, and it has taken nothing', async () => {
  const yard = await openYard(() => ({
    take: async () => fail('store_foreign', 'made with another key'),
  }));
  await yard.queue('t');
  const ended = await yard.start(endIn(yard.store));
  expect(ended).toMatchObject({ ok: false, error: { code: 'store_foreign' } });
  expect(kinds(yard)).toEqual(['draining']);
});

test('told to drain it takes nothing, hands over what it has, and gives back what came late', async () => {
  let answer: (() => void) | undefined;
  const yard = await openYard(({ take }) => ({
    async take(...given) {
      const held = await take(...given);
      if (held.ok && held.output[0]?.thread === 'late' && answer === undefined) {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
      }
      return held;
    },
  }));
  await yard.queue('t');
  let handOver = (): void => {};
  const handed = new Promise<void>((resolve) => {
    handOver = resolve;
  });
  const goOn: GoOn = async (held) => {
    await handed;
    must(await yard.store.release(held, { again: true }));
    return result(held.thread, 'interrupted');
  };
  const ended = yard.start(goOn, {
    threads: { resumeLeased: goOn, requeueAll: async () => handOver() },
    isStill: true,
  });
  await yard.until(() => kinds(yard).includes('claimed'));
  await yard.queue('late');
  await yard.until(() => answer !== undefined);
  yard.stop.abort();
  await yard.until(() => kinds(yard).includes('parked'));
  answer?.();
  expect(await ended).toEqual(ok({ taken: 2, left: [] }));
  expect(kinds(yard)).toEqual(['claimed', 'draining', 'parked']);
  const again = must(
    await yard.store.take({ owner: 'w2', ttlMs: 9 }, { count: 9, projects: ['p'] }),
  );
  expect(again.map(({ thread }) => thread).toSorted()).toEqual(['late', 't']);
});

test('what does not end in time is left to its lease, and named', async () => {
  const yard = await openYard();
  await yard.queue('stuck');
  const ended = yard.start(() => new Promise(() => {}), { graceMs: 5000 });
  await yard.until(() => kinds(yard).includes('claimed'));
  yard.stop.abort();
  expect(await ended).toEqual(ok({ taken: 1, left: ['stuck'] }));
  expect(yard.waits).toContain(5000);
});

test('tenants are visited in turn, however much one of them has', async () => {
  const waiting: Record<string, string[]> = { a: ['a1', 'a2', 'a3', 'a4'], b: ['b1', 'b2'] };
  const yard = await openYard((own) => ({
    async take(owner, { tenant = '', ...wanted }) {
      const [next] = waiting[tenant] ?? [];
      if (next === undefined) return await turn().then(() => ok([]));
      waiting[tenant]?.shift();
      return ok([must(await own.claim(next, owner))].slice(0, wanted.count));
    },
  }));
  for (const id of [...(waiting.a ?? []), ...(waiting.b ?? [])]) await yard.queue(id);
  const order: string[] = [];
  const end = endIn(yard.store);
  const goOn: GoOn = async (held) => {
    order.push(held.thread);
    for (let at = 0; at < 5; at++) await turn();
    return await end(held);
  };
  const ended = yard.start(goOn, { slots: 1, tenants: ['a', 'b'] });
  await yard.until(() => kinds(yard).filter((kind) => kind === 'done').length === 6);
  yard.stop.abort();
  await ended;
  expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
});

test('where files differ from worker to worker a thread goes on where it began, while that lives', async () => {
  const peers = [worker('w2', 'sha256:a')];
  const yard = await openYard(() => ({ fleet: fleetOf(peers) }));
  await yard.queue('t');
  const before = must(await yard.store.claim('t', { owner: 'w2', ttlMs: 60_000 }));
  const begun = [
    { type: 'status', data: { status: 'running' } },
    { type: 'signal', data: { kind: 'resume', by: 'w2' } },
    { type: 'status', data: { status: 'waiting' } },
  ] as const;
  const expected = { seq: before.row.seq, epoch: before.epoch };
  must(
    await yard.store.commit('t', {
      expect: expected,
      events: begun,
      status: 'waiting',
      release: { wake: yard.clock.now() },
    }),
  );
  const ended = yard.start(endIn(yard.store), { isSticky: true });
  await yard.until(() => yard.released.length === 3);
  expect(kinds(yard)).not.toContain('claimed');
  expect(yard.news[0]).toMatchObject({ kind: 'handed_back', code: 'other_place' });
  // It drains: whoever is there goes on.
  peers.splice(0, 1, worker('w2', 'sha256:a', true));
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  await ended;
});

test('where files differ who begins a thread notes it, and goes on with it itself', async () => {
  const yard = await openYard(() => ({ fleet: fleetOf([worker('w1', 'sha256:a')]) }));
  await yard.queue('t');
  let runs = 0;
  const [park, end] = [endIn(yard.store, 'waiting'), endIn(yard.store)];
  const ended = yard.start(
    async (held) => {
      runs += 1;
      const done = await (runs === 1 ? park : end)(held);
      const key = `k${runs}`;
      if (runs === 1) {
        const more = { kind: 'message', payload: {}, key, by: 'me' };
        must(await yard.store.signal({ thread: 't', ...more }));
      }
      return done;
    },
    { isSticky: true },
  );
  await yard.until(() => kinds(yard).includes('done'));
  yard.stop.abort();
  await ended;
  expect(kinds(yard)).toEqual(['claimed', 'parked', 'claimed', 'done', 'draining']);
  const events = must(await yard.store.read('t'));
  expect(events.filter(({ data }) => data.by === 'w1')).toMatchObject([
    { type: 'status', data: { status: 'spawning' } },
  ]);
});

const away = fail('store_failed', 'the registry cannot be reached', { unreachable: true });

test('a worker that starts while the store is away asks ever more rarely, and says so once', async () => {
  const [news, waits]: [WorkerNews[], number[]] = [[], []];
  let tries = 0;
  const opened = await openWhenBack(async () => (++tries < 12 ? away : ok('open')), {
    signal: new AbortController().signal,
    onNews: (one) => void news.push(one),
    random: () => 0,
    wait: async (ms) => void waits.push(ms),
  });
  expect(opened).toEqual(ok('open'));
  expect(waits).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000]);
  expect(news.map(({ kind }) => kind)).toEqual(['store_gone', 'store_back']);
  expect(news[0]).toMatchObject({ reason: 'the registry cannot be reached' });
});

test('what does not get better by waiting ends a worker that starts at once', async () => {
  const news: WorkerNews[] = [];
  const refused = fail('store_failed', 'check name and password', { place: 'x' });
  const { signal } = new AbortController();
  const onNews = (one: WorkerNews): void => void news.push(one);
  expect(await openWhenBack(async () => refused, { signal, onNews })).toEqual(refused);
  expect(news).toEqual([]);
});

test('a worker that waits for the store ends with the signal, also while it connects', async () => {
  for (const isConnecting of [true, false]) {
    const stop = new AbortController();
    const opened = openWhenBack(
      () => (isConnecting ? new Promise<never>(() => {}) : Promise.resolve(away)),
      { signal: stop.signal, wait: async () => stop.abort() },
    );
    if (isConnecting) stop.abort();
    expect(await opened).toBeUndefined();
  }
  const opened = await openWhenBack(async () => away, { signal: AbortSignal.abort() });
  expect(opened).toBeUndefined();
});

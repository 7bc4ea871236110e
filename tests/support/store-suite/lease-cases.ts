// Cases 27-32 of the port: owners of leases, lost threads, and the queue.
import { expect, test } from 'vitest';
import { type InStage, staged } from './journal-cases.ts';
import { aThread, begin, codeOf, must, type OpenStage, owner, TTL, writerOf } from './stage.ts';

function claims(inStage: InStage): void {
  test(
    'a claim raises the epoch, and of fifty at once one wins',
    inStage(async ({ store, another }) => {
      must(await store.createThread(aThread('t', { start: { queue: {} } })));
      const other = await another();
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          (index % 2 === 0 ? store : other).claim('t', owner(`w${index}`)),
        ),
      );
      const won = answers.filter(({ ok }) => ok);
      expect(won).toHaveLength(1);
      expect(won[0]).toMatchObject({ output: { epoch: 1, lease_ms: TTL } });
      const lost = answers.filter(({ ok }) => !ok).map(codeOf);
      expect(new Set(lost)).toEqual(new Set(['lease_held']));
      expect(must(await store.thread('t'))).toMatchObject({
        epoch: 1,
        lease_until: expect.any(Number),
      });
    }),
  );

  test(
    'what is held, forced, ended and opened again',
    inStage(async ({ store, clock }) => {
      const writer = await begin(store, 't', { budget: { tokens: 5n } });
      expect(codeOf(await store.claim('t', owner('there')))).toBe('lease_held');
      await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 2n } }] });
      const forced = must(await store.claim('t', owner('there'), { force: true }));
      expect(forced).toMatchObject({ epoch: 2, open: [{ key: 'k', amounts: { tokens: 2n } }] });
      expect(codeOf(await writer.commit())).toBe('stale_epoch');
      const next = writerOf(store, forced);
      await next.must({ status: 'completed', release: true });
      expect(must(await store.thread('t'))).toMatchObject({ ended: clock.now() });
      expect(codeOf(await store.claim('t', owner()))).toBe('thread_ended');
      const again = writerOf(store, must(await store.claim('t', owner(), { reopen: true })));
      await again.must({ status: 'running' });
      const row = must(await store.thread('t'));
      expect([row.ended, row.epoch, row.status]).toEqual([undefined, 3, 'running']);
      expect(codeOf(await store.claim('nobody', owner()))).toBe('not_found');
    }),
  );

  test(
    'a lease is over with its time or with its holder, and not longer than ten minutes',
    inStage(async ({ store, clock, gone }) => {
      must(await store.createThread(aThread('t', { start: { lease: owner('first') } })));
      clock.pass(TTL);
      must(await store.claim('t', owner('second')));
      expect(codeOf(await store.claim('t', owner('third')))).toBe('lease_held');
      gone.add('second');
      must(await store.claim('t', { owner: 'third', ttlMs: 10 * TTL * 60 }));
      expect(must(await store.thread('t')).lease_until).toBe(clock.now() + 600_000);
      must(await store.claim('t', owner('third')));
    }),
  );

  test(
    'many are renewed at once: lost ones are missing, the others hold',
    inStage(async ({ store, another, clock }) => {
      const writers = await Promise.all(['a', 'b', 'c', 'd'].map((id) => begin(store, id)));
      const [, second, third] = writers;
      const other = await another();
      must(await other.claim('b', owner('there'), { force: true }));
      await third?.must({ status: 'waiting', release: true });
      clock.pass(TTL + 5);
      const renewed = must(await store.renew(writers, TTL));
      expect(renewed).toEqual([
        { thread: 'a', lease_ms: TTL, signals: [] },
        { thread: 'd', lease_ms: TTL, signals: [] },
      ]);
      expect(second && codeOf(await second.commit())).toBe('stale_epoch');
      expect(must(await store.renew([], TTL))).toEqual([]);
    }),
  );

  test(
    'giving back a lease that is not held any more frees nothing',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      const held = must(await store.claim('t', owner('there'), { force: true }));
      must(await store.release(writer));
      expect(must(await store.thread('t')).owner).toBe('there');
      must(await store.release(held));
      const row = must(await store.thread('t'));
      expect([row.owner, row.lease_until, row.status]).toEqual([undefined, undefined, 'running']);
      must(await store.release({ thread: 'nobody', epoch: 1 }));
    }),
  );
}

function sweeps(inStage: InStage): void {
  test(
    'a sweep interrupts what its holder left, and a commit that crosses it is stale',
    inStage(async ({ store, another, clock, gone }) => {
      const late = await begin(store, 'late');
      await begin(store, 'gone', { start: { lease: owner('dead') } });
      const dropped = await begin(store, 'dropped');
      must(await store.release(dropped));
      must(await store.createThread(aThread('queued', { start: { queue: {} } })));
      const parked = await begin(store, 'parked');
      await parked.must({ status: 'paused', release: true });
      const ended = await begin(store, 'ended', { start: { lease: owner('dead') } });
      await ended.must({ status: 'failed' });
      const alive = await begin(store, 'alive');
      expect(must(await store.sweep())).toEqual({ interrupted: [], unreleased: [] });

      gone.add('dead');
      const other = await another();
      expect(must(await other.sweep())).toEqual({
        interrupted: ['gone'],
        unreleased: [{ thread: 'ended', epoch: 1, seq: 2 }],
      });
      clock.pass(TTL);
      must(await store.renew([alive], TTL));
      const [swept, crossed] = await Promise.all([
        other.sweep(),
        late.commit({ status: 'completed' }),
      ]);
      expect(must(swept).interrupted.sort()).toEqual(['dropped', 'late']);
      expect(['lease_expired', 'stale_epoch']).toContain(codeOf(crossed));
      expect(codeOf(await late.commit())).toBe('stale_epoch');
      expect(must(await store.thread('late'))).toMatchObject({
        status: 'interrupted',
        seq: 2,
        epoch: 2,
      });
      const [last] = must(await store.read('late', { last: 1 }));
      // An expired lease does not show whether its process is alive. `dead` is certainly dead.
      expect(last?.data).toEqual({
        status: 'interrupted',
        cause: 'lease_expired',
        reason: 'its lease expired',
        owner: expect.any(String),
      });
      const lost = { status: 'interrupted', cause: 'process_lost', reason: 'its process is gone' };
      const [ofGone] = must(await store.read('gone', { last: 1 }));
      expect(ofGone?.data).toEqual({ ...lost, owner: 'dead' });
      const [ofDropped] = must(await store.read('dropped', { last: 1 }));
      expect(ofDropped?.data).toEqual(lost);
      expect(must(await store.sweep()).interrupted).toEqual([]);
      expect(must(await store.thread('queued')).status).toBe('spawning');
      expect(must(await store.thread('parked')).status).toBe('paused');
    }),
  );

  test(
    'whoever claimed what was parked and was lost leaves it free again',
    inStage(async ({ store, clock }) => {
      const parked = await begin(store, 'parked');
      await parked.must({ status: 'waiting', release: true });
      must(await store.claim('parked', owner('dead')));
      must(
        await store.signal({ thread: 'parked', kind: 'message', payload: 1, key: 'k', by: 'me' }),
      );
      clock.pass(TTL);
      expect(must(await store.sweep()).interrupted).toEqual([]);
      const [taken] = must(await store.take(owner(), { count: 1, projects: ['one'] }));
      expect(taken).toMatchObject({
        thread: 'parked',
        row: { status: 'waiting' },
        acknowledged: 0,
      });
    }),
  );
}

function queues(inStage: InStage): void {
  const inQueue = (priority?: number, after?: number) => ({
    start: {
      queue: { ...(priority !== undefined && { priority }), ...(after !== undefined && { after }) },
    },
  });
  test(
    'each queued thread goes to one taker, the longest waiting first, only of the projects asked for',
    inStage(async ({ store, another, clock }) => {
      for (const id of ['a', 'b', 'c']) {
        must(await store.createThread(aThread(id, inQueue())));
        clock.pass(1);
      }
      must(await store.createThread(aThread('first', inQueue(5))));
      must(await store.createThread(aThread('strange', { ...inQueue(), project: 'two' })));
      must(await store.createThread(aThread('later', inQueue(9, clock.now() + 1000))));
      const wanted = { count: 2, projects: ['one'] };
      const got = must(await store.take(owner(), wanted));
      expect(got.map(({ thread, epoch }) => [thread, epoch])).toEqual([
        ['first', 1],
        ['a', 1],
      ]);
      const other = await another();
      const rest = await Promise.all([
        store.take(owner(), wanted),
        other.take(owner('there'), wanted),
      ]);
      expect(rest.flatMap((taken) => must(taken).map(({ thread }) => thread)).sort()).toEqual([
        'b',
        'c',
      ]);
      expect(must(await store.take(owner(), wanted))).toEqual([]);
      expect(must(await store.take(owner(), { count: 1, projects: [] }))).toEqual([]);
      clock.pass(1000);
      expect(must(await store.take(owner(), wanted))).toMatchObject([{ thread: 'later' }]);
      expect(must(await store.take(owner(), { count: 9, projects: ['one', 'two'] }))).toMatchObject(
        [{ thread: 'strange' }],
      );
    }),
  );

  test(
    'who waits for the queue is woken by what comes, from here and from another process',
    inStage(async ({ store, another }) => {
      const other = await another();
      for (const [id, from] of [
        ['here', store],
        ['there', other],
      ] as const) {
        const waiting = store.take(owner(), { count: 1, projects: ['one'], waitMs: 20_000 });
        await new Promise((resolve) => setTimeout(resolve, 5));
        must(await from.createThread(aThread(id, inQueue())));
        expect(must(await waiting)).toMatchObject([{ thread: id }]);
      }
      const none = await store.take(owner(), { count: 1, projects: ['one'], waitMs: 30 });
      expect(must(none)).toEqual([]);
    }),
  );

  test(
    'what is released again, or to be woken later, is queued',
    inStage(async ({ store, clock }) => {
      const wanted = { count: 5, projects: ['one'] };
      const again = await begin(store, 'again');
      must(await store.release(again, { again: true }));
      const timer = await begin(store, 'timer');
      await timer.must({ status: 'waiting', release: { wake: clock.now() + 500 } });
      expect(must(await store.take(owner(), wanted)).map(({ thread }) => thread)).toEqual([
        'again',
      ]);
      clock.pass(500);
      expect(must(await store.take(owner(), wanted)).map(({ thread }) => thread)).toEqual([
        'timer',
      ]);
    }),
  );
}

export function leaseCases(open: OpenStage): void {
  const inStage = staged(open);
  claims(inStage);
  sweeps(inStage);
  queues(inStage);
}

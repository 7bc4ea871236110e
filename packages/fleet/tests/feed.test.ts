// Watching over a real server: gapless by cursor, whatever becomes of the connection that listens.
import { timeoutMs } from '@kernmantle/test-support/soak';
import { aThread, begin, event, must, owner } from '@kernmantle/test-support/store-suite/stage';
import { afterEach, describe, expect, inject, test } from 'vitest';
import type { Head, SignalNote, StoredEvent } from '../../core/src/store/port.ts';
import { noServer, openServerStores, type ServerStores } from './support/server-stores.ts';

const url = inject('postgres');
let opened: ServerStores | undefined;
afterEach(async () => {
  await opened?.close();
  opened = undefined;
});

async function stage(): Promise<ServerStores> {
  opened = await openServerStores(url);
  return opened;
}

async function collect<T>(from: AsyncIterable<T>, into: T[]): Promise<void> {
  for await (const one of from) into.push(one);
}

const PATIENCE = { timeout: timeoutMs(20_000), interval: 10 };
const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

describe.skipIf(url === '')(`the feed${noServer(url)}`, () => {
  test('many watchers of many threads see every event once, while connections break', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    const ids = upTo(10).map((n) => `t${n}`);
    const writers = await Promise.all(ids.map((id) => begin(store, id)));
    const stop = new AbortController();
    const seen = new Map<string, StoredEvent[][]>();
    const watches: Promise<void>[] = [];
    for (const thread of ids) {
      const lists: StoredEvent[][] = upTo(5).map(() => []);
      seen.set(thread, lists);
      for (const [at, list] of lists.entries()) {
        const from = at % 2 === 0 ? other : store;
        watches.push(collect(from.watch({ thread, seq: 0 }, stop.signal), list));
      }
    }
    for (let round = 0; round < 30; round++) {
      await Promise.all(writers.map((writer) => writer.must({ events: [event(), event()] })));
      if (round % 10 === 5) await on.cut(round === 5 ? 'all' : 'listening');
    }
    const counts = () => [...seen.values()].flatMap((lists) => lists.map((list) => list.length));
    await expect.poll(counts, PATIENCE).toEqual(counts().map(() => 61));
    stop.abort();
    await Promise.all(watches);
    for (const lists of seen.values()) {
      for (const list of lists) expect(list.map(({ seq }) => seq)).toEqual(upTo(61));
    }
  });

  test('who is far behind reads for itself, and large events are not kept', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    const writer = await begin(store, 't');
    const stop = new AbortController();
    const [quick, late]: [StoredEvent[], StoredEvent[]] = [[], []];
    const watches = [collect(other.watch({ thread: 't', seq: 0 }, stop.signal), quick)];
    const slow = other.watch({ thread: 't', seq: 0 }, stop.signal)[Symbol.asyncIterator]();
    expect((await slow.next()).value).toMatchObject({ seq: 1 });
    const many = upTo(399).map(() => event());
    await writer.must({ events: [event(), ...many] });
    await writer.must({ events: [event('x'.repeat(3_000_000)), event('small')] });
    await expect.poll(() => quick.length, PATIENCE).toBe(403);
    watches.push(collect({ [Symbol.asyncIterator]: () => slow }, late));
    await expect.poll(() => late.length, PATIENCE).toBe(402);
    await writer.must();
    await expect.poll(() => [quick.length, late.length], PATIENCE).toEqual([404, 403]);
    stop.abort();
    await Promise.all(watches);
    expect(quick.map(({ seq }) => seq)).toEqual(upTo(404));
    expect(late.map(({ seq }) => seq)).toEqual(upTo(404).slice(1));
    expect(quick).toEqual(must(await store.read('t')));
  });

  test('what moved and what was said while nobody could listen is told afterwards', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    const [mine, moving] = [
      must(await other.createThread(aThread('mine', { start: { lease: owner('there') } }))),
      await begin(store, 'moving'),
    ];
    const stop = new AbortController();
    const [all, some, notes]: [Head[], Head[], SignalNote[]] = [[], [], []];
    const watches = [
      collect(other.changes({}, stop.signal), all),
      collect(other.changes({ threads: ['moving'] }, stop.signal), some),
    ];
    other.onSignal((note) => notes.push(note));
    const last = (heads: readonly Head[]) =>
      heads.findLast(({ thread }) => thread === 'moving')?.seq;
    for (let round = 1; round <= 4; round++) {
      await moving.must();
      must(
        await store.signal({
          thread: 'mine',
          kind: 'a word',
          payload: 1,
          key: `${round}`,
          by: 'me',
        }),
      );
      await expect.poll(() => [last(all), last(some)], PATIENCE).toEqual([moving.seq, moving.seq]);
      await expect.poll(() => notes.map(({ number }) => number), PATIENCE).toEqual(upTo(round));
      // The next round is said before anybody listens again.
      await expect.poll(() => on.cut('listening'), PATIENCE).toBeGreaterThan(0);
    }
    expect(notes[0]).toEqual({ thread: 'mine', number: 1, kind: 'a word' });
    must(await other.release(mine));
    stop.abort();
    await Promise.all(watches);
  });
});

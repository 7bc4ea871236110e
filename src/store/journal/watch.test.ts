import { afterEach, beforeEach, expect, test } from 'vitest';
import { aThread, makeStore, must, type TestStore } from '../../../tests/support/registry.ts';
import type { Cursor, Happening } from './watch.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore({ watchIntervalMs: 1 });
  must(place.store.createThread(aThread('a')));
  must(place.store.createThread(aThread('b')));
});
afterEach(() => place.remove());

const note = (text: string) => ({ type: 'note', data: { text } });
const brief = (item: Happening): string =>
  item.kind === 'status' ? `${item.thread}=${item.status}` : `${item.thread}:${item.seq}`;

/** Watches until `count` things happened. */
async function collect(cursor: Cursor, count: number): Promise<string[]> {
  const seen: string[] = [];
  for await (const item of place.store.watch(cursor, new AbortController().signal)) {
    seen.push(brief(item));
    if (seen.length === count) break;
  }
  return seen;
}

test('from the beginning, everything comes in the order of its commits', async () => {
  const { store } = place;
  must(store.append('a', 0, 0, [note('1'), note('2')], { status: 'running' }));
  must(store.append('b', 0, 0, [note('1')]));
  must(store.append('a', 2, 0, [note('3')], { status: 'completed' }));
  expect(await collect({ position: 0 }, 8)).toEqual([
    'a=spawning',
    'b=spawning',
    'a:1',
    'a:2',
    'a=running',
    'b:1',
    'a:3',
    'a=completed',
  ]);
});

test('one thread is followed from a sequence number on, and resumed without a gap', async () => {
  const { store } = place;
  must(store.append('a', 0, 0, [note('1'), note('2')], { status: 'running' }));
  must(store.append('b', 0, 0, [note('1')]));
  must(store.append('a', 2, 0, [note('3')]));
  expect(await collect({ thread: 'a', seq: 1 }, 3)).toEqual(['a:2', 'a=running', 'a:3']);
  expect(await collect({ thread: 'a', seq: 0 }, 5)).toHaveLength(5);
});

test('what comes later is seen, from this process and from others, each once', async () => {
  const { store } = place;
  const other = place.another();
  const seen: string[] = [];
  const iterator = store.watch({ thread: 'a' }, new AbortController().signal);
  const reading = (async () => {
    for await (const item of iterator) {
      seen.push(brief(item));
      if (item.seq === 100) break;
    }
  })();
  for (let seq = 0; seq < 100; seq++) {
    must((seq % 2 === 0 ? store : other).append('a', seq, 0, [note('x')]));
    must(other.append('b', seq, 0, [note('noise')]));
    if (seq % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await reading;
  expect(seen).toEqual(Array.from({ length: 100 }, (_, index) => `a:${index + 1}`));
});

test('a thousand watchers of their own threads are each told only of theirs', async () => {
  const { store } = place;
  const ids = Array.from({ length: 1000 }, (_, index) => `t${index}`);
  must(
    store.together(() => {
      for (const id of ids) must(store.createThread(aThread(id)));
      return { ok: true, output: null };
    }),
  );
  const all = Promise.all(ids.map((thread) => collect({ thread }, 1)));
  for (const id of ids) must(store.append(id, 0, 0, [note('x')]));
  expect((await all).flat()).toEqual(ids.map((id) => `${id}:1`));
});

test('a watch ends when it is told to, and when the registry is closed', async () => {
  const stop = new AbortController();
  const read = async (signal: AbortSignal) => {
    let count = 0;
    for await (const item of place.store.watch({ thread: 'a' }, signal)) count += item.seq;
    return count;
  };
  const [first, second] = [read(stop.signal), read(new AbortController().signal)];
  await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  expect(await first).toBe(0);
  place.store.close();
  expect(await second).toBe(0);
  expect(await read(AbortSignal.abort())).toBe(0);
});

test('more than a batch is read to the end', async () => {
  const { store } = place;
  must(
    store.append(
      'a',
      0,
      0,
      Array.from({ length: 450 }, (_, index) => note(String(index))),
    ),
  );
  const seen = await collect({ thread: 'a', seq: 0 }, 451);
  expect(seen.at(-1)).toBe('a:450');
  expect(await collect({ position: 0 }, 452)).toHaveLength(452);
});

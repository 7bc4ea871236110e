import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import { createLiveThreads } from './live-threads.ts';
import type { ThreadResult } from './ports.ts';
import type { LiveThread } from './thread.ts';

const one = (id: string, parent?: string): LiveThread => ({
  thread: { place: { id, parent } } as LiveThread['thread'],
  done: new Promise(() => {}),
});

test('threads are found by id and by parent while they run', () => {
  const live = createLiveThreads();
  live.add(one('a'));
  live.add(one('b', 'a'));
  live.add(one('c', 'a'));
  expect(live.childrenOf('a').map(({ thread }) => thread.place.id)).toEqual(['b', 'c']);
  live.remove('b');
  expect(live.get('b')).toBeUndefined();
  expect(live.all().map(({ thread }) => thread.place.id)).toEqual(['a', 'c']);
});

test('whoever expects a thread is told when it enters, also when it is there already', async () => {
  const live = createLiveThreads();
  const both = Promise.all([live.entered('a'), live.entered('a')]);
  live.add(one('a'));
  await both;
  await live.entered('a');
});

const result = (id: string): ThreadResult => ({
  thread_id: id,
  status: 'completed',
  outputs: {},
  text: '',
  reason: '',
  cost: {},
});

test('a thread is taken up once, however many want it to go on', async () => {
  const live = createLiveThreads();
  let begun = 0;
  const resume = async () => {
    begun += 1;
    await Promise.resolve();
    return ok(result('a'));
  };
  const both = await Promise.all([live.resumed('a', resume), live.resumed('a', resume)]);
  expect(both).toEqual([ok(result('a')), ok(result('a'))]);
  expect(begun).toBe(1);
  await live.resumed('a', resume);
  expect(begun).toBe(2);
  live.add({ ...one('b'), done: Promise.resolve(result('b')) });
  expect(await live.resumed('b', resume)).toEqual(ok(result('b')));
  expect(begun).toBe(2);
});

test('closing stops those that run and those that are only about to', async () => {
  const live = createLiveThreads();
  const stopped: string[] = [];
  const running = (id: string): LiveThread => {
    let end: (ended: ThreadResult) => void = () => {};
    const done = new Promise<ThreadResult>((resolve) => (end = resolve));
    const stopping = new AbortController();
    stopping.signal.addEventListener('abort', () => {
      stopped.push(id);
      end(result(id));
    });
    const thread = { place: { id }, control: { stopping } };
    return { thread: thread as unknown as LiveThread['thread'], done };
  };
  live.add(running('a'));
  let enter: () => void = () => {};
  const late = new Promise<void>((resolve) => (enter = resolve));
  const resuming = live.resumed('b', async () => {
    await late;
    const entered = running('b');
    live.add(entered);
    return ok(await entered.done);
  });
  const closed = live.close({ status: 'interrupted', reason: 'closed' });
  expect(stopped).toEqual(['a']);
  enter();
  await closed;
  expect(stopped).toEqual(['a', 'b']);
  expect(await resuming).toEqual(ok(result('b')));
});

test('a few are started at once, and one that fails makes room too', async () => {
  const live = createLiveThreads();
  const gates: (() => void)[] = [];
  let starting = 0;
  const all = Array.from({ length: 20 }, (_, at) =>
    live.admit(async () => {
      starting += 1;
      await new Promise<void>((go) => gates.push(go));
      starting -= 1;
      if (at % 2 === 1) throw new Error('no');
      return at;
    }),
  );
  const ended = Promise.allSettled(all);
  for (let at = 0; at < 20; at++) {
    await expect.poll(() => gates.length).toBeGreaterThan(at);
    expect(starting).toBeLessThanOrEqual(4);
    gates[at]?.();
  }
  expect((await ended).filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
});

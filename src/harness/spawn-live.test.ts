import { expect, test } from 'vitest';
import { createLiveThreads, type LiveThread } from './spawn-live.ts';

const one = (id: string, parent?: string): LiveThread => ({
  thread: { id, parent } as LiveThread['thread'],
  done: new Promise(() => {}),
});

test('threads are found by id and by parent while they run', () => {
  const live = createLiveThreads();
  live.add(one('a'));
  live.add(one('b', 'a'));
  live.add(one('c', 'a'));
  expect(live.childrenOf('a').map(({ thread }) => thread.id)).toEqual(['b', 'c']);
  live.remove('b');
  expect(live.get('b')).toBeUndefined();
  expect(live.all().map(({ thread }) => thread.id)).toEqual(['a', 'c']);
});

test('whoever expects a thread is told when it enters, also when it is there already', async () => {
  const live = createLiveThreads();
  const both = Promise.all([live.entered('a'), live.entered('a')]);
  live.add(one('a'));
  await both;
  await live.entered('a');
});

import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  aThread,
  codeOf,
  makeStore,
  must,
  type TestStore,
} from '../../../tests/support/registry.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore({ watchIntervalMs: 1 });
  must(place.store.createThread(aThread('a')));
  must(place.store.createThread(aThread('b')));
});
afterEach(() => place.remove());

test('a signal waits until it is read, and the same key is the same signal', () => {
  const { store, clock } = place;
  must(place.another().signal('a', 'pause', { reason: 'lunch' }, 'k1', 'cli:ann'));
  must(store.signal('a', 'pause', { reason: 'lunch' }, 'k1', 'cli:ann'));
  must(store.signal('b', 'resume', null, 'k1', 'cli:ann'));
  must(store.signal('a', 'resume', null, 'k2', 'cli:ann'));
  const [pause, resume, ...more] = must(store.signals('a'));
  expect(pause).toMatchObject({
    thread: 'a',
    kind: 'pause',
    payload: { reason: 'lunch' },
    key: 'k1',
    by: 'cli:ann',
    ts: clock.wall,
  });
  expect(resume).toMatchObject({ kind: 'resume', payload: null });
  expect(more).toEqual([]);
  expect(must(store.signals('a', pause?.id)).map((signal) => signal.kind)).toEqual(['resume']);
});

test('nobody signals a thread that has ended or never was', () => {
  const { store } = place;
  must(store.append('a', 0, 0, [], { status: 'completed' }));
  expect(codeOf(store.signal('a', 'pause', null, 'k', 'x'))).toBe('thread_ended');
  expect(codeOf(store.signal('none', 'pause', null, 'k', 'x'))).toBe('not_found');
  expect(codeOf(store.signal('b', 'inject', 'x'.repeat(2_000_000), 'k', 'x'))).toBe(
    'invalid_input',
  );
});

test('listeners hear of signals of this process and of others', async () => {
  const { store } = place;
  const heard: string[] = [];
  let wake = () => {};
  const stop = store.onSignal((thread) => {
    heard.push(thread);
    wake();
  });
  const next = () => new Promise<void>((resolve) => (wake = resolve));
  const own = next();
  must(store.signal('a', 'pause', null, 'k', 'x'));
  await own;
  const other = next();
  must(place.another().signal('b', 'pause', null, 'k', 'x'));
  await other;
  stop();
  must(store.signal('a', 'resume', null, 'k2', 'x'));
  await new Promise((resolve) => setImmediate(resolve));
  expect(heard).toEqual(['a', 'b']);
});

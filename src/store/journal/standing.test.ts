import { afterEach, expect, test } from 'vitest';
import { aThread, makeStore, must, type TestStore } from '../../../tests/support/registry.ts';

const open: TestStore[] = [];
afterEach(() => {
  for (const made of open.splice(0)) made.remove();
});
function make(): TestStore {
  const made = makeStore();
  open.push(made);
  must(made.store.createThread(aThread('a')));
  must(made.store.createThread(aThread('b', { parent: 'a' })));
  return made;
}

test('a thread at work is in good standing, one that nobody knows is not', () => {
  const { store } = make();
  expect(store.standing('a')).toBe('good');
  expect(store.standing('c')).toBe('unknown');
});

test.each([
  ['completed', 'ended'],
  ['failed', 'ended'],
  ['limit', 'ended'],
  ['aborted', 'revoked'],
  ['terminated', 'revoked'],
  ['killed', 'revoked'],
  ['paused', 'good'],
  ['interrupted', 'good'],
] as const)('a thread that is %s is %s, at once', (status, standing) => {
  const { store } = make();
  expect(store.standing('a')).toBe('good');
  must(store.append('a', 0, 0, [], { status }));
  expect(store.standing('a')).toBe(standing);
  expect(store.standing('b')).toBe('good');
});

test('a kill counts as soon as it is said, an end that leaves time does not', () => {
  const { store } = make();
  must(store.signal('a', 'terminate', {}, 'k1', 'ann'));
  expect(store.standing('a')).toBe('good');
  must(store.signal('a', 'kill', {}, 'k2', 'ann'));
  expect(store.standing('a')).toBe('revoked');
});

test('what another connection changes is seen a few milliseconds later', () => {
  const { store, another, clock } = make();
  const other = another();
  clock.pass(1);
  expect(store.standing('a')).toBe('good');
  clock.pass(1);
  must(other.signal('a', 'kill', {}, 'k', 'ann'));
  expect(store.standing('a')).toBe('good');
  clock.pass(10);
  expect(store.standing('a')).toBe('revoked');
  clock.pass(1);
  must(other.append('b', 0, 0, [], { status: 'completed' }));
  clock.pass(10);
  expect(store.standing('b')).toBe('ended');
});

test('a registry that cannot be read vouches for nobody', () => {
  const { store } = make();
  store.close();
  expect(store.standing('a')).toBe('revoked');
});

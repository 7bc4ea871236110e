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
  place = makeStore();
  must(place.store.createThread(aThread('a')));
});
afterEach(() => place.remove());

const run = (epoch: number) => place.store.append('a', 0, epoch, [], { status: 'running' });

test('one holds a thread at a time, and each claim makes the one before stale', () => {
  const { store, clock } = place;
  const first = must(store.claim('a', 'p1', 1000));
  expect(first).toEqual({ thread: 'a', epoch: 1, until: clock.wall + 1000, seq: 0 });
  expect(codeOf(place.another().claim('a', 'p2', 1000))).toBe('lease_held');
  clock.pass(1000);
  expect(must(place.another().claim('a', 'p2', 1000)).epoch).toBe(2);
  expect(codeOf(run(1))).toBe('stale_epoch');
  expect(codeOf(store.renew('a', 1, 1000))).toBe('stale_epoch');
  expect(codeOf(run(2))).toBe('ok');
});

test('a released thread is free at once, and a stale release changes nothing', () => {
  const { store } = place;
  must(store.claim('a', 'p1', 1000));
  must(store.release('a', 1));
  const second = must(store.claim('a', 'p2', 1000));
  must(store.release('a', 1));
  expect(store.isHeld('a', second.epoch)).toBe(true);
});

test('a holder frozen past its deadline neither appends nor acts until it renews', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  expect(store.isHeld('a', 1)).toBe(true);
  clock.pass(1000);
  expect(store.isHeld('a', 1)).toBe(false);
  expect(codeOf(run(1))).toBe('lease_expired');
  must(store.renew('a', 1, 1000));
  expect(store.isHeld('a', 1)).toBe(true);
  expect(codeOf(run(1))).toBe('ok');
});

test('a clock that is set back lengthens no lease for its holder', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  clock.wall -= 3_600_000;
  clock.steady += 1000;
  expect(store.isHeld('a', 1)).toBe(false);
});

test('a clock that jumps ahead ends the lease', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  clock.wall += 3_600_000;
  expect(store.isHeld('a', 1)).toBe(false);
  expect(codeOf(run(1))).toBe('lease_expired');
});

test('a lease from before the clock was set back holds nobody up', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  must(run(1));
  clock.wall -= 3_600_000;
  expect(must(store.interruptExpired())).toEqual(['a']);
  expect(codeOf(place.another().claim('a', 'p2', 1000))).toBe('ok');
});

test('a thread born with a lease is held by its maker', () => {
  const { store, clock } = place;
  must(store.createThread(aThread('b'), { lease: { owner: 'p1', ttlMs: 1000 } }));
  expect(store.isHeld('b', 1)).toBe(true);
  clock.steady += 1000;
  expect(store.isHeld('b', 1)).toBe(false);
});

test('running threads whose lease ended are interrupted and can be claimed', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  must(run(1));
  expect(must(store.interruptExpired())).toEqual([]);
  clock.pass(1000);
  expect(must(place.another().interruptExpired())).toEqual(['a']);
  expect(must(store.thread('a'))).toMatchObject({ status: 'interrupted', epoch: 2 });
  expect(codeOf(store.renew('a', 1, 1000))).toBe('stale_epoch');
  expect(must(store.claim('a', 'p2', 1000)).epoch).toBe(3);
});

test('waiting and paused threads need no lease, a dropped start does', () => {
  const { store, clock } = place;
  must(store.createThread(aThread('b')));
  must(store.append('b', 0, 0, [], { status: 'paused' }));
  clock.pass(59_999);
  expect(must(store.interruptExpired())).toEqual([]);
  clock.pass(1);
  expect(must(store.interruptExpired())).toEqual(['a']);
});

test('what has ended cannot be claimed; what does not answer can be taken by force', () => {
  const { store } = place;
  must(store.claim('a', 'p1', 1000));
  const forced = must(store.claim('a', 'killer', 1000, { force: true }));
  expect(store.isHeld('a', 1)).toBe(false);
  must(store.append('a', 0, forced.epoch, [], { status: 'killed' }));
  expect(codeOf(store.claim('a', 'p1', 1000))).toBe('thread_ended');
});

test('in doubt nobody holds anything', () => {
  const { store } = place;
  expect(store.isHeld('none', 0)).toBe(false);
  expect(store.isHeld('a', 0)).toBe(false);
  must(store.claim('a', 'p1', 1000));
  store.close();
  expect(store.isHeld('a', 1)).toBe(false);
});

test('a holder that is certainly gone is not waited for, anybody else is', () => {
  const { store } = place;
  must(store.claim('a', 'dead', 1000));
  must(run(1));
  const other = place.another({ isGone: (owner) => owner === 'dead' });
  expect(codeOf(store.claim('a', 'p2', 1000))).toBe('lease_held');
  expect(must(other.claim('a', 'p2', 1000)).epoch).toBe(2);
  expect(codeOf(store.append('a', 0, 1, [], { status: 'running' }))).toBe('stale_epoch');
  expect(store.isHeld('a', 1)).toBe(false);
  expect(codeOf(other.claim('a', 'p3', 1000))).toBe('lease_held');
});

test('a thread at work whose holder is gone is interrupted before its lease is up', () => {
  const { store } = place;
  must(store.createThread(aThread('b'), { lease: { owner: 'alive', ttlMs: 1000 } }));
  must(store.claim('a', 'dead', 1000));
  must(run(1));
  expect(must(store.interruptExpired())).toEqual([]);
  const other = place.another({ isGone: (owner) => owner === 'dead' });
  expect(must(other.interruptExpired())).toEqual(['a']);
  expect(must(store.thread('a'))).toMatchObject({ status: 'interrupted', epoch: 2 });
});

test('one look tells whether a thread is held and whether something was said to it', () => {
  const { store, clock } = place;
  must(store.createThread(aThread('b')));
  must(store.claim('a', 'p1', 1000));
  expect(store.pulse('a', 1, 0)).toEqual({ held: true, called: false });
  must(place.another().signal('b', 'pause', null, 'k', 'x'));
  expect(store.pulse('a', 1, 0)).toEqual({ held: true, called: false });
  must(place.another().signal('a', 'pause', null, 'k', 'x'));
  expect(store.pulse('a', 1, 0)).toEqual({ held: true, called: true });
  const last = must(store.signals('a')).at(-1)?.id ?? 0;
  expect(store.pulse('a', 1, last)).toEqual({ held: true, called: false });
  clock.pass(1000);
  expect(store.pulse('a', 1, last).held).toBe(false);
  expect(store.pulse('none', 1, 0)).toEqual({ held: false, called: true });
});

test('a thread that ended and was not given free is named once its holder is lost', () => {
  const { store, clock } = place;
  must(store.claim('a', 'p1', 1000));
  must(store.append('a', 0, 1, [], { status: 'completed' }));
  expect(must(store.unreleased())).toEqual([]);
  const other = place.another({ isGone: (owner) => owner === 'p1' });
  expect(must(other.unreleased())).toEqual([{ thread: 'a', epoch: 1, seq: 0 }]);
  clock.pass(1000);
  expect(must(store.unreleased())).toHaveLength(1);
  must(store.release('a', 1));
  expect(must(store.unreleased())).toEqual([]);
});

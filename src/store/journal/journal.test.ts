import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  aThread,
  codeOf,
  makeStore,
  must,
  type TestStore,
} from '../../../tests/support/registry.ts';
import { runs } from '../../../tests/support/soak.ts';
import type { JsonObject } from '../../base/index.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
  must(place.store.createThread(aThread('a')));
});
afterEach(() => place.remove());

const note = (text: string) => ({ type: 'note', data: { text } });

test('what was appended is read back in order', () => {
  const { store, clock } = place;
  expect(must(store.append('a', 0, 0, [note('one'), { ...note('two'), turn: 3 }])).seq).toBe(2);
  clock.pass(5);
  expect(must(store.append('a', 2, 0, [note('three')])).seq).toBe(3);
  expect(must(store.read('a'))).toEqual([
    { thread: 'a', seq: 1, ts: clock.wall - 5, turn: 0, ...note('one') },
    { thread: 'a', seq: 2, ts: clock.wall - 5, turn: 3, ...note('two') },
    { thread: 'a', seq: 3, ts: clock.wall, turn: 0, ...note('three') },
  ]);
  expect(must(store.read('a', 1, 1)).map((event) => event.seq)).toEqual([2]);
  expect(must(store.readLast('a', 2)).map((event) => event.seq)).toEqual([2, 3]);
  expect(must(store.thread('a'))).toMatchObject({ seq: 3, updated: clock.wall });
});

test('another sequence number or epoch appends nothing', () => {
  const { store } = place;
  must(store.append('a', 0, 0, [note('one')]));
  const late = store.append('a', 0, 0, [note('again')], { status: 'failed' });
  expect(late).toMatchObject({ ok: false, error: { code: 'conflict', detail: { seq: 1 } } });
  const stale = store.append('a', 1, 7, [note('other')]);
  expect(stale).toMatchObject({ ok: false, error: { code: 'stale_epoch', detail: { epoch: 0 } } });
  expect(codeOf(store.append('none', 0, 0, []))).toBe('not_found');
  expect(must(store.thread('a'))).toMatchObject({ seq: 1, status: 'spawning' });
  expect(must(store.read('a'))).toHaveLength(1);
});

test('of two that append at the same number one wins', () => {
  const outcomes = [place.store, place.another()].map((store) =>
    codeOf(store.append('a', 0, 0, [note('me')])),
  );
  expect(outcomes).toEqual(['ok', 'conflict']);
});

test('status, cost, result and attempt change in the same commit', () => {
  const { store, clock } = place;
  const change = { status: 'completed', cost: { turns: 2 }, result: { done: true }, attempt: 2 };
  must(store.append('a', 0, 0, [note('end')], { ...change, status: 'completed' }));
  expect(must(store.thread('a'))).toMatchObject({ ...change, ended: clock.wall });
  must(store.append('a', 1, 0, [], { status: 'running' }));
  const again = must(store.thread('a'));
  expect(again.ended).toBeUndefined();
  expect(again).toMatchObject({ status: 'running', cost: { turns: 2 }, attempt: 2 });
});

test('an append that settles an unknown reservation is undone whole', () => {
  const { store } = place;
  const change = { status: 'failed' as const, settle: [{ key: 'none', actual: {} }] };
  expect(codeOf(store.append('a', 0, 0, [note('x')], change))).toBe('not_found');
  expect(must(store.thread('a'))).toMatchObject({ seq: 0, status: 'spawning' });
  expect(must(store.read('a'))).toEqual([]);
});

test('an event that is too large is refused, those before it in the same append as well', () => {
  const { store } = place;
  const large = note('x'.repeat(9 * 1024 * 1024));
  expect(codeOf(store.append('a', 0, 0, [note('small'), large]))).toBe('invalid_input');
  expect(must(store.read('a'))).toEqual([]);
});

test('open calls are the intents without a result', () => {
  const { store } = place;
  const step = (type: string, call: string) => ({ type, data: { call } });
  must(
    store.append('a', 0, 0, [
      step('intent', 'c1'),
      step('intent', 'c2'),
      step('result', 'c1'),
      step('intent', 'c3'),
    ]),
  );
  expect(must(store.openCalls('a')).map((event) => event.data)).toEqual([
    { call: 'c2' },
    { call: 'c3' },
  ]);
});

test('several calls are one commit, or none', () => {
  const { store } = place;
  const done = store.together(() => {
    const made = store.createThread(aThread('b', { parent: 'a' }));
    return made.ok ? store.append('a', 0, 0, [note('spawned')]) : made;
  });
  expect(codeOf(done)).toBe('ok');
  const undone = store.together(() => {
    must(store.createThread(aThread('c', { parent: 'a' })));
    return store.append('a', 0, 0, [note('late')]);
  });
  expect(codeOf(undone)).toBe('conflict');
  expect(codeOf(store.thread('c'))).toBe('not_found');
  const thrown = store.together(() => {
    must(store.createThread(aThread('d')));
    throw new Error('bug');
  });
  expect(codeOf(thrown)).toBe('internal_error');
  expect(codeOf(store.thread('d'))).toBe('not_found');
  expect(codeOf(store.createThread(aThread('d')))).toBe('ok');
});

test('a group commits together, and one that fails is undone alone', async () => {
  const { store } = place;
  must(store.createThread(aThread('b')));
  const outcomes = await Promise.all([
    store.grouped(() => store.append('a', 0, 0, [note('one')])),
    store.grouped(() => store.append('a', 0, 0, [note('late')])),
    store.grouped(() => store.append('b', 0, 0, [note('other')])),
    store.grouped(() => {
      throw new Error('bug');
    }),
  ]);
  expect(outcomes.map(codeOf)).toEqual(['ok', 'conflict', 'ok', 'internal_error']);
  expect(must(store.read('a'))).toHaveLength(1);
  expect(must(store.read('b'))).toHaveLength(1);
});

test('any JSON comes back as it was', () => {
  let seq = 0;
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), (given) => {
      const data = JSON.parse(JSON.stringify(given)) as JsonObject;
      seq = must(place.store.append('a', seq, 0, [{ type: 'note', data }])).seq;
      expect(must(place.store.readLast('a', 1))[0]?.data).toEqual(data);
    }),
    { numRuns: runs(200) },
  );
});

test('what is done first is in the same commit, and when it is refused nothing is written', () => {
  const { store } = place;
  must(store.createThread({ ...aThread('money'), budget: { tokens: 100n } }));
  must(store.claim('money', 'p1', 1000));
  const event = { type: 'turn_start', data: {} };
  const take = (tokens: bigint, key: string) => () => store.reserve(['money'], { tokens }, key);
  const reserved = () => must(store.budget('money')).reserved.tokens;
  expect(codeOf(store.append('money', 0, 1, [event], { first: take(101n, 'a') }))).toBe(
    'tokens_exceeded',
  );
  expect([must(store.thread('money')).seq, reserved()]).toEqual([0, 0n]);
  expect(codeOf(store.append('money', 5, 1, [event], { first: take(10n, 'b') }))).toBe('conflict');
  expect([must(store.thread('money')).seq, reserved()]).toEqual([0, 0n]);
  must(store.append('money', 0, 1, [event], { first: take(10n, 'c') }));
  expect([must(store.thread('money')).seq, reserved()]).toEqual([1, 10n]);
});

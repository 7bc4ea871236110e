import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  aThread,
  codeOf,
  makeStore,
  must,
  type TestStore,
} from '../../../tests/support/registry.ts';
import type { ThreadStatus } from '../thread-id.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
});
afterEach(() => place.remove());

test('a new thread is there with its row, its place in the tree and its first events', () => {
  const { store, clock } = place;
  must(store.createThread(aThread('root')));
  must(store.createThread(aThread('hook', { parent: 'root', kind: 'hook' })));
  const row = must(
    store.createThread(aThread('child', { parent: 'root', detached: true }), {
      events: [{ type: 'thread_start', data: { by: 'test' } }],
      lease: { owner: 'p1', ttlMs: 1000 },
    }),
  );
  expect(row).toEqual({
    id: 'child',
    parent: 'root',
    root: 'root',
    depth: 1,
    kind: 'thread',
    directive: 'deploy',
    version: '1.0.0',
    runner: 'safety',
    project: '/project',
    detached: true,
    status: 'spawning',
    seq: 1,
    epoch: 1,
    attempt: 1,
    owner: 'p1',
    lease_until: clock.now() + 1000,
    created: clock.now(),
    updated: clock.now(),
    cost: {},
    limits: { turns: 10 },
    inputs: { target: 'staging' },
  });
  expect(must(store.thread('hook')).depth).toBe(0);
  expect(must(store.read('child'))).toHaveLength(1);
  expect(must(store.chain('child'))).toEqual(['child', 'root']);
});

test('an id is taken once, also by two processes', () => {
  must(place.store.createThread(aThread('a')));
  expect(codeOf(place.another().createThread(aThread('a')))).toBe('thread_exists');
});

test('an id that could not name a folder is refused with one that can', () => {
  const refused = place.store.createThread(aThread('../x y'));
  expect(refused).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { suggestion: 'x_y' } },
  });
  expect(codeOf(place.store.createThread(aThread('a'.repeat(81))))).toBe('invalid_input');
});

test('a thread with a bad parent or budget leaves nothing behind', () => {
  const { store } = place;
  expect(codeOf(store.createThread(aThread('a', { parent: 'none' })))).toBe('not_found');
  expect(codeOf(store.createThread(aThread('a', { budget: { tokens: -1n } })))).toBe(
    'invalid_input',
  );
  expect(codeOf(store.thread('a'))).toBe('not_found');
  expect(codeOf(store.createThread(aThread('a')))).toBe('ok');
});

function fill(count: number): void {
  for (let index = 0; index < count; index++) {
    place.clock.pass(index % 3 === 0 ? 0 : 1);
    const parent = index % 4 === 3 ? { parent: `t${index - 1}` } : {};
    const directive = index % 2 === 0 ? 'even' : 'odd';
    must(place.store.createThread(aThread(`t${index}`, { directive, ...parent })));
  }
}

test.each(['asc', 'desc'] as const)('pages hold every thread once, %s', (direction) => {
  fill(25);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const filter = { limit: 7, direction, ...(cursor === undefined ? {} : { cursor }) };
    const page = must(place.store.query(filter));
    seen.push(...page.rows.map((row) => row.id));
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  expect(seen).toHaveLength(25);
  expect(new Set(seen).size).toBe(25);
});

test('filters combine, and only ever compare', () => {
  fill(8);
  const { store } = place;
  const ids = (filter: Parameters<typeof store.query>[0]) =>
    must(store.query(filter))
      .rows.map((row) => row.id)
      .sort();
  expect(ids({ directive: 'even', limit: 50 })).toEqual(['t0', 't2', 't4', 't6']);
  expect(ids({ parent: 't2' })).toEqual(['t3']);
  expect(ids({ within: 't6' })).toEqual(['t6', 't7']);
  expect(ids({ root: 't6', directive: 'odd' })).toEqual(['t7']);
  expect(ids({ status: ['running', 'paused'] })).toEqual([]);
  expect(ids({ directive: "x' OR 1=1 --" })).toEqual([]);
  expect(codeOf(store.query({ status: "x'" as ThreadStatus }))).toBe('invalid_input');
  expect(codeOf(store.query({ cursor: 'nonsense' }))).toBe('invalid_input');
  expect(must(store.query()).rows).toHaveLength(8);
});

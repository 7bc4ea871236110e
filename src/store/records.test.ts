// Artifacts, audit rows, and what is left after pruning.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { aThread, codeOf, makeStore, must, type TestStore } from '../../tests/support/registry.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
});
afterEach(() => place.remove());

test('bytes are kept once by their hash and come back as they were', () => {
  const { store } = place;
  const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => index % 251);
  const hash = must(store.artifacts.put('a', bytes));
  expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(must(store.artifacts.put('b', bytes))).toBe(hash);
  expect(Buffer.from(must(store.artifacts.get('b', hash))).equals(Buffer.from(bytes))).toBe(true);
  expect(must(store.artifacts.put('a', new Uint8Array()))).not.toBe(hash);
  expect(codeOf(store.artifacts.get('a', 'sha256:none'))).toBe('not_found');
  expect(codeOf(store.artifacts.get('c', hash))).toBe('not_found');
  expect(codeOf(store.artifacts.put('a', new Uint8Array(65 * 1024 * 1024)))).toBe('invalid_input');
});

test('audit rows are read back, the latest, oldest first', () => {
  const { store, clock } = place;
  const row = { surface: 'thread', caller: 'a', subject: 'hash', operation: 'op', reason: 'r' };
  must(store.audit.ready());
  for (const decision of ['allowed', 'denied', 'failed', 'allowed'] as const) {
    must(store.audit.write({ ...row, decision }));
    clock.pass(1000);
  }
  const rows = must(store.audit.read(3));
  expect(rows.map(({ decision }) => decision)).toEqual(['denied', 'failed', 'allowed']);
  expect(rows[0]).toEqual({ ...row, decision: 'denied', time: '2023-11-14T22:13:21.000Z' });
  expect(must(store.audit.read(10, 'allowed'))).toHaveLength(2);
  must(store.audit.write({ ...row, decision: 'denied', reason: 'x'.repeat(10_000) }));
  expect(must(store.audit.read(1))[0]?.reason).toHaveLength(501);
});

test('so many trees go as was asked for, the rest the next time', () => {
  const { store, clock } = place;
  for (const id of ['p1', 'p2', 'p3']) {
    must(store.createThread(aThread(id)));
    must(store.append(id, 0, 0, [], { status: 'completed' }));
  }
  clock.pass(1000);
  expect(must(store.prune({ before: clock.wall, trees: 2 })).removed).toHaveLength(2);
  expect(must(store.prune({ before: clock.wall, trees: 0 })).removed).toHaveLength(0);
  expect(must(store.prune({ before: clock.wall, trees: 2 })).removed).toHaveLength(1);
});

test('old trees go whole; what lives, is young or failed stays, and so do budgets and audit', () => {
  const { store, clock } = place;
  const end = (id: string, status: 'completed' | 'failed' | 'running') =>
    must(store.append(id, 0, 0, [{ type: 'note', data: {} }], { status }));
  for (const id of ['old', 'alive', 'failed']) {
    must(store.createThread(aThread(id, { budget: { tokens: 10n } })));
    must(store.createThread(aThread(`${id}_child`, { parent: id })));
    must(store.artifacts.put(id, Buffer.from(id)));
    must(store.signal(id, 'pause', null, 'k', 'x'));
    end(`${id}_child`, id === 'alive' ? 'running' : 'completed');
  }
  const hash = must(store.artifacts.put('old', Buffer.from('old')));
  must(store.reserve(['old'], { tokens: 5n }, 'k'));
  must(store.settle('k', { tokens: 5n }));
  end('old', 'completed');
  end('alive', 'completed');
  end('failed', 'failed');
  clock.pass(1000);
  must(store.createThread(aThread('young')));
  end('young', 'completed');
  const before = must(store.position());
  expect(must(store.prune({ before: clock.wall, keepFailed: true })).removed.sort()).toEqual([
    'old',
    'old_child',
  ]);
  expect(codeOf(store.thread('old'))).toBe('not_found');
  expect(must(store.read('old'))).toEqual([]);
  expect(codeOf(store.artifacts.get('old', hash))).toBe('not_found');
  expect(must(store.budget('old')).used.tokens).toBe(5n);
  expect(codeOf(store.createThread(aThread('old')))).toBe('thread_exists');
  expect(must(store.query({ limit: 100 })).rows).toHaveLength(5);
  expect(must(store.prune({ before: clock.wall })).removed).toHaveLength(2);
  // Positions are never given out twice, also when the newest row belonged to a pruned thread.
  must(store.prune({ before: clock.wall + 1 }));
  must(store.append('alive_child', 1, 0, [{ type: 'note', data: {} }]));
  expect(must(store.position())).toBe(before + 1);
});

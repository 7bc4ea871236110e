import { expect, test } from 'vitest';
import { fail, ok } from '../base/index.ts';
import { allThreads } from './list-threads.ts';
import type { Store, ThreadFilter } from './port.ts';

/** A store with so many pages of one row; the page with this number fails. */
function paged(count: number, failing = -1) {
  const asked: ThreadFilter[] = [];
  const query: Store['query'] = async (filter = {}) => {
    asked.push(filter);
    const at = Number(filter.cursor ?? 0);
    if (at === failing) return fail('internal_error', `page ${at} is gone`);
    const next = at + 1 < count ? { next_cursor: String(at + 1) } : {};
    return ok({ rows: [{ id: `t${at}` }] as never, ...next });
  };
  return { store: { query }, asked };
}

test('every page is read, with the same filter', async () => {
  const { store, asked } = paged(3);
  const found = await allThreads(store, { kind: 'thread' });
  expect(found.ok && found.output.map(({ id }) => id)).toEqual(['t0', 't1', 't2']);
  expect(asked).toEqual([
    { limit: 500, kind: 'thread' },
    { limit: 500, kind: 'thread', cursor: '1' },
    { limit: 500, kind: 'thread', cursor: '2' },
  ]);
});

test.each([0, 1, 2])('a failure of page %i is the answer, and no more is asked', async (at) => {
  const { store, asked } = paged(3, at);
  const found = await allThreads(store, {});
  expect(found).toMatchObject({ ok: false, error: { detail: { message: `page ${at} is gone` } } });
  expect(asked).toHaveLength(at + 1);
});

// Cases about the fields of a thread in a list, and about words that a search finds.
import { expect, test } from 'vitest';
import type { ThreadFilter } from '../../../packages/core/src/store/port.ts';
import { staged } from './journal-cases.ts';
import { bear, begin, must, type OpenStage } from './stage.ts';

export function searchCases(open: OpenStage): void {
  const inStage = staged(open);

  test(
    'a title is on the row of roots, children and hooks, and in lists',
    inStage(async ({ store, another }) => {
      const root = await begin(store, 'root', { title: 'Ä title ✓' });
      await bear(store, root, 'child', { title: 'of a child' });
      await bear(store, root, 'hook', { kind: 'hook', title: 'of a hook' });
      await begin(store, 'plain');
      const other = await another();
      const { rows } = must(await other.query({ limit: 9 }));
      expect(Object.fromEntries(rows.map(({ id, title }) => [id, title]))).toEqual({
        root: 'Ä title ✓',
        child: 'of a child',
        hook: 'of a hook',
        plain: undefined,
      });
      expect(must(await other.thread('child')).title).toBe('of a child');
      expect(must(await other.thread('plain'))).not.toHaveProperty('title');
    }),
  );

  test(
    'a search finds ids, directives and texts of beginning and end, in any case, inside a filter',
    inStage(async ({ store, another, clock }) => {
      const first = await begin(store, 'first', { search: 'Topic 250 in KÖLN, 100% of it' });
      clock.pass(1);
      const second = await begin(store, 'second', { directive: 'nightly' });
      clock.pass(1);
      await bear(store, second, 'below', { search: 'topic 251' });
      const other = await another();
      const found = async (search: string, filter: ThreadFilter = {}): Promise<string[]> =>
        must(await other.query({ search, direction: 'asc', ...filter })).rows.map(({ id }) => id);
      expect(await found('topic 25')).toEqual(['first', 'below']);
      expect(await found('topic 25', { root: 'second' })).toEqual(['below']);
      expect(await found('köln')).toEqual(['first']);
      expect(await found('NIGHT')).toEqual(['second']);
      expect(await found('SECO')).toEqual(['second']);
      expect(await found('0% o')).toEqual(['first']);
      for (const none of ['%', '_opic', "' OR '1", 'x\0y', '\ud800']) {
        expect(await found(none), none).toEqual(none === '%' ? ['first'] : []);
      }
      expect(await found('')).toHaveLength(3);
      await first.must({ status: 'completed', search: 'It was Tuesday' });
      await second.must({ status: 'completed', search: 'it was Wednesday' });
      expect(await found('it was')).toEqual(['first', 'second']);
      await first.must({ search: 'the second end' });
      expect(await found('tuesday')).toEqual([]);
      expect(await found('second end')).toEqual(['first']);
      expect(await found('topic 250')).toEqual(['first']);
    }),
  );

  test(
    'a search is read page by page',
    inStage(async ({ store, clock }) => {
      for (let n = 0; n < 6; n++) {
        await begin(store, `t${n}`, { search: n % 2 === 0 ? 'even' : 'odd' });
        clock.pass(1);
      }
      const first = must(await store.query({ search: 'even', limit: 2 }));
      expect(first.rows.map(({ id }) => id)).toEqual(['t4', 't2']);
      const { next_cursor: cursor = '' } = first;
      const second = must(await store.query({ search: 'even', limit: 2, cursor }));
      expect(second.rows.map(({ id }) => id)).toEqual(['t0']);
      expect(second).not.toHaveProperty('next_cursor');
    }),
  );
}

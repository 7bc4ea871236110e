// Cases about the tenant of a thread, the items that it resumes with, and the queue by both.
import { expect, test } from 'vitest';
import { type InStage, staged } from './journal-cases.ts';
import { aThread, bear, begin, must, type OpenStage, owner, writerOf } from './stage.ts';

const inQueue = { start: { queue: {} } };
const ITEMS = `sha256:${'1'.repeat(64)}`;
const OTHERS = `sha256:${'2'.repeat(64)}`;

function belonging(inStage: InStage): void {
  test(
    'children and hooks have the tenant of their root, whatever they ask for',
    inStage(async ({ store, another }) => {
      const root = await begin(store, 'root', { tenant: 'a' });
      const child = await bear(store, root, 'child', { tenant: 'b' });
      await bear(store, child, 'hook', { kind: 'hook' });
      await child.must({ children: [aThread('queued', { ...inQueue, tenant: 'b' })] });
      const other = await another();
      for (const id of ['root', 'child', 'hook', 'queued']) {
        expect(must(await other.thread(id)).tenant, id).toBe('a');
      }
      const nobodys = await begin(store, 'nobodys', { tenant: '' });
      await bear(store, nobodys, 'below', { tenant: 'b' });
      for (const id of ['nobodys', 'below']) {
        expect(must(await other.thread(id)), id).not.toHaveProperty('tenant');
      }
    }),
  );

  test(
    'items are kept on the row and on children, and change by a commit alone',
    inStage(async ({ store, another }) => {
      const root = await begin(store, 'root', { items: ITEMS });
      await bear(store, root, 'same');
      await bear(store, root, 'own', { items: OTHERS });
      const plain = await begin(store, 'plain');
      const bare = await bear(store, plain, 'bare');
      const other = await another();
      const itemsOf = async (id: string) => must(await other.thread(id)).items;
      expect(await Promise.all(['root', 'same', 'own', 'plain'].map(itemsOf))).toEqual([
        ITEMS,
        ITEMS,
        OTHERS,
        undefined,
      ]);
      expect(must(await other.thread('bare'))).not.toHaveProperty('items');
      const { rows } = must(await other.query({ root: 'root', order_by: 'created' }));
      expect(rows.map(({ id, items }) => `${id} ${items}`).sort()).toEqual([
        `own ${OTHERS}`,
        `root ${ITEMS}`,
        `same ${ITEMS}`,
      ]);
      await root.must({ status: 'waiting' });
      expect(await itemsOf('root')).toBe(ITEMS);
      await root.must({ items: OTHERS });
      await bare.must({ items: ITEMS, release: { wake: 0 } });
      expect(await itemsOf('root')).toBe(OTHERS);
      expect(await itemsOf('same')).toBe(ITEMS);
      const [taken] = must(await other.take(owner('there'), { count: 9, projects: ['one'] }));
      expect(taken?.row).toMatchObject({ id: 'bare', items: ITEMS });
    }),
  );
}

function byTenant(inStage: InStage): void {
  test(
    'only threads of the tenant asked for are taken, with their items',
    inStage(async ({ store, another, clock }) => {
      for (const [id, tenant] of [
        ['a1', 'a'],
        ['b1', 'b'],
        ['n1', ''],
        ['a2', 'a'],
      ] as const) {
        const project = id === 'a2' ? 'two' : 'one';
        must(await store.createThread(aThread(id, { ...inQueue, tenant, project, items: ITEMS })));
        clock.pass(1);
      }
      const other = await another();
      const take = async (tenant: string | undefined, projects: readonly string[]) =>
        must(
          await other.take(owner('there'), {
            count: 9,
            projects,
            ...(tenant === undefined ? {} : { tenant }),
          }),
        ).map(({ thread, row }) => `${thread} ${row.tenant ?? '-'} ${row.items === ITEMS}`);
      expect(await take('c', ['one', 'two'])).toEqual([]);
      expect(await take('a', ['one'])).toEqual(['a1 a true']);
      expect(await take(undefined, ['one', 'two'])).toEqual(['n1 - true']);
      expect(await take('b', ['two'])).toEqual([]);
      expect(await take('a', ['one', 'two'])).toEqual(['a2 a true']);
      expect(await take('', ['one', 'two'])).toEqual([]);
      expect(await take('b', ['one', 'two'])).toEqual(['b1 b true']);
    }),
  );

  test(
    'who waits for one tenant is not answered with the threads of another',
    inStage(async ({ store, another }) => {
      const other = await another();
      const wanted = { count: 1, projects: ['one'], waitMs: 20_000 };
      const waiting = store.take(owner(), { ...wanted, tenant: 'a' });
      must(await other.createThread(aThread('nobodys', inQueue)));
      must(await other.createThread(aThread('b1', { ...inQueue, tenant: 'b' })));
      must(await other.createThread(aThread('a1', { ...inQueue, tenant: 'a' })));
      expect(must(await waiting)).toMatchObject([{ thread: 'a1', row: { tenant: 'a' } }]);
    }),
  );

  test(
    'lists by tenant: of one, of nobody, of all, page by page',
    inStage(async ({ store, clock }) => {
      for (let n = 0; n < 9; n++) {
        const tenant = ['a', 'b', ''][n % 3] ?? '';
        await begin(store, `t${n}`, { tenant });
        clock.pass(1);
      }
      const idsOf = async (filter: { tenant?: string }) => {
        const ids: string[] = [];
        for (let cursor: string | undefined; ; ) {
          const at = cursor === undefined ? {} : { cursor };
          const page = must(await store.query({ ...filter, limit: 2, direction: 'asc', ...at }));
          ids.push(...page.rows.map(({ id }) => id));
          cursor = page.next_cursor;
          if (cursor === undefined) return ids;
        }
      };
      expect(await idsOf({ tenant: 'a' })).toEqual(['t0', 't3', 't6']);
      expect(await idsOf({ tenant: '' })).toEqual(['t2', 't5', 't8']);
      expect(await idsOf({})).toHaveLength(9);
      expect(await idsOf({ tenant: "a' OR '1" })).toEqual([]);
    }),
  );
}

function delays(inStage: InStage): void {
  test(
    'what is let go for later is not taken before, by the clock of the store',
    inStage(async ({ store, another, clock }) => {
      const wanted = { count: 5, projects: ['one'] };
      const held = await begin(store, 't');
      must(await store.release(held, { again: true, delayMs: 1000 }));
      const row = must(await store.thread('t'));
      expect([row.owner, row.status, row.seq]).toEqual([undefined, 'running', 1]);
      const other = await another();
      expect(must(await other.take(owner('there'), wanted))).toEqual([]);
      clock.pass(999);
      expect(must(await other.take(owner('there'), wanted))).toEqual([]);
      // The thread is queued, so a sweep does not report it as lost.
      expect(must(await other.sweep()).interrupted).toEqual([]);
      clock.pass(1);
      const [taken] = must(await other.take(owner('there'), wanted));
      expect(taken).toMatchObject({ thread: 't', epoch: 2 });
      // A release with an outdated lease queues nothing.
      must(await store.release(held, { again: true, delayMs: 0 }));
      expect(must(await store.thread('t')).owner).toBe('there');
    }),
  );

  test(
    'a delay holds although something was not heard, and ends with the next word',
    inStage(async ({ store, clock }) => {
      const wanted = { count: 5, projects: ['one'] };
      const parked = await begin(store, 't');
      await parked.must({ status: 'waiting', release: true });
      const say = async (key: string) =>
        must(await store.signal({ thread: 't', kind: 'message', payload: 1, key, by: 'me' }));
      await say('one');
      const [first] = must(await store.take(owner(), wanted));
      must(await store.release(first ?? parked, { again: true, delayMs: 60_000 }));
      clock.pass(59_000);
      expect(must(await store.take(owner(), wanted))).toEqual([]);
      await say('two');
      const [second] = must(await store.take(owner(), wanted));
      expect(second).toMatchObject({ thread: 't', acknowledged: 0, row: { status: 'waiting' } });
      const writer = second ? writerOf(store, second) : parked;
      await writer.must({ status: 'completed' });
      must(await store.release(writer, { again: true, delayMs: 5 }));
      clock.pass(10);
      expect(must(await store.take(owner(), wanted))).toEqual([]);
    }),
  );
}

export function tenantCases(open: OpenStage): void {
  const inStage = staged(open);
  belonging(inStage);
  byTenant(inStage);
  delays(inStage);
}

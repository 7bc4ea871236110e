// Commits of siblings at the same time, from several processes. They share the account of their root, so
// one of them is written on an old view of it and must be decided again.
import { randomBytes } from 'node:crypto';
import { systemClock } from '@kernmantle/core/base';
import { runs } from '@kernmantle/test-support/soak';
import {
  aThread,
  begin,
  codeOf,
  must,
  owner,
  type Writer,
  writerOf,
} from '@kernmantle/test-support/store-suite/stage';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Amounts, BUDGET_KINDS } from '../../../core/src/store/amounts.ts';
import type { Commit, OpenReservation, Store } from '../../../core/src/store/port.ts';
import { openSqliteStore } from '../../../core/src/store/sqlite/store.ts';
import { createAccountCache } from '../../src/postgres/leased-thread.ts';
import { migrateStore } from '../../src/postgres/migrate.ts';
import { openPostgresStore } from '../../src/postgres/store.ts';
import { noServer } from '../support/server-stores.ts';

const url = inject('postgres');
const schema = `t_${randomBytes(6).toString('hex')}`;
const base = { place: { url, schema }, shown: 'the test server', clock: systemClock };

type Part = Pick<Commit, 'charge' | 'reserve' | 'settle'>;

const amount = fc.bigInt({ min: 0n, max: 20n });
const amounts: fc.Arbitrary<Amounts> = fc.record(
  { tokens: amount, spend: amount },
  { requiredKeys: [] },
);
const step = fc.record({ reserve: amounts, charge: amounts, actual: fc.option(amounts) });
/** A list of steps for each sibling. */
const plan = fc.record({
  limit: fc.option(fc.bigInt({ min: 20n, max: 200n })),
  siblings: fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), {
    minLength: 2,
    maxLength: 4,
  }),
});

/** Makes a root and its queued children. Returns the ids of the children. */
async function spawn(store: Store, root: string, count: number, budget: Amounts) {
  const parent = await begin(store, root, { budget });
  const children = Array.from({ length: count }, (_, at) =>
    aThread(`${root}-${at}`, { start: { queue: {} } }),
  );
  await parent.must({ children });
  return children.map(({ id }) => id);
}

interface State {
  readonly used: Amounts;
  readonly reserved: Amounts;
  readonly open: readonly OpenReservation[];
}

async function statesOf(store: Store, threads: readonly string[]): Promise<State[]> {
  const budgets = must(await store.budgets(threads));
  const states: State[] = [];
  for (const { thread, used, reserved } of budgets) {
    const { open } = must(await store.claim(thread, owner('reader'), { force: true }));
    states.push({ used, reserved, open });
  }
  return states;
}

/** Records the statements in `texts`. `before` runs ahead of each call of `km_write`. */
function clientWith(before: (call: number) => Promise<unknown>, texts: string[]) {
  let calls = 0;
  return class extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const query = this.query.bind(this);
      const through = async (request: string | pg.QueryConfig, values?: unknown[]) => {
        const text = typeof request === 'string' ? request : request.text;
        const isWrite = text.includes('km_write');
        if (isWrite) await before(++calls);
        texts.push(isWrite ? 'write' : text);
        return query(request, values);
      };
      Object.assign(this, { query: through });
    }
  };
}

const isOfCommit = (text: string): boolean => /^(write|BEGIN|COMMIT)$|km_view/.test(text);

describe.skipIf(url === '')(`commits of siblings${noServer(url)}`, () => {
  const stores: Store[] = [];
  const open = async (more: object = {}): Promise<Store> => {
    const store = must(await openPostgresStore({ ...base, maxLeaseMs: 60_000, ...more }));
    stores.push(store);
    return store;
  };
  beforeAll(async () => {
    must(await migrateStore({ ...base, random: (count) => randomBytes(count) }));
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`DROP SCHEMA ${schema} CASCADE; DROP SCHEMA ${schema}_jobs CASCADE`);
    await client.end();
  });

  test('commits at the same time leave the accounts that the same commits leave one by one', async () => {
    const processes = [await open(), await open(), await open()];
    const file = must(await openSqliteStore({ file: ':memory:', clock: systemClock }));
    let number = 0;
    const property = fc.asyncProperty(plan, async ({ limit, siblings }) => {
      const root = `tree${number++}`;
      const budget = limit === null ? {} : { tokens: limit };
      const [first] = processes;
      if (!first) throw new Error('no process');
      const ids = await spawn(first, root, siblings.length, budget);
      const written: Part[][] = siblings.map(() => []);
      await Promise.all(
        siblings.map(async (steps, at) => {
          const store = processes[at % processes.length] ?? first;
          const writer = writerOf(store, must(await store.claim(ids[at] ?? '', owner())));
          let last: string | undefined;
          for (const [index, { reserve, charge, actual }] of steps.entries()) {
            const key = `k${index}`;
            const settle = actual && last !== undefined ? [{ key: last, actual }] : undefined;
            const part = {
              charge,
              reserve: [{ key, amounts: reserve }],
              ...(settle && { settle }),
            };
            const answer = await writer.commit(part);
            if (answer.ok) {
              written[at]?.push(part);
              last = key;
            } else expect(answer.error.code).toBe('tokens_exceeded');
          }
        }),
      );
      // Without a limit, because the order of the commits decides which of them exceed it.
      await spawn(file, root, siblings.length, {});
      for (const [at, parts] of written.entries()) {
        const writer: Writer = writerOf(file, must(await file.claim(ids[at] ?? '', owner())));
        for (const part of parts) await writer.must(part);
      }
      if (limit === null)
        expect(written.map((parts) => parts.length)).toEqual(siblings.map((steps) => steps.length));
      const states = await statesOf(first, [root, ...ids]);
      expect(states).toEqual(await statesOf(file, [root, ...ids]));
      const [{ used, reserved } = { used: {}, reserved: {} }] = states;
      const isSettledWithMore = written.flat().some(({ settle }) => settle);
      for (const kind of BUDGET_KINDS) {
        const max = budget.tokens !== undefined && kind === 'tokens' ? budget.tokens : undefined;
        if (max === undefined || isSettledWithMore) continue;
        expect((used[kind] ?? 0n) + (reserved[kind] ?? 0n)).toBeLessThanOrEqual(max);
      }
    });
    await fc.assert(property, { numRuns: runs(15) });
    await file.close();
  });

  test.each([
    ['created', (store: Store, id: string) => begin(store, id, { budget: { tokens: 10n } })],
    [
      'claimed',
      async (store: Store, id: string) => {
        const [child = ''] = await spawn(await open(), id, 1, { tokens: 10n });
        return writerOf(store, must(await store.claim(child, owner())));
      },
    ],
    [
      'taken',
      async (store: Store, id: string) => {
        await spawn(await open(), id, 2, { tokens: 10n });
        const wanted = { count: 2, projects: ['one'] };
        const [, held] = must(await store.take(owner(), wanted));
        if (!held) throw new Error('nothing was taken');
        return writerOf(store, held);
      },
    ],
    [
      'spawned',
      async (store: Store, id: string) => {
        const parent = await begin(store, id, { budget: { tokens: 10n } });
        const { children } = await parent.must({ children: [aThread(`${id}-0`)] });
        const [held] = children;
        if (!held) throw new Error('nothing was spawned');
        return writerOf(store, held);
      },
    ],
  ])('a thread that was %s makes a reservation in one statement', async (how, start) => {
    const texts: string[] = [];
    const store = await open({ Client: clientWith(async () => {}, texts) });
    const writer = await start(store, `first-${how}`);
    texts.length = 0;
    await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 3n } }] });
    expect(texts.filter(isOfCommit)).toEqual(['write']);
  });

  test('a commit after a refused one is one statement', async () => {
    const texts: string[] = [];
    const store = await open({ Client: clientWith(async () => {}, texts) });
    const writer = await begin(store, 'refused', { budget: { tokens: 10n } });
    expect(codeOf(await writer.commit({ charge: { tokens: 11n } }))).toBe('tokens_exceeded');
    texts.length = 0;
    await writer.must({ charge: { tokens: 2n } });
    const { thread, seq, epoch } = writer;
    must(await (await open()).signal({ thread, kind: 'inject', payload: {}, key: 'k', by: 'x' }));
    const quiet = { expect: { seq, epoch, quiet: true as const } };
    expect(codeOf(await writer.commit(quiet))).toBe('signalled');
    const before = texts.filter(isOfCommit).length;
    await writer.must({ acknowledged: 1 });
    const own = texts.filter(isOfCommit);
    expect(own[0]).toBe('write');
    expect(own.slice(before)).toEqual(['write']);
  });

  test('an account in the cache is never replaced by an older one', () => {
    const cache = createAccountCache();
    const account = { thread: 'root', limits: {}, used: {}, reserved: {}, open: [] };
    const newer = { account: { ...account, used: { tokens: 2n } }, version: 2 };
    cache.add([newer]);
    cache.add([{ account, version: 1 }]);
    expect(cache.chain(['root'])).toEqual([newer]);
  });

  test('a commit that conflicts again and again is written in a transaction, whose locks end it', async () => {
    const other = await open();
    const ids = await spawn(other, 'contended', 2, { tokens: 1000n });
    const rival = writerOf(other, must(await other.claim(ids[1] ?? '', owner())));
    const charge = { charge: { tokens: 1n } };
    const [texts, late]: [string[], Promise<unknown>[]] = [[], []];
    let isRacing = false;
    const Client = clientWith(async (call) => {
      if (!isRacing) return;
      // Call 1 came before the race. Call 6 holds the locks, so the rival waits for its end.
      if (call < 6) await rival.must(charge);
      else late.push(rival.must(charge));
    }, texts);
    const store = await open({ Client });
    const writer = writerOf(store, must(await store.claim(ids[0] ?? '', owner())));
    await writer.must(charge);
    isRacing = true;
    texts.length = 0;
    await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 5n } }] });
    const own = texts.filter((text) => /^(write|BEGIN|COMMIT|ROLLBACK)$/.test(text));
    expect(own).toEqual(['write', 'write', 'write', 'BEGIN', 'write', 'write', 'COMMIT']);
    await Promise.all(late);
    expect(late).toHaveLength(1);
    const [root] = must(await store.budgets(['contended']));
    expect(root).toMatchObject({ used: { tokens: 6n }, reserved: { tokens: 5n } });
  });
});

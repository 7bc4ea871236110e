// Cases 14-22 of the port: budgets along the chain.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Amounts, BudgetKind } from '../../../packages/core/src/store/amounts.ts';
import type { BudgetState, Store } from '../../../packages/core/src/store/port.ts';
import { runs } from '../soak.ts';
import { type InStage, staged } from './journal-cases.ts';
import {
  bear,
  begin,
  codeOf,
  must,
  type OpenStage,
  owner,
  TTL,
  type Writer,
  writerOf,
} from './stage.ts';

const KINDS: readonly BudgetKind[] = ['tokens', 'spend'];

async function stateOf(store: Store, thread: string): Promise<BudgetState> {
  const [state] = must(await store.budgets([thread]));
  if (!state) throw new Error('no budget');
  return state;
}

async function figures(store: Store, thread: string): Promise<[used: bigint, reserved: bigint]> {
  const { used, reserved } = await stateOf(store, thread);
  return [used.tokens, reserved.tokens];
}

type Act =
  | { do: 'reserve'; tokens: number; spend: number; optional: boolean }
  | { do: 'settle'; tokens: number }
  | { do: 'charge'; tokens: number };

const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    do: fc.constant('reserve' as const),
    tokens: fc.integer({ min: 0, max: 40 }),
    spend: fc.integer({ min: 0, max: 40 }),
    optional: fc.boolean(),
  }),
  fc.record({ do: fc.constant('settle' as const), tokens: fc.integer({ min: 0, max: 20 }) }),
  fc.record({ do: fc.constant('charge' as const), tokens: fc.integer({ min: 0, max: 10 }) }),
);

/** Performs the acts. It settles at most the reserved amount, so the limits must hold. */
async function spend(writer: Writer, acts: readonly Act[]): Promise<Map<string, Amounts>> {
  const open = new Map<string, Amounts>();
  for (const [index, one] of acts.entries()) {
    const key = `${writer.thread}.${index}`;
    if (one.do === 'charge') await writer.commit({ charge: { tokens: BigInt(one.tokens) } });
    if (one.do === 'reserve') {
      const amounts = { tokens: BigInt(one.tokens), spend: BigInt(one.spend) };
      const optional = one.optional ? { optional: true as const } : {};
      const done = await writer.commit({ reserve: [{ key, amounts, ...optional }] });
      if (done.ok && done.output.reserved.includes(key)) open.set(key, amounts);
    }
    const [first] = open;
    if (one.do === 'settle' && first) {
      const [oldest, held] = first;
      const max = held.tokens ?? 0n;
      const tokens = BigInt(one.tokens) > max ? max : BigInt(one.tokens);
      open.delete(oldest);
      await writer.must({ settle: [{ key: oldest, actual: { tokens, spend: 1n } }] });
    }
  }
  return open;
}

/** Checks that no thread exceeds a limit at any moment. `slack` allows amounts without a reservation. */
function expectWithin(states: readonly BudgetState[], slack: bigint): void {
  for (const { limits, used, reserved } of states) {
    for (const kind of KINDS) {
      const max = limits[kind];
      const room = kind === 'spend' ? slack : 0n;
      if (max !== undefined) expect(used[kind] + reserved[kind] <= max + room).toBe(true);
    }
  }
}

const sum = (held: ReadonlyMap<string, Amounts>): bigint =>
  [...held.values()].reduce((total, { tokens = 0n }) => total + tokens, 0n);

function parallel(inStage: InStage): void {
  const plan = fc.array(act, { minLength: 1, maxLength: 12 });
  test(
    'used and reserved never pass a limit of the thread or of any above it',
    inStage(async ({ store, another }) => {
      const other = await another();
      let run = 0;
      await fc.assert(
        fc.asyncProperty(plan, plan, plan, async (first, second, third) => {
          run += 1;
          const ids = ['leaf', 'mid', 'root'].map((name) => `${name}${run}`);
          const [ofLeaf = '', ofMid = '', ofRoot = ''] = ids;
          const root = await begin(store, ofRoot, { budget: { tokens: 100n, spend: 100n } });
          const mid = await bear(store, root, ofMid, { budget: { tokens: 60n } });
          await bear(store, mid, ofLeaf, { budget: { tokens: 50n } });
          const claimed = await other.claim(ofLeaf, owner('there'), { force: true });
          const leaf = writerOf(other, must(claimed));
          const state = { isDone: false };
          const work = Promise.all([spend(leaf, third), spend(mid, second), spend(root, first)]);
          void work.finally(() => {
            state.isDone = true;
          });
          do {
            expectWithin(must(await store.budgets(ids)), 36n);
            await new Promise((resolve) => setImmediate(resolve));
          } while (!state.isDone);
          // At every thread, the reserved amount equals the open reservations.
          const [atLeaf = 0n, atMid = 0n, atRoot = 0n] = (await work).map(sum);
          const states = must(await store.budgets(ids));
          const expected = [atLeaf, atLeaf + atMid, atLeaf + atMid + atRoot];
          expect(states.map(({ reserved }) => reserved.tokens)).toEqual(expected);
        }),
        { numRuns: runs(20) },
      );
    }),
  );
}

function refusals(inStage: InStage): void {
  test(
    'a refusal names the nearest ancestor and the kind, with exact amounts',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root', {
        budget: { tokens: 100n, spend: 9_007_199_254_740_993n },
      });
      const mid = await bear(store, root, 'mid', { budget: { tokens: 80n } });
      const leaf = await bear(store, mid, 'leaf', { budget: { tokens: 90n } });
      await mid.must({ reserve: [{ key: 'm', amounts: { tokens: 50n } }] });
      await root.must({ reserve: [{ key: 'hooks', amounts: { tokens: 20n }, standing: true }] });
      const near = await leaf.commit({ reserve: [{ key: 'l', amounts: { tokens: 40n } }] });
      expect(near).toMatchObject({
        ok: false,
        error: {
          code: 'tokens_exceeded',
          detail: {
            limit: 'tokens',
            thread: 'mid',
            current: 50,
            reserved: 50,
            standing: 0,
            max: 80,
            requested: 40,
          },
        },
      });
      const far = await leaf.commit({ charge: { tokens: 30n, spend: 9_007_199_254_740_993n } });
      expect(far.ok).toBe(true);
      const full = await leaf.commit({ reserve: [{ key: 'l', amounts: { spend: 1n } }] });
      expect(full).toMatchObject({
        error: {
          code: 'spend_exceeded',
          detail: {
            thread: 'root',
            current: '9007199254740993',
            max: '9007199254740993',
            requested: '1',
          },
        },
      });
      const all = await leaf.commit({ reserve: [{ key: 'l', amounts: { tokens: 1n } }] });
      expect(all).toMatchObject({
        error: { detail: { thread: 'mid', current: 80, reserved: 50, standing: 0 } },
      });
      const atRoot = await root.commit({ reserve: [{ key: 'r', amounts: { tokens: 1n } }] });
      expect(atRoot).toMatchObject({
        error: { detail: { thread: 'root', current: 100, reserved: 70, standing: 20 } },
      });
    }),
  );

  test(
    'what threads without a live lease hold is standing too',
    inStage(async ({ store, clock }) => {
      const root = await begin(store, 'root', { budget: { tokens: 10n } });
      const child = await bear(store, root, 'child');
      await child.must({ reserve: [{ key: 'c', amounts: { tokens: 10n } }] });
      const ask = () => root.commit({ reserve: [{ key: 'r', amounts: { tokens: 1n } }] });
      expect(await ask()).toMatchObject({ error: { detail: { reserved: 10, standing: 0 } } });
      clock.pass(TTL - 1);
      must(await store.renew([root], TTL));
      clock.pass(1);
      expect(await ask()).toMatchObject({ error: { detail: { reserved: 10, standing: 10 } } });
    }),
  );

  test(
    'a key that is open, another thread and a strange amount are mistakes',
    inStage(async ({ store }) => {
      const one = await begin(store, 'one');
      const two = await begin(store, 'two');
      await one.must({ reserve: [{ key: 'k', amounts: { tokens: 1n } }] });
      const again = await one.commit({ reserve: [{ key: 'k', amounts: { tokens: 1n } }] });
      expect(codeOf(again)).toBe('invalid_input');
      const others = await two.commit({ settle: [{ key: 'k', actual: {} }] });
      expect(codeOf(others)).toBe('invalid_input');
      expect(codeOf(await two.commit({ charge: { tokens: -1n } }))).toBe('invalid_input');
      expect(codeOf(await two.commit({ settle: [{ key: 'none', actual: {} }] }))).toBe('not_found');
      expect(codeOf(await store.budgets(['one', 'nobody']))).toBe('not_found');
    }),
  );
}

function settling(inStage: InStage): void {
  test(
    'what threads have spent is told for all that began since then, newest first',
    inStage(async ({ store, clock }) => {
      const old = await begin(store, 'old');
      await old.must({ charge: { tokens: 1n } });
      clock.pass(1000);
      const since = clock.now();
      const root = await begin(store, 'root', { directive: 'look' });
      const leaf = await bear(store, root, 'leaf', { kind: 'hook' });
      await leaf.must({ charge: { tokens: 5n, spend: 9_007_199_254_740_993n } });
      clock.pass(1000);
      await begin(store, 'new');
      await root.must({ charge: { tokens: 2n }, status: 'limit' });
      const { rows } = must(await store.query({}));
      const wanted = rows.filter(({ id }) => id !== 'old');
      const budgets = must(await store.budgets(wanted.map(({ id }) => id)));
      const expected = wanted.map((row, at) => {
        const { id, kind, directive, status, seq, created } = row;
        const { tokens = -1n, spend = -1n } = budgets[at]?.used ?? {};
        const parent = row.parent === undefined ? {} : { parent: row.parent };
        return { id, ...parent, kind, directive, status, seq, created, used: { tokens, spend } };
      });
      expect(wanted.map(({ id }) => id)).toEqual(['new', 'root', 'leaf']);
      expect(must(await store.spent(since))).toEqual(expected);
      expect(must(await store.spent(since - 0.5))).toEqual(expected);
      expect(must(await store.spent(0))).toHaveLength(4);
      expect(must(await store.spent(clock.now() + 1))).toEqual([]);
    }),
  );

  test(
    'what was used above the reserve counts in full, and the next one is refused',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't', { budget: { tokens: 10n } });
      await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 10n } }] });
      await writer.must({ settle: [{ key: 'k', actual: { tokens: 25n } }] });
      expect(await figures(store, 't')).toEqual([25n, 0n]);
      const next = await writer.commit({ reserve: [{ key: 'n', amounts: { tokens: 1n } }] });
      expect(next).toMatchObject({ error: { code: 'tokens_exceeded', detail: { current: 25 } } });
    }),
  );

  test(
    'settling with nothing gives all of it back, and its key may come again',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't', { budget: { tokens: 10n } });
      for (let round = 0; round < 2; round++) {
        await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 10n } }] });
        await writer.must({ settle: [{ key: 'k', actual: {} }] });
      }
      expect(await figures(store, 't')).toEqual([0n, 0n]);
    }),
  );

  test(
    'in one commit what was used is charged before more is set aside',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't', { budget: { tokens: 10n } });
      await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 10n } }] });
      const swapped = await writer.must({
        settle: [{ key: 'k', actual: { tokens: 4n } }],
        reserve: [{ key: 'k', amounts: { tokens: 6n } }],
      });
      expect(swapped.reserved).toEqual(['k']);
      expect(await figures(store, 't')).toEqual([4n, 6n]);
      const over = await writer.commit({
        settle: [{ key: 'k', actual: { tokens: 5n } }],
        reserve: [{ key: 'n', amounts: { tokens: 2n } }],
      });
      expect(codeOf(over)).toBe('tokens_exceeded');
      expect(await figures(store, 't')).toEqual([4n, 6n]);
    }),
  );
}

function drawing(inStage: InStage): void {
  test(
    'what is drawn from a reservation takes nothing else, and the rest returns to it',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root', { budget: { tokens: 10n } });
      await root.must({ reserve: [{ key: 'apart', amounts: { tokens: 10n }, standing: true }] });
      const child = await bear(store, root, 'child', { budget: { tokens: 9n } });
      const from = 'apart';
      await child.must({ reserve: [{ key: 'c', amounts: { tokens: 6n }, from }] });
      expect(await figures(store, 'root')).toEqual([0n, 10n]);
      expect(await figures(store, 'child')).toEqual([0n, 6n]);
      const more = await child.commit({ reserve: [{ key: 'd', amounts: { tokens: 5n }, from }] });
      expect(more).toMatchObject({
        error: {
          code: 'tokens_exceeded',
          detail: { thread: 'root', current: 6, reserved: 6, standing: 0, max: 10, requested: 5 },
        },
      });
      await child.must({ settle: [{ key: 'c', actual: { tokens: 2n } }] });
      expect(await figures(store, 'root')).toEqual([2n, 8n]);
      expect(await figures(store, 'child')).toEqual([2n, 0n]);
      const own = await child.commit({ reserve: [{ key: 'd', amounts: { tokens: 8n }, from }] });
      // The limit of the thread itself applies too.
      expect(own).toMatchObject({ error: { detail: { thread: 'child', max: 9 } } });
    }),
  );

  test(
    'what was drawn from one that is closed meanwhile does not return to it',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root', { budget: { tokens: 10n } });
      await root.must({ reserve: [{ key: 'apart', amounts: { tokens: 10n } }] });
      await root.must({ reserve: [{ key: 'd', amounts: { tokens: 6n }, from: 'apart' }] });
      await root.must({ settle: [{ key: 'apart', actual: {} }] });
      expect(await figures(store, 'root')).toEqual([0n, 6n]);
      await root.must({ settle: [{ key: 'd', actual: { tokens: 1n } }] });
      expect(await figures(store, 'root')).toEqual([1n, 0n]);
      const late = { key: 'e', amounts: { tokens: 1n }, from: 'apart' };
      expect(codeOf(await root.commit({ reserve: [late] }))).toBe('not_found');
      expect((await root.must({ reserve: [{ ...late, optional: true }] })).reserved).toEqual([]);
      const other = await begin(store, 'other');
      await other.must({ reserve: [{ key: 'theirs', amounts: { tokens: 9n } }] });
      const foreign = { ...late, from: 'theirs' };
      expect(codeOf(await root.commit({ reserve: [foreign] }))).toBe('invalid_input');
      expect((await root.must({ reserve: [{ ...foreign, optional: true }] })).reserved).toEqual([]);
    }),
  );

  test(
    'an optional reservation without room is left out, the commit is written',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't', {
        budget: { tokens: 10n },
        reserve: [{ key: 'hooks', amounts: { tokens: 11n }, optional: true }],
      });
      const done = await writer.must({
        reserve: [
          { key: 'a', amounts: { tokens: 8n } },
          { key: 'b', amounts: { tokens: 3n }, optional: true },
          { key: 'c', amounts: { tokens: 2n }, optional: true },
        ],
      });
      expect(done.reserved).toEqual(['a', 'c']);
      expect(await figures(store, 't')).toEqual([0n, 10n]);
    }),
  );
}

function limits(inStage: InStage): void {
  test(
    'limits are raised only upwards, and those above hold',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root', { budget: { tokens: 20n } });
      const child = await bear(store, root, 'child', { budget: { tokens: 10n } });
      expect(codeOf(await child.commit({ raise: { tokens: 9n } }))).toBe('invalid_input');
      expect(codeOf(await child.commit({ raise: { spend: 9n } }))).toBe('invalid_input');
      await child.must({
        raise: { tokens: 30n },
        reserve: [{ key: 'k', amounts: { tokens: 20n } }],
      });
      const over = await child.commit({ reserve: [{ key: 'l', amounts: { tokens: 1n } }] });
      expect(over).toMatchObject({ error: { detail: { thread: 'root', max: 20 } } });
      expect((await stateOf(store, 'child')).limits).toEqual({ tokens: 30n });
    }),
  );

  test(
    'sums stop at the end of 64 bits and never wrap',
    inStage(async ({ store }) => {
      const most = 10n ** 18n;
      const end = 2n ** 63n - 1n;
      const writer = await begin(store, 't');
      for (let index = 0; index < 12; index++) {
        await writer.must({ charge: { spend: most } });
        await writer.must({ reserve: [{ key: `k${index}`, amounts: { spend: most } }] });
      }
      const { used, reserved } = await stateOf(store, 't');
      expect([used.spend, reserved.spend]).toEqual([end, end]);
      expect(codeOf(await writer.commit({ charge: { spend: most + 1n } }))).toBe('invalid_input');
      await writer.must({ settle: [{ key: 'k0', actual: { spend: most } }] });
      expect((await stateOf(store, 't')).reserved.spend).toBe(end - most);
    }),
  );
}

export function budgetCases(open: OpenStage): void {
  const inStage = staged(open);
  parallel(inStage);
  refusals(inStage);
  settling(inStage);
  drawing(inStage);
  limits(inStage);
}

import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Amounts, BUDGET_KINDS } from './amounts.ts';
import { type Account, decide, type Fence } from './decide.ts';
import type { Commit, NewThread, Reserve, Settle } from './port.ts';

type BudgetPart = Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve' | 'children'>;

const FENCE: Fence = {
  seq: 1,
  epoch: 1,
  status: 'running',
  lease_until: 10,
  wakes: 0,
  acknowledged: 0,
};
const commitOf = (part: BudgetPart): Commit => ({
  expect: { seq: 1, epoch: 1 },
  events: [{ type: 'note', data: {} }],
  ...part,
});
const child = (id: string, reserve: readonly Reserve[], budget: Amounts): NewThread => ({
  id,
  reserve,
  budget,
  directive: 'd',
  version: '1',
  runner: 'r',
  project: 'p',
  limits: {},
  inputs: {},
  events: [],
  start: { queue: {} },
});

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) frozen(part);
  }
  return value;
}

/** Accounts of a tree, as a store has them. They are frozen, so a change in place throws. */
function createTree() {
  const accounts = new Map<string, Account>();
  const chains = new Map<string, readonly string[]>();
  const chainOf = (thread: string): Account[] =>
    (chains.get(thread) ?? []).flatMap((id) => accounts.get(id) ?? []);
  return {
    accounts,
    chainOf,
    threads: (): string[] => [...chains.keys()],
    add(thread: string, limits: Amounts, parent?: string): void {
      chains.set(thread, [thread, ...(chains.get(parent ?? '') ?? [])]);
      accounts.set(thread, frozen({ thread, limits, used: {}, reserved: {}, open: [] }));
    },
    /** Writes the decision, as a store does. */
    commit(thread: string, part: BudgetPart): boolean {
      const view = frozen({ thread, fence: FENCE, accounts: chainOf(thread) });
      const decision = decide(view, frozen(commitOf(part)), 0);
      if (decision.kind === 'refuse') {
        expect(Object.keys(decision)).not.toContain('row');
        return false;
      }
      for (const { id, budget } of part.children ?? []) this.add(id, budget, thread);
      for (const account of [...decision.accounts, ...decision.children]) {
        accounts.set(account.thread, frozen(account));
      }
      return true;
    },
  };
}

type Tree = ReturnType<typeof createTree>;

const amount = fc.bigInt({ min: 0n, max: 20n });
const amounts: fc.Arbitrary<Amounts> = fc.record(
  { tokens: amount, spend: amount },
  { requiredKeys: [] },
);
const limit = fc.bigInt({ min: 0n, max: 100n });
const limits: fc.Arbitrary<Amounts> = fc.record(
  { tokens: limit, spend: limit },
  { requiredKeys: [] },
);

/** Mostly absent: a commit with many parts is mostly refused. */
const rarely = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ arbitrary, weight: 1 }, { arbitrary: fc.constant(null), weight: 3 });

/** One commit, before it is known which threads and reservations there are. */
const act = fc.record({
  at: fc.nat(),
  settle: fc.option(fc.record({ pick: fc.nat(), tokens: amount, spend: amount })),
  charge: rarely(amounts),
  raise: rarely(fc.bigInt({ min: 0n, max: 20n })),
  reserve: fc.array(fc.record({ amounts, optional: fc.boolean(), source: fc.option(fc.nat()) }), {
    maxLength: 2,
  }),
  child: rarely(fc.record({ limits, amounts })),
});
type Act = typeof act extends fc.Arbitrary<infer T> ? T : never;
const plan = fc.record({ limits, acts: fc.array(act, { maxLength: 15 }) });

const pickOf = <T>(list: readonly T[], pick: number): T | undefined =>
  list.length > 0 ? list[pick % list.length] : undefined;
const least = (a: bigint, b = 0n): bigint => (a < b ? a : b);

/** Settles no more than was reserved: then the limits must hold. */
function settleOf(chain: readonly Account[], wanted: Act['settle']): readonly Settle[] {
  const open = chain.flatMap((account) => account.open);
  const one = wanted && pickOf(open, wanted.pick);
  if (!one) return [];
  const tokens = least(wanted.tokens, one.amounts.tokens);
  const spend = least(wanted.spend, one.amounts.spend);
  return [{ key: one.key, actual: { tokens, spend } }];
}

function partOf(tree: Tree, thread: string, number: number, wanted: Act): BudgetPart {
  const chain = tree.chainOf(thread);
  const open = chain.flatMap((account) => account.open);
  const reserve = wanted.reserve.map(({ source, optional, ...rest }, at): Reserve => {
    const from = source === null ? undefined : pickOf(open, source)?.key;
    const more = { ...(from !== undefined && { from }), ...(optional && { optional }) };
    return { key: `k${number}.${at}`, ...rest, ...more };
  });
  const tokens = chain[0]?.limits.tokens;
  const raised = wanted.raise !== null && tokens !== undefined ? tokens + wanted.raise : undefined;
  const spawned =
    wanted.child &&
    child(
      `t${number}`,
      [{ key: `c${number}`, amounts: wanted.child.amounts }],
      wanted.child.limits,
    );
  return {
    settle: settleOf(chain, wanted.settle),
    reserve,
    ...(wanted.charge && { charge: wanted.charge }),
    ...(raised !== undefined && { raise: { tokens: raised } }),
    ...(spawned && { children: [spawned] }),
  };
}

function expectWithinLimits(tree: Tree): void {
  for (const { limits: most, used, reserved } of tree.accounts.values()) {
    for (const kind of BUDGET_KINDS) {
      const max = most[kind];
      if (max === undefined) continue;
      expect((used[kind] ?? 0n) + (reserved[kind] ?? 0n)).toBeLessThanOrEqual(max);
    }
  }
}

/** `reserved` of each thread is the sum of the open reservations at it and below it. */
function expectReservedIsOpen(tree: Tree): void {
  const sums = new Map<string, bigint>();
  for (const thread of tree.threads()) {
    const chain = tree.chainOf(thread);
    for (const {
      amounts: { tokens = 0n },
    } of chain[0]?.open ?? []) {
      for (const { thread: at } of chain) sums.set(at, (sums.get(at) ?? 0n) + tokens);
    }
  }
  for (const { thread, reserved } of tree.accounts.values()) {
    expect(reserved.tokens ?? 0n, thread).toBe(sums.get(thread) ?? 0n);
  }
}

/** `used` of each thread is the sum of the charged and settled amounts at it and below it. */
function expectUsedIsPaid(tree: Tree, paid: ReadonlyMap<string, bigint>): void {
  for (const { thread, used } of tree.accounts.values()) {
    expect(used.tokens ?? 0n, thread).toBe(paid.get(thread) ?? 0n);
  }
}

function pay(paid: Map<string, bigint>, chain: readonly Account[], { tokens = 0n }: Amounts): void {
  for (const { thread } of chain) paid.set(thread, (paid.get(thread) ?? 0n) + tokens);
}

/** Makes the commits of a plan in a new tree. `each` is called after every one. */
function play(
  { limits: ofRoot, acts }: typeof plan extends fc.Arbitrary<infer T> ? T : never,
  each: (
    tree: Tree,
    before: ReadonlyMap<string, Account>,
    isWritten: boolean,
    paid: ReadonlyMap<string, bigint>,
  ) => void,
): Tree {
  const tree = createTree();
  const paid = new Map<string, bigint>();
  tree.add('root', ofRoot);
  for (const [number, wanted] of acts.entries()) {
    const before = new Map(tree.accounts);
    const thread = pickOf(tree.threads(), wanted.at) ?? 'root';
    const chain = tree.chainOf(thread);
    const part = partOf(tree, thread, number, wanted);
    const isWritten = tree.commit(thread, part);
    if (isWritten) {
      pay(paid, chain, part.charge ?? {});
      for (const { key, actual } of part.settle ?? []) {
        const at = chain.findIndex(({ open }) => open.some((one) => one.key === key));
        pay(paid, chain.slice(at), actual);
      }
    }
    each(tree, before, isWritten, paid);
  }
  return tree;
}

test('used and reserved never exceed a limit of a thread or of an ancestor', () => {
  fc.assert(
    fc.property(plan, (given) => {
      play(given, (tree, _before, _isWritten, paid) => {
        expectWithinLimits(tree);
        expectReservedIsOpen(tree);
        expectUsedIsPaid(tree, paid);
      });
    }),
    { numRuns: runs(200) },
  );
});

test('a refused commit changes nothing', () => {
  fc.assert(
    fc.property(plan, (given) => {
      play(given, (tree, before, isWritten) => {
        if (!isWritten) expect(tree.accounts).toEqual(before);
      });
    }),
    { numRuns: runs(200) },
  );
});

test('after all reservations are settled with nothing, none is reserved and used is unchanged', () => {
  fc.assert(
    fc.property(plan, (given) => {
      const tree = play(given, () => {});
      const used = [...tree.accounts.values()].map((account) => account.used);
      for (const thread of tree.threads()) {
        const settle = tree.accounts.get(thread)?.open.map(({ key }) => ({ key, actual: {} }));
        expect(tree.commit(thread, { settle: settle ?? [] })).toBe(true);
      }
      expect([...tree.accounts.values()].map((account) => account.used)).toEqual(used);
      for (const { open, reserved } of tree.accounts.values()) {
        expect(open).toEqual([]);
        for (const kind of BUDGET_KINDS) expect(reserved[kind] ?? 0n).toBe(0n);
      }
    }),
    { numRuns: runs(200) },
  );
});

/** Commits of one child: each reserves, and settles the reservation before if there is an amount. */
const commits = (name: string): fc.Arbitrary<BudgetPart[]> =>
  fc
    .array(fc.record({ amounts, charge: amounts, actual: fc.option(amounts) }), { maxLength: 6 })
    .map((list) =>
      list.map(({ amounts: wanted, charge, actual }, at) => ({
        charge,
        reserve: [{ key: `${name}${at}`, amounts: wanted }],
        ...(actual && at > 0 && { settle: [{ key: `${name}${at - 1}`, actual }] }),
      })),
    );

test('the order of the commits of siblings does not matter if all succeed', () => {
  const order = fc.array(fc.boolean(), { maxLength: 12 });
  const ample = fc.constantFrom<Amounts>({}, { tokens: 200n }, { tokens: 900n, spend: 900n });
  const run = (
    most: Amounts,
    a: readonly BudgetPart[],
    b: readonly BudgetPart[],
    first: boolean[],
  ) => {
    const tree = createTree();
    tree.add('root', most);
    tree.add('a', {}, 'root');
    tree.add('b', {}, 'root');
    const [ofA, ofB] = [[...a], [...b]];
    const turns = [...first, ...a.map(() => true), ...b.map(() => false)];
    const areWritten = turns.map((isA) => {
      const part = isA ? ofA.shift() : ofB.shift();
      return !part || tree.commit(isA ? 'a' : 'b', part);
    });
    const { used, reserved } = tree.accounts.get('root') ?? {};
    return areWritten.every(Boolean) ? { used, reserved } : undefined;
  };
  fc.assert(
    fc.property(ample, commits('a'), commits('b'), order, order, (most, a, b, first, second) => {
      const [one, other] = [run(most, a, b, first), run(most, a, b, second)];
      if (one && other) expect(one).toEqual(other);
      if (most.tokens === undefined) expect(one && other).toBeDefined();
    }),
    { numRuns: runs(200) },
  );
});

test('what a settled request leaves of its amounts returns to the source that it drew from', () => {
  const depth = fc.nat({ max: 3 });
  const part = fc.record({ tokens: amount, spend: amount });
  fc.assert(
    fc.property(depth, depth, part, part, part, (above, below, rest, left, actual) => {
      const tree = createTree();
      const threads = Array.from({ length: above + below + 1 }, (_, at) => `t${at}`);
      for (const [at, thread] of threads.entries()) tree.add(thread, {}, threads[at - 1]);
      const [holder = '', last = ''] = [threads[above], threads.at(-1)];
      const sum = (...list: readonly Record<'tokens' | 'spend', bigint>[]) => ({
        tokens: list.reduce((all, { tokens }) => all + tokens, 0n),
        spend: list.reduce((all, { spend }) => all + spend, 0n),
      });
      const ofSource = sum(rest, left, actual);
      const request = { key: 'request', amounts: sum(left, actual), from: 'source' };
      expect(tree.commit(holder, { reserve: [{ key: 'source', amounts: ofSource }] })).toBe(true);
      expect(tree.commit(last, { reserve: [request] })).toBe(true);
      expect(tree.commit(last, { settle: [{ key: 'request', actual }] })).toBe(true);
      const [source] = tree.accounts.get(holder)?.open ?? [];
      expect(sum({ tokens: 0n, spend: 0n, ...source?.amounts })).toEqual(sum(rest, left));
      for (const [at, thread] of threads.entries()) {
        const { used, reserved } = tree.accounts.get(thread) ?? {};
        const kept = at <= above ? sum(rest, left) : sum();
        expect(sum({ tokens: 0n, spend: 0n, ...used }), thread).toEqual(actual);
        expect(sum({ tokens: 0n, spend: 0n, ...reserved }), thread).toEqual(kept);
      }
    }),
    { numRuns: runs(100) },
  );
});

/** A thread below the root, with one reservation. */
const reserver = fc.record({
  tokens: fc.bigInt({ min: 1n, max: 20n }),
  isStanding: fc.boolean(),
  isLeft: fc.boolean(),
  isFromSource: fc.boolean(),
});

test('a refusal for a limit counts as standing what is reserved for good or has no live lease', () => {
  fc.assert(
    fc.property(
      fc.array(reserver, { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      fc.boolean(),
      (list, drawsFromSource, settlesFirst) => {
        const tree = createTree();
        tree.add('root', { tokens: 200n });
        tree.commit('root', { reserve: [{ key: 'source', amounts: { tokens: 100n } }] });
        for (const [at, { tokens, isStanding, isFromSource }] of list.entries()) {
          const more = {
            ...(isStanding && { standing: true as const }),
            ...(isFromSource && { from: 'source' }),
          };
          tree.add(`t${at}`, {}, 'root');
          tree.commit(`t${at}`, { reserve: [{ key: `k${at}`, amounts: { tokens }, ...more }] });
        }
        const from = drawsFromSource ? { from: 'source' } : {};
        const refused = decide(
          { thread: 't0', fence: FENCE, accounts: tree.chainOf('t0') },
          commitOf({
            reserve: [{ key: 'large', amounts: { tokens: 300n }, ...from }],
            ...(settlesFirst && { settle: [{ key: 'k0', actual: {} }] }),
          }),
          0,
        );
        if (refused.kind === 'write' || refused.needs !== 'accounts_below') {
          throw new Error('300 tokens were not refused for a limit');
        }
        const isLeft = (thread: string): boolean => list[Number(thread.slice(1))]?.isLeft ?? false;
        const below = [...tree.accounts.values()].map((account) => ({
          ...account,
          isLeft: isLeft(account.thread),
        }));
        const counted = list.filter(
          (one, at) => !(settlesFirst && at === 0) && (!drawsFromSource || one.isFromSource),
        );
        const standing = counted
          .filter((one) => one.isStanding || one.isLeft)
          .reduce((sum, { tokens }) => sum + tokens, 0n);
        expect(refused.explain(below).error).toMatchObject({
          code: 'tokens_exceeded',
          detail: { thread: 'root', standing: Number(standing), requested: 300 },
        });
      },
    ),
    { numRuns: runs(100) },
  );
});

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
import { type Amounts, BUDGET_KINDS } from '../amounts.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
});
afterEach(() => place.remove());

function tree(): void {
  const { store } = place;
  must(store.createThread(aThread('root', { budget: { tokens: 100n, spend: 1_000_000_000n } })));
  must(store.createThread(aThread('mid', { parent: 'root', budget: { tokens: 60n } })));
  must(store.createThread(aThread('leaf', { parent: 'mid', budget: { tokens: 80n, spawns: 0n } })));
}
const LEAF = ['leaf', 'mid', 'root'];

test('a reservation counts for the thread and every ancestor until it is settled', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 50n, spend: 7n }, 'k1'));
  for (const thread of LEAF) {
    expect(must(store.budget(thread)).reserved).toMatchObject({ tokens: 50n, spend: 7n });
  }
  must(store.settle('k1', { tokens: 20n, spend: 3n }));
  for (const thread of LEAF) {
    const { used, reserved } = must(store.budget(thread));
    expect(used).toMatchObject({ tokens: 20n, spend: 3n });
    expect(reserved).toMatchObject({ tokens: 0n, spend: 0n });
  }
});

test('the nearest thread that has not enough left refuses, with the numbers, and nothing is kept', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 40n }, 'k1'));
  expect(store.reserve(LEAF, { tokens: 21n }, 'k2')).toEqual({
    ok: false,
    error: {
      code: 'tokens_exceeded',
      detail: {
        message:
          '21 more tokens would pass the limit of thread `mid`: 40 of 60 are used or reserved',
        limit: 'tokens',
        current: 40,
        max: 60,
        requested: 21,
        thread: 'mid',
      },
    },
  });
  expect(must(store.budget('leaf')).reserved.tokens).toBe(40n);
  expect(codeOf(store.reserve(LEAF, { tokens: 20n }, 'k2'))).toBe('ok');
  expect(store.reserve(['root'], { spend: 1_000_000_001n }, 'k3')).toMatchObject({
    error: { code: 'spend_exceeded', detail: { max: '1000000000' } },
  });
});

test('zero means none, and all of a limit can be used', () => {
  tree();
  const { store } = place;
  expect(codeOf(store.reserve(LEAF, { spawns: 1n }, 'k1'))).toBe('spawns_exceeded');
  expect(codeOf(store.reserve(LEAF, { spawns: 0n, tokens: 60n }, 'k2'))).toBe('ok');
});

test('a key is reserved, settled and cancelled once', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 10n }, 'k'));
  must(store.reserve(LEAF, { tokens: 10n }, 'k'));
  expect(must(store.budget('root')).reserved.tokens).toBe(10n);
  expect(codeOf(store.reserve(LEAF, { tokens: 11n }, 'k'))).toBe('conflict');
  must(store.settle('k', { tokens: 4n }));
  must(store.settle('k', { tokens: 4n }));
  must(store.cancel('k'));
  expect(must(store.budget('root'))).toMatchObject({
    used: { tokens: 4n },
    reserved: { tokens: 0n },
  });
  expect(codeOf(store.reserve(LEAF, { tokens: 10n }, 'k'))).toBe('conflict');
  expect(codeOf(store.settle('none', {}))).toBe('not_found');
});

test('what was cancelled can be reserved again, and what was spent after all is charged', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 10n }, 'k'));
  must(store.cancel('k'));
  must(store.reserve(LEAF, { tokens: 10n }, 'k'));
  expect(must(store.budget('root')).reserved.tokens).toBe(10n);
  must(store.cancel('k'));
  must(store.settle('k', { tokens: 3n }));
  expect(must(store.budget('mid'))).toMatchObject({
    used: { tokens: 3n },
    reserved: { tokens: 0n },
  });
});

test('a reported overrun is charged and stops the next unit', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 50n }, 'k1'));
  must(store.settle('k1', { tokens: 70n }));
  expect(must(store.budget('mid')).used.tokens).toBe(70n);
  expect(codeOf(store.reserve(LEAF, { tokens: 1n }, 'k2'))).toBe('tokens_exceeded');
});

test('a chain that leaves an ancestor out is refused', () => {
  tree();
  const { store } = place;
  for (const chain of [['leaf'], ['leaf', 'root'], ['leaf', 'mid'], [], ['root', 'root']]) {
    expect(codeOf(store.reserve(chain, { tokens: 1n }, 'k'))).toBe('invalid_input');
  }
  expect(codeOf(store.reserve(['none'], { tokens: 1n }, 'k'))).toBe('not_found');
});

test('amounts are whole, not negative and of a known kind', () => {
  tree();
  const { store } = place;
  const bad = [{ tokens: -1n }, { tokens: 1.5 }, { tokens: 10n ** 19n }, { hats: 1n }];
  for (const amounts of bad) {
    expect(codeOf(store.reserve(LEAF, amounts as Amounts, 'k'))).toBe('invalid_input');
  }
});

test('sums beyond 64 bits stay exact up to there and never wrap', () => {
  const { store } = place;
  must(store.createThread(aThread('big')));
  for (let index = 0; index < 12; index++) {
    must(store.reserve(['big'], { spend: 10n ** 18n }, `k${index}`));
    must(store.settle(`k${index}`, { spend: 10n ** 18n }));
  }
  expect(must(store.budget('big')).used.spend).toBe(2n ** 63n - 1n);
});

test('a limit is raised, never lowered, and ancestors hold as before', () => {
  tree();
  const { store } = place;
  expect(codeOf(store.raiseLimit('mid', 'tokens', 59n))).toBe('invalid_input');
  expect(codeOf(store.raiseLimit('root', 'spawns', 5n))).toBe('invalid_input');
  must(store.raiseLimit('mid', 'tokens', 500n));
  must(store.raiseLimit('leaf', 'tokens', 500n));
  expect(store.reserve(LEAF, { tokens: 101n }, 'k')).toMatchObject({
    error: { code: 'tokens_exceeded', detail: { thread: 'root', max: 100 } },
  });
});

test('what was set aside can be drawn when everything else is used up', () => {
  tree();
  const { store } = place;
  must(store.reserve(['mid', 'root'], { tokens: 15n }, 'aside'));
  must(
    store.createThread(aThread('hook', { parent: 'mid', kind: 'hook', budget: { tokens: 12n } })),
  );
  must(store.reserve(['mid', 'root'], { tokens: 45n }, 'all'));
  const hook = ['hook', 'mid', 'root'];
  expect(codeOf(store.reserve(hook, { tokens: 1n }, 'h0'))).toBe('tokens_exceeded');
  must(store.reserve(hook, { tokens: 10n }, 'h1', { from: 'aside' }));
  expect(must(store.budget('mid')).reserved.tokens).toBe(60n);
  // The hook's own limit holds as well, and so does what is left aside.
  expect(store.reserve(hook, { tokens: 3n }, 'h2', { from: 'aside' })).toMatchObject({
    error: { detail: { thread: 'hook' } },
  });
  must(store.raiseLimit('hook', 'tokens', 100n));
  expect(store.reserve(hook, { tokens: 6n }, 'h2', { from: 'aside' })).toMatchObject({
    error: { code: 'tokens_exceeded', detail: { max: 5 } },
  });
  must(store.settle('h1', { tokens: 4n }));
  expect(must(store.budget('root'))).toMatchObject({
    used: { tokens: 4n },
    reserved: { tokens: 56n },
  });
  must(store.reserve(hook, { tokens: 11n }, 'h3', { from: 'aside' }));
  must(store.cancel('aside'));
  must(store.settle('h3', { tokens: 11n }));
  expect(must(store.budget('root'))).toMatchObject({
    used: { tokens: 15n },
    reserved: { tokens: 45n },
  });
  expect(codeOf(store.reserve(hook, { tokens: 1n }, 'h4', { from: 'aside' }))).toBe('not_found');
  expect(must(store.openReservations('mid'))).toEqual([{ key: 'all', amounts: { tokens: 45n } }]);
});

test('nobody draws from what belongs to other threads', () => {
  tree();
  const { store } = place;
  must(store.reserve(LEAF, { tokens: 15n }, 'aside'));
  const drawn = store.reserve(['mid', 'root'], { tokens: 1n }, 'k', { from: 'aside' });
  expect(codeOf(drawn)).toBe('invalid_input');
});

// The property: whatever is reserved, drawn, settled and cancelled, in whatever order, no account
// passes its limit, and every account is exactly the sum of what happened at and below it.
type Step =
  | { do: 'reserve' | 'draw'; thread: number; tokens: number; spend: number; source: number }
  | { do: 'settle' | 'cancel'; key: number; share: number };

const amount = fc.integer({ min: 0, max: 40 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constantFrom('reserve' as const, 'draw' as const),
    thread: fc.nat(5),
    tokens: amount,
    spend: amount,
    source: fc.nat(20),
  }),
  fc.record({
    do: fc.constantFrom('settle' as const, 'cancel' as const),
    key: fc.nat(20),
    share: fc.integer({ min: 0, max: 100 }),
  }),
);
const limit = fc.option(fc.integer({ min: 0, max: 150 }), { nil: undefined });
const aTree = fc.array(fc.record({ parent: fc.nat(5), tokens: limit, spend: limit }), {
  minLength: 1,
  maxLength: 6,
});

interface Model {
  chain: readonly string[];
  amounts: { tokens: bigint; spend: bigint };
  state: 'open' | 'settled' | 'cancelled';
  actual: { tokens: bigint; spend: bigint };
}

test('in random trees no limit is passed and every account is the sum of its parts', () => {
  let run = 0;
  fc.assert(
    fc.property(aTree, fc.array(step, { minLength: 10, maxLength: 60 }), (nodes, steps) => {
      const { store } = place;
      run += 1;
      const ids = nodes.map((_, index) => `r${run}_${index}`);
      for (const [index, { parent, tokens, spend }] of nodes.entries()) {
        const above = index === 0 ? undefined : ids[parent % index];
        const budget = {
          ...(tokens === undefined ? {} : { tokens: BigInt(tokens) }),
          ...(spend === undefined ? {} : { spend: BigInt(spend) }),
        };
        const place = above === undefined ? {} : { parent: above };
        must(store.createThread(aThread(ids[index] ?? '', { budget, ...place })));
      }
      const made = new Map<string, Model>();
      for (const [number, item] of steps.entries()) {
        if ('thread' in item) {
          const chain = must(store.chain(ids[item.thread % ids.length] ?? ''));
          const amounts = { tokens: BigInt(item.tokens), spend: BigInt(item.spend) };
          const [key, from] = [`r${run}k${number}`, `r${run}k${item.source}`];
          const options = item.do === 'draw' ? { from } : {};
          if (!store.reserve(chain, amounts, key, options).ok) continue;
          made.set(key, { chain, amounts, state: 'open', actual: { tokens: 0n, spend: 0n } });
          continue;
        }
        const key = `r${run}k${item.key}`;
        const model = made.get(key);
        if (!model) continue;
        // A share of what is still set aside: some of it may have been drawn.
        const left = must(store.openReservations(model.chain[0] ?? '')).find(
          (reservation) => reservation.key === key,
        )?.amounts;
        const part = (whole: bigint | undefined) => ((whole ?? 0n) * BigInt(item.share)) / 100n;
        const actual = { tokens: part(left?.tokens), spend: part(left?.spend) };
        if (item.do === 'cancel') {
          must(store.cancel(key));
          if (model.state === 'open') model.state = 'cancelled';
        } else if (model.state === 'open') {
          must(store.settle(key, actual));
          Object.assign(model, { state: 'settled', actual });
        }
        checkTree(ids, made);
      }
      checkTree(ids, made);
    }),
    { numRuns: runs(200) },
  );
});

function checkTree(ids: readonly string[], made: ReadonlyMap<string, Model>): void {
  const { store } = place;
  for (const id of ids) {
    const { limits, used, reserved } = must(store.budget(id));
    const parts = [...made.values()].filter((model) => model.chain.includes(id));
    for (const kind of ['tokens', 'spend'] as const) {
      const spent = parts.reduce((sum, model) => sum + model.actual[kind], 0n);
      expect(used[kind]).toBe(spent);
      const open = ids
        .flatMap((other) => must(store.openReservations(other)))
        .filter((reservation) => made.get(reservation.key)?.chain.includes(id))
        .reduce((sum, reservation) => sum + (reservation.amounts[kind] ?? 0n), 0n);
      expect(reserved[kind]).toBe(open);
    }
    for (const kind of BUDGET_KINDS) {
      const max = limits[kind];
      if (max !== undefined) expect(used[kind] + reserved[kind] <= max).toBe(true);
    }
  }
}

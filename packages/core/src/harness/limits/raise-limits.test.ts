import { limitsOf } from '@kernmantle/test-support/limits';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LIMIT_NAMES } from '../../flow/index.ts';
import { raisedLimits } from './effective-limits.ts';
import { ceilingOf, type RaiseRoom } from './limit-ceiling.ts';

const initial = limitsOf({ turns: 10, tokens: 1000, spend: '1', context: 100 });
const root: RaiseRoom = { isRoot: true, initial, factor: 2, policy: {}, window: 500n };
const child: RaiseRoom = { ...root, isRoot: false, ancestors: { tokens: 1500n } };

test('a root goes up to twice what it had, however often it asks', () => {
  const once = raisedLimits({ turns: 15 }, initial, root, { limit: 'turns', needed: 11n });
  expect(once).toMatchObject({
    limits: { turns: { value: 15n, from: 'hook' } },
    raised: ['turns'],
  });
  const now = 'limits' in once ? once.limits : initial;
  const twice = raisedLimits({ turns: 900 }, now, root, { limit: 'turns', needed: 16n });
  expect(twice).toMatchObject({ limits: { turns: { value: 20n } } });
  const end = 'limits' in twice ? twice.limits : initial;
  expect(raisedLimits({ turns: 900 }, end, root, { limit: 'turns', needed: 21n })).toEqual({
    refused: 'limit `turns` cannot be raised far enough to continue',
  });
});

test('a raise must let the unit start that was refused', () => {
  const reached = { limit: 'tokens', needed: 1300n } as const;
  expect(raisedLimits({ tokens: 1299 }, initial, root, reached)).toHaveProperty('refused');
  expect(raisedLimits({ tokens: 1300 }, initial, root, reached)).toHaveProperty('limits');
  expect(raisedLimits({ turns: 20 }, initial, root, reached)).toEqual({
    refused: 'the hook returned no new value for limit `tokens`',
  });
});

test('going on without a higher limit is refused, also when nobody knows what is needed', () => {
  const reached = { limit: 'turns', needed: 0n } as const;
  expect(raisedLimits({ turns: 10 }, initial, root, reached)).toHaveProperty('refused');
  expect(raisedLimits({}, initial, root, reached)).toHaveProperty('refused');
});

test('the root’s spend limit is not raised by anybody', () => {
  const reached = { limit: 'spend', needed: 1_000_000_001n } as const;
  expect(raisedLimits({ spend: '2.00' }, initial, root, reached)).toHaveProperty('refused');
  expect(ceilingOf('spend', root)).toBe(1_000_000_000n);
});

test('a child gets what its ancestors have left, and no more', () => {
  expect(raisedLimits({ tokens: 9000 }, initial, child)).toMatchObject({
    limits: { tokens: { value: 1500n } },
  });
  // The rest of `spend` is unknown, so nothing is granted.
  expect(raisedLimits({ spend: '9' }, initial, child)).toMatchObject({ raised: [] });
  // Turns are the child's own, with the same bound as those of a root.
  expect(raisedLimits({ turns: 900 }, initial, child)).toMatchObject({
    limits: { turns: { value: 20n } },
  });
});

test('a policy’s ceiling holds for raised limits too', () => {
  const room = { ...root, policy: { turns: 12, tokens: 'odd' } };
  expect(raisedLimits({ turns: 20, tokens: 2000 }, initial, room)).toMatchObject({
    limits: { turns: { value: 12n }, tokens: { value: 1000n } },
  });
});

test('the context goes up within the model’s window only', () => {
  const reached = { limit: 'context', needed: 150n } as const;
  expect(raisedLimits({ context: 180 }, initial, root, reached)).toMatchObject({
    limits: { context: { value: 180n } },
  });
  expect(raisedLimits({ context: 501 }, initial, root, reached)).toHaveProperty('refused');
  const { window: _, ...unknown } = root;
  expect(raisedLimits({ context: 180 }, initial, unknown, reached)).toHaveProperty('refused');
  // Without a limit of its own the window is the limit.
  expect(
    raisedLimits({ context: 400 }, limitsOf(), { ...root, initial: limitsOf() }, reached),
  ).toHaveProperty('refused');
});

test('a wish nobody can read is refused and named', () => {
  expect(raisedLimits({ turn: 20 }, initial, root)).toEqual({
    refused: 'limit `turn` not found; did you mean `turns`',
  });
  expect(raisedLimits({ turns: 'more' }, initial, root)).toHaveProperty('refused');
  expect(raisedLimits({ turns: -1 }, initial, root)).toHaveProperty('refused');
});

test('no wish passes the ceiling or lowers a limit', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...LIMIT_NAMES),
      fc.nat(1_000_000),
      fc.boolean(),
      fc.double({ min: 0, max: 5, noNaN: true }),
      fc.bigInt({ min: 0n, max: 10n ** 12n }),
      (name, value, isRoot, factor, left) => {
        const room = { ...root, isRoot, factor, ancestors: { [name]: left } };
        const result = raisedLimits({ [name]: value }, initial, room);
        if ('refused' in result) return;
        const [before, after] = [initial[name]?.value ?? 0n, result.limits[name]?.value ?? 0n];
        expect(after >= before).toBe(true);
        if (after > before) expect(after <= ceilingOf(name, room)).toBe(true);
      },
    ),
  );
});

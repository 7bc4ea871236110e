import { readFileSync } from 'node:fs';
import { effectiveLimits, limitsOf, SHIPPED } from '@kernmantle/test-support/limits';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JsonObject, parseYaml } from '../../base/index.ts';
import { LIMIT_NAMES } from '../../flow/index.ts';
import { packLimits, reserveAmounts, unpackLimits } from './effective-limits.ts';
import { limitsView } from './limit.ts';

const shipped = {
  source: 'bundle' as const,
  value: parseYaml(readFileSync('bundle/config/limits.yaml', 'utf8')).value as JsonObject,
};

test('a limit left out has the shipped default, and says so', () => {
  const limits = effectiveLimits({ declared: {}, layers: [shipped], policy: {} });
  expect(limits.ok && limitsView(limits.output)).toEqual(limitsView(limitsOf()));
  expect(limits.ok && limits.output.turns).toEqual({
    value: 25n,
    from: 'default (bundle)',
    declared: false,
  });
  expect(limits.ok && limits.output.context).toBeUndefined();
});

test('the project’s default replaces the bundle’s, one limit at a time', () => {
  const project = { source: 'project' as const, value: { defaults: { turns: 5 } } };
  const limits = effectiveLimits({ declared: {}, layers: [SHIPPED, project], policy: {} });
  expect(limits).toMatchObject({
    output: {
      turns: { value: 5n, from: 'default (project)' },
      tokens: { value: 200_000n, from: 'default (bundle)' },
    },
  });
});

test('a default nobody can read falls back to the one below it, and none at all is refused', () => {
  const odd = { source: 'user' as const, value: { defaults: { turns: -3 } } };
  const limits = effectiveLimits({ declared: {}, layers: [SHIPPED, odd], policy: {} });
  expect(limits).toMatchObject({ output: { turns: { value: 25n } } });
  expect(effectiveLimits({ declared: {}, layers: [], policy: {} })).toMatchObject({
    error: { code: 'config_invalid', detail: { message: expect.stringContaining('`turns`') } },
  });
});

test('zero is a limit, not an absence', () => {
  expect(limitsOf({ turns: 0, spend: '0' })).toMatchObject({
    turns: { value: 0n, from: 'directive' },
    spend: { value: 0n, from: 'directive' },
  });
});

test('a caller narrows what the directive says and replaces a default', () => {
  const limits = effectiveLimits({
    declared: { turns: 10, tokens: 100 },
    caller: { turns: 20, tokens: 50, tool_calls: 500 },
    layers: [SHIPPED],
    policy: {},
  });
  expect(limits).toMatchObject({
    output: {
      turns: { value: 10n, from: 'directive' },
      tokens: { value: 50n, from: 'caller' },
      tool_calls: { value: 500n, from: 'caller', declared: true },
    },
  });
});

test('a policy is a ceiling, and one that cannot be read allows nothing', () => {
  const policy = { turns: 5, spend: '0.50', input_tokens: 1000, tokens: 'many' };
  const limits = effectiveLimits({ declared: { turns: 10 }, layers: [SHIPPED], policy });
  expect(limits).toMatchObject({
    output: {
      turns: { value: 5n, from: 'policy' },
      spend: { value: 500_000_000n, from: 'policy', declared: true },
      input_tokens: { value: 1000n, from: 'policy' },
      tokens: { value: 0n, from: 'policy' },
    },
  });
});

test('a child has the smaller of what it declares and what is left above, never more', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...LIMIT_NAMES),
      fc.nat(1000),
      fc.bigInt({ min: -5n, max: 10n ** 12n }),
      (name, own, value) => {
        const declared = { [name]: name === 'spend' ? String(own) : own };
        const left = { [name]: { value, declared: false } };
        const limits = effectiveLimits({ declared, layers: [SHIPPED], policy: {}, left });
        const alone = limitsOf(declared)[name]?.value ?? 0n;
        const above = value > 0n ? value : 0n;
        expect(limits.ok && limits.output[name]?.value).toBe(alone < above ? alone : above);
      },
    ),
  );
});

test('a spend limit that somebody above asked for counts as asked for', () => {
  const spend = (declared: boolean, value: bigint) =>
    effectiveLimits({
      declared: {},
      layers: [SHIPPED],
      policy: {},
      left: { spend: { value, declared } },
    });
  // This holds even if the child's own default is the smaller of the two.
  expect(spend(true, 10n ** 12n)).toMatchObject({
    output: { spend: { value: 10n ** 9n, from: 'default (bundle)', declared: true } },
  });
  expect(spend(false, 5n)).toMatchObject({
    output: { spend: { from: 'parent', declared: false } },
  });
});

test('money in another currency than the price table’s is refused', () => {
  const limitsIn = (spend_currency: string) =>
    effectiveLimits({ declared: { spend: '3', spend_currency }, layers: [SHIPPED], policy: {} });
  expect(limitsIn('EUR')).toMatchObject({ error: { code: 'config_invalid' } });
  expect(limitsIn('USD')).toMatchObject({ output: { spend: { value: 3n * 10n ** 9n } } });
});

test('a caller’s nonsense is refused, not ignored', () => {
  const caller = { turns: -1 };
  expect(effectiveLimits({ declared: {}, caller, layers: [SHIPPED], policy: {} })).toMatchObject({
    error: { code: 'invalid_input', detail: { message: expect.stringContaining('`turns`') } },
  });
});

test('what is set aside for hooks comes out of the limit', () => {
  fc.assert(
    fc.property(fc.nat(10_000_000), fc.double({ min: 0, max: 1, noNaN: true }), (tokens, share) => {
      const limits = limitsOf({ tokens });
      const { own, hooks } = reserveAmounts(limits, share);
      for (const name of ['tokens', 'spend', 'duration'] as const) {
        expect((own[name]?.value ?? 0n) + (hooks[name] ?? 0n)).toBe(limits[name]?.value);
      }
      expect(own.turns).toEqual(limits.turns);
    }),
  );
  expect(reserveAmounts(limitsOf({ tokens: 1000 }), 0.1).hooks.tokens).toBe(100n);
});

test('limits survive the registry, and what cannot be read there allows nothing', () => {
  const limits = limitsOf({ turns: 3, spend: '0.123456789', duration: 7, context: 10 });
  expect(unpackLimits(JSON.parse(JSON.stringify(packLimits(limits))) as JsonObject)).toEqual(
    limits,
  );
  expect(packLimits(limits).spend).toEqual({
    value: '0.123456789',
    from: 'directive',
    declared: true,
  });
  expect(unpackLimits({ turns: { value: 'x' } })).toMatchObject({
    turns: { value: 0n },
    tokens: { value: 0n },
  });
});

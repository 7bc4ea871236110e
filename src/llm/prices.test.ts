import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type JsonObject, parseYaml } from '../base/index.ts';
import { costOf, type Price, worstCost } from './price.ts';
import { packagedPrice } from './price-package.ts';
import { createPrices } from './prices.ts';
import { usageOf } from './usage.ts';

const shipped = parseYaml(readFileSync('bundle/config/pricing.yaml', 'utf8')).value as JsonObject;
const unknown = { packaged: () => undefined };
const at = Date.UTC(2026, 10, 1);

function priceIn(config: JsonObject, model: string): Price {
  const found = createPrices(config, unknown).find(model);
  if (!found.ok) throw new Error(found.error.detail.message);
  return found.output;
}

test('the exact id wins over every alias, the longest alias over shorter ones', () => {
  const config = {
    models: {
      a: { input_per_million: 1, output_per_million: 1, aliases: ['b', 'model-*'] },
      b: { input_per_million: 2, output_per_million: 2 },
      c: { input_per_million: 3, output_per_million: 3, aliases: ['model-large-*'] },
    },
  };
  expect(priceIn(config, 'b').row).toBe('pricing.yaml:b');
  expect(priceIn(config, 'model-1').row).toBe('pricing.yaml:a (alias model-*)');
  expect(priceIn(config, 'model-large-1').row).toBe('pricing.yaml:c (alias model-large-*)');
});

test('a name that only begins like a known one has no price', () => {
  const found = createPrices(shipped, unknown).find('gpt-5-ultra');
  expect(found).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(JSON.stringify(found)).toContain('.ai/config/pricing.yaml');
});

test.each(['constructor', '__proto__', '', 'x'.repeat(10_000)])('`%.20s` has no price', (model) => {
  expect(createPrices(shipped).find(model)).toMatchObject({ ok: false });
});

test('a free row costs nothing, and an unpriced one is no price', () => {
  const config = {
    models: { local: { free: true, context: 8192 }, half: { input_per_million: 1 } },
  };
  const price = priceIn(config, 'local');
  expect(price).toMatchObject({ free: true, context: 8192 });
  const counts = { output_tokens: 1e6, cache_read_tokens: 1, cache_write_tokens: 1 };
  expect(costOf(usageOf({ input_tokens: 1e9, ...counts }), price)).toBe(0n);
  expect(createPrices(config, unknown).find('half').ok).toBe(false);
});

test('where a row is silent about caches, nothing is cheaper than input', () => {
  const price = priceIn({ models: { m: { input_per_million: 3, output_per_million: 15 } } }, 'm');
  expect(price).toMatchObject({ cache_read: 3_000_000_000n, cache_write: 3_750_000_000n });
});

test('the default row is marked as what it is', () => {
  expect(createPrices(shipped, unknown).default()).toMatchObject({ row: 'pricing.yaml:default' });
  expect(createPrices({}, unknown).default()).toBeUndefined();
});

test('the price package knows models that the files do not, within the window of its base rate', () => {
  const found = createPrices({}, { clock: { now: () => at, monotonic: () => 0 } });
  expect(found.find('claude-sonnet-4-5')).toMatchObject({
    ok: true,
    output: {
      row: 'genai-prices:anthropic/claude-sonnet-4-5',
      input: 3_000_000_000n,
      output: 15_000_000_000n,
      cache_read: 300_000_000n,
      cache_write: 3_750_000_000n,
      context: 200_000,
      currency: 'USD',
    },
  });
  expect(packagedPrice('gemini-2.5-pro', at)).toMatchObject({
    input: 1_250_000_000n,
    context: 200_000,
  });
  expect(packagedPrice('no-such-model-anywhere', at)).toBeUndefined();
});

// Invoices computed by hand: tokens times dollars per million, rounded up to a nano-dollar.
test.each([
  // 1,234 * 2 + 567 * 10 + 89,012 * 0.20 + 3,456 * 2.50 = 34,580.4 micro-dollars
  ['claude-sonnet-5-5', [1234, 567, 89_012, 3456], 34_580_400n],
  // 7 * 0.10 + 13 * 0.50 + 1,001 * 0.01 + 999 * 0.125 = 142.085
  ['claude-haiku-5-5', [7, 13, 1001, 999], 142_085n],
  // 1,000 * 0.75 + 501 * 4.50 + 4,096 * 0.075 = 3,311.7
  ['gpt-5.4-mini', [1000, 501, 4096, 0], 3_311_700n],
  // 3 * 0.05 + 1 * 0.40 + 7 * 0.005 = 0.585
  ['gpt-5-nano', [3, 1, 7, 0], 585n],
] as const)('the cost of %s equals the invoice', (model, counts, nano) => {
  const [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] = counts;
  const usage = usageOf({ input_tokens, output_tokens, cache_read_tokens, cache_write_tokens });
  expect(costOf(usage, priceIn(shipped, model))).toBe(nano);
});

test('a fraction of a nano-unit is rounded up once per request', () => {
  const rows = { m: { input_per_million: '0.0000005', output_per_million: '0.0000005' } };
  const none = { cache_read_tokens: 0, cache_write_tokens: 0 };
  const usage = usageOf({ input_tokens: 1, output_tokens: 1, ...none });
  expect(costOf(usage, priceIn({ models: rows }, 'm'))).toBe(1n);
});

test('no reported usage within a reservation costs more than the reservation', () => {
  const price = priceIn(shipped, 'claude-sonnet-5-5');
  for (const [input, read, write] of [
    [1000, 0, 0],
    [0, 1000, 0],
    [0, 0, 1000],
  ] as const) {
    const counts = { input_tokens: input, cache_read_tokens: read, cache_write_tokens: write };
    const cost = costOf(usageOf({ ...counts, output_tokens: 50 }), price);
    expect(cost <= worstCost(1000, 50, price)).toBe(true);
  }
});

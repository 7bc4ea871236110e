import { readFileSync } from 'node:fs';
import { usageOf } from '@kernmantle/test-support/usage';
import { expect, test } from 'vitest';
import { type JsonObject, type Outcome, parseYaml } from '../../base/index.ts';
import { costOf, createPrices, type Price, uncountedPrices, worstCost } from './prices.ts';

const shipped = parseYaml(readFileSync('bundle/config/pricing.yaml', 'utf8')).value as JsonObject;
type PriceLayer = Parameters<typeof createPrices>[0][number];
const layersOf = (value: JsonObject, source: PriceLayer['source'] = 'bundle'): PriceLayer[] => [
  { source, file: `${source}/config/pricing.yaml`, value },
];
const unknown = { packaged: () => undefined };
const at = Date.UTC(2026, 10, 1);

function priceIn(config: JsonObject, model: string): Price {
  const found = createPrices(layersOf(config), unknown).find(model);
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
  const found = createPrices(layersOf(shipped), unknown).find('gpt-5-ultra');
  expect(found).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(JSON.stringify(found)).toContain('.ai/config/pricing.yaml');
});

test.each(['constructor', '__proto__', '', 'x'.repeat(10_000)])('`%.20s` has no price', (model) => {
  expect(createPrices(layersOf(shipped)).find(model)).toMatchObject({ ok: false });
});

test('a free row costs nothing, and an unpriced one is no price', () => {
  const config = {
    models: { local: { free: true, context: 8192 }, half: { input_per_million: 1 } },
  };
  const price = priceIn(config, 'local');
  expect(price).toMatchObject({ free: true, context: 8192 });
  const counts = { output_tokens: 1e6, cache_read_tokens: 1, cache_write_tokens: 1 };
  expect(costOf(usageOf({ input_tokens: 1e9, ...counts }), price)).toBe(0n);
  expect(createPrices(layersOf(config), unknown).find('half').ok).toBe(false);
});

test('where a row is silent about caches, nothing is cheaper than input', () => {
  const price = priceIn({ models: { m: { input_per_million: 3, output_per_million: 15 } } }, 'm');
  expect(price).toMatchObject({ cache_read: 3_000_000_000n, cache_write: 3_750_000_000n });
});

test('the default row is marked as what it is', () => {
  expect(createPrices(layersOf(shipped), unknown).default()).toMatchObject({
    row: 'pricing.yaml:default',
  });
  expect(createPrices([], unknown).default()).toBeUndefined();
});

test('the price package knows models that the files do not, within the window of its base rate', () => {
  const found = createPrices([], { clock: { now: () => at, monotonic: () => 0 } });
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
  const packaged = createPrices([], { clock: { now: () => at, monotonic: () => 0 } });
  expect(packaged.find('gemini-2.5-pro')).toMatchObject({
    output: { input: 1_250_000_000n, context: 200_000 },
  });
  expect(packaged.find('no-such-model-anywhere')).toMatchObject({ ok: false });
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

const BASE = {
  currency: 'USD',
  default: { input_per_million: 15, output_per_million: 75, context: 1000 },
  models: {
    m: {
      input_per_million: 3,
      output_per_million: 15,
      cache_read_per_million: 1,
      cache_write_per_million: 4,
      context: 1000,
      aliases: ['m-*'],
    },
    silent: { input_per_million: 3, output_per_million: 15 },
    own: { free: true },
  },
};
const packagedOnly = {
  packaged: (model: string) =>
    model === 'packaged'
      ? { ...priceIn(BASE, 'm'), model, row: 'package', context: 500 }
      : undefined,
};
const within = (project: JsonObject, allowsLower = false) => {
  const layers = [...layersOf(BASE), ...layersOf(project, 'project')];
  const prices = createPrices(layers, { ...packagedOnly, allowsLower });
  const warned = uncountedPrices(layers, { ...packagedOnly, allowsLower });
  return { warned: warned.length, prices, rates: (model: string) => ratesOf(prices.find(model)) };
};
function ratesOf(found: Outcome<Price>): string {
  if (!found.ok) return 'none';
  const { input, output, cache_read, cache_write, context, free } = found.output;
  const shown = [input, output, cache_read, cache_write].map((rate) => Number(rate) / 1e9);
  return `${shown.join(' ')} ${context ?? '-'}${free ? ' free' : ''}`;
}
const row = (more: JsonObject): JsonObject => ({ models: { m: more } });
const CHEAP = { input_per_million: '0.000001', output_per_million: '0.000001' };

test.each<[string, JsonObject, string, string]>([
  ['free', row({ free: true }), 'm', '3 15 1 4 1000'],
  ['cheaper', row(CHEAP), 'm', '3 15 1 4 1000'],
  ['cheaper input', row({ input_per_million: 2 }), 'm', '3 15 1 4 1000'],
  ['cheaper output', row({ output_per_million: 2 }), 'm', '3 15 1 4 1000'],
  ['cheaper reads of a cache', row({ cache_read_per_million: 0 }), 'm', '3 15 1 4 1000'],
  ['cheaper writes to a cache', row({ cache_write_per_million: 0 }), 'm', '3 15 1 4 1000'],
  ['one up, one down', row({ input_per_million: 9, output_per_million: 1 }), 'm', '9 15 1 4 1000'],
  [
    'a cache price where the others are silent',
    { models: { silent: { cache_read_per_million: 0 } } },
    'silent',
    '3 15 3 3.75 -',
  ],
  ['a row for what was an alias', { models: { 'm-1': CHEAP } }, 'm-1', '3 15 1 4 1000'],
  ['a longer alias', { models: { x: { ...CHEAP, aliases: ['m-1*'] } } }, 'm-12', '3 15 1 4 1000'],
  ['what the package prices', { models: { packaged: { free: true } } }, 'packaged', '3 15 1 4 500'],
  [
    'by alias too',
    { models: { x: { ...CHEAP, aliases: ['packaged'] } } },
    'packaged',
    '3 15 1 4 500',
  ],
  ['another currency', { currency: 'IDR', ...row({ input_per_million: 9 }) }, 'm', '3 15 1 4 1000'],
  ['a free model nobody else prices', { models: { local: { free: true } } }, 'local', 'none'],
  [
    'one that costs nothing',
    { models: { local: { input_per_million: 0, output_per_million: 0 } } },
    'local',
    'none',
  ],
])('a project does not lower a price: %s', (_, project, model, expected) => {
  const { rates, warned } = within(project);
  expect(rates(model)).toBe(expected);
  // A pattern stands for no model of its own, so nothing can be said of it before it is used.
  expect(warned > 0 || JSON.stringify(project).includes('*')).toBe(true);
});

test('an alias never stands before the row of that very id', () => {
  const { rates } = within({ models: { x: { ...CHEAP, aliases: ['m'] } } });
  expect(rates('m')).toBe('3 15 1 4 1000');
});

test('a longer window than the price holds for does not count either', () => {
  expect(within(row({ context: 100_000 })).rates('m')).toBe('3 15 1 4 1000');
  expect(within({ models: { packaged: { ...CHEAP, context: 9e6 } } }).rates('packaged')).toBe(
    '3 15 1 4 500',
  );
  expect(within(row({ context: 10 })).rates('m')).toBe('3 15 1 4 10');
});

test('a project adds prices and raises them', () => {
  const { rates, warned } = within({
    models: {
      m: { output_per_million: 20 },
      added: { input_per_million: 1, output_per_million: 2, aliases: ['more-*'] },
      own: { free: false, input_per_million: 1, output_per_million: 1 },
    },
  });
  expect(rates('m')).toBe('3 20 1 4 1000');
  expect([rates('added'), rates('more-1')]).toEqual(['1 2 1 1.25 -', '1 2 1 1.25 -']);
  expect(rates('own')).toBe('1 1 1 1.25 -');
  expect(warned).toBe(0);
});

test('the default price is not lowered', () => {
  const free = within({ default: { free: true } });
  expect(free.prices.default()).toMatchObject({ input: 15_000_000_000n, free: false });
  expect(free.warned).toBe(1);
  const dear = within({ default: { input_per_million: 20, output_per_million: 80 } });
  expect(dear.prices.default()).toMatchObject({ input: 20_000_000_000n });
});

test('with the word of user and signature a project says what it likes', () => {
  const project = { currency: 'EUR', models: { m: { free: true }, local: { free: true } } };
  const { rates, prices, warned } = within(project, true);
  expect([rates('m'), rates('local')]).toEqual(['0 0 0 0 1000 free', '0 0 0 0 - free']);
  expect(prices.find('silent')).toMatchObject({ output: { currency: 'EUR' } });
  expect(warned).toBe(0);
});

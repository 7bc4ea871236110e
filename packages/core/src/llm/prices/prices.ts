// Finds prices of models and computes costs of requests. A price is the row with the id of the model in
// the price files, else the row with the longest matching alias, else the entry of the price package. A
// name that is only similar has no price, because a guess would be a wrong invoice. A project can only
// add prices and raise them, because the user pays. A price names its row, so that every cost can be
// traced. Only this file uses the price package, which contains its data and never uses the network.
import { createRequire } from 'node:module';
import type * as PriceLibrary from '@pydantic/genai-prices';
import {
  type Clock,
  type Diagnostic,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  matchGlob,
  mergeDeep,
  nearest,
  type Outcome,
  objectAt,
  ok,
  systemClock,
  textsAt,
} from '../../base/index.ts';
import type { DataLayer } from '../../items/index.ts';
import type { Usage } from '../usage.ts';
import { rateOf } from './money.ts';

/** Rates in nano-units per million tokens. */
export interface Price {
  model: string;
  /** Table and matching row, such as `pricing.yaml:claude-opus-5`. */
  row: string;
  input: bigint;
  output: bigint;
  cache_read: bigint;
  cache_write: bigint;
  free: boolean;
  currency: string;
  /** The context window for which this price applies. */
  context?: number;
}

const MILLION = 1_000_000n;

/** Rounds up once, at the end: a request is charged at most one nano-unit too much. */
const perMillion = (amount: bigint): bigint => (amount + MILLION - 1n) / MILLION;

/**
 * Returns the default rate of cache writes, a quarter above input. The default of cache reads is input.
 * No provider charges more, and a provider without charges reports no writes.
 */
const presumedWrite = (input: bigint): bigint => (input * 5n + 3n) / 4n;

export function costOf(usage: Usage, price: Price): bigint {
  return perMillion(
    BigInt(usage.input_tokens) * price.input +
      BigInt(usage.output_tokens) * price.output +
      BigInt(usage.cache_read_tokens) * price.cache_read +
      BigInt(usage.cache_write_tokens) * price.cache_write,
  );
}

/**
 * Returns the maximum cost of a request: all input at the highest input rate (writing to a cache may
 * cost more than not caching), and all of the allowed output.
 */
export function worstCost(inputTokens: number, outputTokens: number, price: Price): bigint {
  const { input, cache_read, cache_write, output } = price;
  const cached = cache_read > cache_write ? cache_read : cache_write;
  const dearest = input > cached ? input : cached;
  return perMillion(BigInt(inputTokens) * dearest + BigInt(outputTokens) * output);
}

// The package has two megabytes, so it is loaded when the first model has no row in a price file.
let loaded: typeof PriceLibrary | undefined;
const library = (): typeof PriceLibrary =>
  (loaded ??= createRequire(import.meta.url)('@pydantic/genai-prices'));

interface Rate {
  rate: bigint;
  /** Input length from which another rate applies. Infinity: this rate applies to any length. */
  until: number;
}

function readRate(value: unknown): Rate | undefined {
  const tiered = value as { base?: unknown; tiers?: { start: number }[] } | null | undefined;
  const isTiered = typeof tiered === 'object' && tiered !== null;
  const rate = rateOf(isTiered ? tiered.base : value);
  if (rate === undefined) return undefined;
  const starts = isTiered ? (tiered.tiers ?? []).map(({ start }) => start) : [];
  return { rate, until: Math.min(Number.POSITIVE_INFINITY, ...starts) };
}

/** A price with a fee per request is not used, because tokens do not determine it. */
const FLAT_FEE = /^requests?_/;

/** Returns undefined if the package has no complete price of the model. Never throws. */
function packagedPrice(model: string, now: number): Price | undefined {
  const entry = lookUp(model, now);
  if (!entry) return undefined;
  const rows = entry.model_price;
  if (Object.keys(rows).some((key) => FLAT_FEE.test(key))) return undefined;
  const [input, output] = [readRate(rows.input_mtok), readRate(rows.output_mtok)];
  if (!input || !output) return undefined;
  const read = readRate(rows.cache_read_mtok) ?? input;
  const write = readRate(rows.cache_write_mtok) ?? { ...input, rate: presumedWrite(input.rate) };
  const window = entry.model.context_window ?? Number.POSITIVE_INFINITY;
  const context = Math.min(window, ...[input, output, read, write].map(({ until }) => until));
  return {
    model,
    row: `genai-prices:${entry.provider.id}/${entry.model.id}`,
    input: input.rate,
    output: output.rate,
    cache_read: read.rate,
    cache_write: write.rate,
    free: false,
    currency: 'USD',
    ...(Number.isFinite(context) && { context }),
  };
}

function lookUp(model: string, now: number): PriceLibrary.PriceCalculationResult {
  try {
    const usage = { input_tokens: 1, output_tokens: 1 };
    return library().calcPrice(usage, model, { timestamp: new Date(now) });
  } catch {
    return null;
  }
}

export type Prices = ReturnType<typeof createPrices>;

/** One price file, as the library of items reads it. */
type PriceLayer = Pick<DataLayer, 'source' | 'file' | 'value'>;

interface PricePorts {
  /** True if the policy lets a project's files lower prices. */
  allowsLower?: boolean;
  clock?: Clock;
  /** Source of prices that no file has, at a time. Absent: the price package. */
  packaged?: (model: string, now: number) => Price | undefined;
}

const DEFAULT_CURRENCY = 'USD';
const AUTHORITY =
  'set it in your own price file, or sign the project’s policy and write `prices: project` in yours';
const FREE = { input: 0n, output: 0n, cache_read: 0n, cache_write: 0n };

/** Returns a row as a price. Undefined if a rate is missing, because its cost would be too low. */
function priceOf(model: string, row: string, value: Json, currency: string): Price | undefined {
  const context = getOwn(value, 'context');
  const about = { model, row, currency, ...(typeof context === 'number' && { context }) };
  if (getOwn(value, 'free') === true) return { ...about, ...FREE, free: true };
  const input = rateOf(getOwn(value, 'input_per_million'));
  const output = rateOf(getOwn(value, 'output_per_million'));
  if (input === undefined || output === undefined) return undefined;
  return {
    ...about,
    input,
    output,
    cache_read: rateOf(getOwn(value, 'cache_read_per_million')) ?? input,
    cache_write: rateOf(getOwn(value, 'cache_write_per_million')) ?? presumedWrite(input),
    free: false,
  };
}

/** An alias matches one id, or many if it contains `*`. */
const fits = (alias: string, model: string): boolean =>
  alias === model || (alias.includes('*') && matchGlob(alias, model));

function longestAlias(rows: JsonObject, model: string): { id: string; alias: string } | undefined {
  let best: { id: string; alias: string } | undefined;
  for (const [id, row] of Object.entries(rows)) {
    for (const alias of textsAt(row, 'aliases')) {
      if (fits(alias, model) && alias.length > (best?.alias.length ?? 0)) best = { id, alias };
    }
  }
  return best;
}

/** Merges the rows of some price files. */
function createTable(config: JsonObject, currency: string) {
  const rows = objectAt(config, 'models');
  return {
    rows,
    declared(model: string): Price | undefined {
      const own = getOwn(rows, model);
      if (own !== undefined) return priceOf(model, `pricing.yaml:${model}`, own, currency);
      const match = longestAlias(rows, model);
      if (!match) return undefined;
      const row = `pricing.yaml:${match.id} (alias ${match.alias})`;
      return priceOf(model, row, getOwn(rows, match.id) ?? null, currency);
    },
    default(): Price | undefined {
      const value = getOwn(config, 'default');
      return value === undefined
        ? undefined
        : priceOf('default', 'pricing.yaml:default', value, currency);
    },
  };
}

const RATES = ['input', 'output', 'cache_read', 'cache_write'] as const;

const costsNothing = (price: Price): boolean => RATES.every((rate) => price[rate] === 0n);

/**
 * Returns the user's price, raised where the project's is higher. A window only shrinks, because a price
 * may be higher beyond it. INVARIANT: no rate is ever lower than the user's, and a model is never free
 * unless the user made it free.
 */
function raised(base: Price | undefined, project: Price | undefined): Price | undefined {
  if (!project) return base;
  if (!base) return costsNothing(project) ? undefined : project;
  if (project.currency !== base.currency) return base;
  const price = { ...base };
  for (const rate of RATES) if (project[rate] > base[rate]) price[rate] = project[rate];
  const context = Math.min(base.context ?? Infinity, project.context ?? Infinity);
  if (Number.isFinite(context)) price.context = context;
  const isRaised = RATES.some((rate) => price[rate] !== base[rate]);
  return { ...price, free: base.free && !isRaised, row: isRaised ? project.row : base.row };
}

const merged = (layers: readonly PriceLayer[]): JsonObject =>
  layers.reduce<JsonObject>((all, { value }) => mergeDeep(all, value), {});

const currencyOf = (value: JsonObject): string | undefined => {
  const currency = getOwn(value, 'currency');
  return typeof currency === 'string' ? currency : undefined;
};

/** Opens two tables: one without the project, which a project cannot lower, and one with all files. */
function openTables(layers: readonly PriceLayer[], ports: PricePorts) {
  const { clock = systemClock, packaged = packagedPrice, allowsLower = false } = ports;
  const owners = allowsLower ? layers : layers.filter(({ source }) => source !== 'project');
  const currency = currencyOf(merged(owners)) ?? DEFAULT_CURRENCY;
  const foreign = layers.filter(
    (layer) => !owners.includes(layer) && (currencyOf(layer.value) ?? currency) !== currency,
  );
  const own = createTable(merged(owners), currency);
  const all = createTable(merged(layers.filter((layer) => !foreign.includes(layer))), currency);
  return {
    all,
    foreign,
    currency,
    baseOf: (model: string) => own.declared(model) ?? packaged(model, clock.now()),
    baseDefault: () => own.default(),
  };
}

/** Opens the prices. `layers` are the files `pricing.yaml`, the strongest last. */
export function createPrices(layers: readonly PriceLayer[], ports: PricePorts = {}) {
  const { all, baseOf, baseDefault } = openTables(layers, ports);
  return {
    find(model: string): Outcome<Price> {
      const price = raised(baseOf(model), all.declared(model));
      if (price) return ok(price);
      const near = nearest(model, Object.keys(all.rows));
      return fail('not_found', `model \`${model.slice(0, 200)}\` has no price`, {
        model: model.slice(0, 200),
        hint:
          `${near === undefined ? '' : `did you mean \`${near}\`? Otherwise `}add a row for it under ` +
          '`models` in `.ai/config/pricing.yaml`, or with `free: true` in your own when it costs nothing',
      });
    },
    /** Returns the price for a model without one. Its `row` is `pricing.yaml:default`. */
    default: () => raised(baseDefault(), all.default()),
  };
}

/** Returns a warning for each price of a project file that is ignored, for `check`. */
export function uncountedPrices(
  layers: readonly PriceLayer[],
  ports: PricePorts = {},
): Diagnostic[] {
  const { all, foreign, currency, baseOf, baseDefault } = openTables(layers, ports);
  const warnings: Diagnostic[] = [];
  const warn = (file: string, message: string) => {
    const at = { file, line: 1, column: 1, severity: 'warning' } as const;
    warnings.push({ ...at, code: 'price_not_counted', message, hint: AUTHORITY });
  };
  const judge = (file: string, name: string, base: Price | undefined, project?: Price) => {
    const price = raised(base, project);
    if (!project || (price && RATES.every((rate) => price[rate] <= project[rate]))) return;
    const why = base ? `\`${base.row}\` is higher` : 'a project cannot make a model free';
    warn(file, `the price of ${name} is ignored: ${why}`);
  };
  for (const { source, file, value } of layers) {
    if (source !== 'project' || ports.allowsLower) continue;
    if (foreign.some((layer) => layer.file === file)) {
      warn(file, `the prices of this file are ignored: their currency must be ${currency}`);
      continue;
    }
    for (const [id, row] of Object.entries(objectAt(value, 'models'))) {
      for (const model of [id, ...textsAt(row, 'aliases')]) {
        judge(file, `\`${model}\``, baseOf(model), all.declared(model));
      }
    }
    if (getOwn(value, 'default') !== undefined) {
      judge(file, 'a model without a row', baseDefault(), all.default());
    }
  }
  return warnings;
}

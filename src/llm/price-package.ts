// The maintained price package, behind our own type: the only file that knows it. It carries its
// data with it and never asks the network.
import { createRequire } from 'node:module';
import type * as PriceLibrary from '@pydantic/genai-prices';
import { rateOf } from './money.ts';
import { type Price, presumedWrite } from './price.ts';

// Two megabytes, loaded when a model is asked for that no price file knows.
let loaded: typeof PriceLibrary | undefined;
const library = (): typeof PriceLibrary =>
  (loaded ??= createRequire(import.meta.url)('@pydantic/genai-prices'));

interface Rate {
  rate: bigint;
  /** Input length from which another rate holds. */
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

/** A fee per request cannot be told from tokens, so such a price is none for us. */
const FLAT_FEE = /^requests?_/;

/** Undefined when the package does not know the model, or only in part. Never throws. */
export function packagedPrice(model: string, now: number): Price | undefined {
  const found = lookUp(model, now);
  if (!found) return undefined;
  const rows = found.model_price;
  if (Object.keys(rows).some((key) => FLAT_FEE.test(key))) return undefined;
  const [input, output] = [readRate(rows.input_mtok), readRate(rows.output_mtok)];
  if (!input || !output) return undefined;
  const read = readRate(rows.cache_read_mtok) ?? input;
  const write = readRate(rows.cache_write_mtok) ?? { ...input, rate: presumedWrite(input.rate) };
  const window = found.model.context_window ?? Number.POSITIVE_INFINITY;
  const context = Math.min(window, ...[input, output, read, write].map(({ until }) => until));
  return {
    model,
    row: `genai-prices:${found.provider.id}/${found.model.id}`,
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

// What a token costs, and what a request cost. A price names the row it came from, so that every
// figure can be traced to a line of a table.
import type { Usage } from './usage.ts';

/** Nano-units per million tokens. */
export interface Price {
  model: string;
  /** Table and row that matched, e.g. `pricing.yaml:claude-opus-5`. */
  row: string;
  input: bigint;
  output: bigint;
  cache_read: bigint;
  cache_write: bigint;
  free: boolean;
  currency: string;
  /** The window within which this price holds. */
  context?: number;
}

const MILLION = 1_000_000n;

/** Rounded up once, at the end: a fraction of a nano-unit is charged as a whole one per request. */
const perMillion = (amount: bigint): bigint => (amount + MILLION - 1n) / MILLION;

/**
 * Where a row is silent, reading a cache costs what input costs, and writing a quarter more: nobody
 * charges more than that, and who charges nothing reports no writes.
 */
export const presumedWrite = (input: bigint): bigint => (input * 5n + 3n) / 4n;

export function costOf(usage: Usage, price: Price): bigint {
  return perMillion(
    BigInt(usage.input_tokens) * price.input +
      BigInt(usage.output_tokens) * price.output +
      BigInt(usage.cache_read_tokens) * price.cache_read +
      BigInt(usage.cache_write_tokens) * price.cache_write,
  );
}

/**
 * The most a request can cost: all input at the dearest rate input can have (writing to a cache may
 * cost more than not caching), all of the allowed output.
 */
export function worstCost(inputTokens: number, outputTokens: number, price: Price): bigint {
  const { input, cache_read, cache_write, output } = price;
  const dearest = [input, cache_read, cache_write].reduce((a, b) => (a > b ? a : b));
  return perMillion(BigInt(inputTokens) * dearest + BigInt(outputTokens) * output);
}

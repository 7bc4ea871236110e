// Counts the usage of a request in the same way for every provider: `input_tokens` is input that no cache
// served, reasoning is output, and an estimate of a missing count is never too low.
import { getOwn, type Json } from '../base/index.ts';

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /** The sum of all four counts. */
  tokens: number;
  /** All input of the request, cached or not: the used part of the window. */
  context_tokens: number;
  /** True if a count is an estimate, because the provider did not report it. */
  estimated: boolean;
}

export type Counts = Pick<
  Usage,
  'input_tokens' | 'output_tokens' | 'cache_read_tokens' | 'cache_write_tokens'
>;

function usageOf(counts: Counts, estimated = false): Usage {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = counts;
  const context_tokens = input_tokens + cache_read_tokens + cache_write_tokens;
  return { ...counts, tokens: context_tokens + output_tokens, context_tokens, estimated };
}

/** No context window is larger. A larger count is invalid, and sums of smaller ones are exact. */
const MAX_COUNT = 1e12;

/** Returns the count under the first valid name. Undefined: every count is missing or invalid. */
function countOf(source: Json | undefined, ...names: string[]): number | undefined {
  for (const name of names) {
    const value = getOwn(source, name);
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT) {
      return value;
    }
  }
  return undefined;
}

/** Counts that the provider reported. An absent count was not reported. */
export type Reported = Partial<Counts>;

const ANTHROPIC_NAMES: Readonly<Record<keyof Counts, string>> = {
  input_tokens: 'input_tokens',
  output_tokens: 'output_tokens',
  cache_read_tokens: 'cache_read_input_tokens',
  cache_write_tokens: 'cache_creation_input_tokens',
};

/** Reads the usage of Anthropic, which has four separate counts. */
export function readAnthropicUsage(raw: Json | undefined): Reported {
  const reported: Reported = {};
  for (const name of Object.keys(ANTHROPIC_NAMES) as (keyof Counts)[]) {
    const count = countOf(raw, ANTHROPIC_NAMES[name]);
    if (count !== undefined) reported[name] = count;
  }
  return reported;
}

/**
 * Reads the usage of OpenAI, of Chat Completions or of Responses. Its input includes cached input. Some
 * servers include reasoning only in the total. It counts as output here.
 */
export function readOpenAiUsage(raw: Json | undefined): Reported {
  const details = getOwn(raw, 'prompt_tokens_details') ?? getOwn(raw, 'input_tokens_details');
  const input = countOf(raw, 'prompt_tokens', 'input_tokens');
  const output = countOf(raw, 'completion_tokens', 'output_tokens');
  const total = countOf(raw, 'total_tokens') ?? 0;
  const read = countOf(details, 'cached_tokens') ?? countOf(raw, 'prompt_cache_hit_tokens') ?? 0;
  const written = countOf(details, 'cache_write_tokens') ?? 0;
  const cache_read_tokens = Math.min(read, input ?? 0);
  const cache_write_tokens = Math.min(written, (input ?? 0) - cache_read_tokens);
  return {
    ...(input !== undefined && {
      input_tokens: input - cache_read_tokens - cache_write_tokens,
      cache_read_tokens,
      cache_write_tokens,
    }),
    ...(output !== undefined && { output_tokens: Math.max(output, total - (input ?? total)) }),
  };
}

/** Reads the usage of Gemini, whose thoughts are not a part of the candidates. A count of zero can be absent. */
export function readGeminiUsage(raw: Json | undefined): Reported {
  const prompt = countOf(raw, 'promptTokenCount');
  if (prompt === undefined) return {};
  const input = prompt + (countOf(raw, 'toolUsePromptTokenCount') ?? 0);
  const cache_read_tokens = Math.min(countOf(raw, 'cachedContentTokenCount') ?? 0, input);
  const [answer, thoughts] = [
    countOf(raw, 'candidatesTokenCount'),
    countOf(raw, 'thoughtsTokenCount'),
  ];
  const total = countOf(raw, 'totalTokenCount');
  const output = Math.max((answer ?? 0) + (thoughts ?? 0), (total ?? 0) - input);
  const isReported = (answer ?? thoughts ?? total) !== undefined;
  return {
    input_tokens: input - cache_read_tokens,
    cache_read_tokens,
    cache_write_tokens: 0,
    ...(isReported && { output_tokens: output }),
  };
}

/** Reads the usage of a model object of the AI SDK. Each count may be undefined. */
export function readSdkUsage(raw: Json | undefined): Reported {
  const [input, output] = [getOwn(raw, 'inputTokens'), getOwn(raw, 'outputTokens')];
  const read = countOf(input, 'cacheRead') ?? 0;
  const written = countOf(input, 'cacheWrite') ?? 0;
  const total = countOf(input, 'total');
  const rest = total === undefined ? undefined : Math.max(0, total - read - written);
  const fresh = countOf(input, 'noCache') ?? rest;
  const output_tokens = countOf(output, 'total');
  return {
    ...(fresh !== undefined && {
      input_tokens: fresh,
      cache_read_tokens: read,
      cache_write_tokens: written,
    }),
    ...(output_tokens !== undefined && { output_tokens }),
  };
}

/** Merges two reports of one reply. Reports are cumulative, so the larger count is the later one. */
export function mergeReports(a: Reported, b: Reported): Reported {
  const merged: Reported = { ...a };
  for (const [name, count] of Object.entries(b) as [keyof Counts, number][]) {
    merged[name] = Math.max(merged[name] ?? 0, count);
  }
  return merged;
}

/** Assumed bytes per token if no ratio was measured. The number is low, so that estimates are high. */
const BYTES_PER_TOKEN = 3;

/**
 * Estimates tokens from bytes. `ratio` is the last measured number of tokens per byte (`tokenRatio`). It
 * can only raise the estimate.
 */
export function estimateTokens(bytes: number, ratio = 0): number {
  const safe = Number.isFinite(ratio) && ratio > 0 ? ratio : 0;
  return Math.ceil(Math.max(bytes / BYTES_PER_TOKEN, bytes * safe));
}

/** Returns the size of a text that `estimateTokens` takes for this number of tokens. */
export const bytesForTokens = (tokens: number): number => tokens * BYTES_PER_TOKEN;

/** Returns the tokens per byte of a request. 0: its usage is an estimate, or the request is empty. */
export const tokenRatio = (usage: Usage, requestBytes: number): number =>
  usage.estimated || requestBytes <= 0 ? 0 : usage.context_tokens / requestBytes;

/** Sizes for estimates, if the provider reports no usage. */
interface Measure {
  requestBytes: number;
  replyBytes: number;
  ratio: number;
  /** True after the final report. Earlier counts are preliminary. */
  isFinal: boolean;
}

/** Returns the report if it is final. Otherwise returns an estimate that is never below it. */
export function completeUsage(reported: Reported, measure: Measure): Usage {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cache_write_tokens = 0 } = reported;
  const isComplete = input_tokens !== undefined && output_tokens !== undefined && measure.isFinal;
  const output =
    measure.isFinal && output_tokens !== undefined
      ? output_tokens
      : Math.max(output_tokens ?? 0, estimateTokens(measure.replyBytes));
  const input = input_tokens ?? estimateTokens(measure.requestBytes, measure.ratio);
  const counts = { input_tokens: input, output_tokens: output };
  return usageOf({ ...counts, cache_read_tokens, cache_write_tokens }, !isComplete);
}

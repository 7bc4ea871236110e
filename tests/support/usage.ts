import type { Usage } from '@kernmantle/core/llm';

type Counts = Pick<
  Usage,
  'input_tokens' | 'output_tokens' | 'cache_read_tokens' | 'cache_write_tokens'
>;

/** Returns a usage with these counts, as a provider reports it. */
export function usageOf(counts: Counts, estimated = false): Usage {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = counts;
  const context_tokens = input_tokens + cache_read_tokens + cache_write_tokens;
  return { ...counts, tokens: context_tokens + output_tokens, context_tokens, estimated };
}

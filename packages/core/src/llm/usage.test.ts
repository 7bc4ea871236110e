import { usageOf } from '@kernmantle/test-support/usage';
import { expect, test } from 'vitest';
import {
  completeUsage,
  estimateTokens,
  mergeReports,
  readAnthropicUsage,
  readOpenAiUsage,
  tokenRatio,
} from './usage.ts';

const measured = { requestBytes: 300, replyBytes: 30, ratio: 0, isFinal: true };

test('cached input is counted apart from plain input, the same for both providers', () => {
  const expected = {
    input_tokens: 100,
    output_tokens: 40,
    cache_read_tokens: 900,
    cache_write_tokens: 0,
    tokens: 1040,
    context_tokens: 1000,
    estimated: false,
  };
  const anthropic = readAnthropicUsage({
    input_tokens: 100,
    output_tokens: 40,
    cache_read_input_tokens: 900,
    cache_creation_input_tokens: 0,
  });
  const chat = readOpenAiUsage({
    prompt_tokens: 1000,
    completion_tokens: 40,
    total_tokens: 1040,
    prompt_tokens_details: { cached_tokens: 900 },
    completion_tokens_details: { reasoning_tokens: 30 },
  });
  const responses = readOpenAiUsage({
    input_tokens: 1000,
    output_tokens: 40,
    total_tokens: 1040,
    input_tokens_details: { cached_tokens: 900 },
  });
  for (const reported of [anthropic, chat, responses]) {
    expect(completeUsage(reported, measured)).toEqual(expected);
  }
});

test('reasoning that a server leaves out of the completion is output', () => {
  const reported = readOpenAiUsage({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 115 });
  expect(reported.output_tokens).toBe(105);
});

test('a cache never serves more than the input', () => {
  const reported = readOpenAiUsage({
    prompt_tokens: 10,
    completion_tokens: 1,
    prompt_tokens_details: { cached_tokens: 99, cache_write_tokens: 99 },
  });
  expect(reported).toMatchObject({ input_tokens: 0, cache_read_tokens: 10, cache_write_tokens: 0 });
});

test('nonsense is not a count', () => {
  for (const bad of [-1, 1.5, 1e300, '10', null, Number.NaN]) {
    expect(readAnthropicUsage({ input_tokens: bad as number })).toEqual({});
    expect(readOpenAiUsage({ prompt_tokens: bad as number })).toEqual({});
  }
  expect(readAnthropicUsage('x')).toEqual({});
  expect(readOpenAiUsage(undefined)).toEqual({});
});

test('what is not reported is estimated, input included', () => {
  expect(completeUsage({}, measured)).toMatchObject({
    input_tokens: 100,
    output_tokens: 10,
    estimated: true,
  });
});

test('an estimate never lowers what was reported so far', () => {
  const soFar = { input_tokens: 7, output_tokens: 90 };
  const usage = completeUsage(soFar, { ...measured, isFinal: false });
  expect(usage).toMatchObject({ input_tokens: 7, output_tokens: 90, estimated: true });
  const more = completeUsage(soFar, { ...measured, replyBytes: 900, isFinal: false });
  expect(more.output_tokens).toBe(300);
});

test('the last reported ratio corrects an estimate upwards only', () => {
  expect(estimateTokens(300, 0)).toBe(100);
  expect(estimateTokens(300, 0.1)).toBe(100);
  expect(estimateTokens(300, 0.5)).toBe(150);
  expect(estimateTokens(1)).toBe(1);
  expect(estimateTokens(300, Number.NaN)).toBe(100);
  const counts = { output_tokens: 9, cache_read_tokens: 50, cache_write_tokens: 0 };
  expect(tokenRatio(usageOf({ input_tokens: 100, ...counts }), 300)).toBe(0.5);
  expect(tokenRatio(usageOf({ input_tokens: 100, ...counts }, true), 300)).toBe(0);
});

test('reports of one reply are cumulative', () => {
  const first = { input_tokens: 10, output_tokens: 1 };
  expect(mergeReports(first, { output_tokens: 47 })).toEqual({ ...first, output_tokens: 47 });
  expect(mergeReports(first, { input_tokens: 0 })).toEqual(first);
});

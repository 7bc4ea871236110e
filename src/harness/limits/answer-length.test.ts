import fc from 'fast-check';
import { expect, test } from 'vitest';
import { limitsOf, PRICE } from '../../../tests/support/limits.ts';
import { fitRequest, type RequestPlan } from './answer-length.ts';
import { firstExceeded } from './limit.ts';

const plan: RequestPlan = {
  input: 1000,
  maxTokens: 4000,
  minTokens: 256,
  used: {},
  reserved: {},
  limits: limitsOf(),
  price: PRICE,
};

test('with enough left the answer may be as long as asked for', () => {
  expect(fitRequest(plan)).toEqual({
    maxTokens: 4000,
    unit: {
      turns: 1n,
      duration: 1n,
      tokens: 5000n,
      input_tokens: 1000n,
      output_tokens: 4000n,
      // Input at the dearest rate (writing to the cache), output at its own.
      spend: 1_250_000n + 16_000_000n,
      context: 1000n,
    },
  });
});

test('the answer is shortened to what is left of tokens, money or the window', () => {
  expect(fitRequest({ ...plan, limits: limitsOf({ tokens: 3000 }) })).toMatchObject({
    maxTokens: 2000,
  });
  expect(fitRequest({ ...plan, limits: limitsOf({ output_tokens: 700 }) })).toMatchObject({
    maxTokens: 700,
  });
  // 0.00325 is left: 0.00125 for the input, 0.002 for 500 tokens of output.
  expect(fitRequest({ ...plan, limits: limitsOf({ spend: '0.00325' }) })).toMatchObject({
    maxTokens: 500,
  });
  expect(fitRequest({ ...plan, window: 1300 })).toMatchObject({ maxTokens: 300 });
});

test('below the smallest useful answer the request is refused, with the limit that is short', () => {
  expect(fitRequest({ ...plan, limits: limitsOf({ tokens: 1256 }) })).toMatchObject({
    maxTokens: 256,
  });
  expect(
    fitRequest({ ...plan, used: { tokens: 10n }, limits: limitsOf({ tokens: 1255 }) }),
  ).toEqual({
    event: { name: 'limit', code: 'tokens_exceeded', limit: 'tokens', current: 10, max: 1255 },
    needed: 1266n,
  });
  expect(fitRequest({ ...plan, window: 1255 })).toMatchObject({
    event: { code: 'context_exceeded', current: 1000, max: 1255 },
  });
  expect(fitRequest({ ...plan, limits: limitsOf({ spend: '0' }) })).toMatchObject({
    event: { code: 'spend_exceeded' },
  });
});

test('an answer that was meant to be short is not refused for being short', () => {
  expect(fitRequest({ ...plan, maxTokens: 50, limits: limitsOf({ tokens: 1050 }) })).toMatchObject({
    maxTokens: 50,
  });
});

test('what is allowed fits, and one token more would not', () => {
  const amount = fc.nat(5000);
  fc.assert(
    fc.property(amount, amount, amount, amount, fc.nat(30), (input, max, tokens, used, cents) => {
      const limits = limitsOf({ tokens, spend: `0.0${String(cents).padStart(2, '0')}` });
      const request = {
        ...plan,
        input,
        maxTokens: max + 1,
        used: { tokens: BigInt(used) },
        limits,
      };
      const fit = fitRequest(request);
      if ('event' in fit) return;
      expect(firstExceeded(request.used, {}, fit.unit, limits)).toBeUndefined();
      if (fit.maxTokens === max + 1) return;
      const more = fitRequest({ ...request, maxTokens: fit.maxTokens + 1, minTokens: 1e9 });
      expect(more).toHaveProperty('event');
    }),
  );
});

import { limitsOf, PRICE } from '@kernmantle/test-support/limits';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, withDetail } from '../../base/index.ts';
import { LIMIT_NAMES } from '../../flow/index.ts';
import {
  asLimitFault,
  contextWarning,
  crossedMarks,
  firstExceeded,
  fitRequest,
  type LimitAmounts,
  limitEvent,
  limitFault,
  limitIn,
  limitNumber,
  limitsView,
  limitWords,
  markKey,
  readLimit,
  UNITS,
} from './limit.ts';

type RequestPlan = Parameters<typeof fitRequest>[0];

const none: LimitAmounts = {};

test('ten of ten turns can be used, the eleventh is refused', () => {
  const limits = limitsOf({ turns: 10 });
  expect(firstExceeded({ turns: 9n }, UNITS.turn, limits)).toBeUndefined();
  expect(firstExceeded({ turns: 10n }, UNITS.turn, limits)).toEqual({
    name: 'limit',
    code: 'turns_exceeded',
    limit: 'turns',
    current: 10,
    max: 10,
  });
});

test('every limit admits exactly as many units as it says, and zero admits none', () => {
  const counted = ['turns', 'tokens', 'input_tokens', 'output_tokens', 'spawns', 'tool_calls'];
  fc.assert(
    fc.property(
      fc.constantFrom(...(counted as 'turns'[])),
      fc.integer({ min: 0, max: 50 }),
      fc.integer({ min: 0, max: 50 }),
      (name, max, open) => {
        const limits = limitsOf({ [name]: max });
        let used = 0n;
        while (!firstExceeded({ [name]: used + BigInt(open) }, { [name]: 1n }, limits)) {
          used += 1n;
        }
        expect(used).toBe(BigInt(Math.max(0, max - open)));
      },
    ),
  );
});

test('what was used and the worst case of the unit count together', () => {
  const limits = limitsOf({ tokens: 100 });
  const event = firstExceeded({ tokens: 80n }, { tokens: 21n }, limits);
  expect(event).toMatchObject({ code: 'tokens_exceeded', current: 80, max: 100 });
});

test('a reported overrun stops the next unit, whatever kind it is', () => {
  const limits = limitsOf({ tokens: 100 });
  expect(firstExceeded({ tokens: 101n }, UNITS.tool, limits)?.limit).toBe('tokens');
  expect(firstExceeded({ tokens: 100n }, UNITS.tool, limits)).toBeUndefined();
});

test('the last turn of a thread can still use its tools', () => {
  const limits = limitsOf({ turns: 1, tool_calls: 2 });
  expect(firstExceeded({ turns: 1n, tool_calls: 1n }, UNITS.tool, limits)).toBeUndefined();
});

test('nothing starts at the deadline, and a duration of zero starts nothing', () => {
  expect(firstExceeded({ duration: 999n }, UNITS.tool, limitsOf({ duration: 1 }))).toBe(undefined);
  expect(firstExceeded({ duration: 1000n }, UNITS.turn, limitsOf({ duration: 1 }))).toEqual({
    name: 'limit',
    code: 'duration_exceeded',
    limit: 'duration',
    current: 1,
    max: 1,
  });
  expect(firstExceeded(none, UNITS.turn, limitsOf({ duration: 0 }))?.limit).toBe('duration');
});

test('depth is the distance of the child, not a sum', () => {
  const limits = limitsOf({ depth: 2 });
  expect(firstExceeded({ spawns: 1n }, UNITS.spawn(2), limits)).toBeUndefined();
  expect(firstExceeded(none, UNITS.spawn(3), limits)).toMatchObject({
    code: 'depth_exceeded',
    current: 3,
    max: 2,
  });
  // A child deeper than its own limit may still work; it may not spawn.
  expect(firstExceeded(none, UNITS.tool, limitsOf({ depth: 0 }))).toBeUndefined();
});

test('context is judged per request', () => {
  const limits = limitsOf({ context: 100 });
  expect(firstExceeded({ context: 90n }, { context: 100n }, limits)).toBeUndefined();
  expect(firstExceeded(none, { context: 101n }, limits)).toMatchObject({
    code: 'context_exceeded',
    current: 101,
    max: 100,
  });
});

test('of two limits reached at once the first of the list is reported', () => {
  const limits = limitsOf({ turns: 0, tokens: 0, tool_calls: 0 });
  const unit = { turns: 1n, tokens: 1n, tool_calls: 1n };
  expect(firstExceeded(none, unit, limits)?.limit).toBe('turns');
});

test('money in events and conditions is a number, exact as far as numbers are', () => {
  const limits = limitsOf({ spend: '0.1' });
  const event = firstExceeded({ spend: 100_000_000n }, { spend: 1n }, limits);
  expect(event).toMatchObject({ code: 'spend_exceeded', current: 0.1, max: 0.1 });
});

test('each mark is reported once per limit', () => {
  const limits = limitsOf({ turns: 10 });
  const warned = new Set<string>();
  const seen: string[] = [];
  for (let turns = 0n; turns <= 10n; turns += 1n) {
    for (const event of crossedMarks({ turns }, limits, warned)) {
      seen.push(`${turns} ${event.code} ${event.percent}`);
      warned.add(markKey(event));
    }
  }
  expect(seen).toEqual(['8 turns_warning 80', '10 turns_warning 95']);
});

test('marks fire once however the use grows', () => {
  fc.assert(
    fc.property(
      fc.array(fc.bigInt({ min: 0n, max: 40n }), { maxLength: 20 }),
      fc.integer({ min: 0, max: 200 }),
      (steps, tokens) => {
        const limits = limitsOf({ tokens });
        const warned = new Set<string>();
        let used = 0n;
        let fired = 0;
        for (const step of steps) {
          used += step;
          for (const event of crossedMarks({ tokens: used }, limits, warned)) {
            expect(warned.has(markKey(event))).toBe(false);
            warned.add(markKey(event));
            fired += 1;
          }
        }
        const reached = [80n, 95n].filter((mark) => used * 100n >= BigInt(tokens) * mark);
        expect(fired).toBe(tokens === 0 ? 0 : reached.length);
      },
    ),
  );
});

test('a window that fills warns once per crossing', () => {
  expect(contextWarning(0, 79, 100n, 0.8)).toBeUndefined();
  expect(contextWarning(79, 80, 100n, 0.8)).toEqual({
    name: 'warning',
    code: 'context_warning',
    limit: 'context',
    percent: 80,
    current: 80,
    max: 100,
  });
  expect(contextWarning(80, 95, 100n, 0.8)).toBeUndefined();
  expect(contextWarning(95, 20, 100n, 0.8)).toBeUndefined();
  expect(contextWarning(20, 85, 100n, 0.8)).toBeDefined();
});

test('conditions see every limit under its name', () => {
  expect(limitsView(limitsOf({ turns: 10, spend: '10', duration: 300 }))).toEqual({
    turns: 10,
    tokens: 200_000,
    input_tokens: null,
    output_tokens: null,
    spawns: 10,
    duration: 300,
    spend: 10,
    context: null,
    depth: 3,
    tool_calls: 200,
    spend_currency: 'USD',
    context_warn: 0.8,
  });
});

test('a limit survives being written down and read', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...LIMIT_NAMES),
      fc.bigInt({ min: 0n, max: 10n ** 12n }),
      (name, value) => {
        expect(readLimit(name, limitNumber(name, value))).toBe(value);
      },
    ),
  );
});

test('what is no amount is no limit', () => {
  for (const bad of [
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1e30,
    '',
    'ten',
    '1e3',
    null,
    true,
  ]) {
    expect(readLimit('turns', bad)).toBeUndefined();
  }
  expect(readLimit('turns', 2.9)).toBe(2n);
  expect(readLimit('duration', '0.0015')).toBe(1n);
  expect(readLimit('spend', '0.0000000019')).toBe(1n);
});

const plan: RequestPlan = {
  input: 1000,
  maxTokens: 4000,
  minTokens: 256,
  used: {},
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
    event: {
      name: 'limit',
      code: 'tokens_exceeded',
      limit: 'tokens',
      current: 10,
      max: 1255,
      needed: 1256,
    },
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
      expect(firstExceeded(request.used, fit.unit, limits)).toBeUndefined();
      if (fit.maxTokens === max + 1) return;
      const more = fitRequest({ ...request, maxTokens: fit.maxTokens + 1, minTokens: 1e9 });
      expect(more).toHaveProperty('event');
    }),
  );
});

test('a limit is told in words: what was used, what others hold and what is needed, each by itself', () => {
  const nano = 1_000_000_000n;
  const event = limitEvent('spend', (12n * nano) / 100n, (3n * nano) / 10n, {
    reserved: nano / 10n,
    needed: (8n * nano) / 100n,
  });
  const { error } = limitFault({ ...event, thread: 'root' }, (38n * nano) / 100n);
  expect(error.code).toBe('spend_exceeded');
  expect(JSON.parse(JSON.stringify(error.detail))).toEqual({
    limit: 'spend',
    current: 0.12,
    max: 0.3,
    reserved: 0.1,
    needed: 0.08,
    thread: 'root',
    at_least: '0.38',
    message:
      'limit `spend` of thread `root` reached: 0.12 of 0.3 used, 0.1 reserved for others, the next request needs 0.08',
  });
  expect(limitWords(limitEvent('turns', 10n, 10n))).toBe('limit `turns` reached: 10 of 10 used');
  expect(limitWords(limitEvent('depth', 4n, 3n))).toBe('limit `depth` reached: 4 is more than 3');
});

test('a fault is a limit because of how it was made, whatever code and fields it has', () => {
  const event = limitEvent('turns', 10n, 10n);
  const made = limitFault(event, 11n, { limit: 'spend', current: 'NaN', thread: 'another' });
  const copied = withDetail(made, { more: 1 });
  expect(limitIn(made.error)).toEqual({ event, least: 11n });
  expect(limitIn(copied.error)).toEqual({ event, least: 11n });
  const said = JSON.parse(JSON.stringify(made)) as typeof made;
  expect(limitIn(said.error)).toBeUndefined();
  expect(limitIn(fail(made.error.code, 'x', said.error.detail).error)).toBeUndefined();
  expect(limitIn(asLimitFault(said).error)?.event).toMatchObject({ limit: 'turns', current: 10 });
  const odd = fail('spend_exceeded', 'x', { limit: 'spend', max: '1' });
  expect(limitIn(asLimitFault(odd).error)).toBeUndefined();
});

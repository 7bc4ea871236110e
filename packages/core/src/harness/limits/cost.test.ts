import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import { HOOK_CONTEXT } from '../../items/directive/hook-context.ts';
import { createCostMeter, NO_COST, packCost, unpackCost, usedAmounts } from './cost.ts';

const usage = {
  input_tokens: 100,
  output_tokens: 50,
  cache_read_tokens: 30,
  cache_write_tokens: 20,
  tokens: 200,
  context_tokens: 150,
  estimated: false,
};

function meterAt(start = 0) {
  let time = start;
  const meter = createCostMeter(() => time);
  return { meter, pass: (ms: number) => (time += ms) };
}

test('turns, requests, calls and spawns are counted under the names conditions use', () => {
  const { meter, pass } = meterAt(5000);
  meter.countTurn();
  meter.countRequest(usage, 1_500_000_000n);
  meter.countRequest({ ...usage, context_tokens: 170 }, 1n);
  meter.countToolCall();
  meter.countSpawn();
  pass(120_000);
  const view = meter.view();
  expect(view).toEqual({
    turns: 1,
    tokens: 400,
    input_tokens: 200,
    output_tokens: 100,
    cache_read_tokens: 60,
    cache_write_tokens: 40,
    tool_calls: 1,
    spawns: 1,
    compactions: 0,
    context_tokens: 170,
    duration_seconds: 120,
    duration: 120,
    spend: 1.500000001,
  });
  expect(Object.keys(view).sort()).toEqual(Object.keys(HOOK_CONTEXT.cost as object).sort());
});

test('a copy that was read does not change', () => {
  const { meter } = meterAt();
  const before = meter.read();
  meter.countTurn();
  expect(before.turns).toBe(0);
});

test('an interrupted turn is given back, its tokens and money are not', () => {
  const { meter } = meterAt();
  meter.countTurn();
  meter.countRequest(usage, 7n);
  meter.giveBackTurn();
  expect(meter.read()).toMatchObject({ turns: 0, tokens: 200, spend: 7n });
});

test('a new attempt starts turns, calls and window at zero; tokens, money and time go on', () => {
  const { meter, pass } = meterAt();
  meter.countTurn();
  meter.countToolCall();
  meter.countRequest(usage, 7n);
  pass(1000);
  meter.newAttempt();
  expect(meter.read()).toMatchObject({
    turns: 0,
    tool_calls: 0,
    context_tokens: 0,
    tokens: 200,
    spend: 7n,
    duration_ms: 1000,
  });
});

test('a child’s tokens, money and spawns count here, its turns do not', () => {
  const { meter } = meterAt();
  meter.countSpawn();
  meter.countChild({ ...usage, spawns: 2, spend: 5n });
  expect(meter.read()).toMatchObject({ turns: 0, spawns: 3, tokens: 200, spend: 5n });
  expect(meter.read().estimated).toBe(false);
  meter.countChild({ ...usage, estimated: true, spawns: 0, spend: 0n });
  expect(meter.read().estimated).toBe(true);
});

test('hooks are in the total, their turns, calls and time apart; no time passes meanwhile', () => {
  const { meter, pass } = meterAt();
  pass(100);
  meter.stopClock();
  meter.stopClock();
  pass(5000);
  meter.startClock();
  pass(10);
  meter.startClock();
  const inner = { ...NO_COST.hooks, turns: 1, tokens: 15, duration_ms: 50, spend: 1n };
  meter.countRequest(usage, 7n);
  meter.countHook({
    ...NO_COST,
    turns: 2,
    tool_calls: 1,
    tokens: 40,
    input_tokens: 30,
    output_tokens: 10,
    duration_ms: 5000,
    spend: 3n,
    estimated: true,
    hooks: inner,
  });
  const cost = meter.read();
  expect(cost).toMatchObject({ turns: 0, tokens: 240, spend: 10n, duration_ms: 110 });
  expect(cost.estimated).toBe(true);
  expect(cost.hooks).toMatchObject({
    turns: 3,
    tool_calls: 1,
    tokens: 40,
    input_tokens: 30,
    duration_ms: 5050,
    spend: 3n,
  });
  // Hooks draw on their own reservation, not on the rest of the thread.
  expect(usedAmounts(cost)).toMatchObject({ tokens: 200n, spend: 7n, input_tokens: 100n });
});

test('a record from when hooks were counted only apart has them in its total', () => {
  const packed = packCost({ ...NO_COST, tokens: 100, spend: 5n });
  const hooks = { turns: 1, tool_calls: 0, tokens: 40, duration_seconds: 1, spend: '0.000000003' };
  const read = unpackCost({ ...packed, hooks });
  expect(read).toMatchObject({ output: { tokens: 140, spend: 8n, hooks: { tokens: 40 } } });
  expect(read.ok && usedAmounts(read.output)).toMatchObject({ tokens: 100n, spend: 5n });
});

test('what is shown counts all attempts, what is limited counts the last one', () => {
  const { meter } = meterAt();
  for (let attempt = 1; attempt <= 3; attempt++) {
    if (attempt > 1) meter.newAttempt();
    meter.countTurn();
    meter.countToolCall();
    meter.countToolCall();
  }
  const packed = packCost(meter.read());
  expect(packed).toMatchObject({ turns: 3, tool_calls: 6, attempt: { turns: 1, tool_calls: 2 } });
  expect(usedAmounts(meter.read())).toMatchObject({ turns: 1n, tool_calls: 2n });
  expect(meter.view()).toMatchObject({ turns: 1, tool_calls: 2 });
  expect(unpackCost(packed)).toEqual({ ok: true, output: meter.read() });
});

test('no report makes a count smaller', () => {
  const { meter } = meterAt();
  meter.countRequest(usage, 7n);
  meter.countRequest({ ...usage, input_tokens: -90, tokens: -1, output_tokens: Number.NaN }, -5n);
  // The sum of the kinds counts if the total is smaller.
  expect(meter.read()).toMatchObject({
    input_tokens: 100,
    output_tokens: 50,
    tokens: 250,
    spend: 7n,
  });
  meter.countRequest({ ...usage, estimated: true }, 0n);
  expect(meter.read().estimated).toBe(true);
});

test('a clock that jumps back takes nothing back', () => {
  let time = 1000;
  const meter = createCostMeter(() => time);
  time = 500;
  expect(meter.read().duration_ms).toBe(0);
});

test('after a restart everything counts on from the record', () => {
  const packed = packCost({ ...NO_COST, turns: 4, spend: 123_456_789n, duration_ms: 2500 });
  expect(packed).toMatchObject({ turns: 4, spend: '0.123456789', duration_seconds: 2.5 });
  const restored = unpackCost(JSON.parse(JSON.stringify(packed)) as JsonObject);
  let time = 90;
  const meter = createCostMeter(() => time, restored.ok ? restored.output : NO_COST);
  time = 100;
  meter.countTurn();
  expect(meter.read()).toMatchObject({ turns: 5, spend: 123_456_789n, duration_ms: 2510 });
});

test('every cost survives the journal', () => {
  const counts = fc.record({
    turns: fc.nat(),
    tokens: fc.nat(),
    tool_calls: fc.nat(),
    duration_ms: fc.nat(),
    spend: fc.bigInt({ min: 0n, max: 10n ** 20n }),
  });
  fc.assert(
    fc.property(counts, counts, (own, hooks) => {
      const cost = { ...NO_COST, ...own, hooks: { ...NO_COST.hooks, ...hooks } };
      const text = JSON.stringify(packCost(cost));
      expect(unpackCost(JSON.parse(text) as JsonObject)).toEqual({ ok: true, output: cost });
    }),
  );
});

test('a record that lost something is refused, not taken for less', () => {
  const packed = packCost(NO_COST);
  for (const name of ['turns', 'tokens', 'spend', 'duration_seconds', 'hooks']) {
    const { [name]: _, ...rest } = packed;
    expect(unpackCost(rest)).toMatchObject({ error: { code: 'invalid_input' } });
  }
  for (const odd of [null, [], 'x', { ...packed, turns: -1 }, { ...packed, spend: 1 }]) {
    expect(unpackCost(odd).ok).toBe(false);
  }
});

test('what counts against limits is what was used, in their units', () => {
  expect(usedAmounts({ ...NO_COST, turns: 2, spend: 9n, duration_ms: 1500 })).toMatchObject({
    turns: 2n,
    spend: 9n,
    duration: 1500n,
  });
});

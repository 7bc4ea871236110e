import { setImmediate as othersTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import type { JournalEvent, Recorded } from '../../journal/index.ts';
import { createScriptRecord } from './recorded-steps.ts';

let seq = 0;
const event = (one: JournalEvent): Recorded => {
  seq += 1;
  return { thread: 't', seq, ...one, turn: 0, ts: seq };
};
const marks = { labels: [], taint: [], sources: [] };
const begun = (call: string, given: JsonObject) =>
  event({
    type: 'tool_call',
    data: { call_id: call, tool: 'x', verb: 'execute', effect: 'read', arguments: given },
  });
const ended = (call: string, content: JsonObject) =>
  event({ type: 'tool_result', data: { call_id: call, content, is_error: false, marks } });

const dataOf = async (
  record: Awaited<ReturnType<typeof createScriptRecord>>,
  given: JsonObject,
) => {
  const step = await record.take('execute', given);
  if (!step.ok) return step.error.code;
  const result = step.output?.result;
  return result?.ok ? result.output.data : step.output?.call;
};

test('every step gets what it came to before, in whatever order they come by', async () => {
  const steps = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(steps, fc.infiniteStream(fc.nat()), async (given, order) => {
      const history = given.flatMap((n, at) => [
        begun(`step_${at + 1}`, { n }),
        ended(`step_${at + 1}`, { n, at }),
      ]);
      const record = await createScriptRecord(history);
      const mixed = given
        .map((n) => ({ n, key: order.next().value ?? 0 }))
        .sort((a, b) => a.key - b.key);
      const seen: { n: number; at: number }[] = [];
      for (const { n } of mixed) seen.push((await dataOf(record, { n })) as (typeof seen)[0]);
      expect(seen.map(({ n }) => n)).toEqual(mixed.map(({ n }) => n));
      for (const n of [0, 1, 2, 3]) {
        const places = seen.filter((one) => one.n === n).map(({ at }) => at);
        expect(places).toEqual([...places].sort((a, b) => a - b));
      }
      expect(record.left()).toBeUndefined();
      expect(record.nextCall()).toBe(`step_${given.length + 1}`);
    }),
  );
});

test('a step that was begun and never ended keeps its name', async () => {
  const record = await createScriptRecord([begun('step_1', { n: 1 })]);
  expect(await dataOf(record, { n: 1 })).toBe('step_1');
  expect(await dataOf(record, { n: 1 })).toBeUndefined();
});

test('another step than was recorded is told', async () => {
  const record = await createScriptRecord([begun('step_1', { n: 1 }), ended('step_1', {})]);
  expect(await dataOf(record, { n: 2 })).toBe('steps_differ');
  expect(record.left()).toMatchObject({ call: 'step_1' });
});

test('a new step of one branch waits for what another branch did before', async () => {
  const record = await createScriptRecord([begun('step_1', { n: 1 }), ended('step_1', { n: 1 })]);
  record.paths(1);
  let isBegun = false;
  const fresh = dataOf(record, { n: 2 }).then((data) => {
    isBegun = true;
    return data;
  });
  // However many turns the other branch takes to get there.
  for (let turn = 0; turn < 200; turn++) await othersTurn();
  expect(isBegun).toBe(false);
  expect(await dataOf(record, { n: 1 })).toEqual({ n: 1 });
  expect(await fresh).toBeUndefined();
});

test('when every branch waits, or the other ones have ended, another step than was recorded is told', async () => {
  for (const last of ['waits', 'ends'] as const) {
    const record = await createScriptRecord([begun('step_1', { n: 1 }), ended('step_1', {})]);
    record.paths(1);
    const fresh = dataOf(record, { n: 2 });
    await othersTurn();
    if (last === 'ends') record.paths(-1);
    else expect(await dataOf(record, { n: 3 })).toBe('steps_differ');
    expect(await fresh).toBe('steps_differ');
  }
});

test('between the last branch and the loop that waited for it nothing is decided', async () => {
  const record = await createScriptRecord([begun('step_1', { n: 1 }), ended('step_1', { n: 1 })]);
  record.paths(1);
  const fresh = dataOf(record, { n: 2 });
  await othersTurn();
  record.paths(-1);
  await Promise.resolve();
  record.paths(1);
  await othersTurn();
  expect(await dataOf(record, { n: 1 })).toEqual({ n: 1 });
  expect(await fresh).toBeUndefined();
});

test('steps of a model are none of a script', async () => {
  const record = await createScriptRecord([begun('toolu_1', { n: 1 }), ended('toolu_1', {})]);
  expect(record.left()).toBeUndefined();
});

import { expect, test } from 'vitest';
import { compileExpression } from './expression.ts';
import { type ContextSchema, unknownPaths } from './known-paths.ts';

const SCHEMA: ContextSchema = {
  event: { name: 'value', code: 'value', detail: 'open' },
  cost: { turns: 'value', tokens: 'value' },
  limits: { turns: 'value', spend: 'value' },
  thread: { id: 'value', parent: { id: 'value' } },
  labels: 'value',
};

function unknown(source: string, schema = SCHEMA) {
  const expression = compileExpression(source);
  if (!expression.ok) throw new Error(expression.error.detail.message);
  return unknownPaths(expression.output, schema);
}

test('known paths, whole groups and anything below an open one are fine', () => {
  expect(unknown('event.code == "x" and cost.turns > limits.turns')).toEqual([]);
  expect(unknown('cost == null or thread.parent')).toEqual([]);
  expect(unknown('event.detail.anything.at.all or event.detail')).toEqual([]);
  expect(unknown('"x" in labels and true')).toEqual([]);
});

test('an unknown name comes with its column and the near one', () => {
  expect(unknown('cost.turns > limits.turn * 0.9')).toEqual([
    { path: 'limits.turn', column: 14, suggestion: 'limits.turns' },
  ]);
  expect(unknown('evnt.code == 1 or costs.turns')).toEqual([
    { path: 'evnt.code', column: 1, suggestion: 'event.code' },
    { path: 'costs.turns', column: 19, suggestion: 'cost.turns' },
  ]);
  expect(unknown('thread.parent.ids')).toEqual([
    { path: 'thread.parent.ids', column: 1, suggestion: 'thread.parent.id' },
  ]);
});

test('a name without its group is found in the group', () => {
  expect(unknown('tokens > 3')).toEqual([{ path: 'tokens', column: 1, suggestion: 'cost.tokens' }]);
});

test('nothing is suggested when nothing fits', () => {
  expect(unknown('weather.today')).toEqual([{ path: 'weather.today', column: 1 }]);
  expect(unknown('cost.turns.max')).toEqual([{ path: 'cost.turns.max', column: 1 }]);
  expect(unknown('labels.length')).toEqual([{ path: 'labels.length', column: 1 }]);
  expect(unknown('evnt.weather')).toEqual([{ path: 'evnt.weather', column: 1 }]);
});

test('names of Object.prototype are as unknown as others', () => {
  expect(unknown('constructor.name or cost.toString or __proto__')).toMatchObject([
    { path: 'constructor.name' },
    { path: 'cost.toString' },
    { path: '__proto__' },
  ]);
});

test('a schema without names knows none', () => {
  expect(unknown('a or b.c', {})).toHaveLength(2);
});

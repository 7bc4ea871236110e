import type { Json } from '@kernmantle/core/base';
import { describe, EMPTY, makeContainer, makeValue } from '@kernmantle/core/flow';
import { expect, test } from 'vitest';
import { itemsOf, parseJsonText, stageInput } from './data.ts';
import { isKept, keepOf } from './kinds.ts';

const secret = describe({ labels: ['secret'] });
const of = (data: Json) => makeValue(data);

test.each([
  ['{"a": 1}', { a: 1 }],
  ['42', 42],
  ['-1.50', -1.5],
  [' true ', true],
  ['null', null],
  ['"a"', 'a'],
  ['007', '007'],
  ['12345678901234567890', '12345678901234567890'],
  ['{"a": 1', '{"a": 1'],
  ['truth', 'truth'],
  ['', ''],
] as [string, Json][])('the output %j is %j, and its text is kept', (text, data) => {
  const parsed = parseJsonText(makeValue(text, { descriptor: secret, origin: { command: 'x' } }));
  expect(parsed).toMatchObject({ data, text, meta: { origin: { command: 'x' } } });
  expect(parsed.meta.descriptor).toBe(secret);
});

test('only lists and objects in text are data for a stage', () => {
  expect(stageInput(of('[1, 2]'))).toMatchObject({ data: [1, 2], text: '[1, 2]' });
  expect(stageInput(of('42')).data).toBe('42');
  expect(stageInput(of('[1, 2')).data).toBe('[1, 2');
  expect(stageInput(of(`${'['.repeat(500)}${']'.repeat(500)}`)).data).toContain('[[');
});

test('a loop goes over lists, objects in key order, and text that is a list', () => {
  const keys = (data: Json) => itemsOf(of(data)).map(({ key, value }) => [key, value.data]);
  expect(keys(['a', 'b'])).toEqual([
    ['0', 'a'],
    ['1', 'b'],
  ]);
  expect(keys({ b: 1, a: 2 })).toEqual([
    ['b', 1],
    ['a', 2],
  ]);
  expect(keys('["x"]')).toEqual([['0', 'x']]);
  expect(itemsOf(of({ b: 1 }))[0]?.value.meta.origin).toEqual({ key: 'b', index: 0 });
  for (const data of ['text', '{"a":1}', 1, null, true]) {
    expect(() => itemsOf(of(data))).toThrow('`for` needs a list or an object, not');
  }
});

test('items have exactly their marks, and are kept when the list is', () => {
  const list = makeContainer([makeValue(1, { descriptor: secret }), of(2)]);
  expect(itemsOf(list).map(({ value }) => value.meta.descriptor)).toEqual([secret, EMPTY]);
  expect(itemsOf(keepOf(list)).every(({ value }) => isKept(value))).toBe(true);
});

import type { Json } from '@kernmantle/core/base';
import { makeContainer, makeValue, withOrigin } from '@kernmantle/core/flow';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { absent, FunctionData, makeFunction } from './kinds.ts';
import { compactJson, stageText, textOf } from './text.ts';

const of = (data: Json, text?: string) => makeValue(data, text === undefined ? {} : { text });
const signature = {
  name: 'f',
  labels: [],
  bodyKind: 'js',
  description: undefined,
  source: undefined,
};
const twice = makeFunction(new FunctionData({ ...signature, parameters: ['a', 'b'] }, null));
const files = withOrigin(
  makeContainer([of('one\n', 'one\n'), of({ a: 1 }, '{ "a": 1 }\n'), of('three\n', 'three\n')]),
  { files: true },
);

test('values in text', () => {
  expect(
    ['a', 1.5, true, null, [1, null], { a: { b: [] } }].map((data) => textOf(of(data))),
  ).toEqual(['a', '1.5', 'true', 'null', '[1,null]', '{"a":{"b":[]}}']);
  expect(textOf(of(Number.NaN)) + textOf(of(Number.NEGATIVE_INFINITY))).toBe('NaN-Infinity');
  expect(textOf(absent())).toBe('');
  expect(textOf(twice)).toBe('<function(a, b)>');
  expect(textOf(makeContainer([twice, of(1)]))).toBe('["<function(a, b)>",1]');
});

test('a text of its own comes first', () => {
  const loaded = of({ a: 1 }, '{ "a": 1 }');
  expect([textOf(loaded), stageText(loaded)]).toEqual(['{ "a": 1 }', '{ "a": 1 }']);
  expect(textOf(of(1.5, '1.50'))).toBe('1.50');
});

test('a list of files prints their texts with a blank line between', () => {
  expect(textOf(files)).toBe('one\n\n{ "a": 1 }\n\nthree\n');
  expect(stageText(files)).toBe(textOf(files));
});

test('a process gets lists of plain values as lines, other data compactly', () => {
  expect(stageText(of(['a b', 1, null]))).toBe('a b\n1\nnull');
  expect(stageText(of([1, [2]]))).toBe('[1,[2]]');
  expect(stageText(of({ a: 1 }))).toBe('{"a":1}');
  expect(stageText(of('as it is\n'))).toBe('as it is\n');
});

test('data too deep to be written is a fault, not a crash', () => {
  let deep: Json[] = [];
  for (let depth = 0; depth < 100_000; depth++) deep = [deep];
  expect(() => textOf(of(deep))).toThrow('nested too deeply');
});

test('lists and objects in text are read back as they were', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      if (typeof data === 'object' && data !== null) {
        expect(JSON.parse(textOf(of(data as Json)))).toEqual(JSON.parse(JSON.stringify(data)));
      }
      expect(compactJson(data as Json)).toBe(
        typeof data === 'number' ? String(data) : JSON.stringify(data),
      );
    }),
  );
});

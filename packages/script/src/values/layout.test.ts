import type { Json } from '@kernmantle/core/base';
import { makeContainer, makeValue, withOrigin } from '@kernmantle/core/flow';
import { expect, test } from 'vitest';
import { absent, FunctionData, makeFunction } from './kinds.ts';
import { fileText, jsonLine, runText, showText } from './text.ts';

const of = (data: Json, text?: string) => makeValue(data, text === undefined ? {} : { text });

test.each([
  [[], '[]'],
  [{}, '{}'],
  [['last'], '["last"]'],
  [['x'.repeat(56)], `["${'x'.repeat(56)}"]`],
  [['x'.repeat(57)], `[\n  "${'x'.repeat(57)}"\n]`],
  [[1, 2], '[\n  1,\n  2\n]'],
  [[[1]], '[\n  [\n    1\n  ]\n]'],
  [{ k: 'v' }, '{"k": "v"}'],
  [{ k: [] }, '{\n  "k": []\n}'],
  [{ a: 1, b: { c: 2 } }, '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}'],
  ['plain text', 'plain text'],
  ['{"a":1,"b":2}', '{\n  "a": 1,\n  "b": 2\n}'],
  ['{"a":1} and more', '{"a":1} and more'],
  ['"quoted"', '"quoted"'],
  ['{"id": 12345678901234567890}', '{"id": 12345678901234567890}'],
  [2.5, '2.5'],
] as [Json, string][])('show lays %j out as %j', (data, text) => {
  expect(showText(of(data), 'reference')).toBe(text);
});

test('own text is shown as it is, unless it is JSON', () => {
  expect(showText(of([{ a: 1 }, { a: 2 }], '{"a":1}\n{"a":2}'), 'call')).toBe('{"a":1}\n{"a":2}');
  expect(showText(of({ a: 1 }, '{ "a" : 1 }'), 'call')).toBe('{"a": 1}');
});

test('nothing is shown differently for variables and calls', () => {
  expect([showText(of(null), 'reference'), showText(of(null), 'call')]).toEqual(['', 'null']);
  expect([showText(absent(), 'reference'), showText(absent(), 'call')]).toEqual([
    'undefined',
    undefined,
  ]);
});

test('files in a list are shown one after the other, functions by their parameters', () => {
  const files = withOrigin(makeContainer([of('a', 'a'), of('b', 'b')]), { files: true });
  expect(showText(files, 'reference')).toBe('a\n\nb');
  const signature = {
    name: 'f',
    parameters: ['x'],
    labels: [],
    bodyKind: 'js',
    description: undefined,
    source: undefined,
  };
  const f = makeFunction(new FunctionData(signature, null));
  expect(
    showText(
      makeContainer(
        new Map([
          ['f', f],
          ['n', of(1)],
        ]),
      ),
      'reference',
    ),
  ).toBe('{\n  "f": "<function(x)>",\n  "n": 1\n}');
});

test('run prints text and compact data, nothing for null and empty text', () => {
  expect([of('a'), of({ a: 1 }), of([1], '[ 1 ]'), of(0)].map(runText)).toEqual([
    'a',
    '{"a":1}',
    '[ 1 ]',
    '0',
  ]);
  expect([of(null), of(''), absent()].map(runText)).toEqual([undefined, undefined, undefined]);
});

test('files get the asked layout, own text, or two blanks', () => {
  const loaded = of({ a: 1 }, '{"a":1}');
  expect(
    [undefined, 'json', 'yaml', 'text'].map((format) => fileText(loaded, format as 'json')),
  ).toEqual(['{"a":1}', '{\n  "a": 1\n}', 'a: 1', '{"a":1}']);
  expect(fileText(of([1]), undefined)).toBe('[\n  1\n]');
  expect(fileText(of([1]), 'text')).toBe('[1]');
  expect(fileText(of('a'), 'json')).toBe('"a"');
  expect(fileText(of('[1]'), 'json')).toBe('[\n  1\n]');
});

test('a .jsonl file takes JSON only, on one line', () => {
  expect(jsonLine(of({ a: '\n' }))).toBe('{"a":"\\n"}');
  expect(jsonLine(of('{\n "a": 1 }'))).toBe('{"a":1}');
  expect(jsonLine(of('{"id": 12345678901234567890}'))).toContain('12345678901234567890');
  for (const value of [of('hello'), of(Number.NaN), absent()]) {
    expect(() => jsonLine(value)).toThrow('takes JSON');
  }
});

import type { Json } from '@kernmantle/core/base';
import {
  describe,
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  withOrigin,
} from '@kernmantle/core/flow';
import { expect, test, vi } from 'vitest';
import { absent, isFileList } from './kinds.ts';
import { callMethod, hasMethod } from './methods.ts';

const secret = describe({ labels: ['secret'] });
const of = (data: Json, text?: string) => makeValue(data, text === undefined ? {} : { text });
const call = (data: Json, name: string, ...args: Json[]) =>
  callMethod(
    of(data),
    name,
    args.map((arg) => of(arg)),
  ).data;

test.each([
  ['length', [], 11],
  ['includes', ['World'], true],
  ['indexOf', ['W'], 6],
  ['startsWith', ['Hello'], true],
  ['endsWith', ['x'], false],
  ['toLowerCase', [], 'hello world'],
  ['toUpperCase', [], 'HELLO WORLD'],
  ['split', [' '], ['Hello', 'World']],
  ['split', [], ['Hello World']],
  ['slice', [-5], 'World'],
  ['substring', ['6', 8], 'Wo'],
  ['replace', ['l', '$&'], 'He$&lo World'],
  ['replaceAll', ['l', 'L'], 'HeLLo WorLd'],
  ['match', ['[A-Z]\\w'], ['He', 'Wo']],
  ['match', ['\\d'], []],
  ['padStart', [13, '*'], '**Hello World'],
  ['padEnd', [12], 'Hello World '],
  ['repeat', [2], 'Hello WorldHello World'],
  ['at', [-1], 'd'],
  ['at', [99], null],
] as [string, Json[], Json][])('text.%s(%j)', (name, args, result) => {
  expect(call('Hello World', name, ...args)).toEqual(result);
});

test.each([
  ['length', [], 4],
  ['includes', ['10'], true],
  ['includes', [{ a: 1 }], false],
  ['indexOf', [9], 1],
  ['join', ['-'], '10-9--[1]'],
  ['join', [], '10,9,,[1]'],
  ['slice', [1, -1], [9, null]],
  ['concat', [[1], 2], [10, 9, null, [1], 1, 2]],
  ['reverse', [], [[1], null, 9, 10]],
  ['sort', [], [10, 9, [1], null]],
  ['flat', [], [10, 9, null, 1]],
  ['at', [-1], [1]],
  ['at', [9], null],
] as [string, Json[], Json][])('list.%s(%j)', (name, args, result) => {
  expect(call([10, 9, null, [1]], name, ...args)).toEqual(result);
});

test('flat takes the depth', () => {
  expect(call([[[1]], []], 'flat', 2)).toEqual([1]);
});

test('questions are answered for every value', () => {
  expect(call([], 'isArray')).toBe(true);
  expect(call([], 'isObject')).toBe(false);
  expect(call({}, 'isObject')).toBe(true);
  expect(call('1', 'isNumber')).toBe(false);
  expect(call(null, 'isNull')).toBe(true);
  expect(call(false, 'isDefined')).toBe(true);
  expect(callMethod(absent(), 'isDefined', []).data).toBe(false);
});

test('parsed data has the methods of its text besides those of a list', () => {
  const lines = of([{ a: 1 }, { a: 2 }], '{"a":1}\n{"a":2}\n');
  expect(callMethod(lines, 'trim', []).data).toBe('{"a":1}\n{"a":2}');
  expect(callMethod(lines, 'length', []).data).toBe(2);
  expect(callMethod(of({ a: 1 }, ' {"a":1}'), 'startsWith', [of(' {')]).data).toBe(true);
  expect([hasMethod(lines, 'trim'), hasMethod(of({}), 'trim'), hasMethod(of(1), 'isNull')]).toEqual(
    [true, false, true],
  );
});

test.each([
  ['a', 'trimm', [], 'text has no method `trimm`; did you mean `trim`?'],
  [1, 'trim', [], 'a number has no method `trim`'],
  ['a', 'join', [','], 'text has no method `join`'],
  ['a', 'includes', [], '`includes` needs an argument'],
  ['a', 'repeat', [-1], 'whole number'],
  ['a', 'repeat', [1e9], 'longer than'],
  ['a', 'padStart', [1e12], 'longer than'],
  ['a', 'slice', ['x'], '`slice` needs a number, not `x`'],
  ['a', 'match', ['('], '`(` is not a pattern'],
] as [Json, string, Json[], string][])('%j.%s(%j) is refused', (data, name, args, message) => {
  expect(() => call(data, name, ...args)).toThrow(message);
});

test('a pattern that never ends is stopped, also when the process got no CPU at first', () => {
  const measured = vi.spyOn(process, 'cpuUsage');
  try {
    const started = { user: 0, system: 0 };
    measured.mockReturnValueOnce(started).mockReturnValueOnce({ user: 1000, system: 0 });
    expect(() => call(`${'a'.repeat(40)}!`, 'match', '(a+)+$')).toThrow('took longer');
    // Other programs may delay the process once more.
    expect(measured.mock.calls.length).toBeGreaterThanOrEqual(4);
  } finally {
    measured.mockRestore();
  }
});

test('elements keep exactly their marks, and file lists stay file lists', () => {
  const list = makeContainer([of('b'), makeValue('a', { descriptor: secret })]);
  const sorted = callMethod(list, 'sort', []);
  expect(sorted.data).toEqual(['a', 'b']);
  expect(elementOf(sorted, 0).meta.descriptor).toBe(secret);
  // All elements decided about the position of each one.
  expect(elementOf(sorted, 1).meta.descriptor).toBe(secret);
  expect(callMethod(list, 'slice', [of(0), of(1)]).meta.descriptor).toBe(EMPTY);
  expect(callMethod(list, 'join', []).meta.descriptor).toBe(secret);
  const files = withOrigin(makeContainer([of('x', 'x'), of('y', 'y')]), { files: true });
  expect(isFileList(callMethod(files, 'reverse', []))).toBe(true);
});

import type { Json } from '@kernmantle/core/base';
import { describe, elementOf, makeContainer, makeValue } from '@kernmantle/core/flow';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { absent, FunctionData, isTruthy, makeFunction, typeName } from './kinds.ts';
import { augment, isEqual, minus, negate, operatorFunction } from './operators.ts';

const secret = describe({ labels: ['secret'] });
const pii = describe({ labels: ['pii'] });
const of = (data: Json) => makeValue(data);
const greet = makeFunction(
  new FunctionData(
    {
      name: 'greet',
      parameters: ['a'],
      labels: [],
      bodyKind: 'template',
      source: undefined,
    },
    null,
  ),
);

test('exactly the listed values are falsy', () => {
  const falsy = [false, null, '', 'false', '0', 'NaN', 0, Number.NaN, [], {}];
  const truthy = [
    true,
    'null',
    'False',
    ' ',
    '0.0',
    -1,
    Number.POSITIVE_INFINITY,
    [0],
    { a: null },
  ];
  expect([...falsy.map(of), absent()].map(isTruthy)).not.toContain(true);
  expect([...truthy.map(of), greet].map(isTruthy)).not.toContain(false);
});

test('every kind of value has a name', () => {
  const values = [...['a', 1, true, null, [], {}].map((data) => of(data)), greet, absent()];
  expect(values.map(typeName)).toEqual(
    'string number boolean null array object executable undefined'.split(' '),
  );
});

test.each([
  ['+', 1, 2, 3],
  ['+', '1', 2, 3],
  ['+', true, null, 1],
  ['-', '2.5', 0.5, 2],
  ['*', ' 3 ', '4', 12],
  ['/', 1, 0, Number.POSITIVE_INFINITY],
  ['%', 7, 4, 3],
  ['+', 'a', 1, Number.NaN],
  ['*', [], 1, Number.NaN],
  ['-', '', 1, Number.NaN],
] as const)('%s of %j and %j is %d', (operator, left, right, result) => {
  expect(operatorFunction(operator)(of(left as Json), of(right as Json)).data).toBe(result);
});

test('undefined is no number, unlike null', () => {
  expect(operatorFunction('+')(absent(), of(1)).data).toBeNaN();
  expect(minus(of('2')).data).toBe(-2);
});

test('two texts are not added, the message names a template', () => {
  expect(() => operatorFunction('+')(of('1'), of('2'))).toThrow('use a template: `@a @b`');
});

test('only numbers and texts that are numbers have an order', () => {
  expect(operatorFunction('<')(of('9'), of('10')).data).toBe(true);
  expect(operatorFunction('>=')(of(2), of('2.0')).data).toBe(true);
  for (const [left, right] of [
    ['a', 'b'],
    [null, 1],
    [true, 2],
    [[1], 2],
  ] as [Json, Json][]) {
    expect(operatorFunction('<')(of(left), of(right)).data).toBe(false);
  }
});

test('a million digits and a letter are no number, and that is seen at once', () => {
  expect(operatorFunction('>')(of(`${'1'.repeat(1_000_000)}x`), of(1)).data).toBe(false);
});

test.each([
  [1, '1.0', true],
  ['1', '1.0', false],
  [true, 'true', true],
  [false, 'false', true],
  [true, 1, false],
  [null, '', false],
  [null, 0, false],
  [null, false, false],
  [{ a: [1, { b: 2 }] }, { a: ['1', { b: 2 }] }, true],
  [[], {}, false],
  [{ a: null }, { b: null }, false],
  ['', 0, false],
] as [Json, Json, boolean][])('%j == %j is %s', (left, right, result) => {
  expect(isEqual(of(left), of(right))).toBe(result);
  expect(isEqual(of(right), of(left))).toBe(result);
});

test('null and undefined are equal, functions only to themselves', () => {
  expect(isEqual(absent(), of(null))).toBe(true);
  expect(isEqual(greet, greet)).toBe(true);
  expect(isEqual(greet, of({}))).toBe(false);
});

const json = fc.jsonValue() as fc.Arbitrary<Json>;

test('equality is symmetric, and true of a value and its copy', () => {
  fc.assert(
    fc.property(json, json, (left, right) => {
      expect(isEqual(of(left), of(right))).toBe(isEqual(of(right), of(left)));
      expect(isEqual(of(left), of(structuredClone(left)))).toBe(true);
    }),
  );
});

test('equal values stand in the same order to everything', () => {
  const plain = fc.oneof(fc.integer(), fc.integer().map(String), fc.double());
  fc.assert(
    fc.property(plain, plain, plain, (left, right, third) => {
      if (!isEqual(of(left), of(right))) return;
      expect(operatorFunction('<')(of(left), of(third)).data).toBe(
        operatorFunction('<')(of(right), of(third)).data,
      );
    }),
  );
});

test('data nested 100,000 deep is compared without a crash', () => {
  const deep = () => {
    let data: Json[] = [];
    for (let depth = 0; depth < 100_000; depth++) data = [data];
    return of(data);
  };
  expect(isEqual(deep(), deep())).toBe(true);
});

test('what is added to a list, a text, a number or an object', () => {
  expect(augment(of([1]), of(2)).data).toEqual([1, 2]);
  expect(augment(of([1]), of([2, [3]])).data).toEqual([1, 2, [3]]);
  expect(augment(of('a'), of({ b: 1 })).data).toBe('a{"b":1}');
  expect(augment(of(1), of('2')).data).toBe(3);
  expect(augment(of({ a: 1, b: 1 }), of({ b: 2 })).data).toEqual({ a: 1, b: 2 });
});

test.each([
  [1, 'a'],
  [{}, 1],
  [true, 1],
  [null, 1],
] as [Json, Json][])('%j += %j is refused', (left, right) => {
  expect(() => augment(of(left), of(right))).toThrow('`+=`');
});

test('what is collected keeps its text and its facts', () => {
  const file = makeValue('x', { text: 'x', origin: { filename: 'a.md' } });
  const list = augment(augment(of([1]), file), of(2));
  expect(elementOf(list, 1)).toMatchObject({ text: 'x', meta: { origin: { filename: 'a.md' } } });
  expect(elementOf(augment(of([]), absent()), 0).meta.origin).toEqual({ absent: true });
});

test('adding keeps the marks of single elements', () => {
  const list = makeContainer([makeValue(1), makeValue(2, { descriptor: secret })]);
  const longer = augment(list, makeValue(3, { descriptor: pii }));
  expect([0, 1, 2].map((at) => elementOf(longer, at).meta.descriptor.labels)).toEqual([
    [],
    ['secret'],
    ['pii'],
  ]);
  const empty = makeValue([], { descriptor: pii });
  expect(augment(list, empty).meta.descriptor.labels).toEqual(['pii', 'secret']);
  expect(negate(makeValue(1, { descriptor: secret })).meta.descriptor).toBe(secret);
});

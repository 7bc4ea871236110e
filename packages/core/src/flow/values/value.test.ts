import { expect, test } from 'vitest';
import { describe, EMPTY } from './labels.ts';
import { addMarks, elementOf, makeContainer, makeValue, withOrigin, withText } from './value.ts';
import { estimateValueTokens, valueContext } from './value-view.ts';

const secret = describe({ labels: ['secret'] });

test('text is the string itself, compact JSON, or what was given', () => {
  expect(makeValue('a').text).toBe('a');
  expect(makeValue({ a: [1, null] }).text).toBe('{"a":[1,null]}');
  const loaded = makeValue({ a: 1 }, { text: '{ "a": 1 }\n' });
  expect(loaded.text).toBe('{ "a": 1 }\n');
  expect(addMarks(loaded, secret).text).toBe('{ "a": 1 }\n');
});

test('a value and its data cannot be changed', () => {
  const value = makeValue({ list: [{ a: 1 }] });
  expect(() => (value.data as { list: unknown[] }).list.push(2)).toThrow(TypeError);
  expect(() => Object.assign(value, { data: 1 })).toThrow(TypeError);
});

test('data nested 100,000 deep is taken without a crash', () => {
  let data: unknown[] = [];
  for (let depth = 0; depth < 100_000; depth++) data = [data];
  expect(makeValue(data as never).meta.descriptor).toBe(EMPTY);
});

test('an element has exactly its own marks, the container has them all', () => {
  const key = makeValue('k', { descriptor: secret });
  const pair = makeContainer(
    new Map([
      ['a', key],
      ['b', makeValue(1)],
    ]),
  );
  expect(pair.data).toEqual({ a: 'k', b: 1 });
  expect(pair.meta.descriptor).toBe(secret);
  expect(elementOf(pair, 'a').meta.descriptor).toBe(secret);
  expect(elementOf(pair, 'b').meta.descriptor).toBe(EMPTY);
  expect(elementOf(makeContainer([pair, makeValue(2)]), 1).meta.descriptor).toBe(EMPTY);
  expect(elementOf(elementOf(makeContainer([pair]), 0), 'b').meta.descriptor).toBe(EMPTY);
});

test('marks put on a container hold for every element', () => {
  const pii = describe({ labels: ['pii'] });
  const list = addMarks(makeContainer([makeValue(1), makeValue('k', { descriptor: secret })]), pii);
  expect(elementOf(list, 0).meta.descriptor).toBe(pii);
  expect(elementOf(list, 1).meta.descriptor.labels).toEqual(['secret', 'pii']);
});

test('elements of plain data inherit from their container', () => {
  const object = makeValue({ a: { b: 1 } }, { descriptor: secret });
  expect(elementOf(elementOf(object, 'a'), 'b').meta.descriptor).toBe(secret);
  expect(elementOf(object, '__proto__').data).toBe(null);
});

test('an element keeps its own text and its facts, with and without marks', () => {
  const file = makeValue({ a: 1 }, { text: '{ "a": 1 }', origin: { filename: 'a.json' } });
  const list = makeContainer([file, makeValue(2)]);
  expect(elementOf(list, 0).text).toBe('{ "a": 1 }');
  expect(elementOf(list, 0).meta.origin).toEqual({ filename: 'a.json' });
  expect(elementOf(elementOf(list, 0), 'a').meta.origin).toEqual({ filename: 'a.json' });
  expect(list.meta.descriptor).toBe(EMPTY);
});

test('facts about the whole do not hold for what is inside', () => {
  const origin = { name: 'config', tokens: 9, namespace: 'm.mld', command: 'ls' };
  expect(elementOf(makeValue({ a: 1 }, { origin }), 'a').meta.origin).toEqual({ command: 'ls' });
});

test('more facts and another text change nothing else', () => {
  const pair = makeContainer([makeValue('k', { descriptor: secret }), makeValue(1)]);
  const named = withText(withOrigin(pair, { name: 'pair' }), 'k and 1');
  expect(named).toMatchObject({ text: 'k and 1', meta: { origin: { name: 'pair' } } });
  expect(elementOf(named, 1).meta.descriptor).toBe(EMPTY);
  expect(named.meta.descriptor).toBe(secret);
  expect(withText(named, undefined).text).toBe('["k",1]');
});

test('the view of a value counts tokens by kind of file, exact counts first', () => {
  expect([
    estimateValueTokens('x'.repeat(60)),
    estimateValueTokens('x'.repeat(60), 'a.ts'),
  ]).toEqual([15, 20]);
  expect(estimateValueTokens('x'.repeat(60), 'a.yaml')).toBe(12);
  const file = makeValue('x'.repeat(60), {
    origin: { file: 'a.ts', tokens: 7 },
    descriptor: secret,
  });
  expect(valueContext(file)).toMatchObject({
    labels: ['secret'],
    type: 'string',
    length: 60,
    tokens: 7,
    tokest: 20,
    file: 'a.ts',
    exported: false,
  });
});

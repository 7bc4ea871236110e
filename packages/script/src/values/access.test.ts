import type { Json } from '@kernmantle/core/base';
import {
  describe,
  EMPTY,
  makeContainer,
  makeValue,
  type Value,
  withOrigin,
} from '@kernmantle/core/flow';
import { expect, test } from 'vitest';
import { fieldOf, indexOf, sliceOf } from './access.ts';
import { FunctionData, isAbsent, isKept, makeFunction } from './kinds.ts';
import { mxOf } from './metadata.ts';
import { textOf } from './text.ts';

const secret = describe({ labels: ['secret'] });
const pii = describe({ labels: ['pii'] });
const of = (data: Json, text?: string) => makeValue(data, text === undefined ? {} : { text });
const marked = (data: Json) => makeValue(data, { descriptor: secret });
const pair = makeContainer(
  new Map([
    ['a', marked('k')],
    ['b', of({ c: [1] })],
  ]),
);
const path = (value: Value, ...names: string[]) =>
  names.reduce((found, name) => fieldOf(found, name, 'strict'), value);

test('fields and indexes; what is missing is null', () => {
  expect(path(pair, 'b', 'c', '0').data).toBe(1);
  expect(path(pair, 'x', 'y').data).toBe(null);
  expect(path(of(['a', 'b']), '-1').data).toBe('b');
  expect(path(of(['a']), '1').data).toBe(null);
  expect(path(of({ constructor: 1 }), 'constructor').data).toBe(1);
  expect(path(of({}), 'constructor').data).toBe(null);
  expect(indexOf(of({ 'any key': 1, 7: 2 }), of(7), 'strict').data).toBe(2);
  expect(indexOf(of([5, 6]), of('1'), 'strict').data).toBe(6);
  expect(indexOf(of([5]), of('x'), 'strict').data).toBe(null);
});

test('a field of a plain value is an error, or undefined where that is allowed', () => {
  for (const data of ['text', 1, true]) {
    expect(() => fieldOf(of(data), 'name', 'strict')).toThrow('has no field `name`');
    expect(isAbsent(fieldOf(of(data), 'name', 'lenient'))).toBe(true);
    expect(() => indexOf(of(data), of(0), 'strict')).toThrow('has no element `0`');
    expect(isAbsent(indexOf(of(data), of(0), 'lenient'))).toBe(true);
  }
  expect(() => fieldOf(of('a'), 'txt', 'strict')).toThrow('write `\\.txt`');
});

test('text and data of a string are the string, of an object its keys', () => {
  expect([path(of('s'), 'text').data, path(of('s'), 'data').data]).toEqual(['s', 's']);
  expect(path(of({ text: 1 }), 'text').data).toBe(1);
  expect(path(of({}), 'text').data).toBe(null);
});

test('a name that a namespace does not export is an error that suggests one', () => {
  const module = makeValue({ greet: 1 }, { origin: { namespace: './lib.mld' } });
  expect(path(module, 'greet').data).toBe(1);
  expect(() => path(module, 'great')).toThrow(
    '`./lib.mld` does not export `great`; did you mean `greet`?',
  );
  expect(isAbsent(fieldOf(module, 'great', 'lenient'))).toBe(true);
});

test('functions say what they are', () => {
  const signature = {
    name: 'f',
    parameters: ['x'],
    labels: [],
    bodyKind: 'js',
    description: undefined,
    source: undefined,
  };
  const f = makeFunction(new FunctionData(signature, null));
  expect([path(f, 'type').data, path(f, 'mx', 'type').data]).toEqual(['executable', 'executable']);
});

test('an element has exactly its marks, an index adds its own', () => {
  expect(path(pair, 'a').meta.descriptor).toBe(secret);
  expect(path(pair, 'b', 'c').meta.descriptor).toBe(EMPTY);
  const key = makeValue('b', { descriptor: pii });
  expect(indexOf(pair, key, 'strict').meta.descriptor).toBe(pii);
  expect(indexOf(marked([1]), of(0), 'strict').meta.descriptor).toBe(secret);
});

test('slices of lists and texts count from either end', () => {
  const list = of([1, 2, 3, 4]);
  expect(sliceOf(list, of(1), of(-1)).data).toEqual([2, 3]);
  expect(sliceOf(list, of(-2), undefined).data).toEqual([3, 4]);
  expect(sliceOf(of('abc'), undefined, of(2)).data).toBe('ab');
  expect(() => sliceOf(of({}), of(1), undefined)).toThrow('slices');
  expect(() => sliceOf(list, of('x'), undefined)).toThrow('not an index');
  expect(sliceOf(makeContainer([of(1), marked(2)]), of(0), of(1)).meta.descriptor).toBe(EMPTY);
  expect(sliceOf(marked([1]), of(1), undefined).meta.descriptor).toBe(secret);
});

test('the metadata view', () => {
  const origin = {
    filename: 'a.ts',
    relative: './a.ts',
    key: 'x',
    open: ['a'],
    tools: [{ name: 'f' }],
  };
  const file = makeValue('x'.repeat(30), { origin, descriptor: secret, text: 'x'.repeat(30) });
  const view = mxOf(file, { name: 'source', exported: true });
  expect(view.data).toMatchObject({
    labels: ['secret'],
    taint: ['secret'],
    sources: [],
    tools: [{ name: 'f' }],
    name: 'source',
    type: 'string',
    length: 30,
    tokens: 10,
    tokest: 10,
    exported: true,
    filename: 'a.ts',
    relative: './a.ts',
    key: 'x',
    text: 'x'.repeat(30),
    data: 'x'.repeat(30),
  });
  expect(Object.keys(view.data as object)).not.toContain('open');
  expect(path(view, 'labels').meta.descriptor).toBe(secret);
  expect(path(of('a'), 'mx', 'key').data).toBe(null);
});

test('the view of an object lists it, of a list counts each element', () => {
  const view = mxOf(of({ a: 1, b: 2 }));
  expect(path(view, 'keys').data).toEqual(['a', 'b']);
  expect(path(view, 'values').data).toEqual([1, 2]);
  expect(path(view, 'entries').data).toEqual([
    ['a', 1],
    ['b', 2],
  ]);
  expect(JSON.parse(JSON.stringify(view.data))).toMatchObject({ keys: ['a', 'b'], type: 'object' });
  expect(path(of(['abcd', 'abcdefgh']), 'mx', 'tokens').data).toEqual([1, 2]);
});

test('data behind the view has exact marks, and keys called mx can be reached', () => {
  expect(path(pair, 'mx', 'data', 'b').meta.descriptor).toBe(EMPTY);
  expect(path(pair, 'mx', 'values', '0').meta.descriptor).toBe(secret);
  expect(path(pair, 'mx', 'values', '1').meta.descriptor).toBe(EMPTY);
  const loaded = of({ mx: 'mine', a: 1 }, '{"mx": "mine"}');
  expect(path(loaded, 'mx', 'data', 'mx').data).toBe('mine');
  expect(path(loaded, 'mx', 'text').data).toBe('{"mx": "mine"}');
  expect(textOf(path(loaded, 'mx', 'data'))).toBe('{"mx":"mine","a":1}');
});

test('reading one member computes no other', () => {
  const view = mxOf(withOrigin(of('text'), {}));
  const getters = Object.getOwnPropertyDescriptors(view.data as object) as Record<
    string,
    PropertyDescriptor
  >;
  expect(typeof getters['tokest']?.get).toBe('function');
});

test('keep marks the value for code, unless there is such a key', () => {
  expect(isKept(path(of('a'), 'keep'))).toBe(true);
  expect(path(of({ keep: 1 }), 'keep').data).toBe(1);
});

import { Validator } from '@cfworker/json-schema';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { freezeJson, type Json } from '../../base/index.ts';
import type { ToolParameter } from '../../items/index.ts';
import { checkParameters, inheritParameters, schemaOf, validate } from './parameters.ts';

const parameter = (name: string, more: Partial<ToolParameter> = {}): ToolParameter => ({
  name,
  type: 'string',
  required: false,
  description: '',
  ...more,
});
const declared = [
  parameter('path', { required: true }),
  parameter('limit', { type: 'integer', default: 10 }),
  parameter('mode', { enum: ['a', 'b'] }),
];
const check = (given: Record<string, never> | object) =>
  checkParameters('fs/x', given as never, declared, schemaOf(declared));

test('defaults are filled in and the given object is left alone', () => {
  const given = { path: 'a' };
  expect(check(given)).toEqual({ ok: true, output: { path: 'a', limit: 10 } });
  expect(given).toEqual({ path: 'a' });
});

test('every wrong field is named', () => {
  const result = check({ pth: 'a', limit: 'x' });
  expect(result).toMatchObject({
    ok: false,
    error: {
      code: 'invalid_input',
      detail: {
        validation_errors: [
          { field: 'pth', error: 'unknown parameter; did you mean `path`' },
          { field: 'path', error: 'required, but missing' },
        ],
      },
    },
  });
  const types = check({ path: 1, limit: 1.5, mode: 'c' });
  expect(!types.ok && types.error.detail.validation_errors).toMatchObject([
    { field: 'path' },
    { field: 'limit' },
    { field: 'mode' },
  ]);
});

test.each([
  [{ cmd: 'a' }, 'cmd', 'command'],
  [{ cwdd: 'a' }, 'cwdd', 'cwd'],
  [{ cmd: 'a', command: 'b' }, 'cmd', 'cwd'],
])('a short form means the required parameter that is missing: %j', (given, field, meant) => {
  const shell = [
    { name: 'cwd', type: 'string', required: false, description: '' },
    { name: 'command', type: 'string', required: true, description: '' },
  ] as const;
  const result = checkParameters('shell/bash', given, shell, schemaOf(shell));
  expect(!result.ok && result.error.detail.validation_errors).toContainEqual({
    field,
    error: `unknown parameter; did you mean \`${meant}\``,
  });
});

test('a parameter named like a prototype member is an ordinary name', () => {
  const given = JSON.parse('{"path":"a","__proto__":{"x":1},"constructor":1}');
  const result = check(given);
  expect(!result.ok && result.error.detail.validation_errors).toMatchObject([
    { field: '__proto__' },
    { field: 'constructor' },
  ]);
});

test('what is nested too deeply is refused before any recursion', () => {
  let deep: unknown = 1;
  for (let level = 0; level < 5000; level++) deep = [deep];
  expect(validate(deep as never, {})).toEqual([
    { field: '(whole)', error: 'nested deeper than 100 levels' },
  ]);
});

test('what was looked at before is refused again when it is nested too deeply where it stands', () => {
  let message: Json = 'x';
  for (let level = 0; level < 100; level++) message = [message];
  freezeJson(message);
  for (let count = 0; count < 2; count++) {
    expect(validate([message], {})).toEqual([]);
    expect(validate({ messages: [message] }, {})).toEqual([
      { field: '(whole)', error: 'nested deeper than 100 levels' },
    ]);
    expect(validate({ messages: freezeJson([message]) }, {})).toHaveLength(1);
  }
});

test('a list that is frozen is checked against its schema like any other', () => {
  const schema = { properties: { list: { type: 'array', items: { type: 'string' } } } };
  const list = freezeJson(['a', 'b']);
  expect(validate({ list }, schema)).toEqual([]);
  expect(validate({ list: freezeJson([...list, 3]) }, schema)).not.toEqual([]);
});

test('a schema that cannot be used refuses instead of passing', () => {
  expect(validate({}, { $ref: '#/nowhere' })).not.toEqual([]);
});

test('own declarations win over those of the executor', () => {
  const leaf = [parameter('a', { default: 'leaf' })];
  const below = [parameter('a', { default: 'below' }), parameter('b')];
  expect(inheritParameters([leaf, below]).map(({ name, default: value }) => [name, value])).toEqual(
    [
      ['a', 'leaf'],
      ['b', undefined],
    ],
  );
});

test('a schema that was handed out frozen still checks, and is not written into', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
  const text = JSON.stringify(schema);
  const freeze = (value: object): void => {
    Object.freeze(value);
    for (const child of Object.values(value)) if (typeof child === 'object') freeze(child);
  };
  freeze(schema);
  expect(validate({ a: 'x' }, schema)).toEqual([]);
  expect(validate({ a: 1 }, schema)).not.toEqual([]);
  expect(Reflect.ownKeys(schema)).toEqual(['type', 'properties', 'required']);
  expect(JSON.stringify(schema)).toBe(text);
});

test('what is passed without the validator is what the validator would pass', () => {
  const types = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null', 'any'];
  const names = fc.constantFrom('a', 'b', 'c', 'constructor', '__proto__');
  const declared = fc.uniqueArray(
    fc.record(
      {
        name: names,
        type: fc.constantFrom(...types),
        required: fc.boolean(),
        enum: fc.array(fc.jsonValue() as fc.Arbitrary<Json>, { minLength: 1, maxLength: 2 }),
      },
      { requiredKeys: ['name', 'type', 'required'] },
    ),
    { selector: ({ name }) => name },
  );
  const value = fc.oneof(fc.integer(), fc.double(), fc.string(), fc.boolean(), fc.jsonValue());
  const given = fc.dictionary(names, value).map((one) => JSON.parse(JSON.stringify(one)) as Json);
  fc.assert(
    fc.property(declared, fc.oneof(given, fc.jsonValue() as fc.Arbitrary<Json>), (list, data) => {
      const schema = schemaOf(list as unknown as ToolParameter[]);
      const judge = new Validator(structuredClone(schema), '2020-12', false);
      let isValid = false;
      try {
        isValid = judge.validate(data).valid;
      } catch {
        // A schema that cannot be used passes nothing.
      }
      expect(validate(data, schema).length === 0).toBe(isValid);
    }),
    { numRuns: runs(500) },
  );
});

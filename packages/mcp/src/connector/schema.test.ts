import { expect, test } from 'vitest';
import { inputSchema, outputSchema } from './schema.ts';

test('a name that is not declared is refused, unless the server says that it takes others', () => {
  const plain = { type: 'object', properties: { a: { type: 'string' } } };
  expect(inputSchema(plain)).toEqual({ ...plain, additionalProperties: false });
  expect(inputSchema({ ...plain, additionalProperties: true })).toMatchObject({
    additionalProperties: true,
  });
});

test('names that a part of the schema declares are known to the whole', () => {
  const schema = inputSchema({
    $defs: { more: { properties: { c: { type: 'number' } } } },
    allOf: [{ properties: { a: {} } }, { $ref: '#/$defs/more' }],
    oneOf: [{ properties: { b: {} } }],
  });
  expect(Object.keys(schema.properties as object).sort()).toEqual(['a', 'b', 'c']);
  expect(schema).toMatchObject({ type: 'object', additionalProperties: false });
});

test('patterns and far references are left to the server, and that is written there', () => {
  expect(
    inputSchema({
      properties: {
        a: { type: 'string', pattern: '^(a+)+$' },
        b: { $ref: 'https://example.com/schema.json' },
        pattern: { type: 'string' },
      },
    }).properties,
  ).toEqual({
    a: { type: 'string', $comment: 'only the server checks: pattern' },
    b: { $comment: 'only the server checks: $ref' },
    pattern: { type: 'string' },
  });
});

test('what describes is shown without hidden signs; what is compared stays as it is', () => {
  expect(
    inputSchema({ properties: { a: { description: 'x\u200by', enum: ['\u200b'] } } }).properties,
  ).toEqual({ a: { description: 'xy', enum: ['\u200b'] } });
});

test('an answer is checked under its own name, references included', () => {
  expect(outputSchema(undefined)).toBeUndefined();
  expect(outputSchema({ $defs: { x: {} }, properties: { a: { $ref: '#/$defs/x' } } })).toEqual({
    type: 'object',
    required: ['structured'],
    properties: {
      structured: {
        $defs: { x: {} },
        properties: { a: { $ref: '#/properties/structured/$defs/x' } },
      },
    },
  });
});

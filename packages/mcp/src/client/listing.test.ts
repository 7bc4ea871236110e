import type { Json } from '@kernmantle/core/base';
import { expect, test } from 'vitest';
import { hasValidHeaders, repeatsAsHeader } from './listing.ts';

const schema = (properties: Json): Json => ({ type: 'object', properties });
const header = (name: Json, type = 'string'): Json => ({ type, 'x-mcp-header': name });

test.each<[string, Json]>([
  ['none', schema({ a: { type: 'string' } })],
  [
    'one of each plain type',
    schema({ a: header('A'), b: header('B', 'integer'), c: header('C', 'boolean') }),
  ],
  ['one further down', schema({ a: { type: 'object', properties: { b: header('Deep') } } })],
  ['a parameter that is called like the word', schema({ 'x-mcp-header': { type: 'string' } })],
  ['an example that holds the word', schema({ a: { type: 'object', examples: [header('No')] } })],
])('headers may be named: %s', (_name, given) => {
  expect(hasValidHeaders(given)).toBe(true);
});

test.each<[string, Json]>([
  ['for the whole', { type: 'object', 'x-mcp-header': 'All' }],
  ['without a name', schema({ a: header('') })],
  ['with a name that is none', schema({ a: header('a b') })],
  ['with a name that ends the line', schema({ a: header('a\r\nb') })],
  ['that is no text', schema({ a: header(7) })],
  ['for a number, which has many spellings', schema({ a: header('A', 'number') })],
  ['for an object', schema({ a: header('A', 'object') })],
  ['twice', schema({ a: header('Same'), b: header('sAME') })],
  ['in items of a list', schema({ a: { type: 'array', items: header('A') } })],
  ['in a choice', { type: 'object', oneOf: [schema({ a: header('A') })] }],
  ['in a definition', { type: 'object', $defs: { a: header('A') } }],
])('headers may not be named %s', (_name, given) => {
  expect(hasValidHeaders(given)).toBe(false);
});

test('a tool is known to repeat parameters as headers by its schema alone', () => {
  const tool = (inputSchema: Json, description = '') => ({
    name: 'a',
    definition: { name: 'a', description, inputSchema },
  });
  expect(repeatsAsHeader(tool(schema({ a: header('A') })))).toBe(true);
  expect(repeatsAsHeader(tool(schema({}), '"x-mcp-header"'))).toBe(false);
});

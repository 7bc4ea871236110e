import { type Json, type JsonObject, textAt } from '@kernmantle/core/base';
import { parseTool } from '@kernmantle/core/items';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pinOf } from './definition.ts';
import { requiresOf, toolText, withoutSetPin } from './generate.ts';

const PLACE = { connector: 'mcp/db/connector', server: 'db', file: 'query', setPin: 'sha256:0' };

function textOf(name: string, more: JsonObject, setPin = PLACE.setPin): string {
  const definition = { name, inputSchema: { type: 'object' }, ...more };
  const tool = { name, definition };
  return toolText(tool, pinOf({}, { name: 'db' }, tool), {}, { ...PLACE, setPin });
}

const words = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    'x\nexecutor_id: subprocess\n',
    '# kernmantle:signature v1',
    '"',
    '- |\n  x',
    '\ud800',
  ),
);
const schema = fc.dictionary(
  fc.constantFrom('a', '__proto__', 'constructor', 'x\ny'),
  fc.record({
    type: fc.constant('string'),
    description: words,
    enum: fc.array(words, { minLength: 1, maxLength: 3 }),
  }),
);

test('whatever a server writes, the file says what we decided and nothing else', () => {
  fc.assert(
    fc.property(words, words, words, schema, (name, title, description, properties) => {
      const inputSchema = { type: 'object', properties: properties as unknown as Json };
      const text = textOf(name, { title, description, inputSchema });
      const { tool, diagnostics } = parseTool(text, 'query.yaml');
      expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
      expect(tool).toMatchObject({
        tool_id: 'query',
        executor_id: 'mcp/db/connector',
        requires: ['mcp.db.call'],
        effect: 'write',
        risk: ['exfil', 'destructive'],
        config: { server: 'db' },
        env: [],
      });
      expect(textAt(tool?.config, 'mcp_tool').toWellFormed()).toBe(name.toWellFormed());
      expect(text.startsWith('# Written by')).toBe(true);
    }),
  );
});

test('the pin of the set is the only difference that is none of the tool', () => {
  const [one, two] = [textOf('query', {}), textOf('query', {}, 'sha256:1')];
  expect(one).not.toBe(two);
  expect(withoutSetPin(one)).toBe(withoutSetPin(two));
  const forged = textOf('query', { description: '\n  set_pin: x' });
  expect(withoutSetPin(forged)).not.toBe(withoutSetPin(one));
});

test('only a person’s word makes it a tool that reads', () => {
  expect(requiresOf('db', {})).toEqual(['mcp.db.call']);
  expect(requiresOf('db', { effect: 'idempotent' })).toEqual(['mcp.db.call']);
  expect(requiresOf('db', { effect: 'read', requires: ['db.query'] })).toEqual([
    'mcp.db.read',
    'db.query',
  ]);
});

test('what a person knows of parameters and answers is in the file, and the answers stay strangers’', () => {
  const tool = { name: 'query', definition: { name: 'query', inputSchema: { type: 'object' } } };
  const mapped = {
    roles: { to: 'destination' },
    kinds: { to: 'address', id: 'row' },
    result: { free_text: ['body'], identifiers: ['user'], kinds: { user: 'person' } },
    directory: true,
  } as const;
  const text = toolText(
    tool,
    pinOf({}, { name: 'db' }, tool),
    structuredClone(mapped) as never,
    PLACE,
  );
  const { tool: read, diagnostics } = parseTool(text, 'query.yaml');
  expect(diagnostics).toEqual([]);
  expect(read).toMatchObject({
    directory: true,
    parameters: [
      { name: 'to', role: 'destination', kind: 'address' },
      { name: 'id', kind: 'row' },
    ],
    result: { ...mapped.result, untrusted: true },
  });
});

import type { Json } from '@kernmantle/core/base';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withMember } from './json-member.ts';

const ENTRY = { command: 'km', args: ['mcp'] };
const put = (text: string): string => {
  const done = withMember(text, 'mcpServers', 'kernmantle', ENTRY);
  return done.ok ? done.output : `refused: ${done.error.detail.message}`;
};

test('a file that is not there or empty is written whole', () => {
  const whole = `{
  "mcpServers": {
    "kernmantle": {
      "command": "km",
      "args": [
        "mcp"
      ]
    }
  }
}
`;
  expect(put('')).toBe(whole);
  expect(put(' \n')).toBe(whole);
});

test('the way a file is written is kept', () => {
  expect(put('{"a":1.0,"b":12345678901234567890}')).toBe(
    '{"a":1.0,"b":12345678901234567890, "mcpServers": {"kernmantle":{"command":"km","args":["mcp"]}}}',
  );
  expect(
    put('{\n\t"theme": "dark",\n\t"mcpServers": {\n\t\t"x": { "command": "y" }\n\t}\n}\n'),
  ).toBe(
    '{\n\t"theme": "dark",\n\t"mcpServers": {\n\t\t"x": { "command": "y" },\n\t\t"kernmantle": {\n\t\t\t"command": "km",\n\t\t\t"args": [\n\t\t\t\t"mcp"\n\t\t\t]\n\t\t}\n\t}\n}\n',
  );
  expect(put('\uFEFF{}')).toMatch(/^\uFEFF\{\n {2}"mcpServers"/);
});

test('what is ours already is replaced, or left when it is the same', () => {
  const once = put(
    '{\n  "mcpServers": {\n    "kernmantle": {"command": "old"},\n    "z": {}\n  }\n}',
  );
  expect(JSON.parse(once)).toEqual({ mcpServers: { kernmantle: ENTRY, z: {} } });
  expect(put(once)).toBe(once);
});

test.each([
  '{ "a": 1, // a note\n }',
  '{ "a": 1, }',
  '[]',
  '"text"',
  '{"mcpServers": []}',
  '{"mcpServers": {}, "mcpServers": {"x": {}}}',
  '{"mcpServers": {"kernmantle": {}, "kernmantle": {"command": "x"}}}',
  '{"a": ',
])('%s is not touched', (text) => {
  expect(put(text)).toMatch(/^refused: /);
});

const text = fc.oneof(
  fc.string(),
  fc.constantFrom('"', '\\', '}', '{', ',', 'mcpServers', 'kernmantle', '__proto__'),
);
// No keys with a backslash: the parser of this engine confuses `"\\""` with the key `\\` after it
// has read that key.
const key = text.filter((name) => !name.includes('\\'));
const tree = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    text,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4 }),
  ),
})).value;

test('whatever else is in a file stays, however it is written', () => {
  const indent = fc.constantFrom(undefined, 1, 2, 4, '\t');
  const file = fc.dictionary(key, tree, { maxKeys: 5 });
  fc.assert(
    fc.property(file, fc.dictionary(key, tree, { maxKeys: 3 }), indent, (rest, servers, space) => {
      const before = JSON.stringify({ ...rest, mcpServers: servers }, null, space);
      const done = withMember(before, 'mcpServers', 'kernmantle', ENTRY);
      expect(done.ok && JSON.parse(done.output)).toEqual({
        ...rest,
        mcpServers: { ...servers, kernmantle: ENTRY },
      });
      expect(done.ok && withMember(done.output, 'mcpServers', 'kernmantle', ENTRY)).toEqual(done);
    }),
  );
});

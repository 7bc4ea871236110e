// `km check` reports syntax errors of scripts inside of items with their location.
import { join } from 'node:path';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { scripted } from '@kernmantle/test-support/script-project';
import { afterEach, expect, test } from 'vitest';
import { scriptProblems } from '../../kernmantle/src/cli/commands/script-problems.ts';

let fixture: Fixture | undefined;
afterEach(() => fixture?.remove());

async function problems(files: Record<string, string>, ...paths: string[]) {
  fixture = makeFixture(files);
  const runtime = await fixture.open();
  const root = fixture.root;
  const found = await scriptProblems(
    runtime.library,
    paths.map((path) => join(root, path)),
  );
  await runtime.close();
  return found.map(({ file, line, column, code }) => [
    file.slice(root.length + 1),
    line,
    column,
    code.startsWith('script_'),
  ]);
}

const lineOf = (text: string, part: string): number =>
  text.split('\n').findIndex((line) => line.includes(part)) + 1;

const BAD = scripted('bad', '      var @a = 1\n      var = 2');
const TOOL = `tool_id: bad
version: 1.0.0
description: x
executor_id: script
config:
  script: |
    var @a = 1
    var = 2
`;

test('in a directive', async () => {
  const found = await problems({ '.ai/directives/bad.md': BAD });
  expect(found).toEqual([
    ['.ai/directives/bad.md', lineOf(BAD, 'var = 2'), expect.any(Number), true],
  ]);
  expect(found[0]?.[2]).toBeGreaterThan(7);
});

test('in a tool, and in the file that a tool names', async () => {
  const beside = TOOL.replace(/ {2}script[\s\S]*/, '  module: ./bad.mld\n').replace(
    'tool_id: bad',
    'tool_id: beside',
  );
  expect(
    await problems({
      '.ai/tools/bad.yaml': TOOL,
      '.ai/tools/beside.yaml': beside,
      '.ai/tools/bad.mld': 'var = 2\n',
    }),
  ).toEqual([
    ['.ai/tools/bad.yaml', lineOf(TOOL, 'var = 2'), 9, true],
    ['.ai/tools/bad.mld', 1, 5, true],
  ]);
});

test('only at the paths that were asked for, also outside of the places for items', async () => {
  const files = { '.ai/directives/bad.md': BAD, 'draft/bad.md': BAD };
  expect(await problems(files, 'draft/bad.md')).toHaveLength(1);
  fixture?.remove();
  expect(await problems(files, '.ai/tools')).toEqual([]);
});

test('a script that is in order has no problems', async () => {
  const good = scripted('good', 'var @a = 1\nreturn { text: @a }');
  expect(await problems({ '.ai/directives/good.md': good })).toEqual([]);
});

const PARAMETERS =
  'parameters:\n  - { name: path, type: string, required: true, description: x }\n';

test('names that nothing binds are found, the inputs of an item are bound', async () => {
  const inputs = '<topic type="string" required="true">x</topic>';
  const script = 'show @topic\nshow @input.topic\nshow @tpoic\nreturn { text: @topic }';
  const tool = TOOL.replace('var = 2', 'show @paht').replace('config:', `${PARAMETERS}config:`);
  const beside = tool.replace(/ {2}script[\s\S]*/, '  module: ./names.mld\n');
  fixture = makeFixture({
    '.ai/directives/names.md': scripted('names', script, { inputs }),
    '.ai/tools/bad.yaml': tool,
    '.ai/tools/beside.yaml': beside.replace('tool_id: bad', 'tool_id: beside'),
    '.ai/tools/names.mld': 'show @path\nshow @paht\n',
  });
  const runtime = await fixture.open();
  const found = await scriptProblems(runtime.library, []);
  await runtime.close();
  expect(found.map(({ code, message, hint }) => [code, message, hint])).toEqual([
    ['script_name_unbound', '`@tpoic` is not defined', 'did you mean `@topic`?'],
    ['script_name_unbound', '`@paht` is not defined', 'did you mean `@path`?'],
    ['script_name_unbound', '`@paht` is not defined', 'did you mean `@path`?'],
  ]);
});

test('a directive sees the inputs of what it extends, and its heirs bring their own', async () => {
  const input = (name: string) => `<${name} type="string">x</${name}>`;
  const base = scripted('base', 'show @own\nshow @more', { inputs: input('own') });
  const heir = scripted('heir', 'show @own\nshow @more', { inputs: input('more') }).replace(
    '<category>',
    '<relationships><extends>base</extends></relationships><category>',
  );
  expect(
    await problems({ '.ai/directives/base.md': base, '.ai/directives/heir.md': heir }),
  ).toEqual([]);
});

// `km check` finds what is wrong with the form of scripts inside items, where it stands.
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { scriptProblems } from '../../src/cli/commands/check.ts';
import { type Fixture, makeFixture } from '../support/project.ts';
import { scripted } from '../support/script-project.ts';

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

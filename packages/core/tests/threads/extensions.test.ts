// A runtime over its extensions: what is refused when it is opened, and what is missing without one.
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';
import { EXTENSIONS } from '../../../kernmantle/src/extensions.ts';
import { fail, ok } from '../../src/base/index.ts';
import type { Kind } from '../../src/kernel/index.ts';
import { createRuntime, type Extension } from '../../src/runtime/index.ts';

const fixtures: Fixture[] = [];
afterEach(() => {
  for (const fixture of fixtures.splice(0)) fixture.remove();
});

const SCRIPT_TOOL = `tool_id: sums
version: "1.0.0"
description: adds
executor_id: script
effect: read
config:
  script: 'return { sum: 3 }'
parameters: []
`;

function fixture(): Fixture {
  const made = makeFixture({ '.ai/tools/sums.yaml': SCRIPT_TOOL });
  made.write(`${made.home}/policy.yaml`, 'unsigned: allow\n');
  fixtures.push(made);
  return made;
}

test.each([
  ['postgres://ann:secret@host/db', [], '`--store`: no driver for `postgres:`'],
  [
    'mysql://ann:secret@host/db',
    EXTENSIONS,
    '`--store`: no driver for `mysql:`; an address begins with `postgres:` or `postgresql:`',
  ],
  [
    'secret',
    EXTENSIONS,
    '`--store`: invalid store address; an address begins with `postgres:` or `postgresql:`',
  ],
])('the store `%s` is refused before anything is opened', async (store, extensions, message) => {
  const { root, env } = fixture();
  const opened = await createRuntime({ project: root, env, store, extensions });
  expect(opened).toEqual({ ok: false, error: { code: 'config_invalid', detail: { message } } });
});

test.each(['tool', 'directive', 'knowledge', 'thread', 'artifact'])(
  'an extension cannot replace the kind `%s` of core',
  async (name) => {
    const { root, env } = fixture();
    const kind: Kind = { name, actions: ['run'], prepare: () => fail('not_found', 'replaced') };
    const opened = await createRuntime({
      project: root,
      env,
      extensions: [{ name: 'other', kinds: () => [kind] }],
    });
    const message = `the kind \`${name}\` is provided by \`core\` and by \`other\`; remove one of them`;
    expect(opened).toEqual(fail('config_invalid', message));
  },
);

test('two extensions with one primitive are refused', async () => {
  const { root, env } = fixture();
  const twin: Extension = {
    name: 'twin',
    primitives: () => [{ name: 'script', run: async () => ok({ output: null }) }],
  };
  const opened = await createRuntime({ project: root, env, extensions: [...EXTENSIONS, twin] });
  expect(opened).toMatchObject({
    ok: false,
    error: {
      code: 'config_invalid',
      detail: {
        message: expect.stringContaining('`script` is provided by `script` and by `twin`'),
      },
    },
  });
});

test('a script tool needs the extension', async () => {
  const { root, env } = fixture();
  const call = async (extensions: readonly Extension[]) => {
    const opened = await createRuntime({ project: root, env, extensions });
    if (!opened.ok) throw new Error(opened.error.detail.message);
    const request = { item_type: 'tool', action: 'run', item_id: 'sums' };
    const answer = await opened.output.call('execute', request, { surface: 'cli' });
    await opened.output.close();
    return answer;
  };
  expect(await call(EXTENSIONS)).toMatchObject({ ok: true });
  expect(await call([])).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
});

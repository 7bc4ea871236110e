// Tools that are scripts, called by people, models and other scripts.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getOwn, type JsonObject } from '@kernmantle/core/base';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { eventsOf } from '@kernmantle/test-support/script-project';
import {
  directiveText,
  execute,
  run,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { describe, expect, test } from 'vitest';
import { runScriptIn } from '../src/runtime/run-script.ts';

const tool = (name: string, script: string, more = '') => `
tool_id: ${name}
version: 1.0.0
description: A script
executor_id: script
effect: read
parameters:
  - {name: path, type: string}
${more}
config:
  script: |
${script.replace(/^/gm, '    ')}
`;

const READS = 'requires: [fs.read]';
const LENGTH = `var @file = @tool("fs/read_file", { path: @path })
show \`read @path\`
return { length: @file.content.length, path: @input.path }`;

const files = (tools: Record<string, string>): Record<string, string> => ({
  'notes/a.txt': 'hello\n',
  '../home/policy.yaml': TRUSTING,
  ...Object.fromEntries(
    Object.entries(tools).map(([name, text]) => [`.ai/tools/own/${name}.yaml`, text]),
  ),
});

async function call(tools: Record<string, string>, id: string, parameters: JsonObject = {}) {
  const fixture = makeFixture(files(tools));
  try {
    const request = { item_type: 'tool', item_id: id, parameters };
    return { done: await fixture.call('execute', request, 'cli'), root: fixture.root };
  } finally {
    fixture.remove();
  }
}

describe('called by a person', () => {
  test('parameters are variables and fields of @input, what it prints is its text', async () => {
    const { done } = await call({ length: tool('length', LENGTH, READS) }, 'own/length', {
      path: 'notes/a.txt',
    });
    expect(done).toMatchObject({
      ok: true,
      output: {
        length: 6,
        path: 'notes/a.txt',
        text: 'read notes/a.txt\n',
        chain: ['own/length', 'script'],
      },
    });
  });

  test('without what it requires, it reads nothing', async () => {
    const { done } = await call({ length: tool('length', LENGTH) }, 'own/length', {
      path: 'notes/a.txt',
    });
    expect(done).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
    expect(getOwn(getOwn(getOwn(done, 'error'), 'detail'), 'message')).toContain('requires');
  });

  test('nothing is filled into its text', async () => {
    const script = 'var @x = js { const path = 5; return `${path}-{path}`; }\nreturn { x: @x }';
    const { done } = await call({ plain: tool('plain', script) }, 'own/plain', { path: 'p' });
    expect(done).toMatchObject({ ok: true, output: { x: '5-{path}' } });
  });

  test('an error names the tool, the line and the column', async () => {
    const { done } = await call({ bad: tool('bad', 'var @a = 1\nvar @x = @nobody') }, 'own/bad');
    expect(done).toMatchObject({ ok: false });
    expect(JSON.stringify(done)).toContain('own/bad:2:10');
  });

  test('what is no object stands under result', async () => {
    const { done } = await call({ two: tool('two', 'return [1, 2]') }, 'own/two');
    expect(done).toMatchObject({ ok: true, output: { result: [1, 2] } });
  });

  test('a tool without a script says what is missing', async () => {
    const text = tool('none', 'x').replace(/config:[\s\S]*/, 'config: {other: 1}\n');
    const { done } = await call({ none: text }, 'own/none');
    expect(done).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  });

  test('scripts that call one another without end are given up', async () => {
    const script = 'var @x = @tool("own/again", {})\nreturn { x: 1 }';
    const { done } = await call({ again: tool('again', script) }, 'own/again');
    expect(done).toMatchObject({ ok: false, error: { code: 'quota_exceeded' } });
  });

  test('the script may stand in a file beside the tool, and not elsewhere', async () => {
    const named = (module: string) =>
      tool('apart', 'x').replace(/ {2}script:[\s\S]*/, `  module: ${module}\n`);
    const fixture = makeFixture({
      ...files({ apart: named('./apart.mld') }),
      '.ai/tools/own/apart.mld': 'return { said: `hi @path` }\n',
    });
    const request = { item_type: 'tool', item_id: 'own/apart', parameters: { path: 'x' } };
    expect(await fixture.call('execute', request, 'cli')).toMatchObject({
      ok: true,
      output: { said: 'hi x' },
    });
    const yaml = join(fixture.root, '.ai/tools/own/apart.yaml');
    writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('./apart.mld', '../../../notes/a.txt'));
    expect(await fixture.call('execute', request, 'cli')).toMatchObject({ ok: false });
    fixture.remove();
  });

  test('a dry run shows the script and runs nothing', async () => {
    const fixture = makeFixture(files({ length: tool('length', LENGTH, READS) }));
    const request = { item_type: 'tool', item_id: 'own/length', dry_run: true };
    const done = await fixture.call('execute', request, 'cli');
    fixture.remove();
    expect(done).toMatchObject({ ok: true, output: { would_run: { script: `${LENGTH}\n` } } });
  });
});

describe('without a signature', () => {
  const strange = async (script: string, more: string) => {
    const { '../home/policy.yaml': _, ...rest } = files({ odd: tool('odd', script, more) });
    const fixture = makeFixture(rest);
    const request = { item_type: 'tool', item_id: 'own/odd', parameters: {} };
    try {
      return await fixture.call('execute', request, 'cli');
    } finally {
      fixture.remove();
    }
  };
  const refused = { ok: false, error: { code: 'permission_denied' } };

  test('it may read, if it says so', async () => {
    const script = 'var @file = <notes/a.txt>\nreturn { said: @file }';
    expect(await strange(script, READS)).toMatchObject({ ok: true });
    expect(await strange(script, '')).toMatchObject(refused);
  });

  test('it changes, starts and sends nothing, by itself or through tools that are signed', async () => {
    const write = 'var @x = @tool("fs/write_file", { path: "notes/b.txt", content: "x" })';
    for (const script of [
      write,
      'output "x" to "notes/b.txt"',
      'run cmd {echo hi}',
      'var @x = @tool("shell/bash", { command: "echo hi" })',
      'var @x = @tool("http/get", { url: "http://127.0.0.1:9/" })',
    ]) {
      expect(await strange(script, READS), script).toMatchObject(refused);
      const all = 'requires: [fs.read, fs.write, process.spawn, net.http]';
      expect(await strange(script, all), script).toMatchObject(refused);
    }
  });
});

const GRANTS =
  '<read resource="filesystem" path="notes/**"/><execute resource="tool" id="own/length"/>';

describe('called by a model', () => {
  const asks = [{ tool_calls: [execute('own/length', { path: 'notes/a.txt' })] }, { text: 'done' }];
  const resultOf = async (made: Stage, id: string) =>
    (await eventsOf(made, id)).find(
      ({ type, data }) => type === 'tool_result' && data.tool === 'own/length',
    )?.data;

  test('it is one step, with the right of the thread to each tool it calls', async () => {
    const made = await stage(
      {
        ...files({ length: tool('length', LENGTH, READS) }),
        '.ai/directives/look.md': directiveText('look', {
          permissions: `${GRANTS}<execute resource="tool" id="fs/read_file"/>`,
        }),
      },
      asks,
    );
    const done = await run(made, 'look');
    expect(done).toMatchObject({ status: 'completed', cost: { tool_calls: 1 } });
    expect(await resultOf(made, done.thread_id)).toMatchObject({ content: { length: 6 } });
  });

  test('a tool that the thread may not call is not called through it', async () => {
    const made = await stage(
      {
        ...files({ length: tool('length', LENGTH, READS) }),
        '.ai/directives/look.md': directiveText('look', { permissions: GRANTS }),
      },
      asks,
    );
    const done = await run(made, 'look');
    expect(await resultOf(made, done.thread_id)).toMatchObject({
      is_error: true,
      content: { error: { code: 'permission_denied' } },
    });
  });

  test('labels go in and come out', async () => {
    const secret = defineTool({
      id: 'probe/secret',
      description: 'x',
      effect: 'read',
      parameters: {},
      labels: ['secret'],
      run: async () => ({ word: 'abc' }),
    });
    const script = 'var @it = @tool("probe/secret", {})\nreturn { n: @it.word.length }';
    const made = await stage(
      {
        ...files({ length: tool('length', script) }),
        '.ai/directives/look.md': directiveText('look', {
          permissions: `${GRANTS}<execute resource="tool" id="probe/secret"/>`,
        }),
      },
      asks,
      { tools: [secret] },
    );
    const done = await run(made, 'look');
    const result = await resultOf(made, done.thread_id);
    expect(result).toMatchObject({ content: { n: 3 } });
    expect(getOwn(result?.marks, 'labels')).toContain('secret');
    expect(getOwn(result?.marks, 'taint')).toContain('src:llm');
  });

  test('a model that it asks is paid by the thread', async () => {
    const usage = { input_tokens: 100, output_tokens: 10 };
    const script = 'exe @ask(q) = llm { @q }\nreturn { said: @ask("hm") }';
    const made = await stage(
      {
        ...files({ length: tool('length', script) }),
        '.ai/directives/look.md': directiveText('look', { permissions: GRANTS }),
      },
      [
        { ...asks[0], usage },
        { text: 'well', usage },
        { text: 'done', usage },
      ],
    );
    const done = await run(made, 'look');
    expect(done).toMatchObject({ status: 'completed', cost: { turns: 3, tokens: 330 } });
    expect(await resultOf(made, done.thread_id)).toMatchObject({ content: { said: 'well' } });
  });
});

test('guidance is asked about a topic', async () => {
  const fixture = makeFixture();
  const runtime = await fixture.open();
  try {
    const said = async (text: string) => {
      const done = await runScriptIn(runtime, { text });
      return done.ok ? done.output.text : done.error.detail.message;
    };
    const limits = await said('show @help("guidance", "limits")');
    expect(limits).not.toBe(await said('show @help("guidance")'));
    expect(limits).not.toBe(await said('show @help("guidance", "hooks")'));
    expect(limits).toMatch(/limit/i);
  } finally {
    await runtime.close();
    fixture.remove();
  }
});

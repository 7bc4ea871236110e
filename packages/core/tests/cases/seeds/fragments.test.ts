// Parts of items in the first documents, each put into a directive that has nothing else; their prices;
// their calls of the four tools; and the statements that their prose names.
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { play } from '@kernmantle/test-support/script-world';
import { expect, test } from 'vitest';
import { type JsonObject, textAt } from '../../../src/base/index.ts';
import { blocksOf, findingsIn } from './examples.ts';

const PARTS = blocksOf('fragments.md');
const partOf = (heading: string): string => PARTS.get(heading) ?? '';

const LEAST = {
  limits: '<limits><turns>3</turns><tokens>90000</tokens></limits>',
  model: '<model tier="fast">any</model>',
  permissions: '<permissions/>',
  hooks: '',
  process: '<process><step name="only">Do it.</step></process>',
  outputs: '',
};
const directiveWith = (parts: Partial<typeof LEAST>): string => {
  const { process, outputs, ...metadata } = { ...LEAST, ...parts };
  return `<directive name="example" version="1.0.0">
<metadata>
<description>An example</description>
<category>examples</category>
${Object.values(metadata).join('\n')}
</metadata>
${process}
${outputs}
</directive>
`;
};

/** What `check` prints for a part: the words to put in its place, or a line to put into it. */
const REPLACE = /^replace it with\n([^]*)$/;
const ADD = /^add to `<permissions>`:\n(.*)$/;
function repaired(text: string, hint: string): string {
  const [, printed] = REPLACE.exec(hint) ?? [];
  if (printed !== undefined) return text.replace(/<cost>[^]*<\/cost>/, printed);
  const [, line] = ADD.exec(hint) ?? [];
  expect(line, hint).toBeDefined();
  return text.replace('</permissions>', `${line}\n</permissions>`);
}

const SHELL = 'add to `<permissions>`:\n<execute resource="shell"/>';
type Part = readonly [heading: string, parts: Partial<typeof LEAST>, hints: readonly unknown[]];
const CASES: readonly Part[] = [
  ['limits', { limits: partOf('limits') }, []],
  ['model', { model: partOf('model') }, []],
  ['hooks', { hooks: partOf('hooks') }, []],
  ['outputs', { outputs: partOf('outputs') }, []],
  ['process', { process: partOf('process') }, []],
  ['step', { process: `<process>${partOf('step')}</process>` }, []],
  ['permissions', { permissions: partOf('permissions') }, [SHELL]],
  ['orchestration', { permissions: partOf('orchestration') }, [SHELL]],
  ['categories', { permissions: partOf('categories') }, [SHELL]],
  ['cost', { limits: partOf('cost') }, [`replace it with\n${partOf('limits').trimEnd()}`]],
  ['budget', { limits: partOf('budget') }, [expect.stringMatching(REPLACE)]],
];

test.each(CASES)('the part `%s` of the documents runs', async (_, parts, hints) => {
  const at = '.ai/directives/example.md';
  const text = directiveWith(parts);
  const fixture = makeFixture({
    [at]: text,
    '../home/policy.yaml': TRUSTING,
    'replies.json': JSON.stringify([{ text: '{"action": "fail"}' }, { text: 'Done.' }]),
  });
  try {
    const found = await findingsIn(fixture);
    const printed = found.map(({ hint = '' }) => hint);
    expect(printed).toEqual(hints);
    fixture.write(at, printed.reduce(repaired, text));
    expect(await findingsIn(fixture)).toEqual([]);
    const words = ['run', 'example', '--replies', 'replies.json'];
    const done = await runCommand(words, fixture.root, fixture.env);
    expect(done, done.output).toMatchObject({ code: 0 });
  } finally {
    fixture.remove();
  }
});

test('the prices of the documents are read; in your own folder each of them counts', async () => {
  const file = '.ai/tools/llm/pricing.yaml';
  const fixture = makeFixture({ [file]: partOf('pricing') });
  try {
    expect(await findingsIn(fixture)).toMatchObject([
      { code: 'price_not_counted', hint: expect.stringContaining('your own price file') },
    ]);
    fixture.write(file, '{}\n');
    fixture.write('../home/config/pricing.yaml', partOf('pricing'));
    expect(await findingsIn(fixture)).toEqual([]);
  } finally {
    fixture.remove();
  }
});

const directive = (name: string, inputs = ''): string => `<directive name="${name}" version="1.0.0">
  <metadata>
    <description>Runs without a model</description>
    <category>examples</category>
    <limits><turns>1</turns><tokens>1000</tokens></limits>
    <permissions/>
  </metadata>
  <inputs>${inputs}</inputs>
  <process><script>/return { done: true }</script></process>
</directive>
`;
const CODE_INPUTS =
  '<language type="string" required="true"/><file type="string" required="true"/>';

test('the calls of the documents are answered', async () => {
  const fixture = makeFixture({
    '.ai/directives/deploy_staging.md': directive('deploy_staging'),
    '.ai/directives/format_code.md': directive('format_code', CODE_INPUTS),
    '../home/policy.yaml': TRUSTING,
  });
  const runtime = await fixture.open();
  const tool = (item_id: string, parameters: JsonObject) =>
    runtime.call(
      'execute',
      { item_type: 'tool', action: 'run', item_id, parameters },
      { surface: 'cli' },
    );
  const directly = (item_id: string, inputs: JsonObject) =>
    runtime.call(
      'execute',
      { item_type: 'directive', action: 'run', item_id, parameters: { inputs } },
      { surface: 'cli' },
    );
  try {
    expect(await directly('deploy_staging', {})).toMatchObject({ output: { status: 'ready' } });
    const code = { language: 'python', file: 'main.py' };
    expect(await directly('format_code', code)).toMatchObject({
      output: { directive: { inputs: code } },
    });
    const directive_name = 'deploy_staging';
    const initial_message = 'Deploy v1.2.3 to staging';
    const spawned = await tool('thread_directive', { directive_name, initial_message });
    expect(spawned).toMatchObject({ output: { status: 'spawned' } });
    const thread_id = spawned.ok ? textAt(spawned.output, 'thread_id') : '';
    const based = { directive_name, thread_id: 'subtask_xyz' };
    expect(await tool('spawn_thread', based)).toMatchObject({ output: { runner: 'safety' } });
    const registry = (action: string, parameters: JsonObject) =>
      tool('thread_registry', { action, ...parameters });
    for (const [action, parameters] of [
      ['get_status', { thread_id }],
      ['get_events', { thread_id, limit: 50 }],
      ['query', { directive_name, limit: 10, order_by: 'created_at DESC' }],
    ] as const) {
      expect(await registry(action, parameters)).toMatchObject({ ok: true });
    }
    // Writing to the registry is for the core; the refusal says which tools do it for others.
    for (const status of ['paused', 'running', 'terminating', 'killed']) {
      expect(await registry('update_status', { thread_id, status })).toMatchObject({
        error: {
          code: 'permission_denied',
          detail: { message: expect.stringContaining('a tool of the bundle') },
        },
      });
    }
    // Two sketches of calls are refused with the form to write.
    const sketch = { tool_id: 'bash', params: { cmd: 'git tag -l v*' } };
    expect(await runtime.call('execute', sketch, { surface: 'cli' })).toMatchObject({
      error: {
        detail: {
          message:
            '`item_type` is missing; write the call as `{"item_type": "tool", "item_id": "ID", "parameters": {…}}`',
        },
      },
    });
    expect(JSON.stringify(await tool('bash', sketch.params))).toContain('did you mean `command`');
    const own = { directive_id: directive_name, project_path: '.', inherit_project: true };
    const refused = JSON.stringify(await tool('spawn_thread', own));
    expect(refused).toContain('did you mean `directive_name`');
    expect(refused).toContain('"field":"inherit_project","error":"unknown parameter; it takes: ');
  } finally {
    await runtime.close();
    fixture.remove();
  }
});

test.each([
  ['guidance', 'topic'],
  ['stuck', 'reason'],
  ['escalate', 'reason'],
  ['checkpoint', 'reason'],
])('help {action: %s} of the documents is answered', async (action, field) => {
  const fixture = makeFixture({});
  try {
    expect(await fixture.call('help', { action, [field]: 'threads' })).toMatchObject({ ok: true });
  } finally {
    fixture.remove();
  }
});

test.each([
  ['labels of a variable', '/var secret @k = "x"\n/show @k.ctx.labels', '["secret"]'],
  [
    'labels of a call',
    '/exe secret @hi(n) = `Hi @n`\n/var @x = @hi("Ada")\n/show @x.ctx.labels',
    '["secret"]',
  ],
  [
    'labels of a template',
    '/var secret @k = "x"\n/var @t = `k: @k`\n/show @t.ctx.labels',
    '["secret"]',
  ],
  ['effects', '/var @a = "x"\n/output @a to "a.txt"\n/export { @a }\n/run { echo hi }', 'hi'],
  ['measures', '/var @a = "some words here"\n/show @a.ctx.tokens\n/show @a.ctx.tokest', '4\n4'],
  [
    'retries of a pipeline',
    '/exe @f(x) = when [ @ctx.pipe.try < 2 => retry  * => `try @ctx.try` ]\n/exe @s() = "s"\n/var @y = @s() | @f\n/show @y',
    'try 2',
  ],
  [
    'retries of a guard',
    '/guard after op:exe = when [ @ctx.guard.try < 2 => retry "again"  * => allow ]\n/exe @f() = "v"\n/var @x = @f()\n/show @x',
    'v',
  ],
])('the script language of the documents runs: %s', async (_, script, text) => {
  expect(await play(script)).toMatchObject({ text: `${text}\n`, fault: '' });
});

test.each([
  ['secret', '@ctx.op.type == "show"'],
  ['op:show', '@ctx.operation.type == "show"'],
  ['op:show', '@input.totalTokens() > 0'],
  ['op:show', '@input.any.ctx.labels.includes("secret")'],
  ['op:show', '@input.all.ctx.labels.includes("secret")'],
  ['op:show', '@input.none.ctx.labels.includes("public")'],
])('a guard of the documents on %s denies when %s', async (on, when) => {
  const guard = `/guard before ${on} = when [ ${when} => deny "not this"  * => allow ]`;
  const { text, fault } = await play(`${guard}\n/var secret @k = "words"\n/show @k`);
  expect([text, fault]).toEqual(['', expect.stringMatching(/: not this$/)]);
});

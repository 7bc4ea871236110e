// Failures of many kinds in one project. INVARIANT: no text that reaches a model, the journal, the approval
// queue, the audit or a caller says where on this machine the project or the user's folder lies.
import { runCommand } from '@kernmantle/test-support/command-line';
import { TRUSTING } from '@kernmantle/test-support/project';
import {
  answer,
  call,
  directive,
  directiveText,
  hook,
  openStage,
  type Parts,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { describe, expect, test } from 'vitest';
import { isObject, type Json, type JsonObject } from '../../src/base/index.ts';
import { probeSandboxNow } from '../../src/kernel/index.ts';

const sandbox = await probeSandboxNow();

const tool = (id: string, rest: string): string =>
  `tool_id: ${id}\nversion: 1.0.0\ndescription: fails\nrequires: [process.spawn]\n${rest}\n`;
const module = (id: string, file: string, more = ''): string =>
  tool(
    id,
    `executor_id: runtime/${file.endsWith('.py') ? 'python' : 'node'}\nconfig: { module: ./${file}${more} }`,
  );
const shell = (id: string, script: string, more = ''): string =>
  tool(id, `executor_id: subprocess\nconfig: { shell: bash, script: '${script}'${more} }`);
const scripted = (id: string, script: string): string =>
  tool(id, `executor_id: script\nconfig:\n  script: |\n    ${script.replaceAll('\n', '\n    ')}`);

const sink = (type: string): string =>
  shell(
    `to_${type}`,
    'echo one; echo two; exit 1',
    `, stream: { destinations: [{ type: bad/${type} }] }`,
  );

/** Scripts that fail: each is a tool, and a directive that is run as a thread. */
const SCRIPTS: Readonly<Record<string, string>> = {
  s_syntax: 'var @x = [',
  s_file: 'show <notes/nope.txt>',
  s_folder: 'show <notes>',
  s_import: 'import { x } from "@root/notes/nope.mld"',
  s_module: 'import { x } from "@root/notes/broken.mld"',
  s_js: 'exe @f() = js { throw new Error("js") }\nshow @f()',
  s_node: 'exe @f() = node { require("./nope.cjs") }\nshow @f()',
  s_py: 'exe @f() = python { raise ValueError("py") }\nshow @f()',
  s_cmd: 'run cmd { cat notes/nope.txt }',
  s_sh: 'exe @f() = sh { cat notes/nope.txt }\nshow @f()',
  s_guard: 'guard before op:show = when [ * => deny "no" ]\nshow "a"',
  s_output: 'output "x" to "notes/a.txt/b.txt"',
  s_tool: 'show @tool("bad/py_raises", {})',
};

/** One tool for each way of failing, by its id in the folder `bad`. */
const TOOLS: Readonly<Record<string, string>> = {
  py_raises: module('py_raises', 'raises.py'),
  py_syntax: module('py_syntax', 'syntax.py'),
  py_import: module('py_import', 'import.py'),
  py_empty: module('py_empty', 'empty.py'),
  py_exits: module('py_exits', 'exits.py'),
  py_file: module('py_file', 'file.py'),
  node_throws: module('node_throws', 'throws.mjs'),
  node_syntax: module('node_syntax', 'syntax.mjs'),
  node_import: module('node_import', 'import.mjs'),
  node_empty: module('node_empty', 'empty.mjs'),
  node_exits: module('node_exits', 'exits.mjs'),
  node_file: module('node_file', 'file.mjs'),
  module_gone: module('module_gone', 'gone.py'),
  module_kind: module('module_kind', 'notes.py').replace('runtime/python', 'runtime/node'),
  module_out: module('module_out', '../../../notes/a.py'),
  sh_fails: shell('sh_fails', 'cat "$PWD/nope.txt"; exit 3'),
  sh_long: shell('sh_long', 'echo x >&2; head -c 3000000 /dev/zero | tr "\\0" a; exit 3'),
  sh_lines: shell('sh_lines', 'echo no', ', output: json'),
  no_program: tool('no_program', 'executor_id: subprocess\nconfig: { command: no-such-program }'),
  own_program: tool('own_program', 'executor_id: subprocess\nconfig: { command: ./bin/plain.txt }'),
  failing_program: tool(
    'failing_program',
    'executor_id: subprocess\nconfig: { command: ./bin/fails }',
  ),
  no_executor: tool('no_executor', 'executor_id: nowhere/at_all'),
  wrong_field: tool('wrong_field', 'executor_id: subprocess\nconfig: { comand: ls }'),
  yaml: 'tool_id: [\n',
  to_py_sink: sink('py_sink'),
  py_sink: module('py_sink', 'sink.py'),
  to_node_sink: sink('node_sink'),
  node_sink: module('node_sink', 'sink.mjs'),
  to_no_sink: sink('gone'),
  ...Object.fromEntries(Object.entries(SCRIPTS).map(([id, script]) => [id, scripted(id, script)])),
};

const MODULES: Readonly<Record<string, string>> = {
  'raises.py': 'import os\ndef run(parameters):\n    raise ValueError("in " + __file__)\n',
  'syntax.py': 'def run(:\n',
  'import.py': 'import no_such_package\n',
  'empty.py': 'x = 1\n',
  'exits.py': 'import sys\nsys.stderr.write(__file__)\nsys.exit(4)\n',
  'file.py': 'def run(parameters):\n    open(__file__ + ".gone")\n',
  'notes.py': '',
  'throws.mjs': 'export function run() { throw new Error(import.meta.filename); }\n',
  'syntax.mjs': 'export function run( {\n',
  'import.mjs': 'import "./no-such.mjs";\n',
  'empty.mjs': 'export const x = 1;\n',
  'exits.mjs': 'console.error(import.meta.filename); process.exit(4);\n',
  'file.mjs':
    'import { readFileSync } from "node:fs";\nexport const run = () => readFileSync(import.meta.filename + ".gone");\n',
  'sink.py': 'def write(event):\n    raise ValueError(__file__)\n',
  'sink.mjs': 'export function write() { throw new Error(import.meta.filename); }\n',
};

const FILES: Record<string, string> = {
  ...Object.fromEntries(
    Object.entries(TOOLS).map(([id, text]) => [`.ai/tools/bad/${id}.yaml`, text]),
  ),
  ...Object.fromEntries(Object.entries(MODULES).map(([id, text]) => [`.ai/tools/bad/${id}`, text])),
  '../home/tools/mine/of_user.yaml': module('of_user', 'user.py'),
  '../home/tools/mine/user.py': 'def run(parameters):\n    raise ValueError(__file__)\n',
  '../home/directives/user_broken.md': '<directive name="user_broken">\n',
  'bin/plain.txt': 'no program\n',
  'bin/fails': '#!/bin/sh\necho "$0" >&2\nexit 5\n',
  'notes/broken.mld': 'var @x = [\n',
  'notes/a.py': '',
  '.ai/directives/broken.md': '<directive name="broken"><metadata></directive>\n',
  '.ai/directives/misnamed.md': directiveText('another'),
  '.ai/knowledge/broken.md': '---\ntitle: [\n---\ntext\n',
  '.ai/config/mapping.yaml': 'a: [\n',
};

const item = (name: string, args: JsonObject): { name: string; arguments: Json } => ({
  name,
  arguments: args,
});
const create = (item_type: string, item_id: string, content: string) =>
  item('execute', { item_type, item_id, action: 'create', content });

/** What a model tries besides the tools that fail. */
const TRIES = [
  create('directive', 'fresh', '<directive name="fresh"><metadata></directive>'),
  create('directive', 'broken', directiveText('broken')),
  create('tool', 'fresh', 'tool_id: [\n'),
  create('tool', 'bad/fresh', 'tool_id: fresh\nexecutor_id: nope\nconfig: { x: 1 }\n'),
  create('knowledge', 'broken', 'text'),
  item('execute', { item_type: 'directive', item_id: 'gone', action: 'update', content: 'x' }),
  item('execute', { item_type: 'directive', item_id: 'broken', action: 'update', content: 'x' }),
  item('execute', { item_type: 'directive', item_id: 'gone', action: 'delete' }),
  item('execute', { item_type: 'directive', item_id: 'broken' }),
  item('execute', { item_type: 'directive', item_id: 'misnamed' }),
  item('execute', { item_type: 'directive', item_id: 'user_broken' }),
  item('load', { item_type: 'directive', item_id: 'broken' }),
  item('load', { item_type: 'directive', item_id: 'user_broken' }),
  item('load', { item_type: 'directive', item_id: 'misnamed', destination: 'user' }),
  item('load', { item_type: 'tool', item_id: 'bad/yaml' }),
  item('load', { item_type: 'tool', item_id: 'bad/no_executor' }),
  item('load', { item_type: 'tool', item_id: 'mine/of_user' }),
  item('load', { item_type: 'tool', item_id: 'fs/read_file' }),
  item('load', { item_type: 'knowledge', item_id: 'broken' }),
  item('load', { item_type: 'knowledge', item_id: 'gone', source: 'registry' }),
  item('search', { query: 'broken' }),
  item('help', { topic: 'gone' }),
  call('mine/of_user'),
  call('fs/read_file', { path: 'notes/gone.txt' }),
  call('fs/read_file', { path: 'notes' }),
  call('fs/read_file', { path: '../home/policy.yaml' }),
  call('fs/read_file', { path: '.env' }),
  call('fs/write_file', { path: 'notes/a.txt/b.txt', content: 'x' }),
  call('fs/write_file', { path: '.ai/policy.yaml', content: 'x' }),
  call('fs/write_file', { path: 'bin', content: 'x' }),
  call('fs/edit_file', { path: 'notes/a.txt', old_text: 'nope', new_text: 'x' }),
  call('fs/list_dir', { path: 'notes/a.txt' }),
  call('fs/grep', { path: 'gone', pattern: '(' }),
  call('shell/bash', { command: 'cat "$PWD/gone"; exit 2' }),
  call('shell/bash', { command: 'cd gone' }),
  call('git/status'),
  call('git/log'),
  call('http/get', { url: 'http://127.0.0.1:9/x' }),
  spawn('broken'),
  spawn('misnamed'),
  spawn('gone'),
  spawn('kid'),
  spawn('kid', { project_path: 'gone' }),
  ...Object.keys(SCRIPTS).map((id) => spawn(id)),
];

/** Calls that a person is asked about once a stranger's text was read: each has a thread of its own. */
const PROGRAMS = ['node', './bin/fails', 'no-such-program'].map((command) =>
  call('mcp/mcp_stdio', { command, args: ['gone.mjs'], method: 'tools/list', params: {} }),
);

const MAY =
  '<read resource="filesystem" path="**"/><write resource="filesystem" path="**"/><execute resource="shell"/><execute resource="tool" id="*"/><execute resource="net" action="http"/><execute resource="git" action="*"/><execute resource="mcp" action="connect"/><execute resource="kernmantle" action="*"/><execute resource="directive" action="modify"/><orchestration enabled="true"/>';
const LIMITS =
  '<turns>200</turns><tool_calls>900</tool_calls><tokens>9000000</tokens><spend>99</spend><spawns>40</spawns>';

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const withScript = (name: string, script: string): Record<string, string> => ({
  [`.ai/directives/${name}.md`]: directiveText(name, { permissions: MAY })
    .replace(
      /<process>.*<\/process>/s,
      () => `<process><script>\n${escaped(script)}\n</script></process>`,
    )
    .replace(/<model .*<\/model>/, ''),
});

/** Every text of a value, keys too. */
function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const one of value) yield* textsIn(one);
  else if (isObject(value)) {
    for (const [key, one] of Object.entries(value)) {
      yield key;
      yield* textsIn(one);
    }
  }
}

/** Where a text names the folder of the project or of the user: a few words around each place. */
function placesIn(values: unknown, { root, home }: Stage['fixture']): string[] {
  const found = new Set<string>();
  for (const text of textsIn(values)) {
    for (const folder of [root, home]) {
      const at = text.indexOf(folder);
      if (at !== -1) found.add(text.slice(Math.max(0, at - 120), at + folder.length + 80));
    }
  }
  return [...found];
}

/** All that anybody can read of what happened. */
async function recorded(made: Stage): Promise<unknown[]> {
  const { threads, runtime } = made;
  // Rows and bindings are for programs: the address of a project is a field of both, and no text of theirs.
  const all = (await rows(made)).map((row) => ({ ...row, project: '' }));
  const journals = await Promise.all(all.map(({ id }) => threads.store.read(id)));
  const queue = await threads.store.approvals({});
  const asked = queue.ok ? queue.output.map((question) => ({ ...question, binding: {} })) : queue;
  const audit = await runtime.audit.read({ limit: 5000 });
  const bodies = made.provider.requests.map(({ body }) => body);
  return [all, journals, asked, audit, bodies];
}

const DONE = { text: 'done' };

describe.skipIf(sandbox.kind === 'none')('where the project lies', () => {
  test('is in no failure of a call', async () => {
    const calls = [...Object.keys(TOOLS).map((id) => call(`bad/${id}`)), ...TRIES];
    const made = await openStage(
      {
        ...FILES,
        ...directive('work', { permissions: MAY, limits: LIMITS }),
        ...Object.assign(
          {},
          ...PROGRAMS.map((_, at) => directive(`program${at}`, { permissions: MAY })),
        ),
        ...directive('kid', { hooks: hook('event.name == "before_step"', 'bad_hook') }),
        '.ai/directives/bad_hook.md': answer('bad_hook', { action: 'nonsense' }),
        ...Object.assign({}, ...Object.entries(SCRIPTS).map(([id, text]) => withScript(id, text))),
      },
      {
        work: [...calls.map((one) => ({ tool_calls: [one] })), DONE],
        kid: [{ tool_calls: [call('bad/py_raises')] }, DONE],
        ...Object.fromEntries(
          PROGRAMS.map((one, at) => [`program${at}`, [{ tool_calls: [one] }, DONE]]),
        ),
      },
    );
    for (const at of PROGRAMS.keys()) await run(made, `program${at}`);
    const result = await run(made, 'work');
    expect(result.status, result.reason).toBe('completed');
    expect(made.provider.requests.length).toBeGreaterThan(calls.length);
    const answers = [];
    for (const { name, arguments: given } of [...calls, ...PROGRAMS]) {
      for (const surface of ['library', 'mcp']) {
        answers.push(await made.runtime.call(name as 'execute', given as JsonObject, { surface }));
      }
    }
    const said = [result, answers, ...(await recorded(made))];
    expect(placesIn(said, made.fixture)).toEqual([]);
  });

  const POLICY = 'guards: [{ on: "op:tool:fs/write_file", ask: "sure?" }]\n';
  test.each<[string, Record<string, string>, Parts]>([
    ['a guard of its directive', {}, { guards: '<guard on="op:tool"><ask>sure?</ask></guard>' }],
    ['a guard of the project', { '.ai/policy.yaml': POLICY }, {}],
    ['a guard of the user', { '../home/policy.yaml': `${TRUSTING}${POLICY}` }, {}],
    ['a tier', { '../home/policy.yaml': `${TRUSTING}approve: [write]\n` }, {}],
    ['a deviation rule', {}, { deviation: 'ask_first="true"' }],
    [
      'a guard that fails',
      {},
      { guards: '<guard on="op:tool"><when>input.text / 2 > 1</when><ask>sure?</ask></guard>' },
    ],
  ])('is in no question of %s', async (_name, files, parts) => {
    const write = call('fs/write_file', { path: 'notes/b.txt', content: 'x' });
    const made = await openStage(
      { ...files, ...directive('work', { permissions: MAY, ...parts }) },
      { work: [{ tool_calls: [write] }, DONE] },
    );
    const result = await run(made, 'work');
    const asked = await made.runtime.call('execute', write.arguments as JsonObject, {
      surface: 'cli',
    });
    const listed = await runCommand(['approvals', 'ls'], made.fixture.root, made.fixture.env);
    const said = [result, asked, listed.output, ...(await recorded(made))];
    expect(placesIn(said, made.fixture)).toEqual([]);
  });

  test.each<[string, Record<string, string>]>([
    ['a broken policy of the project', { '.ai/policy.yaml': 'guards: [\n' }],
    ['a broken policy of the user', { '../home/policy.yaml': 'guards: [\n' }],
    ['a wrong policy of the user', { '../home/policy.yaml': 'limits: { trns: 1 }\n' }],
    ['broken settings', { '.ai/config/models.yaml': 'models: [\n' }],
    ['a broken list of capabilities', { '.ai/tools/capabilities/x.yaml': 'capabilities: [\n' }],
  ])('is in no answer under %s', async (_name, files) => {
    const made = await openStage(
      { ...directive('work', { permissions: MAY }), ...files },
      { work: [{ tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] }, DONE] },
    );
    const result = await made.threads.run({ directive: 'work' });
    const reading = { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'gone' } };
    const answers = await Promise.all(
      ['library', 'mcp', 'cli'].map((surface) =>
        made.runtime.call('execute', reading, { surface }),
      ),
    );
    const said = [result, answers, ...(await recorded(made))];
    expect(placesIn(said, made.fixture)).toEqual([]);
  });
});

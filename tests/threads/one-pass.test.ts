// A call of a model and a request to one are one pass each through the pipeline: whoever is refused has
// been counted and recorded, and nothing that went in is lost from what comes out.
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';
import {
  directiveText,
  execute,
  READ,
  read,
  run,
  type Stage,
  stage,
  types,
} from '../support/thread-project.ts';

const LIMIT = '<turns>50</turns><tool_calls>4</tool_calls>';
const limited = {
  '.ai/directives/look.md': directiveText('look', { permissions: READ, limits: LIMIT }),
};

const auditOf = ({ runtime }: Stage, prefix: string) => {
  const rows = runtime.audit.read(200);
  return rows.ok ? rows.output.filter(({ operation }) => operation.startsWith(prefix)) : [];
};

const REFUSED = {
  'a tool that is not granted': (at: number) =>
    execute('fs/write_file', { path: `notes/${at}.txt`, content: `${at}` }),
  'a tool that is not there': (at: number) => execute(`no/such_tool_${at}`, {}),
  'parameters that do not fit': (at: number) => execute('fs/read_file', { nowhere: at }),
  'a verb that is given nonsense': (at: number) => ({
    name: 'load',
    arguments: { item_type: `${at}`, item_id: at },
  }),
};

for (const [what, call] of Object.entries(REFUSED)) {
  test(`a model that is refused ${what} again and again comes to its limit`, async () => {
    const replies = Array.from({ length: 40 }, (_, at) => ({ tool_calls: [call(at)] }));
    const made = await stage(limited, [...replies, { text: 'done' }]);
    const result = await run(made, 'look');
    expect(result).toMatchObject({ status: 'limit', code: 'tool_calls_exceeded' });
    expect(result.cost).toMatchObject({ tool_calls: 4 });
    const noted = await types(made, result.thread_id);
    expect(noted.filter((type) => type === 'tool_call')).toHaveLength(4);
    const rows = ['tool:', 'execute:', 'load:'].flatMap((prefix) => auditOf(made, prefix));
    const refusals = rows.filter(({ surface }) => surface === 'thread');
    expect(refusals.filter(({ decision }) => decision !== 'allowed').length).toBeGreaterThanOrEqual(
      4,
    );
  });
}

test('what any verb answers carries everything that its arguments carried', async () => {
  const made = await stage(
    { '.ai/directives/look.md': directiveText('look', { permissions: READ }) },
    [
      read('notes/a.txt'),
      { tool_calls: [{ name: 'search', arguments: { query: 'read' } }] },
      { tool_calls: [{ name: 'help', arguments: { topic: 'overview' } }] },
      { tool_calls: [{ name: 'load', arguments: { item_type: 'tool', item_id: 'fs/read_file' } }] },
      { tool_calls: [execute('no/such_tool', {})] },
      { text: 'done' },
    ],
  );
  const { thread_id } = await run(made, 'look');
  const history = await made.threads.history(thread_id);
  if (!history.ok) throw new Error(history.error.detail.message);
  const marks = history.output
    .filter(({ type }) => type === 'tool_result')
    .map(({ data }) => (data as { marks: { taint: string[] } }).marks)
    .slice(1); // the directive itself is handed over first
  expect(marks).toHaveLength(5);
  for (const { taint } of marks)
    expect(taint).toEqual(expect.arrayContaining(['src:file', 'src:llm']));
});

const POLICIES = {
  'a guard': 'guards:\n  - {name: no-models, on: "op:tool:llm/*", deny: not here}\n',
  'a rule over every operation': 'labels:\n  "*": {deny: ["op:tool:llm"]}\n',
  'a deny list': 'capabilities: {deny: [net.http]}\n',
};

for (const [what, policy] of Object.entries(POLICIES)) {
  test(`${what} on the provider's tool refuses the model before anything is sent`, async () => {
    const files = { '.ai/directives/look.md': directiveText('look'), '.ai/policy.yaml': policy };
    const made = await stage(files, [{ text: 'never said' }]);
    const result = await run(made, 'look');
    expect(result).toMatchObject({ status: 'failed', code: 'permission_denied', text: '' });
    expect(result.cost).toMatchObject({ tokens: 0, turns: 0 });
    expect(made.provider.requests).toHaveLength(0);
  });
}

test('rules over data in tools do not see what is said to a model', async () => {
  const policy = 'labels:\n  src:file: {deny: ["op:tool:llm"]}\n';
  const files = {
    '.ai/directives/look.md': directiveText('look', { permissions: READ }),
    '.ai/policy.yaml': policy,
  };
  const made = await stage(files, [read('notes/a.txt'), { text: 'done' }]);
  expect(await run(made, 'look')).toMatchObject({ status: 'completed' });
});

test('a parameter carries its marks, whatever it is called', async () => {
  const tool = [
    'tool_id: open',
    'version: 1.0.0',
    'description: takes anything',
    'executor_id: function',
    'config: {function: nothing}',
    'effect: read',
    'input_schema: {type: object, additionalProperties: true}',
  ].join('\n');
  const permissions = `${READ}<execute resource="tool" id="open"/>`;
  const files = {
    '.ai/directives/look.md': directiveText('look', { permissions }),
    '.ai/tools/open.yaml': tool,
    '.ai/policy.yaml': 'labels:\n  src:file: {deny: ["op:tool:open"]}\n',
  };
  const names = ['plain', '__proto__', 'constructor', 'hasOwnProperty'];
  const calls = names.map((name) => ({
    tool_calls: [execute('open', JSON.parse(`{"${name}": "x"}`) as JsonObject)],
  }));
  const made = await stage(files, [read('notes/a.txt'), ...calls, { text: 'done' }]);
  await run(made, 'look');
  const rows = auditOf(made, 'tool:open');
  expect(rows.map(({ decision }) => decision)).toEqual(names.map(() => 'denied'));
});

// Threads end to end: a real HTTP provider on loopback, a real registry file, real items.
import {
  answer,
  directiveText,
  execute,
  hook,
  READ,
  read,
  run,
  stage,
  types,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject } from '../../src/base/index.ts';

test('a directive runs: injected, one tool call, a final message', async () => {
  const made = await stage(
    { '.ai/directives/look.md': directiveText('look', { permissions: READ }) },
    [read('notes/a.txt'), { text: 'It says hello.' }],
  );
  const result = await run(made, 'look', { message: 'please' });
  expect(result).toMatchObject({
    status: 'completed',
    text: 'It says hello.',
    cost: { turns: 2, tool_calls: 1 },
  });
  expect(Number(result.cost.spend)).toBeGreaterThan(0);
  const [first] = made.provider.requests;
  const sent = JSON.stringify(first?.body);
  expect(sent).toContain('run directive look');
  expect(sent).toContain('please');
  expect(JSON.stringify(made.provider.requests[1]?.body)).toContain('hello\\\\n');
  expect(await types(made, result.thread_id)).toEqual([
    'thread_start',
    'user_message',
    'assistant_message',
    'tool_result',
    'user_message',
    'signal',
    'turn_start',
    'assistant_message',
    'turn_end',
    'cost_update',
    'tool_call',
    'tool_result',
    'turn_start',
    'assistant_message',
    'turn_end',
    'cost_update',
    'thread_end',
  ]);
  const row = await made.threads.store.thread(result.thread_id);
  expect(row.ok && row.output.status).toBe('completed');
});

test('what the directive does not grant is denied, and the model is told', async () => {
  const made = await stage(
    { '.ai/directives/look.md': directiveText('look', { permissions: READ }) },
    [
      { tool_calls: [execute('fs/write_file', { path: 'notes/b.txt', content: 'x' })] },
      { tool_calls: [execute('fs/read_file', { path: 'secret.txt' })] },
      { text: 'done' },
    ],
  );
  const result = await run(made, 'look');
  expect(result.status).toBe('completed');
  const last = JSON.stringify(made.provider.requests.at(-1)?.body);
  expect(last.match(/permission_denied/g)?.length).toBeGreaterThanOrEqual(2);
  expect(
    (await types(made, result.thread_id)).filter((type) => type === 'permission_denied'),
  ).toHaveLength(2);
});

test('ten of ten turns can be used, the eleventh does not start', async () => {
  const limits = '<turns>3</turns>';
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', { permissions: READ, limits }),
      'notes/b.txt': 'b',
      'notes/c.txt': 'c',
    },
    [read('notes/a.txt'), read('notes/b.txt'), read('notes/c.txt'), { text: 'never' }],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'limit', code: 'turns_exceeded', cost: { turns: 3 } });
  expect(made.provider.count()).toBe(3);
});

test('zero tool calls means none', async () => {
  const limits = '<tool_calls>0</tool_calls>';
  const made = await stage(
    { '.ai/directives/look.md': directiveText('look', { permissions: READ, limits }) },
    [read('notes/a.txt')],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'limit', code: 'tool_calls_exceeded' });
});

test('declared outputs are returned and checked', async () => {
  const outputs = '<count type="number" required="true"/>';
  const back = (parameters: JsonObject) => ({
    tool_calls: [
      {
        name: 'execute',
        arguments: {
          item_type: 'directive',
          item_id: 'look',
          action: 'return',
          parameters,
        } as Json,
      },
    ],
  });
  const made = await stage({ '.ai/directives/look.md': directiveText('look', { outputs }) }, [
    back({ count: 'many' }),
    back({ count: 2 }),
  ]);
  expect(await run(made, 'look')).toMatchObject({ status: 'completed', outputs: { count: 2 } });
});

test('a hook fires at a limit and may raise it within its ceiling', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ,
        limits: '<turns>1</turns>',
        hooks: hook('event.code == "turns_exceeded"', 'more'),
      }),
      '.ai/directives/more.md': answer('more', {
        action: 'continue',
        context: { limits: { turns: 2 } },
      }),
    },
    [read('notes/a.txt'), { text: 'two turns' }],
  );
  expect(await run(made, 'look')).toMatchObject({
    status: 'completed',
    text: 'two turns',
    cost: { turns: 2 },
  });
});

test.each([
  ['fail', 'failed'],
  ['abort', 'aborted'],
])('a hook that says %s before a step ends the run as %s', async (action, status) => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ,
        hooks: hook('event.name == "before_step" and event.kind == "tool"', 'judge'),
      }),
      '.ai/directives/judge.md': answer('judge', { action, error: 'not today' }),
    },
    [read('notes/a.txt')],
  );
  expect(await run(made, 'look')).toMatchObject({
    status,
    reason: expect.stringContaining('not today'),
  });
});

test('a skipped step is not done, and the model is told so', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ,
        hooks: hook('event.name == "before_step" and event.tool == "fs/read_file"', 'judge'),
      }),
      '.ai/directives/judge.md': answer('judge', { action: 'skip' }),
    },
    [read('notes/a.txt'), { text: 'ok' }],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'completed' });
  const sent = JSON.stringify(made.provider.requests[1]?.body);
  expect(sent).toContain('skipped');
  expect(sent).not.toContain('hello\\n');
});

test.each(['fs.read', 'tool.read_file'])(
  'a hook knows before a step that it requires %s',
  async (name) => {
    const made = await stage(
      {
        '.ai/directives/look.md': directiveText('look', {
          permissions: READ,
          hooks: hook(`event.name == "before_step" and "${name}" in permissions.required`, 'judge'),
        }),
        '.ai/directives/judge.md': answer('judge', { action: 'skip' }),
      },
      [read('notes/a.txt'), { text: 'ok' }],
    );
    expect(await run(made, 'look')).toMatchObject({ status: 'completed' });
    expect(JSON.stringify(made.provider.requests[1]?.body)).toContain('skipped');
  },
);

test('the same call again and again is stopped', async () => {
  const made = await stage(
    { '.ai/directives/look.md': directiveText('look', { permissions: READ }) },
    Array.from({ length: 12 }, () => read('notes/a.txt')),
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'failed', code: 'loop_detected' });
});

test('reading on, and the same again in every new attempt, is no loop', async () => {
  const page = (offset: number) => ({
    tool_calls: [
      {
        name: 'execute',
        arguments: {
          item_type: 'tool',
          item_id: 'fs/read_file',
          parameters: { path: 'notes/long.txt', offset, limit: 1 },
        },
      },
    ],
  });
  const lines = Array.from({ length: 9 }, (_, at) => `line ${at}`);
  const pages = lines.map((_, at) => page(at + 1));
  const twice = [read('notes/a.txt'), read('notes/a.txt')];
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', { permissions: READ }),
      '.ai/directives/short.md': directiveText('short', {
        permissions: READ,
        limits: '<turns>2</turns>',
        hooks: hook('event.name == "limit"', 'again'),
      }),
      '.ai/directives/again.md': answer('again', { action: 'retry' }),
      'notes/long.txt': lines.join('\n'),
    },
    [...pages, { text: 'read' }, ...twice, ...twice, ...twice, { text: 'done' }],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'completed', text: 'read' });
  expect(await run(made, 'short')).toMatchObject({ status: 'completed', text: 'done' });
});

test('a spend limit holds before the request that would pass it', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        limits: '<spend currency="USD">0.000001</spend>',
      }),
    },
    [{ text: 'never' }],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'limit', code: 'spend_exceeded' });
  expect(made.provider.count()).toBe(0);
});

test('what the model read labels what it writes', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: `${READ}<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>`,
      }),
      '.ai/policy.yaml': 'labels:\n  "dir:notes":\n    deny: ["op:tool:fs/write_file"]\n',
    },
    [
      read('notes/a.txt'),
      { tool_calls: [execute('fs/write_file', { path: 'out/x.txt', content: 'in other words' })] },
      { text: 'done' },
    ],
  );
  await run(made, 'look');
  expect(JSON.stringify(made.provider.requests.at(-1)?.body)).toContain('dir:notes');
});

test.each([
  ['an unknown directive', 'nothing', {}, 'not_found'],
  ['missing limits', 'bare', {}, 'invalid_item'],
  ['missing inputs', 'asks', {}, 'invalid_input'],
])('%s is refused and leaves nothing behind', async (_, name, inputs, code) => {
  const made = await stage(
    {
      '.ai/directives/bare.md': directiveText('bare').replace(/<limits><\/limits>/, ''),
      '.ai/directives/asks.md': directiveText('asks').replace(
        '<process>',
        '<inputs><input name="x" type="string" required="true">x</input></inputs><process>',
      ),
    },
    [],
  );
  const done = await made.threads.run({ directive: name, inputs });
  expect(done).toMatchObject({ ok: false, error: { code } });
  const rows = await made.threads.store.query({});
  expect(rows.ok && rows.output.rows).toEqual([]);
});

test('without a key for the provider nothing starts', async () => {
  const made = await stage({ '.ai/directives/look.md': directiveText('look') }, []);
  delete made.fixture.env.ANTHROPIC_API_KEY;
  const done = await made.threads.run({ directive: 'look' });
  expect(done).toMatchObject({ ok: false, error: { code: 'model_unavailable' } });
  expect(!done.ok && getOwn(done.error.detail, 'variable')).toBe('ANTHROPIC_API_KEY');
});

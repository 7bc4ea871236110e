// Replay: an ended thread again from its journal, without a provider and without tools.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ScriptedReply } from '../../src/llm/index.ts';
import { expectSame } from '../support/expect-same.ts';
import {
  answer,
  directiveText,
  execute,
  hook,
  stage as openStage,
  read,
  run as runDirective,
  type Stage,
} from '../support/thread-project.ts';

const PERMISSIONS = `
  <read resource="filesystem" path="notes/**"/>
  <write resource="filesystem" path="out/**"/>
  <execute resource="tool" id="fs/read_file"/>
  <execute resource="tool" id="fs/write_file"/>`;
const directive = (hooks = '', turns = 4) =>
  directiveText('work', {
    limits: `<turns>${turns}</turns>`,
    permissions: PERMISSIONS,
    hooks,
  });
const HOOK = hook('event.code == "turns_exceeded"', 'more');
const MORE = answer('more', { action: 'continue', context: { limits: { turns: 3 } } });
const write = (path: string): ScriptedReply => ({
  tool_calls: [execute('fs/write_file', { path, content: 'written' })],
});

const stage = (text: string, script: readonly ScriptedReply[]): Promise<Stage> =>
  openStage({ '.ai/directives/work.md': text, '.ai/directives/more.md': MORE }, script);
const run = (made: Stage) => runDirective(made, 'work', { message: 'please' });

async function replay({ threads }: Stage, id: string, until?: number) {
  const done = await threads.replay(id, until === undefined ? {} : { until });
  if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
  return done.output;
}

test('a replay is the same, asks no model, runs no tool and leaves nothing', async () => {
  const made = await stage(directive(), [
    read('notes/a.txt'),
    read('secret.txt'),
    write('out/x.txt'),
    { text: 'done' },
  ]);
  const { thread_id, status } = await run(made);
  expect(status).toBe('completed');
  made.fixture.write('notes/a.txt', 'something else by now\n');
  rmSync(join(made.fixture.root, 'out'), { recursive: true });
  delete made.fixture.env.ANTHROPIC_API_KEY;
  const asked = made.provider.count();
  const report = await replay(made, thread_id);
  expectSame(report, { status: 'completed' });
  expect(report.same).toBe(report.recorded);
  expect(made.provider.count()).toBe(asked);
  expect(existsSync(join(made.fixture.root, 'out/x.txt'))).toBe(false);
  const rows = await made.threads.store.query();
  expect(rows.ok && rows.output.rows.map(({ id }) => id)).toEqual([thread_id]);
});

test('limits and hooks that are scripts decide again, to the same end', async () => {
  const made = await stage(directive(HOOK, 2), [
    read('notes/a.txt'),
    read('notes/b.txt'),
    read('notes/c.txt'),
    { text: 'never' },
  ]);
  const { thread_id, status } = await run(made);
  expect(status).toBe('limit');
  const report = await replay(made, thread_id);
  expectSame(report, { status: 'limit' });
});

test.each([
  ['a failed request', { fault: { status: 400, error: { message: 'no' } } }],
  ['arguments that cannot be read', { tool_calls: [{ name: 'execute', arguments: '{"item_' }] }],
  [
    'a call that broke off',
    { ...read('notes/a.txt'), fault: { max_tokens_inside_arguments: true } },
  ],
])('%s is replayed as it was', async (_, reply) => {
  const made = await stage(directive(), [reply, { text: 'done' }]);
  const { thread_id, status } = await run(made);
  const report = await replay(made, thread_id);
  expectSame(report, { status });
});

test('calls that were made at the same time, or again, get their own results', async () => {
  const both = (...paths: string[]): ScriptedReply => ({
    tool_calls: paths.flatMap((path) => read(path).tool_calls ?? []),
  });
  const made = await stage(directive(), [
    both('notes/a.txt', 'notes/b.txt', 'secret.txt'),
    both('notes/b.txt', 'notes/a.txt'),
    { text: 'done' },
  ]);
  const { thread_id, status } = await run(made);
  const report = await replay(made, thread_id);
  expectSame(report, { status });
});

const PROBE = (effect: string) =>
  `tool_id: probe\ndescription: a test\nexecutor_id: script\nparameters: []\neffect: ${effect}\nconfig: { script: '/return "seen"' }\n`;

test('calls that were made at once are recorded in their order, refused ones too', async () => {
  const made = await openStage(
    {
      '.ai/directives/work.md': directiveText('work', {
        permissions: `${PERMISSIONS}<execute resource="tool" id="fs/list_dir"/><execute resource="tool" id="fs/glob"/><execute resource="tool" id="own/probe"/>`,
      }),
      '.ai/tools/own/probe.yaml': PROBE('read'),
    },
    [
      {
        tool_calls: [
          execute('own/probe', {}),
          execute('fs/list_dir', { path: 'notes' }),
          execute('fs/read_file', { path: 'secret.txt' }),
          execute('fs/glob', { pattern: 'notes/*' }),
          execute('own/nothing', {}),
          execute('fs/read_file', { path: 'notes/a.txt' }),
          execute('fs/read_file', { path: 'other.txt' }),
        ],
      },
      { text: 'done' },
    ],
  );
  const { thread_id, status } = await run(made);
  const stored = await made.threads.store.read(thread_id);
  const events = (stored.ok ? stored.output : []).slice(6);
  const idsOf = (type: string) =>
    events.filter((event) => event.type === type).map(({ data }) => data.call_id);
  const spoken = events.find(({ type }) => type === 'assistant_message')?.data.content as {
    id: string;
  }[];
  const calls = spoken.map(({ id }) => id);
  expect(calls).toHaveLength(7);
  expect(idsOf('tool_call')).toEqual(calls);
  expect(idsOf('tool_result')).toEqual(calls);
  expect(idsOf('permission_denied')).toEqual([calls[2], calls[6]]);
  const groups = events.filter(({ type }) => type === 'tool_call').map(({ data }) => data.group);
  expect(new Set(groups)).toEqual(new Set([7]));
  expectSame(await replay(made, thread_id), { status });
});

test.each([
  ['read', ''],
  ['', 'read'],
])('calls are grouped as they were: a tool is `%s`, then `%s`', async (then, now) => {
  const file = '.ai/tools/own/probe.yaml';
  const made = await openStage(
    {
      '.ai/directives/work.md': directiveText('work', {
        permissions: `${PERMISSIONS}<execute resource="tool" id="own/probe"/>`,
      }),
      ...(then && { [file]: PROBE(then) }),
    },
    [
      {
        tool_calls: [
          execute('fs/read_file', { path: 'notes/a.txt' }),
          execute('own/probe', {}),
          execute('fs/read_file', { path: 'notes/a.txt' }),
        ],
      },
      { text: 'done' },
    ],
  );
  const { thread_id, status } = await run(made);
  if (now) made.fixture.write(file, PROBE(now));
  else rmSync(join(made.fixture.root, file));
  await made.runtime.library.refresh();
  expectSame(await replay(made, thread_id), { status });
});

test('a replay goes no further than asked', async () => {
  const made = await stage(directive(), [read('notes/a.txt'), { text: 'done' }]);
  const { thread_id } = await run(made);
  // The first event is the birth, which is not repeated.
  const report = await replay(made, thread_id, 9);
  expectSame(report, { same: 8, recorded: 8 });
  expect(report.status).toBeUndefined();
});

test('a changed directive shows where the thread would go another way', async () => {
  const made = await stage(directive(HOOK, 2), [
    read('notes/a.txt'),
    read('notes/b.txt'),
    { text: 'done' },
  ]);
  const { thread_id, status } = await run(made);
  made.fixture.write('.ai/directives/more.md', MORE.replace('"continue"', '"fail"'));
  const report = await replay(made, thread_id);
  expect(status).toBe('completed');
  expect(report).toMatchObject({ isSame: false, status: 'failed' });
  expect(report.difference).toMatchObject({
    recorded: { type: 'hook' },
    replayed: { type: 'hook' },
  });
});

test('what was said to a thread is said again at the same place', async () => {
  const made = await stage(directive(), [
    { ...read('notes/a.txt'), delay_ms: 300 },
    { text: 'done' },
  ]);
  const running = made.threads.run({ directive: 'work' });
  const { store } = made.threads;
  await expect.poll(() => made.provider.count()).toBe(1);
  const page = await store.query();
  const id = page.ok ? (page.output.rows[0]?.id ?? '') : '';
  await store.signal({
    thread: id,
    kind: 'message',
    payload: { role: 'user', content: 'mind the gap' },
    key: 'k',
    by: 'me',
  });
  const done = await running;
  expect(done).toMatchObject({ ok: true, output: { status: 'completed' } });
  const report = await replay(made, id);
  expectSame(report);
});

test.each(['terminate', 'kill', 'interrupt'])(
  'a reply that %s called off is called off again',
  async (kind) => {
    const made = await stage(directive(), [
      { ...read('notes/a.txt'), delay_ms: 5000 },
      { text: 'done' },
    ]);
    const running = made.threads.run({ directive: 'work' });
    await expect.poll(() => made.provider.count()).toBe(1);
    const page = await made.threads.store.query();
    const id = page.ok ? (page.output.rows[0]?.id ?? '') : '';
    await made.threads.store.signal({
      thread: id,
      kind: kind,
      payload: { content: 'enough' },
      key: 'k',
      by: 'me',
    });
    const done = await running;
    const report = await replay(made, id);
    const status = done.ok ? done.output.status : '';
    expectSame(report, { status });
  },
);

test('a hook that asked a model is given its answers again', async () => {
  const judge = directive()
    .replace('name="work"', 'name="judge"')
    .replace('<category>test', '<category>hooks')
    .replace(
      '</directive>',
      '<outputs><action type="string" required="true">continue</action></outputs></directive>',
    );
  const hook =
    '<hook><when>event.name == "before_step" and event.kind == "tool"</when><directive>judge</directive></hook>';
  const verdict = { text: '{"action":"continue"}', match: { text: 'run directive judge' } };
  const made = await stage(directive(hook), [
    { ...read('notes/a.txt'), match: { text: 'run directive work', assistant_messages: 1 } },
    verdict,
    { text: 'done' },
  ]);
  made.fixture.write('.ai/directives/judge.md', judge);
  // A changed file counts a moment later.
  const isSeen = async () => {
    await made.runtime.library.refresh();
    return made.runtime.library.find('directive', 'judge').ok;
  };
  await expect.poll(isSeen).toBe(true);
  const { thread_id, status } = await run(made);
  expect(status).toBe('completed');
  const asked = made.provider.count();
  expect(asked).toBe(3);
  const report = await replay(made, thread_id);
  expectSame(report, { status });
  expect(made.provider.count()).toBe(asked);
});

test('a thread that has not ended is not replayed', async () => {
  const made = await stage(directive(), [{ text: 'done' }]);
  expect(await made.threads.replay('nothing')).toMatchObject({ ok: false });
});

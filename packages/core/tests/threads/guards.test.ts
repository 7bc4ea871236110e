// Guards of a directive hold for everything that is done in its threads, whoever does it and however
// deep: calls and requests of the model, scripts, tools that are scripts, hooks, children, directives
// that are executed inside, and after a resume.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expectSame } from '@kernmantle/test-support/expect-same';
import {
  call,
  directive,
  directiveText,
  hook,
  openStage,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type Json } from '../../src/base/index.ts';

const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const SPAWNS = '<orchestration enabled="true"/>';
const NO_WRITE = '<guard on="op:tool:fs/write_file"><deny>nothing is written here</deny></guard>';
const FILES = { 'out/.keep': '' };
const DONE = { text: 'done' };
const write = (path = 'out/a.md', content = 'x') => ({
  tool_calls: [call('fs/write_file', { path, content })],
});
const execute = (name: string) => ({
  tool_calls: [{ name: 'execute', arguments: { item_type: 'directive', item_id: name } as Json }],
});
const isThere = ({ fixture }: Stage, path = 'out/a.md') => existsSync(join(fixture.root, path));

/** What the results of all threads say, as text. */
async function told({ threads }: Stage): Promise<string> {
  const page = await threads.store.query({ limit: 100 });
  const ids = page.ok ? page.output.rows.map(({ id }) => id) : [];
  const journals = await Promise.all(ids.map((id) => threads.store.read(id)));
  const events = journals.flatMap((one) => (one.ok ? one.output : []));
  return JSON.stringify(
    events.filter(({ type }) => type === 'tool_result' || type === 'thread_end'),
  );
}

const scripted = (
  name: string,
  script: string,
  parts: { permissions?: string; guards?: string },
) => ({
  [`.ai/directives/${name}.md`]: directiveText(name, parts)
    .replace(/<process>.*<\/process>/s, `<process><script>${script}</script></process>`)
    .replace(/<model .*<\/model>/, ''),
});

test.each([
  ['that denies', NO_WRITE, 'nothing is written here'],
  [
    'with a condition that holds',
    '<guard on="op:tool:fs"><when>"x" in input.text</when><deny>no x</deny></guard>',
    'no x',
  ],
  [
    'on a label of what the model says',
    '<guard on="src:llm"><when>op.type == "tool"</when><deny>not by a model</deny></guard>',
    'not by a model',
  ],
])('a call of the model is refused by a guard %s, and told why', async (_name, guards, reason) => {
  const made = await openStage(
    { ...FILES, ...directive('save', { permissions: WRITES, guards }) },
    { save: [write(), DONE] },
  );
  expect((await run(made, 'save')).status).toBe('completed');
  expect(isThere(made)).toBe(false);
  expect(await told(made)).toContain(reason);
});

test('a guard whose condition does not hold lets the call through', async () => {
  const guards =
    '<guard on="op:tool:fs"><when>"secret" in input.text</when><deny>no</deny></guard>';
  const made = await openStage(
    { ...FILES, ...directive('save', { permissions: WRITES, guards }) },
    { save: [write(), DONE] },
  );
  await run(made, 'save');
  expect(isThere(made)).toBe(true);
});

test('a guard after keeps the result from the model', async () => {
  const permissions =
    '<read resource="filesystem" path="notes/**"/><execute resource="tool" id="fs/read_file"/>';
  const guards = '<guard on="op:tool" timing="after"><deny>not for you</deny></guard>';
  const made = await openStage(directive('look', { permissions, guards }), {
    look: [{ tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] }, DONE],
  });
  await run(made, 'look');
  const second = JSON.stringify(made.provider.requests[1]?.body);
  expect(second).toContain('not for you');
  expect(second).not.toContain('hello');
});

test('a guard on model requests ends the thread before one is sent', async () => {
  const guards = '<guard on="op:model"><deny>no models today</deny></guard>';
  const made = await openStage(directive('look', { guards }), { look: [DONE] });
  const result = await run(made, 'look');
  expect(result).toMatchObject({
    status: 'failed',
    reason: expect.stringContaining('no models today'),
    cost: { tokens: 0 },
  });
  expect(made.provider.requests).toHaveLength(0);
});

const SCRIPTS = {
  'a file that is written': '/output "x" to "out/a.md"',
  'a tool that is called': '/var @r = @tool("fs/write_file", { path: "out/a.md", content: "x" })',
  'a tool that is called without guards':
    '/var @r = @tool("fs/write_file", { path: "out/a.md", content: "x" }) with { guards: false }',
  'a command': '/run {touch out/a.md}',
  'what stands in a function': '/exe @save() = cmd {touch out/a.md}\n/var @r = @save()',
};
test.each(Object.entries(SCRIPTS))('%s by a script is refused', async (_name, script) => {
  const permissions = `${WRITES}<execute resource="shell"/>`;
  const guards =
    '<guard on="op:tool"><deny>never</deny></guard><guard on="op:output"><deny>never</deny></guard><guard on="op:cmd"><deny>never</deny></guard>';
  const made = await openStage(
    { ...FILES, ...scripted('work', script, { permissions, guards }) },
    {},
  );
  const result = await run(made, 'work');
  expect(result).toMatchObject({ status: 'denied', reason: expect.stringContaining('never') });
  expect(isThere(made)).toBe(false);
});

test('what a tool does that is a script is refused too', async () => {
  const tool = `
tool_id: save
description: writes
parameters: []
requires: [fs.write]
effect: write
executor_id: script
config:
  script: |
    /output "x" to "out/a.md"
`;
  const permissions = `${WRITES}<execute resource="tool" id="own/save"/>`;
  const guards = '<guard on="op:output"><deny>not from inside either</deny></guard>';
  const made = await openStage(
    {
      ...FILES,
      '.ai/tools/own/save.yaml': tool,
      ...directive('work', { permissions, guards }),
    },
    { work: [{ tool_calls: [call('own/save')] }, DONE] },
  );
  await run(made, 'work');
  expect(await told(made)).toContain('not from inside either');
  expect(isThere(made)).toBe(false);
});

const ACTION = '<outputs><action type="string">continue|skip|fail</action></outputs>';
const hookDirective = (name: string, script: string, permissions = '') =>
  Object.fromEntries(
    Object.entries(
      scripted(name, `${script}\n/return { "action": "continue" }`, { permissions }),
    ).map(([file, text]) => [file, text.replace('</directive>', `${ACTION}</directive>`)]),
  );

test.each([
  ['that only computes', '/var @x = 1', '<guard on="op:var"><deny>no variables</deny></guard>', ''],
  [
    'with effects',
    '/output "x" to "out/a.md"',
    '<guard on="op:output"><deny>no files</deny></guard>',
    WRITES,
  ],
])(
  'a hook %s is held to the guards of the thread it serves',
  async (_name, script, guards, permissions) => {
    const hooks = hook('event.name == "before_step" and event.kind == "turn"', 'aside');
    const made = await openStage(
      {
        ...FILES,
        ...directive('look', { hooks, guards, permissions: WRITES }),
        ...hookDirective('aside', script, permissions),
      },
      { look: [DONE] },
    );
    const result = await run(made, 'look');
    expect(result).toMatchObject({ status: 'failed', code: 'hook_failed' });
    expect(isThere(made)).toBe(false);
  },
);

test('a child and its child are held to the guards of those above', async () => {
  const permissions = `${WRITES}${SPAWNS}`;
  const made = await openStage(
    {
      ...FILES,
      ...directive('top', { permissions, guards: NO_WRITE }),
      ...directive('mid', { permissions }),
      ...directive('low', { permissions: WRITES }),
    },
    {
      top: [{ tool_calls: [spawn('mid')] }, DONE],
      mid: [{ tool_calls: [spawn('low')] }, DONE],
      low: [write(), DONE],
    },
  );
  await run(made, 'top');
  expect((await rows(made)).map(({ status }) => status)).toEqual(Array(3).fill('completed'));
  expect(await told(made)).toContain('nothing is written here');
  expect(isThere(made)).toBe(false);
});

test('a directive that is executed inside a thread brings its guards, from then on', async () => {
  const permissions = `${WRITES}<execute resource="kernmantle" action="execute"/>`;
  const made = await openStage(
    {
      ...FILES,
      ...directive('outer', { permissions }),
      ...directive('inner', { guards: NO_WRITE }),
    },
    { outer: [write('out/a.md'), execute('inner'), write('out/b.md'), DONE] },
  );
  await run(made, 'outer');
  expect(isThere(made, 'out/a.md')).toBe(true);
  expect(isThere(made, 'out/b.md')).toBe(false);
  expect(await told(made)).toContain('nothing is written here');
});

const WAIT = {
  tool_calls: [{ id: 'w', name: 'help', arguments: { action: 'escalate', reason: 'go on?' } }],
};
/** Everybody's questions are answered, by another process than the one that asked. */
async function answerAndResume(made: Stage, which: string): Promise<void> {
  const again = await made.fixture.open();
  const threads = await again.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const { store, resume } = threads.output;
  const open = await store.approvals({ state: 'pending' });
  for (const { id } of open.ok ? open.output : []) {
    await store.decide(id, { decision: 'approved', who: 'ann', channel: 'cli', why: '' });
  }
  const row = (await rows(made)).find(({ directive: name }) => name.endsWith(which));
  const done = await resume(row?.id ?? '');
  expect(getOwn(done.ok ? { ...done.output } : done.error.detail, 'status')).toBe('completed');
  await again.close();
}

test('a thread that goes on in another process has its guards, also those that came to it', async () => {
  const permissions = `${WRITES}<execute resource="kernmantle" action="execute"/>`;
  const guards = '<guard on="op:tool"><when>"own" in input.text</when><deny>own</deny></guard>';
  const made = await openStage(
    {
      ...FILES,
      ...directive('outer', { permissions, guards }),
      ...directive('inner', { guards: NO_WRITE }),
    },
    {
      outer: [execute('inner'), WAIT, write('out/a.md'), write('out/b.md', 'own'), DONE],
    },
  );
  expect((await run(made, 'outer')).status).toBe('waiting');
  await answerAndResume(made, 'outer');
  expect([isThere(made, 'out/a.md'), isThere(made, 'out/b.md')]).toEqual([false, false]);
});

test('a child that goes on without its parent has the guards of its parent', async () => {
  const permissions = `${WRITES}${SPAWNS}`;
  const made = await openStage(
    {
      ...FILES,
      ...directive('top', { permissions, guards: NO_WRITE }),
      ...directive('low', { permissions: WRITES }),
    },
    {
      top: [{ tool_calls: [spawn('low', { detached: true })] }, DONE],
      low: [WAIT, write(), DONE],
    },
  );
  await run(made, 'top');
  await expect
    .poll(async () => (await rows(made)).map(({ status }) => status))
    .toContain('waiting');
  await answerAndResume(made, 'low');
  expect(isThere(made)).toBe(false);
  expect(await told(made)).toContain('nothing is written here');
});

test('a guard that cannot be compiled is refused before anything runs', async () => {
  const guards =
    '<guard on="op:tool"><when>input.lables contains "x"</when><deny>no</deny></guard>';
  const made = await openStage(directive('look', { guards }), { look: [DONE] });
  const refused = await made.threads.run({ directive: 'look' });
  expect(refused).toMatchObject({ ok: false, error: { code: 'invalid_item' } });
  expect(made.provider.requests).toHaveLength(0);
});

test('a replay of a guarded tree is the same', async () => {
  const permissions = `${WRITES}${SPAWNS}`;
  const made = await openStage(
    {
      ...FILES,
      ...directive('top', { permissions, guards: NO_WRITE }),
      ...directive('low', { permissions: WRITES }),
    },
    { top: [write(), { tool_calls: [spawn('low')] }, DONE], low: [write(), DONE] },
  );
  await run(made, 'top');
  for (const { id } of await rows(made)) {
    const report = await made.threads.replay(id);
    expect(report.ok && report.output.difference).toBeUndefined();
    expectSame(report);
  }
});

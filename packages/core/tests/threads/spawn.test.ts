// Threads that start threads: real HTTP, a real registry, real items.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  call,
  directive,
  nameIn,
  openStage,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type JsonObject, plainText } from '../../src/base/index.ts';

const ORCHESTRATES = '<orchestration enabled="true"/>';
const handles = (results: readonly unknown[]): string[] =>
  results.map((result) => plainText(getOwn(result as never, 'thread_id')));

test('three children run at once, and their parent puts their results together', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES }),
      ...directive('part', { inputs: '<input name="n" type="number" required="true">n</input>' }),
    },
    {
      lead: [
        { tool_calls: [1, 2, 3].map((n) => spawn('part', { inputs: { n } })) },
        ({ results }) => ({
          tool_calls: [call('threads/wait_all', { thread_ids: handles(results) })],
        }),
        ({ results }) => ({ text: `all: ${JSON.stringify(results)}` }),
      ],
      part: [({ body }) => ({ text: `part ${/"n\W*(\d)/.exec(JSON.stringify(body))?.[1]} done` })],
    },
  );
  const result = await run(made, 'lead');
  expect(result.status).toBe('completed');
  for (const n of [1, 2, 3]) expect(result.text).toContain(`part ${n} done`);
  expect((await rows(made)).map(({ status }) => status)).toEqual(Array(4).fill('completed'));
  expect(result.cost).toMatchObject({ spawns: 3, turns: 3 });
});

test('a thread in a thread in a thread: each answers the one above', async () => {
  const down = (name: string) => [
    { tool_calls: [spawn(name, { wait_ms: 30_000 })] },
    ({ results }: { results: readonly unknown[] }) => ({
      text: `above ${JSON.stringify(results)}`,
    }),
  ];
  const made = await openStage(
    {
      ...directive('top', { permissions: ORCHESTRATES }),
      ...directive('middle', { permissions: ORCHESTRATES }),
      ...directive('bottom'),
    },
    { top: down('middle'), middle: down('bottom'), bottom: [{ text: 'the bottom' }] },
  );
  const result = await run(made, 'top');
  expect(result).toMatchObject({ status: 'completed', cost: { spawns: 2 } });
  expect(result.text).toContain('the bottom');
  expect((await rows(made)).map(({ depth }) => depth)).toEqual([0, 1, 2]);
  const [top, middle, bottom] = await rows(made);
  expect(bottom).toMatchObject({ parent: middle?.id, root: top?.id });
});

test('a spawn answers at once with the handle, through all three layers', async () => {
  let answer: unknown;
  const made = await openStage(
    { ...directive('lead', { permissions: ORCHESTRATES }), ...directive('part') },
    {
      lead: [
        { tool_calls: [spawn('part')] },
        ({ results }) => {
          [answer] = results;
          return { text: 'ok' };
        },
      ],
      part: [{ text: 'done' }],
    },
  );
  await run(made, 'lead');
  const id = expect.stringMatching(/^part_\d{8}_\d{6}_[a-z0-9]{4}$/);
  expect(answer).toMatchObject({
    thread_id: id,
    status: 'spawned',
    directive: 'part',
    runner: 'safety',
    transcript_path: expect.stringMatching(/^\.ai\/threads\/part_.*\/transcript\.jsonl$/),
    started_at: expect.stringMatching(/^\d{4}-.*Z$/),
    chain: ['threads/thread_directive', 'threads/safety_harness', 'threads/spawn_thread', 'thread'],
  });
});

const lastSaid = (made: Stage, name: string): string =>
  JSON.stringify(made.provider.requests.findLast((request) => nameIn(request) === name)?.body);

test('a directive executed inside a thread runs under that thread’s token', async () => {
  const run_tests = {
    item_type: 'directive',
    item_id: 'run_tests',
    parameters: {},
  };
  const made = await openStage(
    {
      ...directive('deploy_staging', {
        permissions:
          '<read resource="filesystem" path="src/**"/><execute resource="kiwi-mcp" action="execute"/><execute resource="tool" id="bash"/><execute resource="tool" id="fs/write_file"/>',
      }),
      ...directive('run_tests', {
        permissions:
          '<read resource="filesystem" path="tests/**"/><write resource="filesystem" path="tests/output/**"/>',
      }),
    },
    {
      deploy_staging: [
        { tool_calls: [{ name: 'execute', arguments: run_tests }] },
        {
          tool_calls: [call('fs/write_file', { path: 'tests/output/results.json', content: '{}' })],
        },
        { text: 'done' },
      ],
    },
  );
  const result = await run(made, 'deploy_staging');
  expect(result.status).toBe('completed');
  expect(await rows(made)).toHaveLength(1);
  const said = lastSaid(made, 'deploy_staging');
  expect(said).toContain('permission_denied');
  expect(said).toMatch(/`fs.write` on `[^`]+` is not granted: add/);
  expect(said).toContain('to the permissions of directive `deploy_staging`');
});

test.each([
  ['an allowed category', 'audit_one', 'audit', ''],
  ['an allowed name', 'verify_all', 'misc', ''],
  ['a category and a name nobody listed', 'other', 'misc', 'allow_categories'],
  ['a name on the deny list, in an allowed category', 'delete_logs', 'audit', 'deny_directives'],
])('orchestration lists: %s', async (_, name, category, list) => {
  const lists =
    '<orchestration enabled="true"><allow_categories>audit,deploy</allow_categories><allow_directives>verify_*</allow_directives><deny_directives>delete_*,drop_*</deny_directives></orchestration>';
  const made = await openStage(
    { ...directive('lead', { permissions: lists }), ...directive(name, { category }) },
    { lead: [{ tool_calls: [spawn(name)] }, { text: 'ok' }], [name]: [{ text: 'ran' }] },
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(list === '' ? 2 : 1);
  if (list !== '') {
    expect(lastSaid(made, 'lead')).toContain(
      `directive \`${name}\` may not be spawned: \`${list}\` of \`<orchestration>\``,
    );
  }
});

test('without orchestration a spawn fails at once and says what to add', async () => {
  const made = await openStage(
    { ...directive('lead'), ...directive('part') },
    { lead: [{ tool_calls: [spawn('part')] }, { text: 'ok' }], part: [{ text: 'never' }] },
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(1);
  const said = lastSaid(made, 'lead');
  expect(said).toContain('permission_denied');
  expect(said).toContain('threads/thread_directive');
});

test('naming the tool alone does not give the right to spawn', async () => {
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: '<execute resource="tool" id="threads/thread_directive"/>',
      }),
      ...directive('part'),
    },
    { lead: [{ tool_calls: [spawn('part')] }, { text: 'ok' }], part: [{ text: 'never' }] },
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(1);
  expect(lastSaid(made, 'lead')).toContain('`spawn.thread` is not granted');
});

test('a user directive reads its own subtree in the registry and writes nothing', async () => {
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: `${ORCHESTRATES}<execute resource="registry" action="read"/><execute resource="tool" id="threads/thread_registry"/>`,
      }),
      ...directive('part'),
    },
    {
      lead: [
        { tool_calls: [spawn('part', { wait_ms: 30_000 })] },
        ({ results }) => ({
          tool_calls: [
            call('threads/thread_registry', { action: 'query' }),
            call('threads/thread_registry', {
              action: 'update_status',
              thread_id: handles(results)[0] ?? '',
              status: 'killed',
            }),
          ],
        }),
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
      part: [{ text: 'done' }],
    },
  );
  await run(made, 'part'); // another tree: not to be seen
  const { text } = await run(made, 'lead');
  const [page, refusal] = JSON.parse(text) as [{ threads: unknown[] }, { error: JsonObject }];
  expect(page.threads).toHaveLength(2);
  expect(refusal.error.code).toBe('permission_denied');
  expect(JSON.stringify(refusal)).toContain('registry.write');
  expect(JSON.stringify(refusal)).toContain('only signed core items have it');
});

const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';

test('a child that asks for more than its parent holds is refused before it starts', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES }),
      ...directive('part', { permissions: WRITES }),
    },
    { lead: [{ tool_calls: [spawn('part')] }, { text: 'ok' }], part: [{ text: 'never' }] },
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(1);
  expect(lastSaid(made, 'lead')).toContain('which its parent');
});

test('what a child declares beyond its parent’s scope is denied call by call', async () => {
  const narrow = WRITES.replace('out/**', 'out/mine/**');
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${narrow}` }),
      ...directive('part', { permissions: WRITES }),
      'out/mine/x.txt': '',
    },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })] }, { text: 'ok' }],
      part: [
        {
          tool_calls: [
            call('fs/write_file', { path: 'out/mine/a.txt', content: 'a' }),
            call('fs/write_file', { path: 'out/b.txt', content: 'b' }),
          ],
        },
        { text: 'done' },
      ],
    },
  );
  await run(made, 'lead');
  expect(existsSync(join(made.fixture.root, 'out/mine/a.txt'))).toBe(true);
  expect(existsSync(join(made.fixture.root, 'out/b.txt'))).toBe(false);
  expect(lastSaid(made, 'part')).toContain('a child never has more than its parent');
});

test('a thread id is checked, and a taken one is refused', async () => {
  const named = (thread_id: string) =>
    call('threads/spawn_thread', { thread_id, runner: 'safety', directive_name: 'part' });
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: `${ORCHESTRATES}<execute resource="tool" id="threads/spawn_thread"/>`,
      }),
      ...directive('part'),
    },
    {
      lead: [
        { tool_calls: [named('not a good id!'), named('mine'), named('mine')] },
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
      part: [{ text: 'done' }],
    },
  );
  const { text } = await run(made, 'lead');
  const [bad, good, taken] = JSON.parse(text) as [never, never, never];
  expect(bad).toMatchObject({
    error: { code: 'invalid_input', detail: { suggestion: 'not_a_good_id' } },
  });
  expect(good).toMatchObject({ thread_id: 'mine', status: 'spawned' });
  expect(taken).toMatchObject({ error: { code: 'thread_exists' } });
});

test('a tool of the project over the same primitive needs the same rights', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: '<execute resource="tool" id="stopper"/>' }),
      ...directive('other'),
      '.ai/tools/stopper.yaml': `
tool_id: stopper
version: "1.0.0"
description: Ends any thread, it hopes
executor_id: thread
config: { function: kill }
effect: read
parameters:
  - { name: thread_id, type: string, required: true, description: x }
`,
    },
    {
      lead: [
        async () => ({
          tool_calls: [call('stopper', { thread_id: (await rows(made))[0]?.id ?? '' })],
        }),
        { text: 'ok' },
      ],
      other: [{ text: 'done' }],
    },
  );
  await run(made, 'other');
  await run(made, 'lead');
  expect(lastSaid(made, 'lead')).toContain('permission_denied');
  expect(lastSaid(made, 'lead')).toContain('thread.control');
});

test('a child whose hook says continue runs with what its parent holds', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES }),
      ...directive('part', {
        permissions: WRITES,
        hooks:
          '<hook><when>event.code == "permission_denied"</when><directive>go_on</directive></hook>',
      }),
      '.ai/directives/go_on.md': `
<directive name="go_on" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action></outputs>
  <process><script>/return {"action": "continue"}</script></process>
</directive>`,
    },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })] }, { text: 'ok' }],
      part: [
        { tool_calls: [call('fs/write_file', { path: 'out/b.txt', content: 'b' })] },
        { text: 'without' },
      ],
    },
  );
  await run(made, 'lead');
  expect((await rows(made)).map(({ status }) => status)).toEqual(['completed', 'completed']);
  expect(existsSync(join(made.fixture.root, 'out/b.txt'))).toBe(false);
});

test('a tool in the background answers at once with a handle, whatever it is asked to wait', async () => {
  const later = `tool_id: later
version: "1.0.0"
description: begins a directive
executor_id: threads/thread_directive
requires: [spawn.thread]
background: true
input_schema:
  type: object
  required: [directive_name]
  additionalProperties: true
  properties: { directive_name: { type: string }, wait_ms: { type: number } }
`;
  const asked = call('own/later', { directive_name: 'part', wait_ms: 30_000 });
  const made = await openStage(
    {
      '.ai/tools/own/later.yaml': later,
      ...directive('lead', {
        permissions: `${ORCHESTRATES}<execute resource="tool" id="own/later"/>`,
      }),
      ...directive('part'),
    },
    {
      lead: [
        { tool_calls: [asked] },
        ({ results }) => ({
          text: JSON.stringify(results),
          tool_calls: [call('threads/wait_all', { thread_ids: handles(results) })],
        }),
        { text: 'done' },
      ],
      part: [{ text: 'part done', delay_ms: 300 }],
    },
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('completed');
  const events = await made.threads.store.read(thread_id);
  const [, answered] = events.ok ? events.output.filter(({ type }) => type === 'tool_result') : [];
  expect(getOwn(answered?.data, 'content')).toMatchObject({ status: 'spawned' });
});

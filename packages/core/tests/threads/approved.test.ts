// A person approves a right that a thread does not hold: exactly that, as often and as long as was said.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isLate } from '@kernmantle/test-support/late-store';
import {
  call,
  directive,
  openStage,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject, systemClock } from '../../src/base/index.ts';
import type { Decision } from '../../src/store/index.ts';

const OUT = { path: 'out/a.md' };
const ask = (id: string, capability: string, scope: JsonObject) => ({
  tool_calls: [
    { id, name: 'help', arguments: { action: 'escalate', reason: 'I need it', capability, scope } },
  ],
});
const write = (path: string) => ({ tool_calls: [call('fs/write_file', { path, content: 'x' })] });
const TOOL = '<execute resource="tool" id="fs/write_file"/>';
const READS = '<read resource="filesystem" path="**"/>';
const FILES = { 'out/.keep': '', 'notes/a.txt': 'hello' };

async function decide({ threads }: Stage, decision: Partial<Decision> = {}): Promise<void> {
  const open = await threads.store.approvals({ state: 'pending' });
  const [first] = open.ok ? open.output : [];
  const who = { who: 'ann', channel: 'cli' as const, why: 'fine' };
  const done = await threads.store.decide(first?.id ?? '', {
    decision: 'approved',
    ...who,
    ...decision,
  });
  if (!done.ok) throw new Error(done.error.detail.message);
}
const BEYOND = { answer: { beyond: true } };

async function resume({ threads }: Stage, id: string) {
  const done = await threads.resume(id);
  if (!done.ok) throw new Error(done.error.detail.message);
  return done.output;
}
const eventsOf = async ({ threads }: Stage, id: string, type: string): Promise<JsonObject[]> => {
  const events = await threads.store.read(id);
  return events.ok ? events.output.filter((one) => one.type === type).map(({ data }) => data) : [];
};
/** Of the results of a tool: what it answered, or the message of its refusal. */
const results = async (stage: Stage, id: string, tool: string): Promise<Json[]> =>
  (await eventsOf(stage, id, 'tool_result'))
    .filter((data) => data.tool === tool)
    .map(({ content }) => {
      const error = getOwn(content, 'error');
      return error === undefined ? 'done' : (getOwn(getOwn(error, 'detail'), 'message') ?? null);
    });
const states = async (stage: Stage, id: string): Promise<Json[]> =>
  (await eventsOf(stage, id, 'approval')).map(({ state = null }) => state);

const SAVE = directive('save', { permissions: TOOL });

test('an approved capability counts for its scope and its uses, and no further', async () => {
  const made = await openStage(
    { ...FILES, ...SAVE },
    {
      save: [
        write('out/a.md'),
        ask('h1', 'fs.write', OUT),
        write('out/b.md'),
        write('out/a.md'),
        write('out/a.md'),
        { text: 'done' },
      ],
    },
  );
  const asked = await run(made, 'save');
  expect(asked.status).toBe('waiting');
  const queue = await made.threads.store.approvals({ state: 'pending' });
  expect(queue.ok && queue.output).toMatchObject([
    {
      kind: 'capability',
      binding: { capability: 'fs.write', scope: OUT },
      shown: { declared: 'no', line: '<write resource="filesystem" path="out/a.md"/>' },
    },
  ]);
  await decide(made, BEYOND);
  const done = await resume(made, asked.thread_id);
  expect(done.status).toBe('completed');
  expect(await results(made, asked.thread_id, 'fs/write_file')).toEqual([
    expect.stringContaining('is not granted'),
    expect.stringContaining('`fs.write` on `out/b.md` is not granted'),
    'done',
    expect.stringContaining('was used as often as allowed'),
  ]);
  // A call that is refused otherwise gives back what it took.
  const all = ['pending', 'approved', 'used', 'returned', 'used'];
  expect(await states(made, asked.thread_id)).toEqual(all);
  expect(readFileSync(join(made.fixture.root, 'out/a.md'), 'utf8')).toBe('x');
});

test('what the directive does not declare needs a person who says that it may go beyond', async () => {
  const made = await openStage(
    { ...FILES, ...SAVE },
    { save: [ask('h1', 'fs.write', OUT), write('out/a.md'), { text: 'done' }] },
  );
  const { thread_id } = await run(made, 'save');
  await decide(made);
  await resume(made, thread_id);
  const answer = (await eventsOf(made, thread_id, 'tool_result')).find(
    ({ tool }) => tool === 'help',
  );
  expect(answer?.content).toMatchObject({ decision: 'approved', in_force: false });
  expect(await results(made, thread_id, 'fs/write_file')).toEqual([
    expect.stringContaining('is not granted'),
  ]);
});

test('a denied capability changes nothing', async () => {
  const made = await openStage(
    { ...FILES, ...SAVE },
    { save: [ask('h1', 'fs.write', OUT), write('out/a.md'), { text: 'done' }] },
  );
  const { thread_id } = await run(made, 'save');
  await decide(made, { decision: 'denied' });
  expect((await resume(made, thread_id)).status).toBe('completed');
  expect(await states(made, thread_id)).toEqual(['pending']);
  expect(await results(made, thread_id, 'fs/write_file')).toEqual([
    expect.stringContaining('is not granted'),
  ]);
});

test('another process that resumes the thread has what was approved, and what is left of it', async () => {
  const question = {
    tool_calls: [{ id: 'h2', name: 'help', arguments: { action: 'escalate', reason: 'sure?' } }],
  };
  const made = await openStage(
    { ...FILES, ...SAVE },
    {
      save: [
        ask('h1', 'fs.write', { path: 'out/**' }),
        write('out/a.md'),
        question,
        write('out/b.md'),
        write('out/c.md'),
        { text: 'done' },
      ],
    },
  );
  const { thread_id } = await run(made, 'save');
  await decide(made, { ...BEYOND, uses: 2 });
  expect((await resume(made, thread_id)).status).toBe('waiting');
  await decide(made, { answer: 'yes' });
  const other = await made.fixture.open();
  const threads = await other.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const done = await threads.output.resume(thread_id);
  expect(done.ok && done.output.status).toBe('completed');
  await other.close();
  expect(await results(made, thread_id, 'fs/write_file')).toEqual([
    'done',
    'done',
    expect.stringContaining('was used as often as allowed'),
  ]);
});

test('an approval ends at its time', async () => {
  let shift = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + shift };
  const later = () => {
    shift = 20_000;
    return write('out/b.md');
  };
  const made = await openStage(
    { ...FILES, ...SAVE },
    { save: [ask('h1', 'fs.write', { path: 'out/**' }), write('out/a.md'), later, { text: 'x' }] },
    { clock },
  );
  const { thread_id } = await run(made, 'save');
  await decide(made, { ...BEYOND, uses: 9, expires: clock.now() + 10_000 });
  await resume(made, thread_id);
  expect(await results(made, thread_id, 'fs/write_file')).toEqual([
    'done',
    expect.stringContaining('is not granted'),
  ]);
});

test.each<[string, JsonObject, string]>([
  ['registry.write', {}, 'cannot be approved'],
  ['fs.absolute', {}, 'cannot be approved'],
  ['fs.write', {}, 'needs a `path`'],
  ['fs.*', {}, 'name the missing one'],
  ['fs.wirte', OUT, 'did you mean `fs.write`'],
  ['fs.read', { path: '/etc/passwd' }, 'cannot be approved'],
  ['git.push', {}, 'the policy allows no scope of `git.push`'],
])('nobody is asked for `%s` %j', async (capability, scope, why) => {
  const made = await openStage(
    {
      ...FILES,
      ...directive('save', {}),
      '.ai/policy.yaml': 'capabilities: {deny: [git.push]}\n',
    },
    { save: [ask('h1', capability, scope), { text: 'done' }] },
  );
  const done = await run(made, 'save');
  expect(done.status).toBe('completed');
  const [answer] = (await eventsOf(made, done.thread_id, 'tool_result')).filter(
    ({ tool }) => tool === 'help',
  );
  expect(JSON.stringify(answer?.content)).toContain(JSON.stringify(why).slice(1, -1));
  const queue = await made.threads.store.approvals({});
  expect(queue.ok && queue.output).toEqual([]);
});

test('what is held already is not asked for', async () => {
  const made = await openStage(
    { ...FILES, ...directive('save', { permissions: READS }) },
    { save: [ask('h1', 'fs.read', { path: 'notes/a.txt' }), { text: 'done' }] },
  );
  const done = await run(made, 'save');
  expect(done.status).toBe('completed');
  expect(JSON.stringify(await eventsOf(made, done.thread_id, 'tool_result'))).toContain('"held"');
});

const HOOK =
  '<hook><when>event.code == "permission_denied"</when><directive>go_on</directive></hook>';
const GO_ON = {
  '.ai/directives/go_on.md': `
<directive name="go_on" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue</action></outputs>
  <process><script>/return {"action": "continue"}</script></process>
</directive>
`,
};
const FAMILY = {
  ...FILES,
  ...GO_ON,
  ...directive('lead', { permissions: `${READS}<orchestration enabled="true"/>${TOOL}` }),
  ...directive('save', {
    permissions: `${TOOL}<write resource="filesystem" path="out/**"/>`,
    hooks: HOOK,
  }),
};

test('a child gets what its parent does not hold: declared AND (parent OR approval)', async () => {
  const made = await openStage(FAMILY, {
    lead: [
      { tool_calls: [spawn('save', { detached: true })] },
      write('out/a.md'),
      { text: 'that is all' },
    ],
    save: [
      ask('h1', 'fs.write', OUT),
      write('out/a.md'),
      write('out/b.md'),
      ask('h2', 'fs.write', { path: 'notes/a.txt' }),
      write('notes/a.txt'),
      { text: 'done' },
    ],
  });
  const lead = await run(made, 'lead');
  const [child] = (await rows(made)).filter(
    ({ parent, kind }) => parent !== undefined && kind === 'thread',
  );
  const id = child?.id ?? '';
  await expect
    .poll(async () => (await rows(made)).find((row) => row.id === id)?.status)
    .toBe('waiting');
  await decide(made);
  expect((await resume(made, id)).status).toBe('waiting');
  // Not declared: a yes alone does not give it.
  await decide(made);
  expect((await resume(made, id)).status).toBe('completed');
  const refused = expect.stringContaining('is not granted');
  expect(await results(made, id, 'fs/write_file')).toEqual(['done', refused, refused]);
  expect(await results(made, lead.thread_id, 'fs/write_file')).toEqual([refused]);
});

test('a child may use what was approved for its parent, and the uses are counted together', async () => {
  const made = await openStage(FAMILY, {
    lead: [
      ask('h1', 'fs.write', { path: 'out/**' }),
      { tool_calls: [spawn('save', { wait_ms: 20_000 })] },
      write('out/a.md'),
      write('out/b.md'),
      { text: 'that is all' },
    ],
    save: [write('out/c.md'), write('notes/c.md'), { text: 'done' }],
  });
  const { thread_id } = await run(made, 'lead');
  await decide(made, { ...BEYOND, uses: 2 });
  expect((await resume(made, thread_id)).status).toBe('completed');
  const child = (await rows(made)).find(({ parent }) => parent === thread_id)?.id ?? '';
  const refused = expect.stringContaining('is not granted');
  expect(await results(made, child, 'fs/write_file')).toEqual(['done', refused]);
  expect(await results(made, thread_id, 'fs/write_file')).toEqual([
    'done',
    expect.stringContaining('was used as often as allowed'),
  ]);
});

// Needs the file: it is told from another connection.
test.skipIf(isLate)(
  'a thread that was told to die takes the rights of those below it with it',
  async () => {
    const look = { tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] };
    const stop = async () => {
      const lead = async () => (await rows(made)).find(({ directive: name }) => name === 'lead');
      await expect.poll(async () => (await lead())?.status).toBe('waiting');
      const { openSqliteStore } = await import('../../src/store/index.ts');
      const file = join(made.fixture.root, '.ai/threads/registry.db');
      const store = await openSqliteStore({ file, clock: systemClock });
      if (!store.ok) throw new Error(store.error.detail.message);
      const thread = (await lead())?.id ?? '';
      const kill = { thread, kind: 'kill', payload: {}, key: 'k', by: 'ann' };
      await store.output.signal(kill);
      await store.output.close();
      // The child commits this answer before it acts on it, and the commit says what was revoked.
      return look;
    };
    const made = await openStage(
      {
        ...FILES,
        ...directive('lead', {
          permissions: `${READS}<orchestration enabled="true"/><execute resource="tool" id="fs/read_file"/>`,
        }),
        ...directive('save', {
          permissions: `${READS}<execute resource="tool" id="fs/read_file"/>`,
        }),
      },
      {
        lead: [
          { tool_calls: [spawn('save', { detached: true })] },
          { tool_calls: [{ name: 'help', arguments: { action: 'escalate', reason: 'wait' } }] },
        ],
        save: [look, stop, { text: 'done' }],
      },
    );
    await run(made, 'lead');
    const child = async () => (await rows(made)).find(({ directive: name }) => name === 'save');
    await expect.poll(async () => (await child())?.status).toBe('completed');
    expect(await results(made, (await child())?.id ?? '', 'fs/read_file')).toEqual([
      'done',
      expect.stringContaining('was revoked'),
    ]);
  },
);

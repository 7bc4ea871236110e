// Ended is not lost: what reached a limit, failed, was stopped or has completed goes on at a person's word.
import { runCommand } from '@kernmantle/test-support/command-line';
import { isLate } from '@kernmantle/test-support/late-store';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import {
  answer,
  directiveText,
  execute,
  hook,
  READ,
  read,
  run,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';
import type { ProgramTool } from '../../src/kernel/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';
import type { Threads } from '../../src/runtime/index.ts';

type Options = NonNullable<Parameters<Threads['resume']>[2]>;

const look = (
  parts: Parameters<typeof directiveText>[1] = {},
  more: Record<string, string> = {},
) => ({
  '.ai/directives/look.md': directiveText('look', { permissions: READ, ...parts }),
  ...more,
});

/** A project whose model says these things, and everything it was shown. */
async function play(
  files: Record<string, string>,
  replies: (ScriptedReply | (() => ScriptedReply | Promise<ScriptedReply>))[],
  options: Parameters<typeof stage>[2] = {},
) {
  const shown: string[] = [];
  const models: unknown[] = [];
  const say = async ({ body }: ScriptedRequest) => {
    shown.push(JSON.stringify(body.messages));
    models.push(body.model);
    const next = replies.shift();
    return typeof next === 'function' ? await next() : next;
  };
  return { made: await stage(files, say, options), shown, models };
}

async function resume({ threads }: Stage, id: string, options: Options = {}) {
  const done = await threads.resume(id, undefined, options);
  if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
  return done.output;
}

const rowOf = async ({ threads }: Stage, id: string) => {
  const row = await threads.store.thread(id);
  if (!row.ok) throw new Error(row.error.detail.message);
  return row.output;
};

async function replays({ threads }: Stage, id: string) {
  const report = await threads.replay(id);
  if (!report.ok) throw new Error(`${report.error.code}: ${report.error.detail.message}`);
  expect(report.output.difference).toBeUndefined();
}

const limitOf = (limits: JsonObject, name: string) => limits[name];

test('a thread that reached a limit goes on where it stood with a new ceiling', async () => {
  const { made, shown } = await play(look({ limits: '<turns>1</turns>' }), [
    read('notes/a.txt'),
    { text: 'done' },
  ]);
  const { thread_id: id, status } = await run(made, 'look');
  expect(status).toBe('limit');
  // The old ceiling holds when nobody sets another.
  expect(await resume(made, id)).toMatchObject({ status: 'limit' });
  expect(shown).toHaveLength(1);
  const done = await resume(made, id, { limits: { turns: 2 }, by: 'me' });
  expect(done).toMatchObject({ status: 'completed', text: 'done' });
  expect(shown[1]).toContain('hello');
  const row = await rowOf(made, id);
  expect(row.cost.turns).toBe(2);
  expect(limitOf(row.limits, 'turns')).toEqual({ value: 2, from: 'resume', declared: true });
  const events = await made.threads.store.read(id);
  const signal = (events.ok ? events.output : []).findLast(({ type }) => type === 'signal');
  expect(signal?.data).toMatchObject({ kind: 'resume', by: 'me', after: 'limit' });
  await replays(made, id);
});

test('money and tokens are new ceilings in the registry too, with the share of hooks', async () => {
  const files = look(
    {
      limits: '<tokens>20</tokens><spend>0.5</spend>',
      hooks: hook('event.code == "never"', 'ask'),
    },
    { '.ai/directives/ask.md': directiveText('ask', { outputs: '<action type="string"/>' }) },
  );
  const { made } = await play(files, [{ text: 'done' }]);
  const { thread_id: id, status } = await run(made, 'look');
  expect(status).toBe('limit');
  const done = await resume(made, id, { limits: { tokens: 100_000, spend: '0.75' } });
  expect(done).toMatchObject({ status: 'completed', text: 'done' });
  const budget = await budgetOf(made.threads.store, id);
  expect(budget.ok && budget.output.limits).toMatchObject({
    tokens: 100_000n,
    spend: 750_000_000n,
  });
  expect(budget.ok && budget.output.reserved.tokens).toBe(0n);
  await replays(made, id);
});

test('a ceiling below what was used, above the policy or without sense is refused and changes nothing', async () => {
  const { made } = await play(
    look(
      { limits: '<turns>2</turns>' },
      { '../home/policy.yaml': 'unsigned: allow\nlimits: { turns: 5 }\n' },
    ),
    [read('notes/a.txt'), read('notes/a.txt'), { text: 'done' }],
  );
  const { thread_id: id } = await run(made, 'look');
  const before = await rowOf(made, id);
  const refused = (limits: JsonObject) => made.threads.resume(id, undefined, { limits });
  for (const limits of [{ turns: 1 }, { turns: 6 }, { turns: -3 }, { turn: 4 }, { tokens: 3 }]) {
    expect(await refused(limits), JSON.stringify(limits)).toMatchObject({
      ok: false,
      error: { code: 'invalid_input' },
    });
  }
  const now = await rowOf(made, id);
  expect(now).toMatchObject({ status: 'limit', seq: before.seq, limits: before.limits });
  expect(await resume(made, id, { limits: { turns: 3 } })).toMatchObject({ status: 'completed' });
});

test('a failed thread goes on with another model and is asked for what it still owes', async () => {
  const files = look({ outputs: '<answer type="string" required="true"/>' });
  const { made, shown, models } = await play(files, [
    { text: 'no' },
    { text: 'no' },
    { text: 'never' },
    { text: '{"answer": "yes"}' },
  ]);
  const { thread_id: id, status } = await run(made, 'look');
  expect(status).toBe('failed');
  const done = await resume(made, id, { model: 'claude-sonnet-4-5' });
  expect(done).toMatchObject({ status: 'completed', outputs: { answer: 'yes' } });
  expect(models.at(-1)).toContain('sonnet');
  expect(shown.at(-1)).toContain('goes on: do what is left');
  await replays(made, id);
});

test('a completed thread takes words as a follow-up in the same conversation', async () => {
  const { made, shown } = await play(look(), [{ text: 'first' }, { text: 'second' }]);
  const { thread_id: id } = await run(made, 'look');
  expect(await made.threads.resume(id)).toMatchObject({ error: { code: 'thread_ended' } });
  const words = { text: 'and the other one?', by: 'me' };
  expect(await resume(made, id, { words })).toMatchObject({ status: 'completed', text: 'second' });
  expect(shown.at(-1)).toContain('first');
  expect(shown.at(-1)).toContain('and the other one?');
  expect((await rowOf(made, id)).cost.turns).toBe(2);
  await replays(made, id);
});

test('outputs that were handed back are no answer to a follow-up, also after a crash', async () => {
  const leaving = new AbortController();
  const leave: ProgramTool = {
    id: 'probe/leave',
    description: 'Leaves in the middle',
    effect: 'read',
    run: () => {
      leaving.abort();
      return 'left';
    },
  };
  const give = (answer: string): ScriptedReply => ({
    tool_calls: [
      {
        name: 'execute',
        arguments: {
          item_type: 'directive',
          item_id: 'look',
          action: 'return',
          parameters: { answer },
        },
      },
    ],
  });
  const files = look({
    outputs: '<answer type="string" required="true"/>',
    permissions: `${READ}<execute resource="tool" id="probe/leave"/>`,
  });
  const left = { tool_calls: [execute('probe/leave', {})] };
  const { made } = await play(files, [give('one'), left, give('two')], { tools: [leave] });
  const { thread_id: id, outputs } = await run(made, 'look');
  expect(outputs).toEqual({ answer: 'one' });
  const words = { text: 'again', by: 'me' };
  const cut = await made.threads.resume(id, leaving.signal, { words });
  expect(cut).toMatchObject({ output: { status: 'interrupted' } });
  expect(await resume(made, id)).toMatchObject({ outputs: { answer: 'two' } });
  await replays(made, id);
});

test('a stopped thread goes on, and nothing that was asked of it before stops it again', async () => {
  const replies: Parameters<typeof play>[1] = [];
  const { made } = await play(look(), replies);
  const { store } = made.threads;
  replies.push(async () => {
    const [row] = await store.query({}).then((page) => (page.ok ? page.output.rows : []));
    const thread = row?.id ?? '';
    const signal = (kind: string) =>
      store.signal({ thread, kind, payload: {}, key: kind, by: 'me' });
    await signal('terminate');
    await signal('pause');
    return { text: 'too late' };
  });
  const { thread_id: id, status } = await run(made, 'look');
  expect(status).toBe('terminated');
  replies.push({ text: 'done' });
  expect(await resume(made, id)).toMatchObject({ status: 'completed', text: 'done' });
  await replays(made, id);
});

test('what was killed, denied or aborted is final, and says so', async () => {
  const files = look(
    { hooks: hook('event.code == "turns_exceeded"', 'stop'), limits: '<turns>1</turns>' },
    { '.ai/directives/stop.md': answer('stop', { action: 'abort' }) },
  );
  const { made } = await play(files, [read('notes/a.txt')]);
  const { thread_id: id, status } = await run(made, 'look');
  expect(status).toBe('aborted');
  const refused = await made.threads.resume(id, undefined, { limits: { turns: 9 } });
  expect(refused).toMatchObject({ ok: false, error: { code: 'thread_ended' } });
  expect(!refused.ok && refused.error.detail.message).toContain('final');
});

// Another process: it needs the registry's file.
test.skipIf(isLate)(
  'the command line raises limits, chooses a model and says something',
  async () => {
    const { made, shown, models } = await play(look({ limits: '<turns>1</turns>' }), [
      read('notes/a.txt'),
      { text: 'enough' },
    ]);
    const { thread_id: id } = await run(made, 'look');
    const cli = (...words: string[]) =>
      runCommand(['threads', 'resume', id, ...words], made.fixture.root, made.fixture.env);
    expect(await cli('--turns', 'many')).toMatchObject({ code: 2 });
    expect((await cli('--turns', '0')).output).toContain('1 is used already');
    const done = await cli('--turns', '4', '--model', 'claude-sonnet-4-5', '-m', 'be quick');
    expect(done, done.output).toMatchObject({ code: 0 });
    expect(done.output).toContain('enough');
    expect(shown.at(-1)).toContain('be quick');
    expect(models.at(-1)).toContain('sonnet');
  },
);

test.each([
  [400, 'invalid_request_error'],
  [401, 'authentication_error'],
  [404, 'not_found_error'],
])(
  'a request that failed for good (%i) uses up no turn of a thread that goes on',
  async (status, type) => {
    const fault = { status, error: { type, message: 'no' } };
    const { made } = await play(look({ limits: '<turns>2</turns>' }), [
      read('notes/a.txt'),
      { fault },
      { text: 'done' },
    ]);
    const failed = await run(made, 'look');
    expect(failed.status).toBe('failed');
    expect(await resume(made, failed.thread_id)).toMatchObject({
      status: 'completed',
      text: 'done',
      cost: { turns: 2 },
    });
    expect(await made.threads.replay(failed.thread_id)).toMatchObject({ output: { isSame: true } });
  },
);

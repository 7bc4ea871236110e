// Threads that are stopped, paused, interrupted and told things, from here and from other processes.
import { tokenCaller } from '@kernmantle/test-support/attacks';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { holdTimers } from '@kernmantle/test-support/hold-timers';
import { isLate } from '@kernmantle/test-support/late-store';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import { scripted, TEXT } from '@kernmantle/test-support/script-project';
import {
  answer,
  directiveText,
  execute,
  hook,
  openStage,
  READ,
  read,
  run,
  type Stage,
  stage,
  types,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { type Json, plainText, systemClock } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';
import { openSqliteStore } from '../../src/store/index.ts';

const LOOK = { '.ai/directives/look.md': directiveText('look', { permissions: READ }) };
const SLOW = { text: 'x'.repeat(4000), piece: 10, pace_ms: 20 };

/** Starts a run and waits until the provider has been asked `count` times. */
async function running(made: Stage, count = 1) {
  const done = run(made, 'look');
  for (; made.provider.count() < count; ) await new Promise((resolve) => setTimeout(resolve, 5));
  const rows = await made.threads.store.query({});
  const id = (rows.ok && rows.output.rows[0]?.id) || '';
  return { id, done };
}

let keys = 0;
const tell = (
  { threads: { store } }: Pick<Stage, 'threads'>,
  id: string,
  kind: string,
  payload: Json = {},
) => store.signal({ thread: id, kind: kind, payload: payload, key: `k${++keys}`, by: 'ann' });
const row = async ({ threads }: Stage, id: string) => {
  const found = await threads.store.thread(id);
  if (!found.ok) throw new Error(found.error.detail.message);
  return found.output;
};

test('at the deadline the request in flight is ended, as a limit', async () => {
  const pass = holdTimers();
  const files = {
    '.ai/directives/look.md': directiveText('look', { limits: '<duration>1</duration>' }),
  };
  const made = await stage(files, [{ fault: { stall_at_byte: 400 }, text: 'x'.repeat(2000) }]);
  const { done } = await running(made);
  pass(1000);
  const result = await done;
  expect(result).toMatchObject({ status: 'limit', code: 'duration_exceeded', cost: { turns: 1 } });
  expect(Number(result.cost.spend)).toBeGreaterThan(0);
  expect(await types(made, result.thread_id)).toContain('limit');
});

test('a hook may give more time, and the turn is done again', async () => {
  const pass = holdTimers();
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        limits: '<duration>1</duration>',
        hooks: hook('event.code == "duration_exceeded"', 'more'),
      }),
      '.ai/directives/more.md': answer('more', {
        action: 'continue',
        context: { limits: { duration: 2 } },
      }),
    },
    [{ fault: { stall_at_byte: 400 }, text: 'x'.repeat(2000) }, { text: 'in time' }],
  );
  const { done } = await running(made);
  pass(1000);
  expect(await done).toMatchObject({ status: 'completed', text: 'in time' });
});

test('an interrupt ends the stream, gives the turn back and lets the person speak', async () => {
  const made = await stage(LOOK, [SLOW, { text: 'as you like' }]);
  const { id, done } = await running(made);
  await tell(made, id, 'interrupt', { message: 'rather do that' });
  const result = await done;
  expect(result).toMatchObject({ status: 'completed', text: 'as you like', cost: { turns: 1 } });
  expect(JSON.stringify(made.provider.requests[1]?.body)).toContain('rather do that');
  const spent = await budgetOf(made.threads.store, id);
  expect(spent.ok && spent.output.used.tokens).toBe(BigInt(Number(result.cost.tokens)));
  expect(spent.ok && spent.output.reserved.tokens).toBe(0n);
});

test.skipIf(isLate).each([
  ['terminate', 'terminated'],
  ['kill', 'killed'],
])(
  '%s is obeyed during a stream, also when it comes from another connection',
  async (kind, status) => {
    const made = await stage(LOOK, [SLOW]);
    const { id, done } = await running(made);
    const file = `${made.fixture.root}/.ai/threads/registry.db`;
    const other = await openSqliteStore({ file, clock: systemClock });
    if (!other.ok) throw new Error(other.error.detail.message);
    await tell({ threads: { store: other.output } } as Stage, id, kind, { reason: 'enough' });
    expect(await done).toMatchObject({ status, reason: 'enough' });
    await other.output.close();
    expect((await row(made, id)).status).toBe(status);
  },
);

// What is said is heard when it arrives; here it has to be there between two steps.
test.skipIf(isLate)(
  'a message that comes while calls are open goes in after their results',
  async () => {
    const calls = [execute('fs/read_file', { path: 'notes/a.txt' }), execute('wait/told', {})];
    const made: Stage = await stage(
      {
        '.ai/directives/look.md': directiveText('look', {
          permissions: `${READ}<execute resource="tool" id="wait/told"/>`,
        }),
      },
      [{ tool_calls: [...calls].reverse() }, { text: 'done' }],
      {
        tools: [
          {
            id: 'wait/told',
            description: 'Sends its own thread a message',
            effect: 'read',
            async run() {
              const rows = await made.threads.store.query({});
              await tell(made, (rows.ok && rows.output.rows[0]?.id) || '', 'message', {
                content: 'by the way',
              });
              return 'told';
            },
          },
        ],
      },
    );
    expect(await run(made, 'look')).toMatchObject({ status: 'completed' });
    const body = made.provider.requests[1]?.body as { messages: { content: { type: string }[] }[] };
    const last = body.messages.at(-1)?.content.map(({ type }) => type);
    expect(last).toEqual(['tool_result', 'tool_result', 'text']);
  },
);

const BRIEF = { text: 'x'.repeat(400), piece: 10, pace_ms: 1 };

/** A reply that is asked for, and sent in pieces after `come`. */
function comingReply(reply: ScriptedReply = {}) {
  const gate = Promise.withResolvers<void>();
  const say = async (): Promise<ScriptedReply> => {
    await gate.promise;
    return { ...reply, ...BRIEF };
  };
  return { say, come: () => gate.resolve() };
}

test.skipIf(isLate)('a pause lets the reply that is coming finish, and keeps it', async () => {
  const { say, come } = comingReply(read('notes/a.txt'));
  const made = await openStage(LOOK, { look: [say, { text: 'at last' }] });
  const { id, done } = await running(made);
  await tell(made, id, 'pause', { reason: 'lunch' });
  come();
  const paused = await done;
  expect(paused).toMatchObject({ status: 'paused', reason: 'lunch', cost: { turns: 1 } });
  // As the provider says, not the worst case.
  expect(paused.cost).toMatchObject({ estimated: false, tool_calls: 0 });
  expect(await types(made, id)).toContain('assistant_message');
  const resumed = await made.threads.resume(id);
  expect(resumed).toMatchObject({ output: { status: 'completed', text: 'at last' } });
  expect(made.provider.count()).toBe(2);
  const report = await made.threads.replay(id);
  expectSame(report);
});

test.skipIf(isLate)(
  'a pause during the last word counts, and the word is not asked for again',
  async () => {
    const { say, come } = comingReply();
    const made = await openStage(LOOK, { look: [say] });
    const { id, done } = await running(made);
    await tell(made, id, 'pause');
    come();
    expect(await done).toMatchObject({ status: 'paused', cost: { estimated: false } });
    const resumed = await made.threads.resume(id);
    expect(resumed).toMatchObject({ output: { status: 'completed', text: BRIEF.text } });
    expect(made.provider.count()).toBe(1);
    const report = await made.threads.replay(id);
    expectSame(report);
  },
);

test.skipIf(isLate)(
  'the registry sets a paused thread running, and no thread that runs or has ended',
  async () => {
    let end = (): void => undefined;
    const over = new Promise<void>((resolve) => (end = resolve));
    const wait = async () => {
      await over;
      return { text: 'done' };
    };
    const files = { ...LOOK, '.ai/directives/core.md': directiveText('core') };
    const { say, come } = comingReply(read('notes/a.txt'));
    const made = await openStage(files, { look: [say, { text: 'went on' }], core: [wait] });
    const core = run(made, 'core');
    await expect.poll(() => made.provider.count()).toBe(1);
    const find = async (directive: string) => {
      const rows = await made.threads.store.query({ directive });
      return (rows.ok && rows.output.rows[0]?.id) || '';
    };
    // Only items of the core hold this right: the token of their thread has it.
    const caps = [
      { capability: 'registry.write' },
      { capability: 'thread.control', scope: { subtree: 'any' } },
      { capability: 'tool.execute', scope: { id: 'threads/*' } },
    ];
    const thread = await find('core');
    const caller = tokenCaller(made.runtime, { caps, thread }, { core: true });
    const set = async (thread_id: string, status: string) => {
      const parameters = { action: 'update_status', thread_id, status };
      const request = { item_type: 'tool', item_id: 'threads/thread_registry', parameters };
      const answer = await made.runtime.kernel.execute(request, caller);
      return answer.ok ? answer.output.data : answer;
    };
    const done = run(made, 'look');
    await expect.poll(() => made.provider.count()).toBe(2);
    const id = await find('look');
    expect(await set(id, 'running')).toMatchObject({
      error: { code: 'invalid_input', detail: { status: 'running' } },
    });
    expect(await set(id, 'paused')).toMatchObject({ thread_id: id });
    come();
    expect(await done).toMatchObject({ status: 'paused' });
    expect(await set(id, 'running')).toMatchObject({ thread_id: id });
    await expect.poll(async () => (await row(made, id)).status).toBe('completed');
    expect(made.provider.count()).toBe(3);
    expectSame(await made.threads.replay(id));
    expect(await set(id, 'running')).toMatchObject({
      error: { code: 'invalid_input', detail: { status: 'completed' } },
    });
    expect(await set(id, 'waiting')).toMatchObject({ error: { code: 'invalid_input' } });
    end();
    expect(await core).toMatchObject({ status: 'completed' });
  },
);

test('a paused thread stays in no process and goes on after a restart', async () => {
  const { say, come } = comingReply();
  const made = await openStage(LOOK, { look: [read('notes/a.txt'), say, { text: 'at last' }] });
  const { id, done } = await running(made, 2);
  await tell(made, id, 'pause', { reason: 'lunch' });
  come();
  const paused = await done;
  expect(paused.status).toBe('paused');
  expect(await row(made, id)).toMatchObject({ status: 'paused' });
  expect((await row(made, id)).lease_until).toBeUndefined();
  expect(await types(made, id)).not.toContain('thread_end');
  await made.runtime.close();
  made.runtime = await made.fixture.open();
  const again = await made.runtime.threads();
  if (!again.ok) throw new Error(again.error.detail.message);
  made.threads = again.output;
  await tell(made, id, 'message', { content: 'go on please' });
  const result = await made.threads.resume(id);
  expect(result.ok && result.output).toMatchObject({
    status: 'completed',
    text: 'at last',
    cost: { turns: 3, tool_calls: 1 },
  });
  const sent = JSON.stringify(made.provider.requests.at(-1)?.body);
  expect(sent).toContain('hello\\\\n');
  expect(sent).toContain('go on please');
});

test('a write that the deadline stopped is not done again, even when a hook gives more time', async () => {
  const pass = holdTimers();
  let runs = 0;
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: '<execute resource="tool" id="probe/slow"/>',
        limits: '<duration>1</duration>',
        hooks: hook('event.code == "duration_exceeded"', 'more'),
      }),
      '.ai/directives/more.md': answer('more', {
        action: 'continue',
        context: { limits: { duration: 2 } },
      }),
    },
    [{ tool_calls: [execute('probe/slow', {})] }, { text: 'stopped it was' }],
    {
      tools: [
        {
          id: 'probe/slow',
          description: 'Takes its time',
          effect: 'write',
          run: (_, { signal }) =>
            new Promise((_resolve, reject) => {
              runs += 1;
              signal.addEventListener('abort', () => reject(new Error('stopped')));
            }),
        },
      ],
    },
  );
  const { done } = await running(made);
  await expect.poll(() => runs).toBe(1);
  pass(1000);
  expect(await done).toMatchObject({ status: 'completed', text: 'stopped it was' });
  expect(runs).toBe(1);
});

test('a kill ends a tool at work', async () => {
  const made: Stage = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: '<execute resource="tool" id="probe/slow"/>',
      }),
    },
    [{ tool_calls: [execute('probe/slow', {})] }],
    {
      tools: [
        {
          id: 'probe/slow',
          description: 'Takes its time',
          effect: 'read',
          async run(_, { signal }) {
            const stopped = new Promise<never>((_resolve, reject) => {
              signal.addEventListener('abort', () => reject(new Error('stopped')));
            });
            const rows = await made.threads.store.query({});
            void tell(made, (rows.ok && rows.output.rows[0]?.id) || '', 'kill');
            return await stopped;
          },
        },
      ],
    },
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'killed' });
});

test.skipIf(isLate)(
  'an interrupt between steps leaves out the calls that were still to come',
  async () => {
    const ran: string[] = [];
    const probe = (name: string, then: () => Promise<void> | void) => ({
      id: `probe/${name}`,
      description: name,
      effect: 'write' as const,
      async run() {
        ran.push(name);
        await then();
        return name;
      },
    });
    const made: Stage = await stage(
      {
        '.ai/directives/look.md': directiveText('look', {
          permissions:
            '<execute resource="tool" id="probe/one"/><execute resource="tool" id="probe/two"/>',
        }),
      },
      [{ tool_calls: [execute('probe/one', {}), execute('probe/two', {})] }, { text: 'fine' }],
      {
        tools: [
          probe('one', async () => {
            const rows = await made.threads.store.query({});
            const id = (rows.ok && rows.output.rows[0]?.id) || '';
            await tell(made, id, 'interrupt', { message: 'not the other one' });
          }),
          probe('two', () => {}),
        ],
      },
    );
    expect(await run(made, 'look')).toMatchObject({ status: 'completed', cost: { tool_calls: 1 } });
    expect(ran).toEqual(['one']);
    const body = JSON.stringify(made.provider.requests[1]?.body);
    expect(body).toContain('skipped');
    expect(body).toContain('not the other one');
  },
);

test('calls that only read are made at once, and their results keep the order', async () => {
  const waiting: (() => void)[] = [];
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: '<execute resource="tool" id="probe/meet"/>',
      }),
    },
    [
      { tool_calls: ['a', 'b', 'c'].map((name) => execute('probe/meet', { name })) },
      { text: 'met' },
    ],
    {
      tools: [
        {
          id: 'probe/meet',
          description: 'Answers when three have come, the last one first',
          effect: 'read',
          parameters: { name: 'string' },
          run: ({ name }) =>
            new Promise((resolve) => {
              waiting.unshift(() => resolve(`met ${plainText(name)}`));
              if (waiting.length === 3) for (const go of waiting) go();
            }),
        },
      ],
    },
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'completed', cost: { tool_calls: 3 } });
  const body = JSON.stringify(made.provider.requests[1]?.body);
  expect(body.match(/met [abc]/g)).toEqual(['met a', 'met b', 'met c']);
});

const ENDS = [
  ['terminate', 'terminated'],
  ['kill', 'killed'],
] as const;
const RUNNERS = ['script', 'model', 'plan'] as const;
const CASES = RUNNERS.flatMap((runner) => ENDS.map((end) => [runner, ...end] as const));

/** A job that calls `probe/pause` twice: as a script, by a model, or by a plan of a model. */
async function pausingJob(runner: (typeof RUNNERS)[number]) {
  const lines = '@tool("probe/pause", { n: 1 })\n@tool("probe/pause", { n: 2 })';
  const text = `${lines}\nreturn { text: "done" }`;
  const parts = {
    permissions: '<execute resource="tool" id="probe/pause"/>',
    outputs: TEXT,
  };
  const calls = [1, 2].map((n) => ({ tool_calls: [execute('probe/pause', { n })] }));
  const made: Stage = await stage(
    {
      '.ai/directives/look.md':
        runner === 'script' ? scripted('look', text, parts) : directiveText('look', parts),
    },
    runner === 'model' ? [...calls, { text: 'done' }] : [{ text }],
    {
      tools: [
        {
          id: 'probe/pause',
          description: 'Pauses the thread that calls it',
          effect: 'read',
          parameters: { n: 'integer' },
          async run({ n }) {
            const rows = await made.threads.store.query({});
            await tell(made, (rows.ok && rows.output.rows[0]?.id) || '', 'pause');
            return Number(n);
          },
        },
      ],
    },
  );
  const request = { directive: 'look', ...(runner === 'plan' && { plan: true }) };
  return { made, request };
}

// With late answers the second call is made before the first pause is heard, and the second pause comes first.
test.skipIf(isLate).each(CASES)(
  'a %s thread is paused: a %s before its resume ends it',
  async (...given) => {
    const [runner, kind, status] = given;
    const { made, request } = await pausingJob(runner);
    const paused = await made.threads.run(request);
    expect(paused).toMatchObject({ output: { status: 'paused' } });
    const id = (paused.ok && paused.output.thread_id) || '';
    await tell(made, id, kind, { reason: 'enough' });
    const ended = await made.threads.resume(id);
    expect(ended).toMatchObject({ output: { status, reason: 'enough' } });
    expectSame(await made.threads.replay(id), { status });
  },
);

test.each(CASES)('a %s thread is queued: a %s before its start ends it', async (...given) => {
  const [runner, kind, status] = given;
  const { made, request } = await pausingJob(runner);
  const queued = await made.threads.enqueue(request);
  const id = (queued.ok && queued.output.thread) || '';
  await tell(made, id, kind, { reason: 'enough' });
  const ended = await made.threads.resumeAnywhere(id);
  expect(ended).toMatchObject({ output: { status, reason: 'enough', cost: { tool_calls: 0 } } });
  expect(made.provider.count()).toBe(0);
  expectSame(await made.threads.replay(id), { status });
});

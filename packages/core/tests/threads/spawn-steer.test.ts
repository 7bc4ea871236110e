// A thread steers the threads below it, by the tools of `threads/*` and by `execute item_type:"thread"`.
import { join } from 'node:path';
import { isLate } from '@kernmantle/test-support/late-store';
import { budgetOf, untilEvent } from '@kernmantle/test-support/registry-reads';
import { timeoutMs } from '@kernmantle/test-support/soak';
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
import { getOwn, type Json, type JsonObject, plainText } from '../../src/base/index.ts';
import type { ScriptedRequest } from '../../src/llm/index.ts';
import { readTranscript } from '../../src/store/index.ts';

const ORCHESTRATES = '<orchestration enabled="true"/>';
const READS =
  '<read resource="filesystem" path="notes/**"/><execute resource="tool" id="fs/read_file"/>';
const LEAD = directive('lead', { permissions: ORCHESTRATES });
const handleIn = ({ results }: ScriptedRequest): string =>
  plainText(getOwn(results[0] ?? null, 'thread_id'));
const forever = () => new Promise<never>(() => {});
const onThread = (id: string, action: string, parameters: JsonObject = {}) => ({
  name: 'execute',
  arguments: { item_type: 'thread', item_id: id, action, parameters } as Json,
});
const bodyOf = (made: Stage, name: string): string =>
  JSON.stringify(made.provider.requests.findLast((request) => nameIn(request) === name)?.body);

test('a child is paused, spoken to and resumed, and hears what was said', async () => {
  let child = '';
  let waited: unknown;
  let proceed = (): void => {};
  const gate = new Promise<void>((resolve) => {
    proceed = resolve;
  });
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${READS}` }),
      ...directive('part', { permissions: READS }),
      'notes/a.txt': 'a',
    },
    {
      lead: [
        { tool_calls: [spawn('part')] },
        (request) => {
          child = handleIn(request);
          return {
            tool_calls: [call('threads/pause_thread', { thread_id: child, reason: 'wait' })],
          };
        },
        async () => {
          proceed();
          const row = async () => (await rows(made)).find(({ id }) => id === child);
          await expect.poll(async () => (await row())?.status).toBe('paused');
          return {
            tool_calls: [call('threads/wait_thread', { thread_id: child, timeout_ms: 1 })],
          };
        },
        ({ results }) => {
          [waited] = results;
          return {
            tool_calls: [
              call('threads/resume_thread', { thread_id: child, inject_message: 'go on, please' }),
            ],
          };
        },
        () => ({ tool_calls: [call('threads/wait_thread', { thread_id: child })] }),
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
      part: [
        async () => {
          await gate;
          return { tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] };
        },
        { text: 'done' },
      ],
    },
  );
  const result = await run(made, 'lead');
  expect(waited).toMatchObject({ thread_id: child, status: 'paused' });
  expect(result).toMatchObject({ status: 'completed', reason: '' });
  expect(result.text).toContain('done');
  expect(bodyOf(made, 'part')).toContain('go on, please');
  const events = await made.threads.store.read(child);
  const signals = events.ok ? events.output.filter(({ type }) => type === 'signal') : [];
  const lead = (await rows(made))[0]?.id;
  expect(signals.map(({ data }) => [data.kind, data.by])).toEqual(
    expect.arrayContaining([
      ['pause', lead],
      ['resume', lead],
    ]),
  );
});

test.each([
  ['terminate_thread', 'terminated'],
  ['kill_thread', 'killed'],
])('%s ends a child that waits for its model', async (tool, status) => {
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: `${ORCHESTRATES}<execute resource="tool" id="threads/kill_thread"/>`,
      }),
      ...directive('part'),
    },
    {
      lead: [
        { tool_calls: [spawn('part')] },
        (request) => ({
          tool_calls: [
            call(`threads/${tool}`, { thread_id: handleIn(request) }),
            call('threads/wait_thread', { thread_id: handleIn(request) }),
          ],
        }),
        ({ results }) => ({ text: JSON.stringify(results[1]) }),
      ],
      part: [forever],
    },
  );
  const { text } = await run(made, 'lead');
  expect(JSON.parse(text)).toMatchObject({ status });
});

test('`execute` on a handle: status, wait, inject, cancel', async () => {
  const made = await openStage(
    { ...LEAD, ...directive('part') },
    {
      lead: [
        { tool_calls: [spawn('part')] },
        (request) => {
          const id = handleIn(request);
          return {
            tool_calls: [
              onThread(id, 'status'),
              onThread(id, 'wait', { timeout_ms: 1 }),
              onThread(id, 'inject', { message: 'hello' }),
              onThread(id, 'cancel', { reason: 'enough' }),
              onThread(id, 'wait'),
              onThread(id, 'explode'),
            ],
          };
        },
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
      part: [forever],
    },
  );
  const { text } = await run(made, 'lead');
  const [status, wait, inject, cancel, result, wrong] = JSON.parse(text) as JsonObject[];
  expect(status).toMatchObject({ status: 'running', directive: 'part', depth: 1 });
  expect(wait).toMatchObject({ status: 'running' });
  expect(inject).toMatchObject({ signal: 'message' });
  expect(cancel).toMatchObject({ signal: 'terminate' });
  expect(result).toMatchObject({ status: 'terminated', reason: 'enough' });
  expect(wrong).toMatchObject({ error: { code: 'invalid_input' } });
});

test('threads outside the own subtree are out of reach', async () => {
  const made = await openStage(
    { ...LEAD, ...directive('other') },
    {
      other: [{ text: 'mine alone' }],
      lead: [
        () => ({
          tool_calls: [
            call('threads/read_transcript', { thread_id: other }),
            call('threads/wait_thread', { thread_id: other }),
            call('threads/terminate_thread', { thread_id: other }),
            onThread(other, 'status'),
          ],
        }),
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
    },
  );
  const other = (await run(made, 'other')).thread_id;
  const { text } = await run(made, 'lead');
  const answers = JSON.parse(text) as JsonObject[];
  expect(answers).toHaveLength(4);
  for (const answer of answers) {
    expect(answer).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
    expect(JSON.stringify(answer)).toContain('outside its own subtree');
  }
  expect(text).not.toContain('mine alone');
});

test('a child cannot wait for its parent', async () => {
  const made = await openStage(
    { ...LEAD, ...directive('part', { permissions: ORCHESTRATES }) },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })] }, { text: 'ok' }],
      part: [
        async () => ({
          tool_calls: [call('threads/wait_thread', { thread_id: (await rows(made))[0]?.id ?? '' })],
        }),
        ({ results }) => ({ text: JSON.stringify(results) }),
      ],
    },
  );
  await run(made, 'lead');
  expect(bodyOf(made, 'part')).toContain('which waits for it');
});

const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const NO_NOTES = 'labels:\n  "dir:notes":\n    deny: ["op:tool:fs/write_file"]\n';
const write = {
  tool_calls: [call('fs/write_file', { path: 'out/x.txt', content: 'in my words' })],
};

test('what a child has read labels what its parent writes', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${READS}${WRITES}` }),
      ...directive('part', { permissions: READS }),
      'notes/a.txt': 'a',
      '.ai/policy.yaml': NO_NOTES,
    },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })] }, write, { text: 'ok' }],
      part: [{ tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] }, { text: 'done' }],
    },
  );
  await run(made, 'lead');
  expect(bodyOf(made, 'lead')).toContain('dir:notes');
});

test('what a parent has read labels what its child writes', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${READS}${WRITES}` }),
      ...directive('part', { permissions: WRITES }),
      'notes/a.txt': 'a',
      '.ai/policy.yaml': NO_NOTES,
    },
    {
      lead: [
        { tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] },
        { tool_calls: [spawn('part', { initial_message: 'it says a', wait_ms: 30_000 })] },
        { text: 'ok' },
      ],
      part: [write, { text: 'done' }],
    },
  );
  await run(made, 'lead');
  expect(bodyOf(made, 'part')).toContain('dir:notes');
});

test('a detached child outlives its parent, on what was set aside for it', async () => {
  let finishPart = (): void => {};
  const gate = new Promise<void>((resolve) => {
    finishPart = resolve;
  });
  const made = await openStage(
    { ...LEAD, ...directive('part', { limits: '<tokens>20000</tokens>' }) },
    {
      lead: [{ tool_calls: [spawn('part', { detached: true })] }, { text: 'ok' }],
      part: [
        async () => {
          await gate;
          return { text: 'done', usage: { input_tokens: 10, output_tokens: 5 } };
        },
      ],
    },
  );
  const { thread_id } = await run(made, 'lead');
  const child = (await rows(made)).find(({ directive: name }) => name === 'part');
  expect(child?.status).toBe('running');
  const before = await budgetOf(made.threads.store, thread_id);
  expect(before.ok && before.output.reserved.tokens).toBe(20_000n);
  finishPart();
  for await (const one of made.threads.store.watch(
    { thread: child?.id ?? '', seq: 0 },
    AbortSignal.timeout(timeoutMs(20_000)),
  )) {
    if (one.type === 'status' && one.data.status === 'completed') break;
  }
  const after = await budgetOf(made.threads.store, thread_id);
  expect(after.ok && after.output.reserved.tokens).toBe(0n);
  const own = await budgetOf(made.threads.store, child?.id ?? '');
  expect(own.ok && own.output.used.tokens).toBe(15n);
});

test('closing the runtime interrupts what runs; nothing is lost', async () => {
  const made = await openStage(
    { ...LEAD, ...directive('part') },
    { lead: [{ tool_calls: [spawn('part')] }, forever], part: [forever] },
  );
  const running = made.threads.run({ directive: 'lead' });
  await untilEvent(made.threads.store, ({ type, turn }) => type === 'turn_start' && turn === 2);
  await made.runtime.close();
  expect(await running).toMatchObject({ ok: true, output: { status: 'interrupted' } });
  const again = await made.fixture.open();
  const threads = await again.threads();
  const page = threads.ok ? await threads.output.store.query({}) : undefined;
  expect(page?.ok && page.output.rows.map(({ status }) => status)).toEqual([
    'interrupted',
    'interrupted',
  ]);
  await again.close();
});

// About how soon a word is heard.
test.skipIf(isLate)(
  'a paused child is ended by its parent, which answers for what it used',
  async () => {
    let child = '';
    const made = await openStage(
      { ...LEAD, ...directive('part') },
      {
        lead: [
          { tool_calls: [spawn('part')] },
          (request) => {
            child = handleIn(request);
            return {
              tool_calls: [
                call('threads/pause_thread', { thread_id: child }),
                call('threads/wait_thread', { thread_id: child }),
              ],
            };
          },
          () => ({ tool_calls: [call('threads/terminate_thread', { thread_id: child })] }),
          ({ results }) => ({ text: JSON.stringify(results) }),
        ],
        // It comes after the pause was said, and is kept.
        part: [
          async () => {
            const said = async () => {
              const signals = await made.threads.store.signals(child);
              return signals.ok && signals.output.map(({ kind }) => kind);
            };
            await expect.poll(said).toContain('pause');
            return { text: 'x'.repeat(400), piece: 10, pace_ms: 1 };
          },
        ],
      },
    );
    const { text, thread_id, cost } = await run(made, 'lead');
    expect(JSON.parse(text)).toMatchObject([{ thread_id: child, status: 'terminated' }]);
    const budget = await budgetOf(made.threads.store, thread_id);
    expect(budget.ok && budget.output.used.tokens).toBe(BigInt(Number(cost.tokens)));
    expect(budget.ok && budget.output.reserved.tokens).toBe(0n);
    // Its end was written for it, and people read that too.
    const told = readTranscript(join(made.runtime.project, '.ai', 'threads'), child);
    expect(told.ok && told.output.lines.at(-1)?.type).toBe('thread_end');
  },
);

test('a child that is stopped while its hook runs ends as stopped, and so does the hook', async () => {
  let asked = (): void => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${READS}` }),
      ...directive('part', {
        permissions: READS,
        hooks: '<hook><when>event.name == "before_step"</when><directive>slow</directive></hook>',
      }),
      ...directive('slow', { outputs: '<action type="string">continue|fail</action>' }),
    },
    {
      lead: [{ tool_calls: [spawn('part')] }, { text: 'done' }],
      part: [{ tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] }],
      slow: [
        () => {
          asked();
          return forever();
        },
      ],
    },
  );
  const done = run(made, 'lead');
  await isAsked;
  const [lead] = await rows(made);
  const signal = { thread: lead?.id ?? '', kind: 'terminate', payload: {}, key: 'stop', by: 'ann' };
  await made.threads.store.signal(signal);
  expect(await done).toMatchObject({ status: 'terminated' });
  const ends = (await rows(made)).map(({ directive: name, status }) => [name, status]);
  expect(ends).toEqual([
    ['lead', 'terminated'],
    ['part', 'terminated'],
    ['slow', 'terminated'],
  ]);
});

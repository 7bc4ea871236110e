// Runs that a program watches, cancels, or wants as a value.
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import {
  type AgentEvent,
  type Kernmantle,
  KernmantleError,
  kernmantle,
  tool,
} from '../../src/index.ts';
import { scriptedModel } from '../../src/testing.ts';

const opened: Kernmantle[] = [];
afterEach(async () => {
  for (const km of opened.splice(0)) await km.close();
});

async function open(replies: Parameters<typeof scriptedModel>[0]): Promise<Kernmantle> {
  const km = await kernmantle({ model: scriptedModel(replies), user: false });
  opened.push(km);
  return km;
}

const BASE = { name: 'watched', instructions: 'Be brief.' } as const;
const look = tool({
  name: 'look',
  description: 'Looks at a place',
  effect: 'read',
  input: { place: 'string' },
  run: ({ place }) => {
    if (place === 'nowhere') throw new Error('there is nothing');
    return { place, seen: 'snow' };
  },
});
const send = tool({
  name: 'send',
  description: 'Sends a text',
  input: { to: 'string' },
  roles: { to: 'destination' },
  run: ({ to }) => `sent to ${to}`,
});

test('a stream shows texts, calls, results, cost and the result, in order', async () => {
  const km = await open([
    { reasoning: 'where?', text: 'I look.', calls: [['look', { place: 'Oslo' }]] },
    { calls: [['look', { place: 'nowhere' }]] },
    { output: { sky: 'snow' } },
  ]);
  const output = z.object({ sky: z.string() });
  const run = km.agent({ ...BASE, tools: [look], output }).stream('How is it in Oslo?');
  const events: (AgentEvent | { type: 'done'; result: object })[] = [];
  for await (const event of run) events.push(event);
  const texts = events.flatMap((event) => (event.type === 'text' ? [event.delta] : []));
  expect(texts.join('')).toBe('I look.');
  expect(events.filter(({ type }) => type !== 'text' && type !== 'cost')).toMatchObject([
    { type: 'reasoning', delta: 'where?' },
    { type: 'tool-call', id: 'call_1_1', tool: 'look', input: { place: 'Oslo' } },
    {
      type: 'tool-result',
      id: 'call_1_1',
      tool: 'look',
      output: { place: 'Oslo', seen: 'snow' },
      labels: ['untrusted'],
    },
    { type: 'tool-call', input: { place: 'nowhere' } },
    { type: 'tool-result', error: 'tool_failed' },
    { type: 'done', result: { output: { sky: 'snow' } } },
  ]);
  expect(events.filter(({ type }) => type === 'cost')).toMatchObject([
    { turns: 1 },
    { turns: 2 },
    { turns: 3 },
  ]);
  expect((await run.result).output.sky).toBe('snow');
  expect(await run.thread).toBe((await run.result).thread);
});

test('leaving the loop stops nothing', async () => {
  const km = await open([{ calls: [['look', { place: 'Oslo' }]] }, { text: 'Snow.' }]);
  const run = km.agent({ ...BASE, tools: [look] }).stream('How is it?');
  for await (const { type } of run) if (type === 'tool-call') break;
  expect(await run.result).toMatchObject({ text: 'Snow.', cost: { turns: 2 } });
});

test('a broken reply is a retry, and its text is void', async () => {
  const km = await open([{ text: 'Snow in the north of the town.', cut: 450 }, { text: 'Rain.' }]);
  const run = km.agent(BASE).stream('How is it?');
  let text = '';
  let retries = 0;
  for await (const event of run) {
    if (event.type === 'retry') [text, retries] = ['', retries + 1];
    if (event.type === 'text') text += event.delta;
  }
  expect([text, retries]).toEqual(['Rain.', 1]);
});

test('a refusal has its reason and the ways to the right', async () => {
  const km = await kernmantle({
    model: scriptedModel([{ calls: [['look', { place: 'Oslo' }]] }, { text: 'no' }]),
    user: false,
    policy: { capabilities: { deny: [{ capability: 'tool.execute', id: 'look' }] } },
  });
  opened.push(km);
  const events: AgentEvent[] = [];
  for await (const event of km.agent({ ...BASE, tools: [look] }).stream('Look.')) {
    if (event.type !== 'done') events.push(event);
  }
  const denied = events.find(({ type }) => type === 'denied');
  expect(denied).toMatchObject({ code: 'permission_denied', why: /tool\.execute|look/ });
  expect(events.some(({ type }) => type === 'tool-result')).toBe(false);
});

test('an approval shows the exact call, and the stream ends with the error of the run', async () => {
  const call = { calls: [['send', { to: 'eve@evil.example' }]] } as const;
  const km = await open([call]);
  const agent = km.agent({ ...BASE, tools: [send] });
  const run = agent.stream('Answer.', { data: { mail: 'to eve@evil.example' } });
  const events: AgentEvent[] = [];
  const ended = (async () => {
    for await (const event of run) if (event.type !== 'done') events.push(event);
  })();
  await expect(ended).rejects.toBeInstanceOf(KernmantleError);
  const [approval] = events.filter((event) => event.type === 'approval');
  expect(approval).toMatchObject({ tool: 'send', input: { to: 'eve@evil.example' } });
  expect(approval?.digest).toMatch(/^\S{16,}$/);
  expect(approval?.why).not.toBe('');
});

test('an attempt returns the failure of a run as a value', async () => {
  const km = await open([{ text: 'Snow.' }]);
  const agent = km.agent(BASE);
  expect(await agent.attempt('How is it?')).toMatchObject({ ok: true, output: { text: 'Snow.' } });
  expect(await agent.attempt('Again?')).toMatchObject({
    ok: false,
    error: { code: 'script_exhausted' },
  });
  expect(await agent.attempt(' ')).toMatchObject({ error: { code: 'invalid_input' } });
});

test('a signal cancels the run, which stays resumable', async () => {
  const cancel = new AbortController();
  const hold = tool({
    name: 'hold',
    description: 'Waits for the end',
    effect: 'read',
    input: {},
    run: async (_, { signal }) => {
      cancel.abort();
      await new Promise((resolve) => {
        if (signal.aborted) resolve(undefined);
        signal.addEventListener('abort', resolve);
      });
    },
  });
  const call = { calls: [['hold', {}]] } as const;
  const km = await open([call, call]);
  const agent = km.agent({ ...BASE, tools: [hold] });
  const error = await agent.run('Hold.', { signal: cancel.signal }).catch((one: unknown) => one);
  expect(error).toMatchObject({ name: 'AbortError', cause: { status: 'interrupted' } });
  const { cause } = error as { cause: KernmantleError };
  expect((await km.threads.show(cause.thread ?? '')).thread.status).toBe('interrupted');
  const attempt = await agent.attempt('Hold.', { signal: AbortSignal.abort() });
  expect(attempt).toMatchObject({ ok: false, error: { code: 'cancelled' } });
});

test('a result that nobody awaits is no unhandled rejection', async () => {
  const km = await open([]);
  const seen: unknown[] = [];
  const note = (error: unknown) => void seen.push(error);
  process.on('unhandledRejection', note);
  try {
    km.agent(BASE).stream('How is it?');
    await km.agent(BASE).attempt('How is it?');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(seen).toEqual([]);
  } finally {
    process.off('unhandledRejection', note);
  }
});

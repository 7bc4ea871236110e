// Agents in code: a program defines tools and an agent, and the harness runs it without a project.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOpenAI } from '@ai-sdk/openai';
import { type } from 'arktype';
import * as v from 'valibot';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import {
  type AgentOptions,
  type Kernmantle,
  KernmantleError,
  type KernmantleOptions,
  kernmantle,
  tool,
} from '../../src/index.ts';
import { scriptedModel, scriptedProvider } from '../../src/testing.ts';

type Replies = Parameters<typeof scriptedModel>[0];

const opened: Kernmantle[] = [];
afterEach(async () => {
  for (const km of opened.splice(0)) await km.close();
});

async function open(replies: Replies, options: KernmantleOptions = {}) {
  const model = scriptedModel(replies);
  const km = await kernmantle({ model, user: false, ...options });
  opened.push(km);
  return { km, model };
}

const weather = tool({
  name: 'weather',
  description: 'Weather of a town',
  effect: 'read',
  untrusted: false,
  input: z.object({ town: z.string() }),
  run: ({ town }) => ({ town, sky: 'snow' }),
});

const BASE = { name: 'forecaster', instructions: 'Answer in one sentence.' } as const;

/** Returns what a call throws. Fails if it throws nothing. */
async function thrown(work: () => unknown): Promise<KernmantleError> {
  try {
    await work();
  } catch (error) {
    if (error instanceof KernmantleError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

/** Calls as a program without types would. */
const untyped = (value: unknown) => value as never;

test('an agent calls its tool and returns typed output', async () => {
  const { km, model } = await open([
    { text: 'I look.', calls: [['weather', { town: 'Oslo' }]] },
    { output: { sentence: 'It snows in Oslo.' } },
  ]);
  const agent = km.agent({
    ...BASE,
    tools: [weather],
    limits: { turns: 5, spend: '0.05' },
    output: z.object({ sentence: z.string() }),
  });
  const result = await agent.run('How is the weather in Oslo?');
  expect(result.output.sentence).toBe('It snows in Oslo.');
  expect(result).toMatchObject({ labels: [], cost: { turns: 2, tool_calls: 2 } });
  const [first, second] = model.requests;
  expect(first).toMatchObject({
    system: 'Answer in one sentence.',
    messages: [{ role: 'user', content: [{ text: 'How is the weather in Oslo?' }] }],
    tools: [{ name: 'weather' }, { name: 'return_output' }],
  });
  expect(second?.messages.at(-1)).toMatchObject({
    content: [{ type: 'tool_result', content: { town: 'Oslo', sky: 'snow' } }],
  });
  const { thread, events } = await km.threads.show(result.thread);
  expect(thread).toMatchObject({ directive: 'forecaster', status: 'completed' });
  const start = events.find((event) => event.type === 'thread_start');
  expect(start?.data).toMatchObject({
    ran: {
      items: [{ id: 'forecaster', source: 'program', signature: 'program' }],
      granted: [{ capability: 'tool.execute', scope: { id: 'weather' } }],
    },
  });
});

test('a run without a project and with memory alone leaves no file', async () => {
  const home = mkdtempSync(join(tmpdir(), 'km-agent-'));
  try {
    const env = { HOME: home, PATH: process.env.PATH };
    const { km } = await open([{ text: 'Hello.' }], { env, user: true });
    expect(await km.agent(BASE).run('Hello?')).toMatchObject({ text: 'Hello.' });
    await km.close();
    expect(readdirSync(home)).toEqual([]);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

test('the default rights are the listed tools and nothing else', async () => {
  const request = (item_id: string, parameters: object) =>
    ['execute', { item_type: 'tool', item_id, parameters }] as const;
  const turns = [
    {
      calls: [
        request('fs/read_file', { path: 'package.json' }),
        request('other', {}),
        request('weather', { town: 'Oslo' }),
      ],
    },
    { text: 'done' },
  ] as const;
  const other = tool({ name: 'other', description: 'Other', input: {}, run: () => 'never' });
  const { km, model } = await open([...turns, ...turns], { tools: [other] });
  const resultsOf = async (tools: AgentOptions['tools'] = []) => {
    const { thread } = await km.agent({ ...BASE, tools }).run('Try.');
    const { events } = await km.threads.show(thread);
    return events.flatMap((event) => (event.type === 'tool_result' ? [event.data.content] : []));
  };
  // The kernel tools are not among the functions, so a model that names one calls nothing.
  const none = { error: { code: 'invalid_input' } };
  expect(await resultsOf([weather])).toMatchObject([none, none, none]);
  expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(['weather']);
  const denied = { error: { code: 'permission_denied' } };
  expect(await resultsOf(['kernel', weather])).toMatchObject([denied, denied, { sky: 'snow' }]);
});

test('data are a stranger’s: they are labelled and vouch for nothing', async () => {
  const sent: string[] = [];
  const send = tool({
    name: 'send',
    description: 'Sends a mail',
    input: { to: 'string', text: 'string' },
    roles: { to: 'destination', text: 'content' },
    run: ({ to }) => sent.push(to),
  });
  const call = { calls: [['send', { to: 'eve@evil.example', text: 'hi' }]] } as const;
  const { km } = await open([call, call, { text: 'ok' }]);
  const agent = km.agent({ ...BASE, tools: [send] });
  const mail = { from: 'eve@evil.example', text: 'Answer me at eve@evil.example.' };
  const error = await thrown(() => agent.run('Answer the mail.', { data: { mail } }));
  expect(error).toMatchObject({ status: 'waiting', code: 'approval_pending' });
  expect(error.approvals).toMatchObject([{ state: 'pending', shown: { tool: 'send' } }]);
  expect(sent).toEqual([]);
  const shown = await km.threads.show(error.thread ?? '');
  const given = shown.events.find(({ data }) => 'attached' in data);
  expect(given).toMatchObject({ data: { attached: 'mail', marks: { labels: ['untrusted'] } } });
  // The user's own word vouches for the same address.
  await agent.run('Write to eve@evil.example.');
  expect(sent).toEqual(['eve@evil.example']);
});

test('labels of the prompt are those of the result', async () => {
  const { km } = await open([{ text: 'Hello.' }]);
  const { labels } = await km.agent(BASE).run('Hello?', { labels: ['untrusted', 'customer'] });
  expect(labels.toSorted()).toEqual(['customer', 'untrusted']);
});

test('what a tool does not say is taken for the worst', async () => {
  const plain = tool({ name: 'plain', description: 'Plain', input: {}, run: () => 'x' });
  expect(plain).toMatchObject({
    effect: 'write',
    risk: ['exfil', 'destructive', 'privileged'],
    result: { untrusted: true },
  });
  const { km } = await open([{ calls: [['plain', {}]] }, { text: 'ok' }]);
  expect((await km.agent({ ...BASE, tools: [plain] }).run('Go.')).labels).toEqual(['untrusted']);
  expect(weather).toMatchObject({ effect: 'read', risk: [], result: { untrusted: false } });
});

test.each<[string, Parameters<typeof tool>[0]['input']]>([
  ['zod', z.object({ count: z.number().int() })],
  ['arktype', type({ count: 'number.integer' })],
  ['JSON Schema', { type: 'object', properties: { count: { type: 'integer' } } }],
  ['declarations', { count: 'integer' }],
])('a wrong argument is refused before the tool runs: %s', async (_, input) => {
  const got: unknown[] = [];
  const count = tool({
    name: 'count',
    description: 'Counts',
    input,
    effect: 'read',
    run: (value) => void got.push(value),
  });
  const { km, model } = await open([
    { calls: [['count', { count: 'many' }]] },
    { calls: [['count', { count: 3 }]] },
    { text: 'ok' },
  ]);
  await km.agent({ ...BASE, tools: [count] }).run('Count.');
  expect(got).toEqual([{ count: 3 }]);
  const [shown] = model.requests[0]?.tools ?? [];
  expect(shown).toMatchObject({ input_schema: { properties: { count: { type: 'integer' } } } });
  const answer = JSON.stringify(model.requests[1]?.messages.at(-1));
  expect(answer).toMatch(/invalid_input.*count/);
});

test('a schema without JSON Schema names the remedy', () => {
  const wrong = () =>
    tool({ name: 'a', description: 'A', input: v.object({ town: v.string() }), run: () => 1 });
  expect(wrong).toThrow(/`toStandardJsonSchema` of `@valibot\/to-json-schema`/);
});

test('an approval of every call is asked for', async () => {
  const input = {};
  const pay = tool({ name: 'pay', description: 'Pays', input, approval: 'always', run: () => 1 });
  const { km } = await open([{ calls: [['pay', {}]] }]);
  const error = await thrown(() => km.agent({ ...BASE, tools: [pay] }).run('Pay.'));
  expect(error).toMatchObject({ status: 'waiting', approvals: [{ shown: { tool: 'pay' } }] });
});

test('agents of one program can have different tools of one name', async () => {
  const own = (word: string) => {
    const options = { name: 'say', description: 'Says', effect: 'read', input: {} } as const;
    return tool({ ...options, untrusted: false, run: () => ({ word }) });
  };
  const turns = [{ calls: [['say', {}]] }, { text: 'ok' }] as const;
  const { km, model } = await open([...turns, ...turns]);
  await km.agent({ ...BASE, name: 'one', tools: [own('first')] }).run('Go.');
  await km.agent({ ...BASE, name: 'two', tools: [own('second')] }).run('Go.');
  expect(JSON.stringify(model.requests[1]?.messages)).toContain('first');
  expect(JSON.stringify(model.requests[3]?.messages)).toContain('second');
});

test('output that does not fit is asked for again', async () => {
  const output = z.object({ at: z.object({ town: z.string(), degrees: z.number() }) });
  const { km, model } = await open([
    { output: { at: { town: 'Oslo', degrees: 'cold' } } },
    { output: { at: { town: 'Oslo', degrees: -3 } } },
  ]);
  const result = await km.agent({ ...BASE, output }).run('Weather?');
  expect(result.output).toEqual({ at: { town: 'Oslo', degrees: -3 } });
  expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('invalid_input');
});

test('a transforming schema gives its own value, and a check of it can refuse', async () => {
  const output = z.object({ day: z.string().transform((text) => text.length) });
  const { km } = await open([{ output: { day: 'Monday' } }, { output: { day: 'x' } }]);
  const { output: value } = await km.agent({ ...BASE, output }).run('Which day?');
  expect(value.day).toBe(6);
  const strict = z.object({ day: z.string() }).refine(({ day }) => day !== 'x', 'not x');
  const error = await thrown(() => km.agent({ ...BASE, output: strict }).run('Which day?'));
  expect(error).toMatchObject({ code: 'invalid_output', message: /not x/ });
});

test('a limit ends the run with an error that has cost and thread', async () => {
  const call = { calls: [['weather', { town: 'Oslo' }]] } as const;
  const { km } = await open([call, call, call]);
  const agent = km.agent({ ...BASE, tools: [weather], limits: { turns: 2 } });
  const error = await thrown(() => agent.run('Go on.'));
  expect(error).toMatchObject({ status: 'limit', cost: { turns: 2 } });
  expect(error.code).toMatch(/turns|limit/);
  expect((await km.threads.show(error.thread ?? '')).thread.status).toBe('limit');
  const lower = await thrown(() => agent.run('Again.', { limits: { turns: 1 } }));
  expect(lower).toMatchObject({ status: 'limit', cost: { turns: 1 } });
});

test('a policy of the program narrows the rights of its agents', async () => {
  const policy = { capabilities: { deny: [{ capability: 'tool.execute', id: 'weather' }] } };
  const { km } = await open([{ calls: [['weather', { town: 'Oslo' }]] }, { text: 'ok' }], {
    policy,
  });
  const { thread } = await km.agent({ ...BASE, tools: [weather] }).run('Go.');
  const { events } = await km.threads.show(thread);
  const result = events.find((event) => event.type === 'tool_result');
  expect(result?.data).toMatchObject({ content: { error: { code: 'permission_denied' } } });
});

test('a scripted model fails, breaks off and runs out as it is told', async () => {
  const usage = { input_tokens: 7, output_tokens: 5 };
  const { km, model } = await open([
    { text: 'Hello there, Ann.', cut: 120 },
    { reasoning: 'hm', text: 'Hello.', usage },
    { error: { status: 400, message: 'no such thing' } },
  ]);
  const agent = km.agent(BASE);
  const done = await agent.run('Hello?');
  expect(done).toMatchObject({ text: 'Hello.', cost: { turns: 1 } });
  expect(model.requests).toHaveLength(2);
  expect(await thrown(() => agent.run('Again?'))).toMatchObject({ code: 'provider_error' });
  const error = await thrown(() => agent.run('Again?'));
  expect(error).toMatchObject({ code: 'script_exhausted', status: 'failed' });
  expect(() => scriptedModel([untyped({ txt: 'a' })])).toThrow(/did you mean `text`/);
});

test.each<[string, Partial<AgentOptions>, RegExp]>([
  ['two tools of one name', { tools: [weather, weather] }, /`weather` twice/],
  ['an unknown option', untyped({ tool: [weather] }), /`tool` is not an option.*`tools`/],
  ['an output that is no object', untyped({ output: z.string() }), /`output` must be a schema/],
  ['a number as money', { limits: untyped({ spend: 0.05 }) }, /`limits\.spend` must be a text/],
  ['an unknown limit', { limits: untyped({ turn: 1 }) }, /`turn` is not an option.*`turns`/],
  ['a tool of no project', { tools: ['fs/read_file'] }, /needs `project`/],
  ['a name that is none', { name: 'My Agent' }, /name/],
  ['no instructions', { instructions: ' ' }, /`instructions` must be a text/],
  ['a mode that is none', { untrusted: untyped('hide') }, /show, reference, plan/],
  ['a right that is no list', { permissions: untyped({ read: 'a' }) }, /`permissions\.read`/],
  ['a right that is no text', { permissions: untyped({ net: [3] }) }, /`permissions\.net`/],
  ['uses of another tool', { permissions: { uses: { wether: 1 } } }, /`wether`/],
])('an agent with %s is refused', async (_, options, message) => {
  const { km } = await open([]);
  const error = await thrown(() => km.agent({ ...BASE, ...options }));
  expect(error).toMatchObject({ code: 'config_invalid', message });
});

test('an agent has at most 40 tools, and they differ in more than case', async () => {
  const { km } = await open([]);
  const named = (name: string) => tool({ name, description: 'x', input: {}, run: () => 1 });
  const many = Array.from({ length: 41 }, (_, at) => named(`t${at}`));
  expect(await thrown(() => km.agent({ ...BASE, tools: many }))).toMatchObject({
    message: /41 tools; list at most 40/,
  });
  expect(km.agent({ ...BASE, tools: many.slice(1) }).name).toBe('forecaster');
  const pair = [named('Say'), named('say')];
  expect(await thrown(() => km.agent({ ...BASE, tools: pair }))).toMatchObject({
    code: 'config_invalid',
    message: /also as `Say`/,
  });
});

const cycle: Record<string, unknown> = {};
cycle.self = cycle;

test.each<[string, unknown, object, RegExp]>([
  ['an empty prompt', ' ', {}, /`prompt` must be a text/],
  ['a prompt over 1 MB', 'x'.repeat(1024 * 1024 + 1), {}, /`prompt` is longer than 1 MB/],
  ['data with a cycle', 'Go.', { data: { cycle } }, /`data\.cycle` must be JSON/],
  ['data with a function', 'Go.', { data: { act: () => 1 } }, /`data\.act` must be JSON/],
  ['an unknown option', 'Go.', { dat: {} }, /`dat` is not an option.*`data`/],
  ['a limit of another type', 'Go.', { limits: { turns: '3' } }, /`limits\.turns`/],
])('a run with %s is refused before anything starts', async (_, prompt, options, message) => {
  const { km, model } = await open([]);
  const error = await thrown(() => km.agent(BASE).run(untyped(prompt), untyped(options)));
  expect(error).toMatchObject({ message });
  expect(error.code).toMatch(/^(?:config_invalid|invalid_input)$/);
  expect(model.requests).toEqual([]);
  expect((await km.threads.list()).rows).toEqual([]);
});

test.each<[string, object, RegExp]>([
  ['a misspelt effect', { effect: 'reads' }, /`effect` cannot be `reads`.*read, idempotent, write/],
  ['a role of no parameter', { roles: { twon: 'path' } }, /`twon`/],
  ['a reserved name', { name: 'return_output' }, /`name` is reserved/],
  ['a name that is none', { name: '9 lives' }, /`name` must begin with a letter/],
  ['an unknown option', { inputs: {} }, /`inputs` is not an option; did you mean `input`/],
  ['no function', { run: 1 }, /`run` must be a function/],
  ['a list as input', { input: [] }, /`input` must be a schema of an object/],
  ['an input that is no object', { input: z.string() }, /`input` must be a schema of an object/],
])('a tool with %s is refused', async (_, options, message) => {
  const base = { name: 'a', description: 'A', input: { town: 'string' }, run: () => 1 };
  const error = await thrown(() => tool(untyped({ ...base, ...options })));
  expect(error).toMatchObject({ code: 'config_invalid', message });
});

test.each<[string, () => unknown, object]>([
  ['nothing', () => undefined, { content: { result: null } }],
  ['a BigInt', () => 1n, { is_error: true, content: { error: { code: 'tool_failed' } } }],
  ['20 MB', () => 'x'.repeat(20_000_000), { is_error: false, content: { bytes: /^/ } }],
])('a tool that returns %s has an answer', async (name, run, answer) => {
  const odd = tool({ name: 'odd', description: 'Odd', input: {}, run: untyped(run) });
  const { km } = await open([{ calls: [['odd', {}]] }, { text: 'ok' }]);
  const { thread, text } = await km.agent({ ...BASE, tools: [odd] }).run('Go.');
  expect(text).toBe('ok');
  const { events } = await km.threads.show(thread);
  const result = events.find((event) => event.type === 'tool_result');
  const expected = name === '20 MB' ? { is_error: false } : answer;
  expect(result?.data).toMatchObject(expected);
  expect(JSON.stringify(result?.data).length).toBeLessThan(40_000);
});

test.each<[string, object, RegExp]>([
  ['an unknown option', { modell: 'x' }, /`modell` is not an option; did you mean `model`/],
  ['a model of another type', { model: 3 }, /`model` must be a name/],
  ['a model that is null', { model: null }, /`model` must be a name/],
  ['an object that is no model', { model: {} }, /`default` must be a language model of the AI SDK/],
  [
    'a model object of another version',
    { models: { old: { specificationVersion: 'v2' } } },
    /`old` must be .* v3 or v4/,
  ],
  ['a file without its key', { store: 'a.db', user: false }, /`user` cannot be false/],
  ['a tool of another kind', { tools: [{}] }, /`tools\[0\]` must come from `tool`/],
  ['a server without a project', { store: 'postgres://h/d' }, /`store` on a server needs/],
])('a library with %s is refused', async (_, options, message) => {
  const error = await thrown(() => kernmantle(untyped(options)));
  expect(error).toMatchObject({ code: 'config_invalid', message });
});

test.each(['default', 'other'])('a model object of the AI SDK runs an agent: %s', async (name) => {
  const provider = await scriptedProvider(({ assistant_messages: turn }) =>
    turn === 1
      ? { tool_calls: [{ name: 'weather', arguments: { town: 'Oslo' } }] }
      : { text: 'It snows.' },
  );
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const model = createOpenAI({ apiKey: 'k', baseURL: `${provider.output.url}/v1` })('gpt-5.4');
  const km = await kernmantle({ user: false, model, models: { other: model } });
  opened.push(km);
  const own = {
    ...BASE,
    tools: [weather],
    limits: { spend: '0.50' },
    ...(name === 'other' && { model: name }),
  };
  const { text, cost, thread } = await km.agent(own).run('How is the weather in Oslo?');
  expect(text).toBe('It snows.');
  expect(Number(cost.spend)).toBeGreaterThan(0);
  const { events } = await km.threads.show(thread);
  expect(JSON.stringify(events)).toContain(`program:${name}`);
  await provider.output.close();
});

test('a missing model is named', async () => {
  const km = await kernmantle({ user: false });
  opened.push(km);
  expect(await thrown(() => km.agent(BASE))).toMatchObject({ message: /`model` is missing/ });
  const other = km.agent({ ...BASE, model: 'no-such-model' });
  expect(await thrown(() => other.run('Hello?'))).toMatchObject({ message: /no-such-model/ });
});

test('the calls of the library throw instead of returning a failure', async () => {
  const { km } = await open([], { tools: [weather] });
  const request = { item_type: 'tool', item_id: 'weather', parameters: { town: 'Oslo' } };
  expect(await km.call('execute', request)).toMatchObject({ sky: 'snow' });
  const error = await thrown(() => km.threads.show('none_20300131_235959_aaaa'));
  expect(error.code).toBe('not_found');
});

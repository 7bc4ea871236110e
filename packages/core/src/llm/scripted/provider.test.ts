import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { isObject, type Json, type JsonObject } from '../../base/index.ts';
import type { ModelReply, Protocol } from '../message.ts';
import { createReader, readReply } from '../reader.ts';
import { requestParameters } from '../request.ts';
import { answerOf, piecesOf } from './answer.ts';
import { type ScriptedProvider, startScriptedProvider } from './provider.ts';
import { describeRequest } from './request.ts';
import { checkScript, parseScript, type ScriptedReply } from './script.ts';
import { wireOf } from './wire.ts';

type ProviderScript = Parameters<typeof startScriptedProvider>[0];

const open: ScriptedProvider[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((provider) => provider.close()));
});

async function start(script: ProviderScript, options = {}): Promise<ScriptedProvider> {
  const started = await startScriptedProvider(script, options);
  if (!started.ok) throw new Error(started.error.detail.message);
  open.push(started.output);
  return started.output;
}

const PATHS = {
  anthropic: '/v1/messages',
  openai: '/v1/chat/completions',
  responses: '/v1/responses',
};
const PROTOCOLS = ['anthropic', 'openai', 'responses'] as const;

/** A body as the provider's tool would send it. */
function bodyFor(protocol: Protocol, stream: boolean, text = 'hello'): JsonObject {
  const { system_prompt, messages, ...rest } = requestParameters(protocol, {
    model: 'm',
    system: 'be brief',
    messages: [{ role: 'user', content: [{ type: 'text', text }] }],
    tools: [],
    max_tokens: 100,
    stream,
  });
  const body = { ...rest, [protocol === 'responses' ? 'input' : 'messages']: messages ?? [] };
  return { ...body, ...(system_prompt !== undefined && { system: system_prompt }) };
}

const post = (provider: ScriptedProvider, protocol: Protocol, body: Json, headers = {}) =>
  fetch(provider.url + PATHS[protocol], { method: 'POST', body: JSON.stringify(body), headers });

/** The stream as text, and whether it came to its end. */
async function drain(response: Response): Promise<{ text: string; clean: boolean }> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const part of response.body ?? []) {
      text += decoder.decode(part as Uint8Array, { stream: true });
    }
    return { text, clean: true };
  } catch {
    return { text, clean: false };
  }
}

function readText(protocol: Protocol, { text, clean }: { text: string; clean: boolean }) {
  const reader = createReader(protocol);
  for (const part of text.split('\n\n').slice(0, -1)) {
    const data = part.split('\n').find((line) => line.startsWith('data: '));
    reader.push({ data: data?.slice(6) ?? part });
  }
  return reader.end(clean);
}

const ask = async (provider: ScriptedProvider, protocol: Protocol, text = 'hello') =>
  readText(protocol, await drain(await post(provider, protocol, bodyFor(protocol, true, text))));

const REPLY: ScriptedReply = {
  thinking: 'let me see',
  text: 'reading 🙂',
  tool_calls: [
    { name: 'execute', arguments: { item_id: 'fs/read_file', parameters: { path: 'ü.md' } } },
    { name: 'search', arguments: { query: 'x' } },
  ],
  usage: { input_tokens: 10, output_tokens: 20, cache_read_tokens: 300, cache_write_tokens: 40 },
};
const EXPECTED = {
  content: [
    { type: 'thinking', text: 'let me see' },
    { type: 'text', text: 'reading 🙂' },
    { type: 'tool_call', id: 'call_1_1', name: 'execute' },
    { type: 'tool_call', id: 'call_1_2', name: 'search', arguments: { query: 'x' } },
  ],
  stop: 'tool_use',
  usage: {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 300,
    cache_write_tokens: 40,
    tokens: 370,
    context_tokens: 350,
    estimated: false,
  },
};

test.each(PROTOCOLS)('one script answers %s, streamed and not', async (protocol) => {
  const streamed = await ask(await start([REPLY]), protocol);
  expect(streamed).toMatchObject({ ok: true, output: EXPECTED });
  const response = await post(await start([REPLY]), protocol, bodyFor(protocol, false));
  expect(readReply(protocol, (await response.json()) as Json)).toMatchObject({ output: EXPECTED });
});

test('replies come in order, by what they match, and as often as they may', async () => {
  const provider = await start(`
replies:
  - { text: for the child, match: { text: child }, repeat: true }
  - { text: one }
  - { text: two, repeat: 2 }
`);
  const said = async (text: string): Promise<string | undefined> => {
    const reply = await ask(provider, 'openai', text);
    const [block] = reply.ok ? reply.output.content : [];
    return block?.type === 'text' ? block.text : undefined;
  };
  expect(await said('a')).toBe('one');
  expect(await said('the child')).toBe('for the child');
  expect(await said('b')).toBe('two');
  expect(provider.unused()).toBe(0);
  expect(await said('c')).toBe('two');
  expect(await said('d')).toBeUndefined();
  expect(await said('a child')).toBe('for the child');
  expect(provider.requests.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
});

test('a conversation is matched by its length and its last results', async () => {
  const reply = {
    text: 'it said ${result_1.status}',
    fill: true,
    match: { assistant_messages: 1 },
  };
  const provider = await start([reply, { text: 'first' }]);
  const messages = [
    { role: 'user', content: [{ type: 'text' as const, text: 'go' }] },
    {
      role: 'assistant',
      content: [{ type: 'tool_call' as const, id: 'c', name: 'execute', arguments: {} }],
    },
    {
      role: 'user',
      content: [{ type: 'tool_result' as const, id: 'c', content: { status: 'spawned' } }],
    },
  ] as const;
  for (const protocol of PROTOCOLS) {
    const { messages: written = [], ...rest } = requestParameters(protocol, {
      model: 'm',
      system: '',
      messages: [...messages],
      tools: [],
      max_tokens: 9,
      stream: true,
    });
    const body = { ...rest, [protocol === 'responses' ? 'input' : 'messages']: written };
    const answer = await drain(await post(await start([reply]), protocol, body));
    expect(readText(protocol, answer)).toMatchObject({
      output: { content: [{ text: 'it said spawned' }] },
    });
  }
  expect(await ask(provider, 'openai')).toMatchObject({ output: { content: [{ text: 'first' }] } });
});

test('a program may answer instead', async () => {
  const provider = await start(({ model, number }) => ({ text: `${model} ${number}` }));
  expect(await ask(provider, 'anthropic')).toMatchObject({
    output: { content: [{ text: 'm 1' }] },
  });
});

test.each([
  [429, 'rate_limit_error', { retry_after: 7 }],
  [529, 'overloaded_error', {}],
  [500, 'api_error', {}],
])('status %s is answered with its error', async (status, type, extra) => {
  const provider = await start([{ fault: { status, ...extra }, repeat: true }]);
  for (const protocol of PROTOCOLS) {
    const response = await post(provider, protocol, bodyFor(protocol, true));
    expect(response.status).toBe(status);
    expect(response.headers.get('retry-after')).toBe(status === 429 ? '7' : null);
    const body = (await response.json()) as Json;
    expect(isObject(body) && body.error).toMatchObject({ type });
  }
});

test.each(PROTOCOLS)('faults of a %s stream arrive as they are', async (protocol) => {
  const run = async (fault: ScriptedReply['fault']) =>
    await ask(await start([{ ...REPLY, ...(fault && { fault }) }]), protocol);
  expect(await run({ cut_at_byte: 500 })).toMatchObject({ error: { detail: { reason: 'cut' } } });
  expect(await run({ no_end_marker: true })).toMatchObject({
    output: {
      broken: { reason: 'no_end_marker', completed_tools: ['execute:call_1_1', 'search:call_1_2'] },
    },
  });
  expect(await run({ garbage_at_byte: 300 })).toMatchObject({
    error: { detail: { reason: 'garbage' } },
  });
  expect(await run({ missing_usage: true })).toMatchObject({
    output: { usage: { estimated: true } },
  });
  expect(await run({ max_tokens_inside_arguments: true })).toMatchObject({
    output: { stop: 'max_tokens', broken: { completed_tools: ['execute:call_1_1'] } },
  });
  expect(await run({ error: { type: 'overloaded_error' }, after_events: 3 })).toMatchObject({
    error: { code: 'model_unavailable' },
  });
  await expect(run({ reset: true })).rejects.toThrow('fetch failed');
});

test('a stalled answer ends when the asker gives up or the provider closes', async () => {
  const provider = await start([{ ...REPLY, fault: { stall_at_byte: 100 }, repeat: true }]);
  const response = await post(provider, 'anthropic', bodyFor('anthropic', true));
  const reader = response.body?.getReader();
  expect((await reader?.read())?.value?.length).toBe(100);
  await reader?.cancel();
  const other = await post(provider, 'openai', bodyFor('openai', true));
  const rest = drain(other);
  await provider.close();
  expect(await rest).toMatchObject({ clean: false });
});

test('what is no request for a model is refused', async () => {
  const provider = await start([REPLY], { key: 'sk-right' });
  const body = bodyFor('openai', true);
  expect((await post(provider, 'openai', body)).status).toBe(401);
  const right = { authorization: 'Bearer sk-right' };
  expect((await post(provider, 'openai', 'text', right)).status).toBe(400);
  expect((await fetch(`${provider.url}/v1/models`)).status).toBe(404);
  expect((await post(provider, 'openai', body, right)).status).toBe(200);
  expect(provider.count()).toBe(1);
});

test('only so many requests are remembered', async () => {
  const provider = await start([{ text: 'x', repeat: true }], { keep: 2 });
  for (let index = 0; index < 3; index++) await ask(provider, 'openai');
  expect(provider.requests.map(({ number }) => number)).toEqual([2, 3]);
  expect(provider.count()).toBe(3);
});

test.each([
  ['- txt: a', 'unknown field `txt` in `replies.0`; did you mean `text`'],
  ['- tool_calls: [{arguments: {}}]', '`replies.0.tool_calls.0` has no `name`'],
  ['- {fault: {cut_at_byte: -1}}', '`replies.0.fault.cut_at_byte` must be a whole number'],
  ['- {stop: never}', '`replies.0.stop` must be one of'],
  ['text: a', 'the script has no `replies`'],
  ['- [', 'line 1'],
])('the mistake in `%s` is named', async (source, message) => {
  expect(parseScript(source)).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  const started = await startScriptedProvider(source);
  expect(!started.ok && started.error.detail.message).toContain(message);
});

test('a reply of a program that is undefined is refused', async () => {
  const replies = [{ text: 'a' }, ...Array.from<ScriptedReply>({ length: 1 })];
  expect(await startScriptedProvider(replies)).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { message: expect.stringContaining('`replies.1`') } },
  });
});

test('a port that is taken is an outcome', async () => {
  const port = Number(new URL((await start([])).url).port);
  expect(await startScriptedProvider([], { port })).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { port } },
  });
});

const name = fc.constantFrom('execute', 'search', 'load');
const reply$: fc.Arbitrary<ScriptedReply> = fc.record(
  {
    text: fc.string({ unit: 'grapheme', maxLength: 60 }),
    thinking: fc.string({ maxLength: 20 }),
    tool_calls: fc.array(
      fc.record({
        name,
        arguments: fc.dictionary(fc.string(), fc.jsonValue()) as fc.Arbitrary<Json>,
      }),
      { maxLength: 3 },
    ),
    piece: fc.integer({ min: 1, max: 9 }),
  },
  { requiredKeys: [] },
);

/** The reply as it would be read off the wire, without a wire. */
function roundTrip(protocol: Protocol, reply: ScriptedReply, stream: boolean): ModelReply {
  const request = describeRequest(1, protocol, {}, { ...bodyFor(protocol, stream) }, 100);
  const text = Buffer.concat(wireOf(answerOf(reply, request), request).pieces).toString();
  const read = stream
    ? readText(protocol, { text, clean: true })
    : readReply(protocol, JSON.parse(text) as Json);
  if (!read.ok) throw new Error(read.error.detail.message);
  return read.output;
}

test('what is scripted is what is read, in both protocols, streamed or not', () => {
  fc.assert(
    fc.property(reply$, fc.constantFrom(...PROTOCOLS), fc.boolean(), (reply, protocol, stream) => {
      expect(checkScript([reply as unknown as Json]).ok).toBe(true);
      const { content } = roundTrip(protocol, reply, stream);
      const texts = content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
      expect(texts.join('')).toBe(reply.text ?? '');
      const calls = content.flatMap((block) => (block.type === 'tool_call' ? [block] : []));
      const expected = (reply.tool_calls ?? []).map((call) => ({
        name: call.name,
        arguments: JSON.parse(JSON.stringify(call.arguments)) as Json,
      }));
      expect(calls.map((call) => ({ name: call.name, arguments: call.arguments }))).toEqual(
        expected,
      );
    }),
  );
});

test('pieces never cut a character', () => {
  expect(piecesOf('a🙂b', 2)).toEqual(['a🙂', 'b']);
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 5 }), (text, size) => {
      const pieces = piecesOf(text, size);
      expect(pieces.join('')).toBe(text);
      expect(pieces.every((piece) => !/[\ud800-\udbff]$|^[\udc00-\udfff]/.test(piece))).toBe(true);
    }),
  );
});

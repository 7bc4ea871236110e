// Models through the whole way: a request as parameters, the kernel's chain of tools, real HTTP, the
// event stream, the reply. The provider is scripted; everything else is what a thread uses.
import { join } from 'node:path';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { CALLS, RECORDED, wireText } from '@kernmantle/test-support/provider-streams';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject, type Outcome } from '../../src/base/index.ts';
import { createEventParser } from '../../src/kernel/http/event-parser.ts';
import {
  costOf,
  createPrices,
  createReader,
  type Message,
  type ModelReply,
  type Protocol,
  replyOf,
  requestParameters,
  resolveModel,
  type ScriptedProvider,
  type ScriptedReply,
  startScriptedProvider,
} from '../../src/llm/index.ts';
import type { Runtime } from '../../src/runtime/index.ts';

const KEY = 'sk-scripted-8841';
const PROTOCOLS = ['anthropic', 'openai', 'responses', 'gemini'] as const;
const TOOLS = {
  anthropic: 'anthropic_thread',
  openai: 'openai_thread',
  responses: 'responses_thread',
  gemini: 'gemini_thread',
} as const;
const PLAIN = {
  anthropic: 'llm/anthropic_messages',
  openai: 'llm/openai_chat',
  responses: 'llm/openai_responses',
  gemini: 'llm/gemini',
} as const;
const script: ScriptedReply[] = [];
let provider: ScriptedProvider;
let fixture: Fixture;
let runtime: Runtime;

/** The same chain with little patience. */
const hasty = (name: string, tool: string): string => `tool_id: ${name}
tool_type: http
version: "1.0.0"
category: quick
description: a turn that does not wait long
executor_id: ${tool}
config:
  timeouts: { connect: 5, first_byte: 5, idle: 0.3 }
requires: [net.http]
effect: idempotent
`;

beforeAll(async () => {
  const started = await startScriptedProvider(() => script.shift(), { key: KEY });
  if (!started.ok) throw new Error(started.error.detail.message);
  provider = started.output;
  fixture = makeFixture({
    '.ai/tools/quick/anthropic_quick.yaml': hasty('anthropic_quick', 'llm/anthropic_messages'),
    '.ai/tools/quick/openai_quick.yaml': hasty('openai_quick', 'llm/openai_chat'),
    '.ai/tools/quick/responses_quick.yaml': hasty('responses_quick', 'llm/openai_responses'),
    '.ai/tools/quick/gemini_quick.yaml': hasty('gemini_quick', 'llm/gemini'),
  });
  fixture.write(join(fixture.home, 'policy.yaml'), TRUSTING);
  Object.assign(fixture.env, {
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: KEY,
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: KEY,
    GEMINI_BASE_URL: provider.url,
    GEMINI_API_KEY: KEY,
  });
  runtime = await fixture.open();
});

afterAll(async () => {
  await runtime?.close();
  await provider?.close();
  fixture?.remove();
});

const messages: Message[] = [
  { role: 'user', content: [{ type: 'text', text: 'run directive hello' }] },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', text: 'hm', seal: { by: 'p/test-model', data: 'c2ln' } },
      { type: 'tool_call', id: 'c0', name: 'execute', arguments: { item_id: 'hello' } },
    ],
  },
  { role: 'user', content: [{ type: 'tool_result', id: 'c0', content: { status: 'ready' } }] },
];
const tools = [{ name: 'execute', description: 'runs an item', input_schema: { type: 'object' } }];

const REPLY: ScriptedReply = {
  thinking: 'two calls',
  text: 'on it 🙂',
  tool_calls: [
    { name: 'execute', arguments: { item_id: 'fs/read_file', parameters: { path: 'ü.md' } } },
    { name: 'search', arguments: { query: 'a "quoted" word' } },
  ],
  usage: { input_tokens: 100, output_tokens: 50, cache_read_tokens: 2000, cache_write_tokens: 30 },
};

interface Turn {
  stream?: boolean;
  tool?: string;
  signal?: AbortSignal;
}

const parametersFor = (protocol: Protocol, model: string, stream: boolean): JsonObject =>
  requestParameters(protocol, {
    model,
    system: 'be brief',
    messages,
    tools,
    max_tokens: 300,
    stream,
    temperature: 0.5,
    sealedBy: 'p/test-model',
  });

async function execute(protocol: Protocol, turn: Turn = {}): Promise<Outcome<Json>> {
  const { stream = true, signal } = turn;
  const id = `turn_${protocol}`;
  const caller = runtime.caller({ surface: 'cli', ...(signal && { signal }) });
  const item_id = turn.tool ?? `threads/${TOOLS[protocol]}`;
  const own = turn.tool === undefined ? { thread_id: id } : {};
  const parameters = { ...parametersFor(protocol, 'test-model', stream), ...own };
  const request = { item_type: 'tool', item_id, parameters };
  const result = await runtime.kernel.execute(request, { ...caller, __thread_id: id });
  return result.ok ? { ok: true, output: result.output.data } : result;
}

async function turn(
  protocol: Protocol,
  replies: ScriptedReply[],
  options: Turn = {},
): Promise<Outcome<ModelReply>> {
  script.splice(0, script.length, ...replies);
  return replyOf(protocol, await execute(protocol, options), { requestBytes: 900 });
}

const callsIn = (reply: Outcome<ModelReply>) =>
  reply.ok ? reply.output.content.filter(({ type }) => type === 'tool_call') : [];

test.each(PROTOCOLS)(
  'a turn with %s goes out whole and comes back as a reply',
  async (protocol) => {
    const reply = await turn(protocol, [REPLY]);
    expect(reply).toMatchObject({
      ok: true,
      output: {
        content: [
          { type: 'thinking', text: 'two calls' },
          { type: 'text', text: 'on it 🙂' },
          { type: 'tool_call', name: 'execute', arguments: { item_id: 'fs/read_file' } },
          { type: 'tool_call', name: 'search', arguments: { query: 'a "quoted" word' } },
        ],
        stop: 'tool_use',
        model: 'test-model',
        usage: {
          // Gemini reports no writes of its cache: they are plain input.
          input_tokens: protocol === 'gemini' ? 130 : 100,
          output_tokens: 50,
          cache_read_tokens: 2000,
          cache_write_tokens: protocol === 'gemini' ? 0 : 30,
          tokens: 2180,
          context_tokens: 2130,
          estimated: false,
        },
      },
    });
    expect(reply.ok && reply.output.broken).toBeUndefined();
    expect(provider.requests.at(-1)).toMatchObject({ protocol, results: [{ status: 'ready' }] });
  },
);

test('what is sent is what each API asks for', async () => {
  await turn('anthropic', [REPLY]);
  const MARK = { cache_control: { type: 'ephemeral' } };
  expect(provider.requests.at(-1)?.body).toEqual({
    model: 'test-model',
    max_tokens: 300,
    stream: true,
    temperature: 0.5,
    system: [{ type: 'text', text: 'be brief', ...MARK }],
    tools: [{ ...tools[0], ...MARK }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'run directive hello', ...MARK }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
          { type: 'tool_use', id: 'c0', name: 'execute', input: { item_id: 'hello' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c0', content: '{"status":"ready"}', ...MARK },
        ],
      },
    ],
  });
  await turn('openai', [REPLY]);
  expect(provider.requests.at(-1)?.body).toMatchObject({
    max_completion_tokens: 300,
    stream_options: { include_usage: true },
    messages: [
      { role: 'system', content: 'be brief' },
      { role: 'user' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c0' }] },
      { role: 'tool', tool_call_id: 'c0', content: '{"status":"ready"}' },
    ],
  });
});

test.each(PROTOCOLS)('an answer of %s that is not streamed is the same reply', async (protocol) => {
  const plain = PLAIN[protocol];
  const streamed = await turn(protocol, [{ ...REPLY, thinking: '' }]);
  const whole = await turn(protocol, [{ ...REPLY, thinking: '' }], { stream: false, tool: plain });
  const withoutIds = (reply: Outcome<ModelReply>): string =>
    JSON.stringify(reply).replace(/call_\d+_/g, 'call_');
  expect(withoutIds(whole)).toBe(withoutIds(streamed));
});

/** Events that complete a call, for protocols that have them. */
const COMPLETES: Readonly<Partial<Record<Protocol, RegExp>>> = {
  anthropic: /"content_block_stop","index":[23]/,
  gemini: /"functionCall"/,
  responses: /"response\.output_item\.done".*"function_call"/,
};

/** Returns the number of bytes after which each call is complete. */
function callEnds(protocol: Protocol): number[] | undefined {
  const completes = COMPLETES[protocol];
  let bytes = 0;
  return (
    completes &&
    RECORDED[protocol].flatMap((sent) => {
      bytes += Buffer.byteLength(wireText([sent]));
      return completes.test(sent.data) ? [bytes] : [];
    })
  );
}

test.each(PROTOCOLS)(
  'cut at any byte, a stream of %s yields whole calls or none',
  async (protocol) => {
    const bytes = Buffer.from(wireText(RECORDED[protocol]));
    const expected = CALLS.map((call) => ({ type: 'tool_call', ...call }));
    const ends = callEnds(protocol);
    let most = 0;
    for (let at = 0; at <= bytes.length; at++) {
      const reader = createReader(protocol);
      const parser = createEventParser((event) => void reader.push(event));
      // Two chunks, so that characters and lines are also cut between them.
      parser.push(bytes.subarray(0, at >> 1));
      parser.push(bytes.subarray(at >> 1, at));
      const reply = reader.end(!parser.end().unfinished);
      const calls = callsIn(reply);
      for (const call of calls) expect(expected).toContainEqual(call);
      expect(calls.length).toBeGreaterThanOrEqual(most);
      if (ends) expect(calls).toHaveLength(ends.filter((end) => end <= at).length);
      most = calls.length;
      if (at === bytes.length) expect(reply.ok && reply.output.broken).toBeUndefined();
      else if (reply.ok && !reader.isDone()) expect(reply.output.broken).toBeDefined();
      else if (!reply.ok) expect(reply.error.code).toBe('stream_incomplete');
    }
    expect(most).toBe(expected.length);
  },
);

test.each(PROTOCOLS)('any chunking of a stream of %s gives the same reply', (protocol) => {
  const bytes = Buffer.from(wireText(RECORDED[protocol]));
  const replies = [1, 2, 3, 7, 64, 4096, bytes.length].map((size) => {
    const reader = createReader(protocol);
    const parser = createEventParser((event) => void reader.push(event));
    for (let at = 0; at < bytes.length; at += size) parser.push(bytes.subarray(at, at + size));
    return JSON.stringify(reader.end(!parser.end().unfinished));
  });
  expect(new Set(replies).size).toBe(1);
});

/** How many bytes the answer has when nothing goes wrong. */
async function sizeOf(protocol: Protocol, reply: ScriptedReply): Promise<number> {
  script.splice(0, script.length, reply);
  const result = await execute(protocol);
  return Number(result.ok && getOwn(result.output, 'bytes'));
}

const named = (reply: Outcome<ModelReply>) =>
  callsIn(reply).map((call) => 'name' in call && [call.name, call.arguments]);

test.each(PROTOCOLS)(
  'a connection to %s that breaks loses nothing that came whole',
  async (protocol) => {
    const reply = { ...REPLY, piece: 5 };
    const size = await sizeOf(protocol, reply);
    const whole = named(await turn(protocol, [reply]));
    const seen = new Set<number>();
    for (let at = 0; at < size; at += 97) {
      const broken = await turn(protocol, [{ ...reply, fault: { cut_at_byte: at } }]);
      const calls = named(broken);
      seen.add(calls.length);
      expect(calls).toEqual(whole.slice(0, calls.length));
      if (broken.ok) continue;
      expect(['stream_incomplete', 'network_error']).toContain(broken.error.code);
      if (at > 0) expect(broken.error.detail.usage).toMatchObject({ estimated: true });
      expect(broken.error.detail).not.toHaveProperty('body');
    }
    expect(seen).toEqual(new Set([0, 1, 2]));
  },
);

test.each(PROTOCOLS)(
  'a broken stream of %s is not asked for again inside the chain',
  async (protocol) => {
    const before = provider.count();
    const reply = await turn(protocol, [{ text: 'only talk', fault: { cut_at_byte: 400 } }, REPLY]);
    expect(reply).toMatchObject({ ok: false, error: { code: 'stream_incomplete' } });
    expect(provider.count()).toBe(before + 1);
  },
);

test.each(PROTOCOLS)(
  'a stream of %s that stalls ends in time, with the calls it brought',
  async (protocol) => {
    const tool = `quick/${protocol}_quick`;
    const early = await turn(protocol, [{ ...REPLY, fault: { stall_at_byte: 200 } }], { tool });
    expect(early).toMatchObject({
      ok: false,
      error: { code: 'timeout', detail: { phase: 'idle' } },
    });
    expect(!early.ok && early.error.detail.usage).toMatchObject({ estimated: true });
    const last = { name: 'load', arguments: { text: 'x'.repeat(9000) } };
    const long = { ...REPLY, tool_calls: [...(REPLY.tool_calls ?? []), last] };
    const stall_at_byte = Math.floor(0.7 * (await sizeOf(protocol, long)));
    const late = await turn(protocol, [{ ...long, fault: { stall_at_byte } }], { tool });
    expect(late).toMatchObject({
      ok: true,
      output: {
        stop: 'tool_use',
        // A call of Gemini is in one frame, so no part of it arrives.
        broken: {
          reason: 'timeout',
          discarded_partial: protocol === 'gemini' ? [] : [{ name: 'load' }],
        },
      },
    });
    expect(callsIn(late)).toHaveLength(2);
  },
);

test.each(PROTOCOLS)('a cancelled turn of %s ends at once', async (protocol) => {
  const stop = new AbortController();
  const before = provider.count();
  script.splice(0, script.length, { ...REPLY, fault: { stall_at_byte: 900 } });
  const running = execute(protocol, { signal: stop.signal });
  await expect.poll(() => provider.count()).toBe(before + 1);
  stop.abort();
  expect(replyOf(protocol, await running)).toMatchObject({
    ok: false,
    error: { code: 'cancelled' },
  });
});

test.each(PROTOCOLS)('streams of %s that end wrongly are told apart', async (protocol) => {
  const run = (fault: ScriptedReply['fault']) =>
    turn(protocol, [{ ...REPLY, ...(fault && { fault }) }]);
  expect(await run({ no_end_marker: true })).toMatchObject({
    output: { broken: { reason: 'no_end_marker', discarded_partial: [] } },
  });
  expect(await run({ max_tokens_inside_arguments: true })).toMatchObject({
    output: { stop: 'max_tokens', broken: { discarded_partial: [{ name: 'search' }] } },
  });
  expect(await run({ garbage_at_byte: 250 })).toMatchObject({
    error: { code: 'stream_incomplete', detail: { reason: 'garbage' } },
  });
  expect(await run({ missing_usage: true })).toMatchObject({
    output: { usage: { input_tokens: 300, estimated: true } },
  });
  expect(await run({ error: { type: 'overloaded_error', message: 'busy' } })).toMatchObject({
    error: { code: 'model_unavailable', detail: { transient: true } },
  });
  expect(await run({ content_type: 'text/html' })).toMatchObject({
    error: { detail: { reason: 'wrong_content_type' } },
  });
});

const BUSY: ScriptedReply = { fault: { status: 429, retry_after: 0 } };

test('the chain sends a request once, however busy the provider is', async () => {
  const before = provider.count();
  expect(await turn('anthropic', [{ fault: { status: 529 } }, REPLY])).toMatchObject({
    error: { code: 'model_unavailable', detail: { status: 529, charged: false, transient: true } },
  });
  expect(await turn('openai', [BUSY, REPLY])).toMatchObject({
    error: {
      code: 'rate_limit',
      detail: { status: 429, charged: false, retry_after_ms: 0, transient: true },
    },
  });
  expect(provider.count()).toBe(before + 2);
});

test.each([
  [400, 'provider_error', 'invalid_request'],
  [401, 'provider_error', 'authentication'],
  [404, 'model_unavailable', 'unknown_model'],
])('status %s is final and means %s', async (status, code, reason) => {
  for (const protocol of PROTOCOLS) {
    const before = provider.count();
    const reply = await turn(protocol, [{ fault: { status } }, REPLY]);
    expect(reply).toMatchObject({ error: { code, detail: { reason, transient: false } } });
    expect(provider.count()).toBe(before + 1);
    expect(JSON.stringify(reply)).not.toContain(KEY);
  }
});

test('the price of a turn is found through tier, model and row', async () => {
  const models = runtime.library.config('models').value;
  const prices = createPrices(runtime.library.config('pricing').layers);
  const model = resolveModel(models, { tier: 'general' });
  if (!model.ok) throw new Error(model.error.detail.message);
  const price = prices.find(model.output.model);
  if (!price.ok) throw new Error(price.error.detail.message);
  expect(price.output.row).toBe('pricing.yaml:claude-sonnet-5-5');
  expect(model.output.protocol).toBe('anthropic');
  const reply = await turn('anthropic', [REPLY]);
  // 100 * 2 + 50 * 10 + 2,000 * 0.20 + 30 * 2.50 = 1,175 micro-dollars
  expect(reply.ok && costOf(reply.output.usage, price.output)).toBe(1_175_000n);
});

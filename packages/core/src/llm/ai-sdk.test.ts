import { MockLanguageModelV3, MockLanguageModelV4, simulateReadableStream } from 'ai/test';
import { expect, test } from 'vitest';
import type { JsonObject, Outcome } from '../base/index.ts';
import { askSdkModel, isSdkModel, type SdkModel } from './ai-sdk.ts';
import type { Message, ModelReply } from './message.ts';

const USAGE = {
  inputTokens: { total: 30, noCache: 10, cacheRead: 15, cacheWrite: 5 },
  outputTokens: { total: 7, text: 5, reasoning: 2 },
};
const FINISH = { type: 'finish', usage: USAGE, finishReason: { unified: 'stop', raw: 'stop' } };
const START = { type: 'stream-start', warnings: [] };
const META = { anthropic: { signature: 'c2ln', nested: { b: 1, a: 2 } } };
const CALL = { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":2}' };
const TEXT = [
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'hel' },
  { type: 'text-delta', id: '1', delta: 'lo' },
  { type: 'text-end', id: '1' },
];
const THOUGHT = [
  { type: 'reasoning-start', id: '1' },
  { type: 'reasoning-delta', id: '1', delta: 'hm' },
  { type: 'reasoning-end', id: '1', providerMetadata: META },
];

type Mock = MockLanguageModelV3 | MockLanguageModelV4;
const KINDS = { v3: MockLanguageModelV3, v4: MockLanguageModelV4 };
const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];

function mock(kind: keyof typeof KINDS, parts: readonly unknown[]): Mock & SdkModel {
  const stream = () => simulateReadableStream({ chunks: [...parts], chunkDelayInMs: null });
  const doStream = async () => ({ stream: stream() });
  return new KINDS[kind]({ modelId: 'm', provider: 'p', doStream } as never);
}

const BY = 'program:x/p/m';
interface Asked {
  messages?: readonly Message[];
  more?: JsonObject;
  signal?: AbortSignal;
  sealedBy?: string | undefined;
  files?: Parameters<typeof askSdkModel>[1]['files'];
}
const ask = (model: SdkModel, { messages = [], signal, sealedBy = BY, files }: Asked = {}) =>
  askSdkModel(
    model,
    {
      system: 'be brief',
      messages,
      tools: [{ name: 'add', description: 'adds', input_schema: { type: 'object' } }],
      maxTokens: 99,
      sealedBy,
      files,
      reading: { requestBytes: 300, sealedBy: BY },
    },
    signal ?? new AbortController().signal,
  );

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
}
const codeOf = (outcome: Outcome<ModelReply>) =>
  outcome.ok ? 'ok' : [outcome.error.code, outcome.error.detail.reason];

test.each(kinds)('a stream of %s becomes a reply with seals', async (kind) => {
  const call = { ...CALL, providerMetadata: { google: { thoughtSignature: 's' } } };
  const progress = [
    { type: 'tool-input-start', id: 'c1', toolName: 'add' },
    { type: 'tool-input-delta', id: 'c1', delta: '{"a":999}' },
  ];
  const parts = [
    START,
    ...THOUGHT,
    ...TEXT,
    ...progress,
    call,
    { ...FINISH, finishReason: { unified: 'tool-calls' } },
  ];
  const model = mock(kind, parts);
  const reply = must(await ask(model));
  expect(reply).toEqual({
    content: [
      {
        type: 'thinking',
        text: 'hm',
        seal: { by: BY, data: '{"anthropic":{"nested":{"a":2,"b":1},"signature":"c2ln"}}' },
      },
      { type: 'text', text: 'hello' },
      {
        type: 'tool_call',
        id: 'c1',
        name: 'add',
        arguments: { a: 2 },
        seal: { by: BY, data: '{"google":{"thoughtSignature":"s"}}' },
      },
    ],
    stop: 'tool_use',
    model: '',
    usage: {
      input_tokens: 10,
      output_tokens: 7,
      cache_read_tokens: 15,
      cache_write_tokens: 5,
      tokens: 37,
      context_tokens: 30,
      estimated: false,
    },
  });
  const [options] = model.doStreamCalls;
  expect(options).toMatchObject({
    maxOutputTokens: 99,
    toolChoice: { type: 'auto' },
    tools: [{ type: 'function', name: 'add', inputSchema: { type: 'object' } }],
  });
  expect(model.doGenerateCalls).toEqual([]);
  // The reply goes back with the same bytes to the same model, and without seals to another one.
  const messages: Message[] = [
    { role: 'user', content: [{ type: 'text', text: 'add' }] },
    { role: 'assistant', content: reply.content },
    {
      role: 'user',
      content: [
        { type: 'tool_result', id: 'c1', content: 'no', is_error: true },
        { type: 'text', text: 'go on' },
      ],
    },
  ];
  await ask(model, { messages });
  await ask(model, { messages, sealedBy: 'other/m' });
  const [, same, other] = model.doStreamCalls.map(
    ({ prompt }) => prompt as unknown as JsonObject[],
  );
  expect(same).toEqual([
    { role: 'system', content: 'be brief' },
    { role: 'user', content: [{ type: 'text', text: 'add' }] },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm', providerOptions: META },
        { type: 'text', text: 'hello' },
        {
          type: 'tool-call',
          toolCallId: 'c1',
          toolName: 'add',
          input: { a: 2 },
          providerOptions: { google: { thoughtSignature: 's' } },
        },
      ],
    },
    {
      role: 'tool',
      content: [
        {
          type: 'tool-result',
          toolCallId: 'c1',
          toolName: 'add',
          output: { type: 'error-text', value: 'no' },
        },
      ],
    },
    { role: 'user', content: [{ type: 'text', text: 'go on' }] },
  ]);
  expect(JSON.stringify(other)).not.toContain('providerOptions');
});

test.each(kinds)('files of a message and of a result, %s', async (kind) => {
  const file = { type: 'file', sha256: 'a', mime: 'image/png', bytes: 3 } as const;
  const files = { sizes: new Map([['a', 3]]), read: async () => new Uint8Array([1, 2, 3]) };
  const call = { type: 'tool_call', id: 'c1', name: 'add', arguments: {} } as const;
  const result = { type: 'tool_result', id: 'c1', content: { a: 1 }, files: [file] } as const;
  const messages: Message[] = [
    { role: 'user', content: [file] },
    { role: 'assistant', content: [call] },
    { role: 'user', content: [result] },
  ];
  const model = mock(kind, [FINISH]);
  await ask(model, { messages, files });
  const data = 'AQID';
  const part = kind === 'v4' ? { type: 'data', data } : data;
  const inResult =
    kind === 'v4'
      ? { type: 'file', data: part, mediaType: 'image/png' }
      : { type: 'file-data', data, mediaType: 'image/png' };
  const prompt = model.doStreamCalls[0]?.prompt as unknown as JsonObject[];
  expect(prompt[1]).toEqual({
    role: 'user',
    content: [{ type: 'file', data: part, mediaType: 'image/png' }],
  });
  expect(prompt[3]).toMatchObject({
    content: [
      { output: { type: 'content', value: [{ type: 'text', text: '{"a":1}' }, inResult] } },
    ],
  });
});

const REST = [...TEXT, CALL, FINISH];
test.each(kinds)(
  'a stream of %s that is cut after any part has whole calls or none',
  async (kind) => {
    for (let length = 0; length < REST.length; length++) {
      const outcome = await ask(mock(kind, REST.slice(0, length)));
      if (length < 5) {
        expect(codeOf(outcome)).toEqual(['stream_incomplete', 'no_end_marker']);
      } else {
        expect(must(outcome)).toMatchObject({
          stop: 'tool_use',
          broken: { reason: 'no_end_marker' },
        });
        expect(must(outcome).content.at(-1)).toMatchObject({
          type: 'tool_call',
          arguments: { a: 2 },
        });
      }
    }
  },
);

const finish = (unified: string) => ({ ...FINISH, finishReason: { unified, raw: 'x' } });
test.each<[string, readonly unknown[], unknown]>([
  [
    'a call that the provider executes',
    [CALL, { ...CALL, toolCallId: 'c2', providerExecuted: true }, FINISH],
    ['provider_error', 'provider_tool'],
  ],
  [
    'a result of the provider',
    [CALL, { type: 'tool-result', toolName: 'web' }, FINISH],
    ['provider_error', 'provider_tool'],
  ],
  [
    'an approval request of the provider',
    [{ type: 'tool-approval-request' }],
    ['provider_error', 'provider_tool'],
  ],
  [
    'an error part',
    [{ type: 'error', error: new Error('down') }],
    ['provider_error', 'server_error'],
  ],
  ['an error as text', [{ type: 'error', error: 'down' }], ['provider_error', 'server_error']],
  ['an error without anything', [{ type: 'error' }], ['provider_error', 'server_error']],
  ['a finish with an error', [...TEXT, finish('error')], ['provider_error', 'server_error']],
  [
    'a finish that was interrupted',
    [...TEXT, finish('interrupted')],
    ['stream_incomplete', 'no_end_marker'],
  ],
  ['a delta for a block that is not open', [TEXT[1], FINISH], ['stream_incomplete', 'garbage']],
  ['a delta after the end', [...TEXT, TEXT[1], FINISH], ['stream_incomplete', 'garbage']],
  ['an end of nothing', [TEXT[3]], ['stream_incomplete', 'garbage']],
  ['a part that is no object', [7], ['stream_incomplete', 'garbage']],
  ['null', [null], ['stream_incomplete', 'garbage']],
  ['a list', [[]], ['stream_incomplete', 'garbage']],
  [
    'a seal with a circle',
    [THOUGHT[0], { ...THOUGHT[2], providerMetadata: circle() }],
    ['provider_error', 'server_error'],
  ],
  [
    'a seal of 2 MiB',
    [THOUGHT[0], { ...THOUGHT[2], providerMetadata: { a: { b: 'x'.repeat(2 ** 21) } } }],
    ['response_too_large', undefined],
  ],
  [
    '1,025 blocks',
    Array.from({ length: 1025 }, (_, id) => ({ type: 'text-start', id: `${id}` })),
    ['response_too_large', undefined],
  ],
])('%s', async (_, parts, code) => {
  for (const kind of kinds) expect(codeOf(await ask(mock(kind, parts)))).toEqual(code);
});

function circle() {
  const metadata: Record<string, unknown> = {};
  metadata.self = metadata;
  return metadata;
}

test('a refusal has no calls, and an unknown reason ends the reply', async () => {
  const refused = must(await ask(mock('v4', [CALL, finish('content-filter')])));
  expect(refused).toMatchObject({ stop: 'refusal', content: [] });
  expect(must(await ask(mock('v4', [...TEXT, finish('magic')]))).stop).toBe('end');
  expect(must(await ask(mock('v3', [...TEXT, { ...FINISH, finishReason: 'length' }]))).stop).toBe(
    'max_tokens',
  );
});

test('the first finish counts, and arguments that are no object are an error of the call', async () => {
  const twice = must(await ask(mock('v4', [...TEXT, FINISH, CALL, finish('length')])));
  expect(twice).toMatchObject({ stop: 'end', content: [{ type: 'text' }] });
  for (const input of ['[1]', '"x"', '{"a":', 7]) {
    const reply = must(await ask(mock('v4', [{ ...CALL, input }, FINISH])));
    expect(reply.content.filter(({ type }) => type === 'tool_call')).toHaveLength(
      input === 7 ? 1 : 0,
    );
  }
});

test.each([
  [undefined, true],
  [{ inputTokens: { total: -1 }, outputTokens: { total: 1.5 } }, true],
  [{ inputTokens: { total: 1e15 }, outputTokens: { total: Number.NaN } }, true],
  [{ inputTokens: {}, outputTokens: {} }, true],
  [{ inputTokens: { total: 30, cacheRead: 20 }, outputTokens: { total: 7 } }, false],
])('usage %j', async (usage, estimated) => {
  const reply = must(await ask(mock('v4', [...TEXT, { ...FINISH, usage }])));
  expect(reply.usage.estimated).toBe(estimated);
  if (!estimated) expect(reply.usage).toMatchObject({ input_tokens: 10, cache_read_tokens: 20 });
  else expect(reply.usage.context_tokens).toBeGreaterThanOrEqual(100);
});

const apiError = (fields: JsonObject) => Object.assign(new Error('no'), fields);
test.each([
  [
    apiError({ statusCode: 429, isRetryable: true, responseHeaders: { 'retry-after': '3' } }),
    'rate_limit',
    { retry_after_ms: 3000, transient: true },
  ],
  [
    apiError({
      statusCode: 401,
      responseBody: '{"error":{"type":"authentication_error","message":"bad key"}}',
    }),
    'provider_error',
    { reason: 'authentication' },
  ],
  [apiError({ statusCode: 503 }), 'model_unavailable', { transient: true }],
  [apiError({ isRetryable: true }), 'provider_error', { transient: true }],
  ['text', 'provider_error', { transient: false }],
  [undefined, 'provider_error', { transient: false }],
])('a rejected request: %s', async (error, code, detail) => {
  const model = mock('v4', []);
  model.doStream = () => Promise.reject(error);
  expect(await ask(model)).toMatchObject({ ok: false, error: { code, detail } });
});

test('a model that ignores the signal does not hold the request', async () => {
  const over = new AbortController();
  const model = mock('v4', []);
  let isCancelled = false;
  const stream = new ReadableStream({
    start(controller) {
      for (const part of [...TEXT, CALL]) controller.enqueue(part);
    },
    cancel() {
      isCancelled = true;
    },
  });
  model.doStream = async () => ({ stream }) as never;
  const asked = ask(model, { signal: over.signal });
  setImmediate(() => over.abort());
  expect(await asked).toMatchObject({
    ok: false,
    error: { code: 'cancelled', detail: { reported: false, sent: true } },
  });
  expect(isCancelled).toBe(true);
});

test('only objects of version 3 and 4 are models', () => {
  const good = mock('v4', []);
  expect(isSdkModel(good)).toBe(true);
  const shape = { provider: 'p', modelId: 'm', doStream: () => undefined };
  for (const wrong of [
    null,
    undefined,
    7,
    'gpt',
    {},
    shape,
    { ...shape, specificationVersion: 'v2' },
    { ...shape, specificationVersion: 'v4', doStream: 1 },
  ]) {
    expect(isSdkModel(wrong)).toBe(false);
  }
});

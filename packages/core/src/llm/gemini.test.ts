import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { ModelReply } from './message.ts';
import { createReader, readReply } from './reader.ts';

const frame = (parts: Json[], more: JsonObject = {}, usage?: Json): JsonObject => ({
  candidates: [{ content: { role: 'model', parts }, ...more }],
  ...(usage !== undefined && { usageMetadata: usage }),
});
const call = (name: string, more: JsonObject = {}): JsonObject => ({
  functionCall: { name, args: { x: 1 }, ...more },
});
const end = (finishReason = 'STOP', usage?: Json): JsonObject => frame([], { finishReason }, usage);

function read(...events: (JsonObject | string)[]): Outcome<ModelReply> {
  const reader = createReader('gemini', { requestBytes: 300, sealedBy: 'p/m' });
  for (const event of events) {
    reader.push({ data: typeof event === 'string' ? event : JSON.stringify(event) });
  }
  return reader.end(true);
}
const callsIn = (reply: Outcome<ModelReply>): string[] =>
  reply.ok
    ? reply.output.content.flatMap((block) => (block.type === 'tool_call' ? [block.name] : []))
    : [];

test('a call is one part; a clean end without a reason is a cut', () => {
  expect(read(frame([call('a'), call('b')]))).toMatchObject({
    output: {
      content: [
        { id: 'call_1', name: 'a', arguments: { x: 1 } },
        { id: 'call_2', name: 'b' },
      ],
      stop: 'tool_use',
      broken: { reason: 'no_end_marker' },
    },
  });
  expect(read(frame([{ text: 'hi' }]))).toMatchObject({ error: { code: 'stream_incomplete' } });
  expect(read(frame([call('a')]), end())).toMatchObject({ output: { stop: 'tool_use' } });
});

test.each<[string, JsonObject]>([
  ['pieces', { partialArgs: [{ jsonPath: '$.x', numberValue: 1 }] }],
  ['a continuation', { willContinue: true }],
  ['no name', { name: '' }],
  ['a name that is no text', { name: 7 }],
])('a part with %s is no call', (_, more) => {
  expect(callsIn(read(frame([call('a', more)]), end()))).toEqual([]);
  expect(callsIn(read(frame([call('a', more), call('b')])))).toEqual(['b']);
});

test.each<[Json]>([['{"x":1}'], [[1]], [null], [7]])(
  'arguments that are %j get an error, and only in a whole reply',
  (args) => {
    const part = frame([call('a', { args })]);
    expect(read(part, end())).toMatchObject({
      output: { content: [], bad_arguments: [{ name: 'a' }] },
    });
    expect(read(part)).toMatchObject({ error: { detail: { reason: 'no_end_marker' } } });
  },
);

test('a call without arguments is complete if the reply is', () => {
  const part = frame([{ functionCall: { name: 'a' } }]);
  expect(callsIn(read(part, end()))).toEqual(['a']);
  expect(callsIn(read(part))).toEqual([]);
  expect(callsIn(read(part, end('MAX_TOKENS')))).toEqual([]);
});

test('signed parts are never merged, and an empty last text keeps its signature', () => {
  const reply = read(
    frame([{ text: 'a' }]),
    frame([{ text: 'b' }]),
    frame([{ text: 'c', thoughtSignature: 's1' }]),
    frame([{ text: 'd' }]),
    frame([
      { text: 'hm', thought: true },
      { text: ' so', thought: true },
    ]),
    frame([{ ...call('f'), thoughtSignature: 's2' }]),
    frame([{ text: '', thoughtSignature: 's3' }], { finishReason: 'STOP' }),
  );
  expect(reply.ok && reply.output.content).toEqual([
    { type: 'text', text: 'ab' },
    { type: 'text', text: 'c', seal: { by: 'p/m', data: 's1' } },
    { type: 'text', text: 'd' },
    { type: 'thinking', text: 'hm so' },
    {
      type: 'tool_call',
      id: 'call_1',
      name: 'f',
      arguments: { x: 1 },
      seal: { by: 'p/m', data: 's2' },
    },
    { type: 'text', text: '', seal: { by: 'p/m', data: 's3' } },
  ]);
});

test.each([
  ...'SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY LANGUAGE'
    .split(' ')
    .map((reason) => end(reason)),
  { promptFeedback: { blockReason: 'OTHER' } },
])('a refused reply has no calls: %j', (last) => {
  const reply = read(frame([call('a')]), last);
  expect(reply).toMatchObject({ output: { stop: 'refusal', content: [] } });
});

test('an unknown reason ends the reply, and a cap keeps the complete calls', () => {
  expect(read(frame([call('a')]), end('SOMETHING_NEW'))).toMatchObject({
    output: { stop: 'tool_use', content: [{ name: 'a' }] },
  });
  for (const reason of ['MAX_TOKENS', 'CONTINUATION']) {
    const reply = read(frame([call('a')]), end(reason));
    expect(reply).toMatchObject({ output: { stop: 'max_tokens', content: [{ name: 'a' }] } });
  }
});

test('after the reason for the end only usage counts', () => {
  const usage = { promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount: 13 };
  const later = { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 2 };
  const more = frame([call('late'), { text: 'late' }], { finishReason: 'SAFETY' }, later);
  const error = { error: { code: 500, message: 'late' } };
  expect(read(frame([{ text: 'hi' }]), end('STOP', usage), more, error, 'garbage')).toMatchObject({
    output: {
      content: [{ type: 'text', text: 'hi' }],
      stop: 'end',
      usage: { input_tokens: 10, output_tokens: 7, estimated: false },
    },
  });
});

test('a call that the model could not write is transient and charged', () => {
  for (const reason of ['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL']) {
    const fault = read(end(reason));
    expect(fault).toMatchObject({
      error: { code: 'provider_error', detail: { reason: 'malformed_call', transient: true } },
    });
    expect(fault).not.toMatchObject({ error: { detail: { charged: false } } });
  }
  expect(read(end('MISSING_THOUGHT_SIGNATURE'))).toMatchObject({
    error: { code: 'provider_error', detail: { reason: 'seal_rejected', transient: false } },
  });
});

test.each([
  [{ status: 'RESOURCE_EXHAUSTED', message: 'x' }, 'rate_limit', true],
  [{ status: 'UNAVAILABLE', message: 'x' }, 'model_unavailable', true],
  [{ status: 'DEADLINE_EXCEEDED' }, 'timeout', true],
  [{ code: 503, status: 'UNAVAILABLE' }, 'model_unavailable', true],
  [{ code: 400, status: 'INVALID_ARGUMENT', message: 'x' }, 'provider_error', false],
  [{ code: 403, status: 'PERMISSION_DENIED' }, 'provider_error', false],
  [{ code: 'x', status: 7 }, 'provider_error', true],
])('the error %j is a %s', (error, code, transient) => {
  expect(read({ error })).toMatchObject({
    error: { code, detail: { transient, charged: false } },
  });
  expect(callsIn(read(frame([call('a')]), { error }))).toEqual(['a']);
});

test.each<[Json]>([
  [{ promptTokenCount: -1, candidatesTokenCount: 3 }],
  [{ promptTokenCount: 1.5, candidatesTokenCount: 3 }],
  [{ promptTokenCount: 1e15, candidatesTokenCount: 3 }],
  [{ promptTokenCount: 10 }],
  ['x'],
])('the usage %j is estimated', (usage) => {
  expect(read(end('STOP', usage))).toMatchObject({ output: { usage: { estimated: true } } });
});

test('usage counts tools as input, thoughts as output, and cached input apart', () => {
  const usage = {
    promptTokenCount: 100,
    toolUsePromptTokenCount: 20,
    cachedContentTokenCount: 90,
    candidatesTokenCount: 7,
    thoughtsTokenCount: 30,
    totalTokenCount: 157,
  };
  expect(read(end('STOP', usage))).toMatchObject({
    output: { usage: { input_tokens: 30, cache_read_tokens: 90, output_tokens: 37 } },
  });
  // A refused prompt has no candidate.
  expect(read(end('SAFETY', { promptTokenCount: 9, totalTokenCount: 9 }))).toMatchObject({
    output: { usage: { input_tokens: 9, output_tokens: 0, estimated: false } },
  });
});

test('1,025 calls, a seal of 2 MiB and a frame that is not JSON are faults', () => {
  const many = Array.from({ length: 1025 }, () => call('a'));
  expect(read(frame(many), end())).toMatchObject({
    output: { broken: { reason: 'response_too_large' } },
  });
  const seal = { text: 'x', thoughtSignature: 's'.repeat(2 * 1024 * 1024) };
  expect(read(frame([seal]), end())).toMatchObject({ error: { code: 'response_too_large' } });
  expect(read('{"candidates":', end())).toMatchObject({ error: { detail: { reason: 'garbage' } } });
});

test('an answer that is not streamed is read by the same rules', () => {
  const usage = { promptTokenCount: 10, candidatesTokenCount: 3 };
  const body = { ...frame([call('a')], { finishReason: 'STOP' }, usage), modelVersion: 'm-1' };
  expect(readReply('gemini', body)).toMatchObject({
    output: { content: [{ name: 'a' }], model: 'm-1', usage: { estimated: false } },
  });
  for (const wrong of [{}, [], frame([call('a')]), { candidates: 'x' }]) {
    expect(readReply('gemini', wrong)).toMatchObject({ error: { code: 'provider_error' } });
  }
});

test('any frames give a reply or a fault, and only calls whose part was whole', () => {
  const any = fc.jsonValue() as fc.Arbitrary<Json>;
  const part = fc.oneof(
    any,
    fc.record(
      { text: any, thought: any, thoughtSignature: any, functionCall: any },
      { requiredKeys: [] },
    ),
    fc.record({ functionCall: fc.record({ name: any, args: any, willContinue: any }) }),
    fc.constant(call('a')),
  );
  const event = fc.oneof(
    fc.record({ candidates: any, usageMetadata: any, promptFeedback: any, error: any }),
    fc.array(part, { maxLength: 3 }).map((parts) => frame(parts)),
    fc.constantFrom('STOP', 'MAX_TOKENS', 'SAFETY').map((reason) => end(reason)),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 6 }), (events) => {
      const text = JSON.stringify(events);
      const whole = text.split('"functionCall"').length - 1;
      expect(callsIn(read(...events)).length).toBeLessThanOrEqual(whole);
    }),
  );
});

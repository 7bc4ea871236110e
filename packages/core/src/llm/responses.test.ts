import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { ModelReply } from './message.ts';
import { createReader, readReply } from './reader.ts';

const added = (output_index: number, item: JsonObject): JsonObject => ({
  type: 'response.output_item.added',
  output_index,
  item,
});
const done = (output_index: number, item: JsonObject): JsonObject => ({
  type: 'response.output_item.done',
  output_index,
  item,
});
const call = (id: string, more: JsonObject = {}): JsonObject => ({
  type: 'function_call',
  call_id: id,
  name: 'execute',
  arguments: '{"x":1}',
  status: 'completed',
  ...more,
});
const whole = (index: number, item: JsonObject): JsonObject[] => [
  added(index, { ...item, arguments: '', status: 'in_progress' }),
  done(index, item),
];
const USAGE = { input_tokens: 10, output_tokens: 5 };
const completed = (usage: Json = USAGE): JsonObject => ({
  type: 'response.completed',
  response: { model: 'm', status: 'completed', usage },
});
const incomplete = (reason: string): JsonObject => ({
  type: 'response.incomplete',
  response: { model: 'm', status: 'incomplete', incomplete_details: { reason }, usage: USAGE },
});

function read(...events: (JsonObject | string)[]): Outcome<ModelReply> {
  const reader = createReader('responses', { requestBytes: 300, sealedBy: 'p/m' });
  for (const event of events) {
    const data = typeof event === 'string' ? event : JSON.stringify(event);
    reader.push({ data });
  }
  return reader.end(true);
}
const callsIn = (reply: Outcome<ModelReply>): string[] =>
  reply.ok
    ? reply.output.content.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []))
    : [];

test.each<[string, ...(JsonObject | string)[]]>([
  ['an end without a start', done(3, call('a'))],
  ['a start of the same item', added(0, call('b'))],
  ['a start without an index', { type: 'response.output_item.added', item: call('b') }],
  ['an end of another call', added(1, call('b')), done(1, call('c'))],
  ['an end of another kind', added(1, call('b')), done(1, { type: 'reasoning' })],
  [
    'a delta after the end',
    added(1, { type: 'message' }),
    done(1, { type: 'message' }),
    { type: 'response.output_text.delta', output_index: 1, delta: 'x' },
  ],
  ['a delta for another kind', { type: 'response.output_text.delta', output_index: 0, delta: 'x' }],
  ['a frame that is not JSON', '{"type":'],
])('%s is garbage, and no call of it runs', (_, ...wrong) => {
  const open = added(0, call('open'));
  const reply = read(open, ...wrong, completed());
  expect(reply).toMatchObject({ error: { detail: { reason: 'garbage' } } });
  const kept = read(...whole(9, call('a')), open, ...wrong, done(0, call('open')), completed());
  expect(callsIn(kept)[0]).toBe('a');
  expect(callsIn(kept)).not.toContain('open');
  expect(kept).toMatchObject({ output: { broken: { reason: 'garbage' } } });
});

test('the end of an item decides about its call, not its deltas', () => {
  const partial = { type: 'response.function_call_arguments.delta', output_index: 0 };
  const start = added(0, call('a', { arguments: '', status: 'in_progress' }));
  const wrong = [start, { ...partial, delta: '{"x":2}' }];
  expect(callsIn(read(...wrong))).toEqual([]);
  expect(read(...wrong, done(0, call('a')), completed())).toMatchObject({
    output: { content: [{ arguments: { x: 1 } }] },
  });
  const { status: _, ...older } = call('a');
  expect(callsIn(read(start, done(0, older)))).toEqual(['a']);
  for (const cut of [
    { ...older, arguments: '{"x"' },
    { ...older, arguments: '[1]' },
  ]) {
    expect(callsIn(read(start, done(0, cut)))).toEqual([]);
  }
  for (const status of ['incomplete', 'in_progress', 'failed']) {
    expect(callsIn(read(start, done(0, call('a', { status })), completed()))).toEqual([]);
  }
});

test('a refused reply has no calls, even complete ones before the refusal', () => {
  const message = { type: 'message', role: 'assistant' };
  const refusing = { type: 'response.refusal.delta', output_index: 1, delta: 'I will not' };
  const before = [...whole(0, call('a')), added(1, { ...message, content: [] })];
  for (const events of [
    [...before, refusing, done(1, message), completed()],
    [...before, refusing],
    [...before, { type: 'response.refusal.done', output_index: 1, refusal: 'no' }, completed()],
    [
      ...before,
      done(1, { ...message, content: [{ type: 'refusal', refusal: 'no' }] }),
      completed(),
    ],
    [...whole(0, call('a')), incomplete('content_filter')],
  ]) {
    const reply = read(...events);
    expect(callsIn(reply)).toEqual([]);
    if (reply.ok) expect(reply.output.stop).toBe('refusal');
  }
});

test('a reply at its cap keeps the complete calls', () => {
  const cut = call('b', { status: 'incomplete', arguments: '{"x"' });
  expect(
    read(...whole(0, call('a')), ...whole(1, cut), incomplete('max_output_tokens')),
  ).toMatchObject({
    output: {
      stop: 'max_tokens',
      content: [{ id: 'a' }],
      broken: { reason: 'max_tokens', discarded_partial: [{ name: 'execute' }] },
    },
  });
  expect(read(...whole(0, call('a')), incomplete('another reason'))).toMatchObject({
    output: { stop: 'tool_use', content: [{ id: 'a' }] },
  });
});

test.each([
  ['flat', { type: 'error', code: 'insufficient_quota', message: 'no', param: null }],
  ['nested', { type: 'error', error: { type: 'x', code: 'insufficient_quota', message: 'no' } }],
  [
    'of the response',
    { type: 'response.failed', response: { error: { code: 'insufficient_quota' }, usage: null } },
  ],
])('an error (%s) before any item is free and has its code', (_, event) => {
  expect(read(event)).toMatchObject({
    error: { code: 'quota_exceeded', detail: { transient: false, charged: false } },
  });
  const late = read(added(0, { type: 'message' }), event);
  expect(late).toMatchObject({ error: { code: 'quota_exceeded' } });
  expect(late).not.toMatchObject({ error: { detail: { charged: false } } });
});

test.each([
  ['rate_limit_exceeded', 'rate_limit', true],
  ['server_error', 'provider_error', true],
  ['server_is_overloaded', 'model_unavailable', true],
  ['context_length_exceeded', 'provider_error', false],
  ['invalid_prompt', 'provider_error', false],
  ['invalid_encrypted_content', 'provider_error', false],
])('the error %s is %s', (code, expected, transient) => {
  expect(
    read({ type: 'response.failed', response: { error: { code, message: 'x' } } }),
  ).toMatchObject({
    error: { code: expected, detail: { transient } },
  });
});

test('the end marker of Chat Completions is ignored', () => {
  expect(read('[DONE]')).toMatchObject({ error: { detail: { reason: 'no_end_marker' } } });
  expect(callsIn(read(...whole(0, call('a')), '[DONE]', completed(), '[DONE]'))).toEqual(['a']);
});

test.each([
  [{ input_tokens: -1, output_tokens: 5 }],
  [{ input_tokens: 1.5, output_tokens: 5 }],
  [{ input_tokens: 1e15, output_tokens: 5 }],
  [{ input_tokens: '9', output_tokens: 5 }],
  [null],
])('the usage %j is estimated', (usage) => {
  expect(read(completed(usage))).toMatchObject({ output: { usage: { estimated: true } } });
});

test('1,025 items and a seal of 2 MiB are too much', () => {
  const items = Array.from({ length: 1025 }, (_, at) => whole(at, call(`c${at}`))).flat();
  expect(read(...items.slice(0, -2), completed()).ok).toBe(true);
  expect(read(...items.slice(-2), ...items.slice(0, -2), completed())).toMatchObject({
    output: { broken: { reason: 'response_too_large' } },
  });
  const thought = { type: 'reasoning', encrypted_content: 's'.repeat(2 * 1024 * 1024) };
  expect(read(added(0, thought), done(0, thought), completed())).toMatchObject({
    error: { code: 'response_too_large' },
  });
});

test('an answer that is not streamed is read by the same rules', () => {
  const output = [
    { type: 'reasoning', summary: [{ text: 'hm' }], encrypted_content: 's' },
    { type: 'message', content: [{ type: 'output_text', text: 'hi' }] },
    call('a'),
    { type: 'web_search_call' },
  ];
  const body = { model: 'm', status: 'completed', error: null, output, usage: USAGE };
  expect(readReply('responses', body, { sealedBy: 'p/m' })).toMatchObject({
    output: {
      content: [
        { type: 'thinking', text: 'hm', seal: { by: 'p/m', data: 's' } },
        { type: 'text', text: 'hi' },
        { id: 'a' },
      ],
      stop: 'tool_use',
      usage: { input_tokens: 10, estimated: false },
    },
  });
  expect(readReply('responses', { output: 'x' })).toMatchObject({
    error: { detail: { reason: 'unreadable' } },
  });
});

test('any events give a reply or a fault, and only calls with their own end', () => {
  const index = fc.constantFrom<Json>(0, 1, 2, null, 'x', -1);
  const item = fc.oneof(
    fc.constantFrom('a', 'b').map((id): Json => call(id)),
    fc.constantFrom<Json>({ type: 'message' }, { type: 'reasoning' }, null, 7, []),
    fc.jsonValue() as fc.Arbitrary<Json>,
  );
  const event = fc.record({
    type: fc.constantFrom(
      'response.output_item.added',
      'response.output_item.done',
      'response.function_call_arguments.delta',
      'response.output_text.delta',
      'response.reasoning_summary_part.added',
      'response.completed',
      'response.incomplete',
      'response.failed',
      'error',
    ),
    output_index: index,
    item,
    delta: fc.constantFrom<Json>('{', '{}', '"', 7, null),
    response: fc.jsonValue() as fc.Arbitrary<Json>,
    error: fc.jsonValue() as fc.Arbitrary<Json>,
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const reply = read(...events);
      const ends = events.filter(({ type }) => type === 'response.output_item.done').length;
      expect(callsIn(reply).length).toBeLessThanOrEqual(ends);
    }),
  );
});

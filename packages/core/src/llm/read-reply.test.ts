import { RECORDED } from '@kernmantle/test-support/provider-streams';
import { expect, test } from 'vitest';
import { fail, type Json, ok } from '../base/index.ts';
import { createReader, readReply, replyOf } from './reader.ts';

const usage = { input_tokens: 12, cache_read_input_tokens: 3000, output_tokens: 89 };

const message = (content: Json, stop_reason: string): Json => ({
  type: 'message',
  model: 'claude-sonnet-5-5',
  content,
  stop_reason,
  usage,
});
const completion = (said: Json, finish_reason: string): Json => ({
  model: 'gpt-5.4',
  choices: [{ index: 0, message: said, finish_reason }],
  usage: {
    prompt_tokens: 3012,
    completion_tokens: 89,
    prompt_tokens_details: { cached_tokens: 3000 },
  },
});
const called = (id: string, name: string, text: Json): Json => ({
  id,
  type: 'function',
  function: { name, arguments: text },
});

test('both protocols give the same reply', () => {
  const expected = {
    ok: true,
    output: {
      content: [
        { type: 'text', text: 'hi' },
        { type: 'tool_call', id: '1', name: 'a', arguments: { x: 1 } },
        { type: 'tool_call', id: '2', name: 'b', arguments: {} },
      ],
      stop: 'tool_use',
      usage: {
        input_tokens: 12,
        cache_read_tokens: 3000,
        cache_write_tokens: 0,
        output_tokens: 89,
        tokens: 3101,
        context_tokens: 3012,
        estimated: false,
      },
    },
  };
  const anthropic = message(
    [
      { type: 'text', text: 'hi' },
      { type: 'tool_use', id: '1', name: 'a', input: { x: 1 } },
      { type: 'tool_use', id: '2', name: 'b', input: {} },
    ],
    'tool_use',
  );
  const calls = [called('1', 'a', '{"x":1}'), called('2', 'b', '')];
  const openai = completion({ role: 'assistant', content: 'hi', tool_calls: calls }, 'tool_calls');
  expect(readReply('anthropic', anthropic)).toMatchObject(expected);
  expect(readReply('openai', openai)).toMatchObject(expected);
});

test('the call that was being written when max_tokens was reached is discarded', () => {
  const anthropic = message(
    [
      { type: 'tool_use', id: '1', name: 'a', input: { x: 1 } },
      { type: 'tool_use', id: '2', name: 'b', input: { path: '/' } },
    ],
    'max_tokens',
  );
  const calls = [called('1', 'a', '{"x":1}'), called('2', 'b', '{"path":"/')];
  const openai = completion({ content: null, tool_calls: calls }, 'length');
  for (const reply of [readReply('anthropic', anthropic), readReply('openai', openai)]) {
    expect(reply).toMatchObject({
      output: {
        stop: 'max_tokens',
        content: [{ id: '1' }],
        broken: { discarded_partial: [{ name: 'b' }] },
      },
    });
  }
});

test('a refusal is text and no call', () => {
  const refused = completion(
    { content: null, refusal: 'no', tool_calls: [called('1', 'a', '{}')] },
    'stop',
  );
  expect(readReply('openai', refused)).toMatchObject({
    output: { stop: 'refusal', content: [{ type: 'text', text: 'no' }] },
  });
});

test('arguments that cannot be read are reported', () => {
  const bad = completion({ content: null, tool_calls: [called('1', 'a', '{"x"')] }, 'tool_calls');
  expect(readReply('openai', bad)).toMatchObject({
    output: { content: [], bad_arguments: [{ id: '1', name: 'a', text: '{"x"' }] },
  });
});

test('thoughts come back as they were', () => {
  const thought = message(
    [
      { type: 'thinking', thinking: 'hm', signature: 's' },
      { type: 'redacted_thinking', data: 'd' },
    ],
    'end_turn',
  );
  expect(readReply('anthropic', thought, { sealedBy: 'p/m' })).toMatchObject({
    output: {
      stop: 'end',
      content: [
        { type: 'thinking', text: 'hm', seal: { by: 'p/m', data: 's' } },
        { type: 'thinking', text: '', redacted: true, seal: { data: 'd' } },
      ],
    },
  });
});

test('an error in place of a reply is a fault, and so is anything else', () => {
  const error = { error: { type: 'overloaded_error', message: 'busy' } };
  expect(readReply('anthropic', error)).toMatchObject({ error: { code: 'model_unavailable' } });
  for (const body of [null, {}, [], 'x', { content: 'x' }, { choices: [] }, { choices: [{}] }]) {
    for (const protocol of ['anthropic', 'openai'] as const) {
      expect(readReply(protocol, body)).toMatchObject({ error: { code: 'provider_error' } });
    }
  }
});

test('missing usage is estimated from both sizes', () => {
  const body = { content: [{ type: 'text', text: 'x'.repeat(300) }], stop_reason: 'end_turn' };
  expect(readReply('anthropic', body, { requestBytes: 600 })).toMatchObject({
    output: { usage: { input_tokens: 200, output_tokens: 100, estimated: true } },
  });
});

const PROTOCOLS = ['anthropic', 'openai'] as const;
const eventsOf = (protocol: (typeof PROTOCOLS)[number], count?: number): Json[] =>
  RECORDED[protocol].slice(0, count).map((event) => ({ ...event }));
const streamed = (body: Json[], ended_cleanly: boolean) => ({
  status: 200,
  body,
  stream_events_count: body.length,
  ended_cleanly,
});

test.each(PROTOCOLS)('events that the chain returned become a reply: %s', (protocol) => {
  const reply = replyOf(protocol, ok(streamed(eventsOf(protocol), true)));
  expect(reply).toMatchObject({ ok: true, output: { stop: 'tool_use' } });
});

test.each(PROTOCOLS)('a reader that a sink has fed is used as it is: %s', (protocol) => {
  const reader = createReader(protocol);
  for (const event of RECORDED[protocol]) reader.push(event);
  const output = { ...streamed([], true), body: null, stream_events_count: 9 };
  expect(replyOf(protocol, ok(output), { reader })).toMatchObject({ output: { stop: 'tool_use' } });
});

test.each(PROTOCOLS)(
  'calls before a failure are kept, but not when somebody cancelled: %s',
  (protocol) => {
    // All but the end of the answer.
    const fields = streamed(eventsOf(protocol, -3), false);
    const late = replyOf(protocol, fail('timeout', 'no further data within 5 s', fields));
    expect(late).toMatchObject({ ok: true, output: { broken: { reason: 'timeout' } } });
    const cancelled = replyOf(protocol, fail('cancelled', 'the call was cancelled', fields));
    expect(cancelled).toMatchObject({
      ok: false,
      error: { code: 'cancelled', detail: { usage: { estimated: true } } },
    });
    expect(JSON.stringify(cancelled)).not.toContain('read_file');
  },
);

test.each(PROTOCOLS)('events that a sink dropped make the stream a broken one: %s', (protocol) => {
  const output = { ...streamed(eventsOf(protocol, 4), true), dropped: 99 };
  expect(replyOf(protocol, ok(output))).toMatchObject({ error: { code: 'stream_incomplete' } });
});

test('a failure before any event keeps its meaning', () => {
  const refused = fail('network_error', 'connection refused', { sent: false });
  expect(replyOf('openai', refused)).toBe(refused);
  expect(replyOf('openai', ok(null))).toMatchObject({ error: { code: 'provider_error' } });
});

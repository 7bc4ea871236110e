import { expect, test } from 'vitest';
import { fail, type Json, ok } from '../base/index.ts';
import { createReader } from './reader.ts';
import { RECORDED } from './stream-fixture.ts';
import { replyOf } from './turn-reply.ts';

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

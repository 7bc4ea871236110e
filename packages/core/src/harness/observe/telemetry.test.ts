import {
  type Attributes,
  context,
  type Meter,
  metrics,
  type Span,
  type SpanOptions,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { afterEach, expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import type { JournalEvent } from '../../journal/index.ts';
import { createTelemetry, inSpan } from './telemetry.ts';

let time = 0;
const CLOCK = { now: () => time, monotonic: () => time };

afterEach(() => {
  time = 0;
  trace.disable();
  metrics.disable();
});

interface Seen {
  name: string;
  parent: string | undefined;
  attributes: Attributes;
  ended: boolean;
  failed: boolean;
}

/** An SDK that keeps what it is given. */
function record() {
  const spans: Seen[] = [];
  const names = new Map<unknown, string>();
  const tracer = {
    startSpan(name: string, options: SpanOptions = {}, within = context.active()) {
      const parent = trace.getSpan(within);
      const seen: Seen = {
        name,
        parent: parent && names.get(parent),
        attributes: { ...options.attributes },
        ended: false,
        failed: false,
      };
      spans.push(seen);
      const span = {
        setAttribute(key: string, value: string) {
          seen.attributes[key] = value;
          return span;
        },
        setAttributes(more: Attributes) {
          Object.assign(seen.attributes, more);
          return span;
        },
        setStatus({ code }: { code: number }) {
          seen.failed = code === 2;
          return span;
        },
        isRecording: () => true,
        spanContext: () => ({ traceId: '1', spanId: '1', traceFlags: 1 }),
        end() {
          seen.ended = true;
        },
      };
      names.set(span, name);
      return span as unknown as Span;
    },
  } as unknown as Tracer;
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  const counted: [string, number, Attributes][] = [];
  const instrument = (name: string) => ({
    add: (value: number, attributes: Attributes) => counted.push([name, value, attributes]),
    record: (value: number, attributes: Attributes) => counted.push([name, value, attributes]),
  });
  const meter = { createCounter: instrument, createHistogram: instrument } as unknown as Meter;
  metrics.setGlobalMeterProvider({ getMeter: () => meter });
  return { spans, counted };
}

const usage = {
  input_tokens: 10,
  output_tokens: 5,
  cache_read_tokens: 100,
  cache_write_tokens: 20,
  tokens: 135,
  context_tokens: 130,
  estimated: false,
};
const marks = { labels: [], taint: [], sources: ['canary'] };
const START: JournalEvent = {
  type: 'thread_start',
  data: {
    directive: 'look',
    version: '1.0.0',
    inputs: { q: 'canary' },
    model: 'm-1',
    message: 'canary',
    limits: {},
  },
};
const TURN: JournalEvent = {
  type: 'turn_start',
  data: { model: 'm-1', provider: 'acme', max_tokens: 100, key: 'k' },
};
const CALL: JournalEvent = {
  type: 'tool_call',
  data: {
    call_id: 'c1',
    tool: 'fs/read_file',
    verb: 'execute',
    effect: 'read',
    arguments: { path: 'canary' },
  },
};
const RUN: readonly JournalEvent[] = [
  START,
  { type: 'assistant_message', data: { injected: true, content: [] } },
  TURN,
  {
    type: 'assistant_message',
    data: {
      model: 'm-1',
      usage,
      stop: 'tool_use',
      spend: '0.25',
      price_row: 'm-1',
      bytes: 10,
      content: [{ type: 'text', text: 'canary' }],
    },
  },
  CALL,
  {
    type: 'permission_denied',
    data: { code: 'permission_denied', detail: { message: 'canary', missing: 'fs.read' } },
  },
  {
    type: 'hook',
    data: {
      directive: 'judge',
      event: 'error',
      step: 'canary',
      decision: 'tell_error',
      notes: {},
      duration_ms: 3,
      fired: [],
      bounds: { retries: 0, skips: {} },
    },
  },
  {
    type: 'tool_result',
    data: {
      call_id: 'c1',
      is_error: true,
      content: { error: { code: 'permission_denied' } },
      marks,
    },
  },
  TURN,
  { type: 'error', data: { code: 'provider_error', detail: { message: 'canary' } } },
  { type: 'thread_end', data: { status: 'failed', reason: 'canary' } },
];

test('a run is a tree of spans with names and numbers, and without a word of it', () => {
  const { spans, counted } = record();
  const telemetry = createTelemetry({
    clock: CLOCK,
    thread: () => ({ directive: 'look', kind: 'thread' }),
  });
  for (const event of RUN) telemetry('a', { ...event, turn: 1 });
  expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
    ['invoke_agent look', undefined],
    ['turn 1', 'invoke_agent look'],
    ['chat m-1', 'turn 1'],
    ['execute_tool fs/read_file', 'turn 1'],
    ['hook judge', 'turn 1'],
    ['turn 1', 'invoke_agent look'],
    ['chat m-1', 'turn 1'],
  ]);
  expect(spans.every(({ ended }) => ended)).toBe(true);
  expect(
    spans.filter(({ failed }) => failed).map(({ attributes }) => attributes['error.type']),
  ).toEqual(['failed', 'permission_denied', 'provider_error']);
  expect(spans[2]?.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'acme',
    'gen_ai.request.model': 'm-1',
    'gen_ai.usage.input_tokens': 130,
    'gen_ai.usage.output_tokens': 5,
    'gen_ai.usage.cache_read.input_tokens': 100,
  });
  expect(counted.map(([name, value]) => [name, value])).toEqual([
    ['gen_ai.client.operation.duration', 0],
    ['gen_ai.client.token.usage', 130],
    ['gen_ai.client.token.usage', 5],
    ['kernmantle.spend', 0.25],
    ['kernmantle.denials', 1],
    ['gen_ai.client.operation.duration', 0],
  ]);
  expect(JSON.stringify([spans, counted])).not.toContain('canary');
});

const OWN_URL = new URL('https://models.example/v1');
const FRAMES = {
  anthropic: [{ type: 'message_start', message: { id: 'msg_1', content: 'canary' } }],
  chat: [
    { id: 'msg_1', choices: [{ delta: { content: 'canary "reasoning_tokens"' } }] },
    { choices: [], usage: { completion_tokens_details: { reasoning_tokens: 7 } } },
  ],
  responses: [
    { type: 'response.created', response: { id: 'msg_1' } },
    { response: { usage: { output_tokens_details: { reasoning_tokens: 7 } } } },
  ],
  gemini: [
    { responseId: 'msg_1', usageMetadata: { thoughtsTokenCount: 2 } },
    { responseId: 'msg_1', usageMetadata: { thoughtsTokenCount: 7 } },
  ],
};
const BODIES: readonly JsonObject[] = [
  { temperature: 0.5, response_format: {}, messages: ['canary'] },
  { temperature: 0.5, text: { format: {} } },
  { temperature: 0.5, output_config: { format: {} } },
  { generationConfig: { temperature: 0.5, responseJsonSchema: {} } },
];

test.each(Object.entries(FRAMES))('a request has the facts of a stream of %s', (name, frames) => {
  const { spans, counted } = record();
  const thread = () => ({ directive: 'look', kind: 'thread' }) as const;
  for (const body of BODIES) {
    spans.length = counted.length = time = 0;
    const telemetry = createTelemetry({ clock: CLOCK, thread });
    for (const event of [START, TURN]) telemetry('a', { ...event, turn: 1 });
    const stream = telemetry.request?.('a');
    stream?.sent?.(OWN_URL, JSON.stringify(body));
    for (const frame of frames) {
      time += 500;
      stream?.write({ data: JSON.stringify(frame) });
    }
    const end: JournalEvent = { type: 'turn_end', data: { called_off: true } };
    telemetry('a', { ...end, turn: 1 });
    const request = spans.find(({ name }) => name === 'chat m-1');
    expect(request).toMatchObject({ ended: true, failed: true });
    expect(request?.attributes).toMatchObject({
      'server.address': 'models.example',
      'server.port': 443,
      'gen_ai.request.temperature': 0.5,
      'gen_ai.output.type': 'json',
      'gen_ai.response.id': 'msg_1',
      'gen_ai.response.time_to_first_chunk': 0.5,
      ...(name !== 'anthropic' && { 'gen_ai.usage.reasoning.output_tokens': 7 }),
    });
    expect(counted.map(([measure, value]) => [measure, value])).toEqual([
      ['gen_ai.client.operation.time_to_first_chunk', 0.5],
      ...frames.slice(1).map(() => ['gen_ai.client.operation.time_per_output_chunk', 0.5]),
      ['gen_ai.client.operation.duration', time / 1000],
    ]);
    expect(JSON.stringify([spans, counted])).not.toContain('canary');
  }
});

test('a field of a response that is no id and no number stays out of the span', () => {
  const { spans } = record();
  const thread = () => ({ directive: 'look', kind: 'thread' }) as const;
  const telemetry = createTelemetry({ clock: CLOCK, thread });
  telemetry('a', { ...TURN, turn: 1 });
  const stream = telemetry.request?.('a');
  for (const data of [
    'canary',
    '[]',
    '{"id":"the canary","usage":{"output_tokens_details":{"reasoning_tokens":"canary"}}}',
  ]) {
    stream?.write({ data });
  }
  telemetry('a', { type: 'thread_end', data: { status: 'killed', reason: '' }, turn: 1 });
  stream?.write({ data: '{"id":"late"}' });
  expect(JSON.stringify(spans)).not.toMatch(/canary|late/);
});

test.each([
  ['openai', 'openai'],
  ['amazon-bedrock', 'aws.bedrock'],
  ['constructor', 'constructor'],
  ['workshop', 'workshop'],
])('provider %s is named %s', (provider, name) => {
  const { spans } = record();
  const thread = () => ({ directive: 'look', kind: 'thread' }) as const;
  createTelemetry({ clock: CLOCK, thread })('a', {
    type: 'turn_start',
    data: { ...TURN.data, provider },
    turn: 1,
  });
  expect(spans[2]?.attributes['gen_ai.provider.name']).toBe(name);
});

test('a child hangs below its parent, and what is open at the end is closed', () => {
  const { spans } = record();
  const telemetry = createTelemetry({
    clock: CLOCK,
    thread: (id) => ({ directive: id, kind: 'thread', ...(id === 'b' && { parent: 'a' }) }),
  });
  telemetry('a', { ...START, turn: 0 });
  const end: JournalEvent = { type: 'thread_end', data: { status: 'killed', reason: '' } };
  for (const event of [START, TURN, CALL, end]) telemetry('b', { ...event, turn: 1 });
  expect(spans.map(({ parent }) => parent)).toEqual([
    undefined,
    'invoke_agent a',
    'invoke_agent b',
    'turn 1',
    'turn 1',
  ]);
  expect(spans.map(({ ended }) => ended)).toEqual([false, true, true, true, true]);
});

test('without an SDK nobody is asked for anything', () => {
  const telemetry = createTelemetry({
    clock: CLOCK,
    thread: () => {
      throw new Error('asked');
    },
  });
  for (const event of RUN) telemetry('a', { ...event, turn: 1 });
});

test.each([
  { traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 },
  { traceId: 'not-hexadecimal', spanId: '1', traceFlags: 1 },
])('a request carries no trace where an SDK has none: %j', async (none) => {
  const span = { spanContext: () => none, end: () => undefined } as unknown as Span;
  const tracer = { startSpan: () => span } as unknown as Tracer;
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  const request = { name: 'ask', side: 'client', attributes: {} } as const;
  const written = await inSpan(
    request,
    async (own) => own,
    () => undefined,
  );
  expect(written).toEqual({});
});

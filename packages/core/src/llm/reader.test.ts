import {
  CALLS,
  RECORDED,
  type Recorded,
  TEXT,
  THOUGHT,
} from '@kernmantle/test-support/provider-streams';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, isObject, type Json, type JsonObject, type Outcome } from '../base/index.ts';
import type { ModelReply, Protocol } from './message.ts';
import { createReader, type ReaderOptions } from './reader.ts';

const PROTOCOLS = ['anthropic', 'openai', 'responses'] as const;
const SEALING = new Set<Protocol>(['anthropic', 'responses']);

function read(
  protocol: Protocol,
  events: readonly Recorded[],
  options: ReaderOptions & { clean?: boolean } = {},
): Outcome<ModelReply> {
  const reader = createReader(protocol, options);
  for (const event of events) if (!reader.push(event).ok) break;
  return reader.end(options.clean ?? true);
}

function must(outcome: Outcome<ModelReply>): ModelReply {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
}

const json = (value: Json, event?: string): Recorded => ({
  ...(event !== undefined && { event }),
  data: JSON.stringify(value),
});
const callsIn = ({ content }: ModelReply) => content.filter(({ type }) => type === 'tool_call');
const expectedCalls = CALLS.map((call) => ({ type: 'tool_call', ...call }));

/** Anthropic events of blocks, closed unless said otherwise. */
function blocks(...list: { start: Json; deltas?: Json[]; open?: boolean }[]): Recorded[] {
  return list.flatMap(({ start, deltas = [], open }, index) => [
    json({ type: 'content_block_start', index, content_block: start }),
    ...deltas.map((delta) => json({ type: 'content_block_delta', index, delta })),
    ...(open ? [] : [json({ type: 'content_block_stop', index })]),
  ]);
}
const use = (name: string, id: string, text: string) => ({
  start: { type: 'tool_use', id, name, input: {} },
  deltas: text === '' ? [] : [{ type: 'input_json_delta', partial_json: text }],
});
const stopped = (reason: string): Recorded[] => [
  json({ type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 5 } }),
  json({ type: 'message_stop' }),
];
const chunk = (delta: Json, finish_reason: string | null = null): Recorded =>
  json({ model: 'm', choices: [{ index: 0, delta, finish_reason }] });
const call = (index: number, id: string, name: string, text: string): Json => ({
  index,
  id,
  function: { name, arguments: text },
});
const DONE: Recorded = { data: '[DONE]' };

test.each(PROTOCOLS)('a recorded %s stream becomes its reply', (protocol) => {
  const heard: string[] = [];
  const sealedBy = 'p/m';
  const reader = createReader(protocol, { sealedBy, onText: (piece) => heard.push(piece) });
  for (const event of RECORDED[protocol]) expect(reader.push(event).ok).toBe(true);
  expect(heard.join('')).toBe(TEXT);
  const reply = must(reader.end(true));
  const seal = SEALING.has(protocol) && { seal: { by: sealedBy, data: 'c2lnbmVk' } };
  expect(reply).toEqual({
    content: [
      { type: 'thinking', text: THOUGHT, ...seal },
      { type: 'text', text: TEXT },
      ...expectedCalls,
    ],
    stop: 'tool_use',
    model: protocol === 'anthropic' ? 'claude-sonnet-5-5-20261001' : 'gpt-5.4-mini-2026-03-05',
    usage: {
      input_tokens: 12,
      output_tokens: 89,
      cache_read_tokens: 3000,
      cache_write_tokens: 200,
      tokens: 3301,
      context_tokens: 3212,
      estimated: false,
    },
  });
});

test.each(PROTOCOLS)('an ended %s stream is whole even when the connection is not', (protocol) => {
  const whole = must(read(protocol, RECORDED[protocol]));
  expect(must(read(protocol, RECORDED[protocol], { clean: false }))).toEqual(whole);
  const more = [...RECORDED[protocol], { data: 'garbage after the end' }];
  expect(must(read(protocol, more))).toEqual(whole);
});

test.each(PROTOCOLS)('cut after any event, a %s stream yields whole calls or none', (protocol) => {
  const events = RECORDED[protocol];
  for (let length = 0; length < events.length; length++) {
    for (const clean of [true, false]) {
      const outcome = read(protocol, events.slice(0, length), { clean, requestBytes: 300 });
      if (!outcome.ok) {
        expect(outcome.error.code).toBe('stream_incomplete');
        expect(outcome.error.detail).toMatchObject({
          reason: clean ? 'no_end_marker' : 'cut',
          completed_tools: [],
          usage: { estimated: true },
        });
        continue;
      }
      const { broken, stop } = outcome.output;
      const calls = callsIn(outcome.output);
      expect(calls.length).toBeGreaterThan(0);
      expect(stop).toBe('tool_use');
      expect(
        expectedCalls.filter((known) =>
          calls.some((found) => Object.is(known.id, 'id' in found && found.id)),
        ),
      ).toEqual(calls);
      expect(broken?.completed_tools).toHaveLength(calls.length);
      expect(outcome.output.content.at(-1)?.type).toBe('tool_call');
    }
  }
});

test('a broken stream says what came whole and what was thrown away', () => {
  const events = [
    ...blocks(use('execute', 'a', '{"x":1}'), { ...use('write', 'b', '{"path":"/et'), open: true }),
  ];
  expect(must(read('anthropic', events)).broken).toEqual({
    reason: 'no_end_marker',
    message: 'the stream ended without its end marker; kept: 1 call',
    completed_tools: ['execute:a'],
    discarded_partial: [{ name: 'write', bytes: 12 }],
  });
});

test('usage of a broken stream is what was said so far, or more', () => {
  const events = RECORDED.anthropic.slice(0, -2);
  expect(must(read('anthropic', events)).usage).toMatchObject({
    input_tokens: 12,
    cache_read_tokens: 3000,
    estimated: true,
  });
  expect(must(read('anthropic', events)).usage.output_tokens).toBeGreaterThan(50);
});

test.each(PROTOCOLS)('a %s stream without usage is estimated, input included', (protocol) => {
  const events = RECORDED[protocol].map(({ event, data }) => {
    const value = data === '[DONE]' ? null : (JSON.parse(data) as JsonObject);
    if (value && isObject(value.message)) delete value.message.usage;
    if (value && isObject(value.response)) delete value.response.usage;
    if (value) delete value.usage;
    return { ...(event && { event }), data: value ? JSON.stringify(value) : data };
  });
  const { usage } = must(read(protocol, events, { requestBytes: 3000, ratio: 0.5 }));
  expect(usage).toMatchObject({ input_tokens: 1500, estimated: true });
  expect(usage.output_tokens).toBeGreaterThan(0);
});

test('without its own end, a call is no call, however complete it looks', () => {
  const events = blocks(use('a', '1', '{}'), { ...use('b', '2', '{"x":1}'), open: true });
  expect(callsIn(must(read('anthropic', events)))).toMatchObject([{ name: 'a' }]);
});

test('max_tokens inside arguments: the call is discarded, those before it stand', () => {
  const anthropic = [
    ...blocks(use('a', '1', '{"x":1}'), use('b', '2', '{"path":"/etc/ho')),
    ...stopped('max_tokens'),
  ];
  const openai = [
    chunk({ tool_calls: [call(0, '1', 'a', '{"x":1}')] }),
    chunk({ tool_calls: [call(1, '2', 'b', '{"path":"/etc/ho')] }),
    chunk({}, 'length'),
    DONE,
  ];
  for (const [protocol, events] of [
    ['anthropic', anthropic] as const,
    ['openai', openai] as const,
  ]) {
    const reply = must(read(protocol, events));
    expect(callsIn(reply)).toEqual([
      { type: 'tool_call', id: '1', name: 'a', arguments: { x: 1 } },
    ]);
    expect(reply).toMatchObject({
      stop: 'max_tokens',
      broken: { reason: 'max_tokens', discarded_partial: [{ name: 'b', bytes: 16 }] },
    });
    expect(reply.bad_arguments).toBeUndefined();
  }
});

test('max_tokens before the first byte of arguments is not a call without arguments', () => {
  const anthropic = [...blocks(use('delete_all', '1', '')), ...stopped('max_tokens')];
  expect(callsIn(must(read('anthropic', anthropic)))).toEqual([]);
  const openai = [
    chunk({ tool_calls: [call(0, '1', 'delete_all', '')] }),
    chunk({}, 'length'),
    DONE,
  ];
  expect(callsIn(must(read('openai', openai)))).toEqual([]);
  expect(read('anthropic', blocks(use('delete_all', '1', ''))).ok).toBe(false);
  expect(read('openai', openai.slice(0, 1)).ok).toBe(false);
});

test('a finished call without arguments has none', () => {
  const anthropic = [...blocks(use('status', '1', '')), ...stopped('tool_use')];
  const openai = [
    chunk({ tool_calls: [call(0, '1', 'status', '')] }),
    chunk({}, 'tool_calls'),
    DONE,
  ];
  const expected = [{ type: 'tool_call', id: '1', name: 'status', arguments: {} }];
  expect(callsIn(must(read('anthropic', anthropic)))).toEqual(expected);
  expect(callsIn(must(read('openai', openai)))).toEqual(expected);
});

test.each([
  '{"a":',
  '[1]',
  '12',
  'null',
  '"x"',
  '{"a":1}{"b":2}',
  `{"a":${'['.repeat(500)}${']'.repeat(500)}}`,
])('finished arguments `%.20s` are reported, not run', (text) => {
  const anthropic = [...blocks(use('a', '1', text)), ...stopped('tool_use')];
  const openai = [chunk({ tool_calls: [call(0, '1', 'a', text)] }), chunk({}, 'tool_calls'), DONE];
  for (const reply of [must(read('anthropic', anthropic)), must(read('openai', openai))]) {
    expect(callsIn(reply)).toEqual([]);
    expect(reply.stop).toBe('tool_use');
    expect(reply.bad_arguments).toMatchObject([{ id: '1', name: 'a', text }]);
  }
});

test('a refused reply has no calls', () => {
  const anthropic = [...blocks(use('a', '1', '{}')), ...stopped('refusal')];
  expect(must(read('anthropic', anthropic))).toMatchObject({
    stop: 'refusal',
    content: [],
    broken: { reason: 'refusal' },
  });
  const filtered = [
    chunk({ tool_calls: [call(0, '1', 'a', '{}')] }),
    chunk({}, 'content_filter'),
    DONE,
  ];
  expect(must(read('openai', filtered))).toMatchObject({ stop: 'refusal', content: [] });
  const refused = [
    chunk({ refusal: 'I can’t ' }),
    chunk({ refusal: 'do that' }),
    chunk({}, 'stop'),
    DONE,
  ];
  expect(must(read('openai', refused))).toMatchObject({
    stop: 'refusal',
    content: [{ type: 'text', text: 'I can’t do that' }],
  });
});

test('an error inside the stream has the code of its meaning', () => {
  const overloaded = json(
    { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    'error',
  );
  expect(read('anthropic', [...RECORDED.anthropic.slice(0, 8), overloaded])).toMatchObject({
    ok: false,
    error: {
      code: 'model_unavailable',
      detail: {
        message: 'the provider reported: Overloaded',
        transient: true,
        usage: { input_tokens: 12, estimated: true },
      },
    },
  });
  const limited = json({
    error: { message: 'slow down', type: 'tokens', code: 'rate_limit_exceeded' },
  });
  expect(read('openai', [chunk({ content: 'a' }), limited, DONE])).toMatchObject({
    error: { code: 'rate_limit' },
  });
});

test('calls that came whole before an error are kept', () => {
  const error = json({ type: 'error', error: { type: 'api_error', message: 'x' } });
  const reply = must(
    read('anthropic', [...blocks(use('a', '1', '{}'), use('b', '2', '{}')), error]),
  );
  expect(callsIn(reply)).toMatchObject([{ name: 'a' }, { name: 'b' }]);
  expect(reply.broken).toMatchObject({ reason: 'provider_error' });
});

test.each(PROTOCOLS)('garbage breaks a %s stream; nothing after it counts', (protocol) => {
  const events = RECORDED[protocol];
  for (const data of ['{not json', 'null', '[]', '7']) {
    const reader = createReader(protocol);
    expect(reader.push(events[0] as Recorded).ok).toBe(true);
    expect(reader.push({ data })).toMatchObject({ error: { detail: { reason: 'garbage' } } });
    for (const event of events.slice(1)) expect(reader.push(event).ok).toBe(false);
    expect(reader.end(true)).toMatchObject({ error: { code: 'stream_incomplete' } });
  }
});

test('events out of order break the stream', () => {
  const late = json({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'input_json_delta', partial_json: '{"y":2}' },
  });
  const start = RECORDED.anthropic[0] as Recorded;
  const cases = [
    [late],
    [...blocks(use('a', '1', '{}')), late],
    [start, start],
    [json({ type: 'content_block_stop', index: 3 })],
    [json({ type: 'content_block_start', content_block: { type: 'text' } })],
    blocks({
      start: { type: 'text', text: '' },
      deltas: [{ type: 'input_json_delta', partial_json: '{' }],
    }),
  ];
  for (const events of cases) {
    const reader = createReader('anthropic');
    expect(events.map((event) => reader.push(event).ok)).toContain(false);
  }
});

test('unknown events, blocks and deltas are passed over', () => {
  const events = [
    json({ type: 'ping' }),
    json({ type: 'invented_later' }),
    ...blocks(
      {
        start: { type: 'server_tool_use', id: 's', name: 'web' },
        deltas: [{ type: 'input_json_delta', partial_json: '{}' }],
      },
      { start: { type: 'redacted_thinking', data: 'b3BhcXVl' } },
      { start: { type: 'text', text: 'hi' }, deltas: [{ type: 'citations_delta', citation: {} }] },
    ),
    ...stopped('end_turn'),
  ];
  expect(must(read('anthropic', events, { sealedBy: 'p/m' })).content).toEqual([
    { type: 'thinking', text: '', redacted: true, seal: { by: 'p/m', data: 'b3BhcXVl' } },
    { type: 'text', text: 'hi' },
  ]);
});

test('arguments given as a value count where the server sends no text', () => {
  const start = { type: 'tool_use', id: '1', name: 'a', input: { x: 1 } };
  const anthropic = [...blocks({ start }), ...stopped('tool_use')];
  expect(callsIn(must(read('anthropic', anthropic)))).toMatchObject([{ arguments: { x: 1 } }]);
  const cut = [...blocks({ start }), ...stopped('max_tokens')];
  expect(callsIn(must(read('anthropic', cut)))).toEqual([]);
});

test('servers that count every index as 0, leave ids out or repeat names are understood', () => {
  const same = [
    chunk({ tool_calls: [call(0, 'x', 'a', '{"n":1}')] }),
    chunk({ tool_calls: [call(0, 'y', 'b', '{"n":2}')] }),
    chunk({}, 'stop'),
    DONE,
  ];
  expect(must(read('openai', same))).toMatchObject({
    stop: 'tool_use',
    content: [
      { id: 'x', name: 'a', arguments: { n: 1 } },
      { id: 'y', name: 'b', arguments: { n: 2 } },
    ],
  });
  const repeated = [
    chunk({ tool_calls: [{ function: { name: 'a', arguments: '{"n"' } }] }),
    chunk({ tool_calls: [{ function: { name: 'a', arguments: ':1}' } }] }),
    chunk({}, 'tool_calls'),
    DONE,
  ];
  expect(must(read('openai', repeated)).content).toEqual([
    { type: 'tool_call', id: 'call_1', name: 'a', arguments: { n: 1 } },
  ]);
  const twice = [
    chunk({ tool_calls: [call(0, 'x', 'a', '{}'), call(1, 'x', 'b', '{}')] }),
    chunk({}, 'tool_calls'),
    DONE,
  ];
  expect(
    new Set(must(read('openai', twice)).content.map((block) => 'id' in block && block.id)).size,
  ).toBe(2);
});

test('a reply that only talks is only text', () => {
  const openai = [chunk({ content: [{ type: 'text', text: 'hi' }] }), chunk({}, 'stop'), DONE];
  expect(must(read('openai', openai))).toMatchObject({ stop: 'end', content: [{ text: 'hi' }] });
  expect(must(read('openai', [DONE]))).toMatchObject({ stop: 'end', content: [] });
});

test('a reply is bounded in size and in number of blocks', () => {
  const long = Array.from({ length: 20 }, () => chunk({ content: 'x'.repeat(100) }));
  expect(read('openai', long, { maxCharacters: 1000 })).toMatchObject({
    error: { code: 'response_too_large' },
  });
  const many = Array.from({ length: 2000 }, (_, index) =>
    chunk({ tool_calls: [call(index, `${index}`, 'a', '')] }),
  );
  expect(read('openai', many)).toMatchObject({ error: { code: 'response_too_large' } });
  const named = blocks(use('n'.repeat(1000), '1', '{}'));
  expect(read('anthropic', named)).toMatchObject({ error: { code: 'response_too_large' } });
});

test('what stopped the stream is what the failure says', () => {
  const reader = createReader('openai');
  reader.push(chunk({ content: 'a' }));
  expect(reader.end(false, fail('timeout', 'no further data within 5 s'))).toMatchObject({
    error: { code: 'timeout', detail: { usage: { estimated: true } } },
  });
});

const argument = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 4 });
const call$ = fc.record({ name: fc.constantFrom('a', 'b'), arguments: argument });

test('no cut, anywhere, ever makes a call that was not written whole', () => {
  fc.assert(
    fc.property(
      fc.array(call$, { minLength: 1, maxLength: 4 }),
      fc.nat(),
      fc.constantFrom('end', 'max_tokens', undefined),
      fc.boolean(),
      (calls, at, stop, isAnthropic) => {
        const texts = calls.map((each) => JSON.stringify(each.arguments));
        const budget = at % (texts.join('').length + 1);
        let left = budget;
        // The texts of a model that is stopped after this many characters.
        const cut = texts.flatMap((text, index) => {
          const written = text.slice(0, left);
          const isBegun = index === 0 || left > 0;
          left = Math.max(0, left - text.length);
          return isBegun ? [written] : [];
        });
        const name = (index: number) => calls[index]?.name ?? '';
        const events = isAnthropic
          ? [
              ...blocks(...cut.map((text, index) => use(name(index), `${index}`, text))),
              ...(stop
                ? stopped(
                    stop === 'end' && budget === texts.join('').length ? 'tool_use' : 'max_tokens',
                  )
                : []),
            ]
          : [
              ...cut.map((text, index) =>
                chunk({ tool_calls: [call(index, `${index}`, name(index), text)] }),
              ),
              ...(stop
                ? [
                    chunk(
                      {},
                      stop === 'end' && budget === texts.join('').length ? 'tool_calls' : 'length',
                    ),
                    DONE,
                  ]
                : []),
            ];
        const outcome = read(isAnthropic ? 'anthropic' : 'openai', events);
        const found = outcome.ok ? callsIn(outcome.output) : [];
        expect(found).toEqual(
          calls.slice(0, found.length).map((each, index) => ({
            type: 'tool_call',
            id: `${index}`,
            name: each.name,
            arguments: JSON.parse(JSON.stringify(each.arguments)) as Json,
          })),
        );
        const isAll = stop === 'end' && budget === texts.join('').length;
        if (isAll) expect(found).toHaveLength(calls.length);
      },
    ),
    { numRuns: runs(2000) },
  );
});

test.each(PROTOCOLS)('no event, however odd, makes the %s reader throw', (protocol) => {
  const word = fc.constantFrom(
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
    'error',
    'text_delta',
    'input_json_delta',
    'tool_use',
    'text',
  );
  const key = fc.constantFrom(
    'type',
    'index',
    'delta',
    'content_block',
    'message',
    'usage',
    'choices',
    'tool_calls',
    'function',
    'arguments',
    'name',
    'id',
    'finish_reason',
    'content',
    'error',
    'partial_json',
    '__proto__',
  );
  const value = fc.letrec<{ node: Json }>((tie) => ({
    node: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      word,
      fc.integer({ min: -1, max: 3 }),
      fc.constantFrom(null, true, '', '{}', '{"a":'),
      fc.array(tie('node'), { maxLength: 3 }),
      fc.dictionary(key, tie('node'), { maxKeys: 5 }),
    ),
  })).node;
  fc.assert(
    fc.property(fc.array(value, { maxLength: 8 }), fc.boolean(), (events, clean) => {
      const outcome = read(
        protocol,
        events.map((event) => json(event)),
        { clean },
      );
      const calls = outcome.ok ? callsIn(outcome.output) : [];
      for (const found of calls)
        expect('arguments' in found && isObject(found.arguments)).toBe(true);
    }),
    { numRuns: runs(1000) },
  );
});

const MIB = 1024 * 1024;
const thoughtWith = (signature: string) => ({
  start: { type: 'thinking', thinking: 'x', signature },
});

test('a seal has at most 1 MiB, and those of a reply together 4 MiB', () => {
  const sizes = (...list: number[]): string => {
    const events = blocks(...list.map((size) => thoughtWith('s'.repeat(size))));
    const outcome = read('anthropic', [...events, ...stopped('end_turn')], { sealedBy: 'p/m' });
    return outcome.ok ? 'ok' : outcome.error.code;
  };
  expect(sizes(MIB)).toBe('ok');
  expect(sizes(MIB + 1)).toBe('response_too_large');
  expect(sizes(MIB, MIB, MIB, MIB)).toBe('ok');
  expect(sizes(MIB, MIB, MIB, MIB, 1)).toBe('response_too_large');
});

test('without the name of the model a reply has no seals', () => {
  const reply = must(read('anthropic', [...blocks(thoughtWith('s')), ...stopped('end_turn')]));
  expect(reply.content).toEqual([{ type: 'thinking', text: 'x' }]);
});

import { arbitraryEvent, longTexts } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../base/index.ts';
import type { StoredEvent } from '../store/index.ts';
import type { DataOf, EventType } from './events.ts';
import { type SlimEvent, slimEvent } from './slim-event.ts';

const marks = (...taint: string[]) => ({ labels: taint, taint, sources: taint });
const usage = {
  input_tokens: 10,
  output_tokens: 5,
  cache_read_tokens: 3,
  cache_write_tokens: 0,
  tokens: 18,
  context_tokens: 13,
  estimated: false,
};
const detail = { message: 'secrets are not sent', guard: 'no-secrets' };
const fault = { code: 'permission_denied', detail };

/** One of each; `say` stands where foreign text may. */
const samples = (say: string): { readonly [type in EventType]: DataOf<type> } => ({
  thread_start: {
    directive: say,
    version: '1.0.0',
    inputs: { a: say },
    model: 'm',
    message: say,
    limits: {},
  },
  status: { status: 'running', by: say, reason: say },
  user_message: { text: say, marks: marks('untrusted', 'src:file', 'dir:notes') },
  assistant_message: {
    content: [{ type: 'text', text: say }],
    stop: 'end',
    usage,
    model: 'm',
    price_row: 'm',
    spend: '0.0123',
    bytes: 100,
  },
  tool_call: {
    call_id: say,
    tool: say,
    verb: 'execute',
    effect: 'read',
    arguments: { parameters: { path: say } },
    target: say,
  },
  tool_result: {
    call_id: say,
    content: { error: { code: 'timeout', message: say } },
    is_error: true,
    marks: marks(say),
  },
  turn_start: { max_tokens: 100, model: say, provider: 'p', key: 'k' },
  turn_end: { done: true },
  cost_update: { cost: {} },
  hook_start: { thread_id: say, directive: say, event: 'error', step: say },
  compaction: {
    number: 1,
    tier: 'summary',
    asked: 'person',
    marks: { labels: [], taint: [], sources: [] },
    before: 100,
    after: 10,
    upto: 3,
    by: say,
    model: say,
    summary: say,
    facts: {},
  },
  fork: {
    from: say,
    at: 7,
    by: say,
    model: say,
    limits: { turns: { value: 3, from: 'caller' } },
    ran: {
      items: [],
      granted: [],
      policies: [],
      rules: {},
      sandbox: say,
      provider: say,
      by: { who: say, surface: say, process: say },
    },
  },
  criterion: { round: 2, held: false, index: 0, reason: say },
  hook: {
    directive: say,
    event: 'limit',
    step: say,
    decision: 'raise',
    notes: {},
    duration_ms: 12,
    fired: [],
    bounds: { retries: 0, skips: {} },
    limits: { turns: { value: 20, from: 'hook', declared: true }, context_warn: 0.8 },
  },
  hook_state: { fired: [] },
  permission_denied: {
    ...fault,
    detail: { ...detail, message: say },
    call_id: say,
    stage: 'guard',
  },
  limit: { name: 'limit', code: 'turns_exceeded', limit: 'turns', current: 12, max: 12 },
  warning: {
    name: 'warning',
    code: 'turns_warning',
    limit: 'turns',
    percent: 80,
    current: 10,
    max: 12,
  },
  loop_detected: fault,
  retry: { try: 2, because: say, wait_ms: 100, model: say },
  model_fallback: { to: say, because: say },
  spawn: { thread_id: say, directive: say, runner: 'harness', detached: false },
  child_end: { thread_id: say, status: 'completed', reason: say, cost: { spend: '0.5' } },
  injected_message: { text: say, marks: marks(), by: say },
  signal: { kind: 'resume', by: say, reason: say, limits: { turns: { value: 9 } } },
  approval: { kind: 'call', action: 'ask', state: 'pending', approval: say, call_id: say },
  plan: { number: 1, text: say, sha256: say, marks: marks(), after: { code: say } },
  snapshot: { reason: say },
  error: { code: say, detail: { message: say } },
  stream_error: { reason: say, message: say, completed_tools: [], discarded_partial: [] },
  commits_lost: { events: 2, calls: [{ call_id: say, tool: say }] },
  logged: { event_type: say, data: {}, by: say },
  thread_end: { status: 'failed', reason: say, code: say },
});

const stored = (type: string, data: JsonObject, seq = 7): StoredEvent => ({
  thread: 't',
  seq,
  ts: 1,
  turn: 2,
  type,
  data,
});
const slimOf = (type: EventType, say = 'hello'): SlimEvent =>
  slimEvent(stored(type, samples(say)[type] as unknown as JsonObject));

describe('what is left of an event', () => {
  test('a reply keeps its figures and the beginning of its words', () => {
    expect(slimOf('assistant_message')).toEqual({
      seq: 7,
      ts: 1,
      turn: 2,
      type: 'assistant_message',
      text: 'hello',
      tone: 'plain',
      by: 'model',
      preview: 'hello',
      bytes: 5,
      usage: { input: 10, cached: 3, output: 5, tokens: 18, estimated: false },
      spend: 0.0123,
      model: 'm',
      price_row: 'm',
      stop: 'end',
    });
  });

  test('a result says how much was written, where its tool says it', () => {
    const result = (content: Json, is_error = false) =>
      slimEvent(stored('tool_result', { call_id: 'c', content, is_error, marks: marks('x') }));
    expect(result({ path: 'out/a.md', bytes: 146 }).wrote).toBe(146);
    expect(result({ path: 'out/a.md', bytes: 'many' }).wrote).toBeUndefined();
    expect(result({ bytes: 1 }, true).wrote).toBeUndefined();
  });

  test('a call has its arguments as a person would type them', () => {
    expect(slimOf('tool_call')).toMatchObject({
      tool: 'hello',
      preview: 'path=hello',
      effect: 'read',
      target: 'hello',
      text: 'hello path=hello',
    });
  });

  test('labels that only name a source are left out', () => {
    expect(slimOf('user_message').labels).toEqual(['untrusted']);
  });

  test('a denial says who refused and by which rule', () => {
    expect(slimOf('permission_denied')).toMatchObject({
      code: 'permission_denied',
      rule: 'no-secrets',
      stage: 'guard',
      reason: 'hello',
      tone: 'bad',
    });
  });

  test('raised limits are numbers', () => {
    expect(slimOf('hook').raised).toEqual({ turns: 20 });
    expect(slimOf('signal').raised).toEqual({ turns: 9 });
  });

  test('a secret is a mask, also where the text is cut', () => {
    const secret = '{secret abcdefghijklmnop 12}';
    const { preview, text } = slimOf('user_message', `${secret} and ${secret}`);
    expect(preview).toBe('[secret] and [secret]');
    expect(text).toBe('[secret] and [secret]');
    for (let before = 170; before < 205; before++) {
      const said = slimOf('user_message', 'x'.repeat(before) + secret.repeat(60));
      expect(JSON.stringify(said)).not.toContain('{secret');
    }
  });

  test('what nobody can read is told as such', () => {
    expect(slimEvent(stored('tool_call', { tool: 3 }))).toMatchObject({
      seq: 7,
      type: 'tool_call',
      unreadable: true,
      tone: 'bad',
      text: expect.stringContaining('event 7 of thread `t` cannot be read'),
    });
  });
});

const TYPES = Object.keys(samples('')) as EventType[];
const NAMES = new Set(['text', 'preview', 'reason', 'target']);

/** Every text in it, with the field that it stands in. */
function textsOf(value: unknown, field = ''): [string, string][] {
  if (typeof value === 'string') return [[field, value]];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    textsOf(inner, Array.isArray(value) ? field : name),
  );
}

function expectSmall(slim: SlimEvent): void {
  for (const [field, text] of textsOf(slim)) {
    expect(text.length, field).toBeLessThanOrEqual(NAMES.has(field) ? 200 : 120);
  }
  expect(JSON.stringify(slim).length).toBeLessThan(12_000);
}

test('however long its texts are, an event is small', () => {
  const long = fc
    .tuple(fc.string({ unit: 'grapheme', maxLength: 30 }), fc.integer({ min: 1, max: 2000 }))
    .map(([word, times]) => word.repeat(times));
  fc.assert(
    fc.property(fc.constantFrom(...TYPES), long, (type, say) => {
      const slim = slimOf(type, say);
      expect(slim.unreadable).toBeUndefined();
      expect(slim).toMatchObject({ seq: 7, type });
      expectSmall(slim);
    }),
  );
});

test('long lists of long names are cut', () => {
  const names = Array.from({ length: 40 }, (_, at) => `${at}${'n'.repeat(200)}`);
  const limits = Object.fromEntries(names.map((name) => [name, 3]));
  const user = slimEvent(stored('user_message', { text: '', marks: marks(...names) }));
  const signal = slimEvent(stored('signal', { kind: 'resume', by: 'ann', limits }));
  expect(user.labels?.length).toBe(5);
  expect(Object.keys(signal.raised ?? {}).length).toBe(5);
});

test('all texts of a slim event have less than 2 KB, whatever the event holds', () => {
  fc.assert(
    fc.property(arbitraryEvent, fc.nat(3000), (event, length) => {
      const { type, data } = longTexts(event, 'x'.repeat(length));
      const slim = slimEvent(stored(type, data as unknown as JsonObject));
      expect(slim.unreadable).toBeUndefined();
      const names = Object.keys(slim.raised ?? {});
      const texts = [...textsOf(slim).map(([, text]) => text), ...names];
      expect(texts.join('').length).toBeLessThan(2048);
    }),
    { numRuns: runs(500) },
  );
});

test('nothing that a journal holds is refused', () => {
  const type = fc.oneof(fc.constantFrom(...TYPES), fc.string({ maxLength: 300 }));
  const value = fc.jsonValue() as fc.Arbitrary<Json>;
  const data = fc.dictionary(fc.string(), value) as fc.Arbitrary<JsonObject>;
  fc.assert(
    fc.property(type, data, (word, given) => {
      const slim = slimEvent(stored(word, given));
      expect(slim.seq).toBe(7);
      expectSmall(slim);
    }),
  );
});

import {
  arbitraryEvent as event,
  longTexts,
  EVENT_TYPES as TYPES,
} from '@kernmantle/test-support/journals';
import { must } from '@kernmantle/test-support/registry';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json, JsonObject } from '../base/index.ts';
import { checkedEvents } from '../harness/thread/journal-writer.ts';
import { eventFlags, eventLine, isBookkeeping, isInTranscript } from './event-facts.ts';
import type { EventType, JournalEvent } from './events.ts';
import { decode, decodeAll } from './read-journal.ts';

const text = fc.string();
const json = fc.jsonValue().map((value): Json => JSON.parse(JSON.stringify(value)) as Json);

/** As the registry gives it back. */
const stored = (type: string, data: Json, seq = 7, turn = 2) => ({
  thread: 'one',
  seq,
  ts: 1_700_000_000_000,
  turn,
  type,
  data: JSON.parse(JSON.stringify(data)) as JsonObject,
});

test('what was written is what is read', () => {
  fc.assert(
    fc.property(event, fc.nat(99), (one, turn) => {
      const [written] = must(checkedEvents([one], turn));
      if (!written) throw new Error('nothing is written');
      const read = decode(stored(written.type, written.data, 7, written.turn));
      expect(read).toMatchObject({ ok: true, output: { seq: 7, turn, thread: 'one' } });
      const { type, data } = read.ok ? read.output : { type: '', data: {} };
      expect(JSON.stringify({ type, data })).toBe(JSON.stringify(one));
    }),
    { numRuns: runs(500) },
  );
});

/** Numbers that JSON has no word for are among it. */
const odd: fc.Arbitrary<unknown> = fc.oneof(
  json,
  fc.constantFrom<unknown>(Number.NaN, Number.POSITIVE_INFINITY, undefined, [undefined], {
    a: NaN,
  }),
);
const changed = fc
  .tuple(event, fc.nat(), odd, fc.boolean())
  .map(([{ type, data }, at, value, isLeftOut]) => {
    const names = Object.keys(data);
    const name = names[at % Math.max(1, names.length)] ?? 'more';
    const { [name]: _, ...rest } = data as Record<string, unknown>;
    return { type, data: isLeftOut ? rest : { ...rest, [name]: value } };
  });

test('no event can be written that its reader refuses', () => {
  fc.assert(
    fc.property(fc.oneof(changed, fc.record({ type: text, data: odd })), (one) => {
      const written = checkedEvents([one as JournalEvent], 0);
      if (written.ok)
        expect(decode(stored(one.type, JSON.parse(written.output[0]?.text ?? '')))).toMatchObject({
          ok: true,
        });
      else expect(written.error.code).toBe('internal_error');
    }),
    { numRuns: runs(2000) },
  );
});

test('whatever stands in a journal, reading it is an answer', () => {
  fc.assert(
    fc.property(fc.oneof(fc.constantFrom(...TYPES), text), json, (type, data) => {
      const read = decode({ ...stored(type, {}), data: data as JsonObject });
      expect(read.ok || read.error.code).toBe(read.ok ? true : 'journal_unreadable');
    }),
    { numRuns: runs(500) },
  );
});

test('one field that is another kind of thing makes an event unreadable, and is named', () => {
  const samples = fc.sample(event, { numRuns: runs(200), seed: 4 });
  for (const { type, data } of samples) {
    const fields = Object.keys(data).filter((name) => !['content', 'arguments'].includes(name));
    for (const name of fields) {
      // A type that no field but open ones has.
      const broken = { ...data, [name]: [[null]] };
      const read = decode(stored(type, broken as unknown as Json));
      expect(read.ok, `${type}.${name}`).toBe(false);
      if (read.ok) continue;
      expect(read.error.detail).toMatchObject({ thread: 'one', seq: 7, type });
    }
  }
  const bad = { call_id: 'a', content: 1, is_error: false, marks: { labels: [3], taint: [] } };
  expect(decode(stored('tool_result', bad))).toMatchObject({
    ok: false,
    error: {
      code: 'journal_unreadable',
      detail: { field: 'marks.labels.0', type: 'tool_result', seq: 7, thread: 'one' },
    },
  });
});

test('a result without its marks is not read as one that carries none', () => {
  const read = decode(stored('tool_result', { call_id: 'a', content: 'x', is_error: false }));
  expect(read).toMatchObject({ ok: false, error: { detail: { field: 'marks' } } });
});

test('journals of version 1 can be read', () => {
  const MARKS = { labels: [], taint: ['src:user'], sources: [] };
  const old: [EventType, Json][] = [
    [
      'thread_start',
      { directive: 'look', version: '1.0.0', inputs: {}, model: 'm', message: '', limits: {} },
    ],
    ['user_message', { text: 'run directive look', marks: MARKS }],
    [
      'assistant_message',
      {
        content: [{ type: 'tool_call', id: 'call_directive', name: 'execute', arguments: {} }],
        injected: true,
      },
    ],
    [
      'tool_result',
      { call_id: 'call_directive', content: { name: 'look' }, is_error: false, marks: MARKS },
    ],
    ['signal', { kind: 'start', by: 'host:1' }],
    // Before intents had keys and turns were numbered.
    ['turn_start', { max_tokens: 256, model: 'm', provider: 'p', key: 'look:turn:1:5' }],
    [
      'tool_call',
      { call_id: 'c', tool: 'fs/read_file', verb: 'execute', effect: 'read', arguments: {} },
    ],
    ['turn_end', { called_off: true }],
    ['cost_update', { charged_unread: 1, tokens: 300 }],
    ['thread_end', { status: 'terminated', reason: 'the thread it served was resumed' }],
  ];
  const read = decodeAll(old.map(([type, data], at) => stored(type, data, at + 1)));
  expect(read.ok && read.output.map(({ type }) => type)).toEqual(old.map(([type]) => type));
});

test('the first event that cannot be read is named', () => {
  const read = decodeAll([
    stored('snapshot', { reason: '' }, 1),
    stored('made_up', {}, 2),
    stored('spawn', {}, 3),
  ]);
  expect(read).toMatchObject({ ok: false, error: { detail: { seq: 2, field: 'type' } } });
});

const typesWhere = (holds: (type: EventType) => boolean): EventType[] =>
  TYPES.filter(holds).toSorted();

test('the flags of each type are those that its readers rely on', () => {
  expect(typesWhere((type) => eventFlags(type).origin === 'external')).toEqual([
    'approval',
    'child_end',
    'fork',
    'logged',
    'snapshot',
    'spawn',
  ]);
  expect(typesWhere((type) => eventFlags(type).survivesRewind === true)).toEqual([
    'approval',
    'fork',
    'hook',
    'hook_state',
    'model_fallback',
    'signal',
    'warning',
  ]);
  expect(typesWhere((type) => eventFlags(type).isProgress === true)).toEqual(
    [
      'assistant_message',
      'child_end',
      'commits_lost',
      'compaction',
      'criterion',
      'hook',
      'injected_message',
    ].concat(['logged', 'retry', 'snapshot', 'thread_end', 'tool_result']),
  );
  expect(typesWhere((type) => eventFlags(type).isFrame === true)).toEqual([
    'thread_end',
    'thread_start',
    'user_message',
  ]);
  expect(typesWhere((type) => eventFlags(type).hasRow === true)).toEqual([
    ...(['commits_lost', 'compaction', 'error', 'fork', 'injected_message'] as const),
    ...(['limit', 'logged'] as const),
    'loop_detected',
    ...(['model_fallback', 'plan', 'retry', 'signal', 'snapshot'] as const),
    ...(['stream_error', 'thread_end', 'warning'] as const),
  ]);
  expect(typesWhere((type) => eventFlags(type).changesConversation === true)).toEqual([
    ...(['assistant_message', 'injected_message', 'retry', 'tool_result', 'user_message'] as const),
  ]);
  expect(typesWhere((type) => eventFlags(type).isDetail === true)).toEqual([
    ...(['cost_update', 'hook_state', 'snapshot', 'turn_end', 'turn_start'] as const),
  ]);
  expect(typesWhere((type) => eventFlags(type).acknowledges === true)).toEqual([
    ...(['injected_message', 'signal', 'status', 'thread_end'] as const),
    ...(['turn_start', 'user_message'] as const),
  ]);
  expect(typesWhere((type) => !isInTranscript(type))).toEqual(['hook_state']);
  const roles = TYPES.flatMap((type) => {
    const { turn } = eventFlags(type);
    return turn ? [[type, turn]] : [];
  });
  expect(Object.fromEntries(roles)).toEqual({
    turn_start: 'begins',
    assistant_message: 'replies',
    tool_call: 'calls',
    tool_result: 'calls',
    turn_end: 'ends',
    stream_error: 'ends',
    retry: 'ends',
    error: 'fails',
  });
  const fields = TYPES.map((type) => [type, eventFlags(type).volatile ?? []] as const);
  expect(Object.fromEntries(fields.filter(([, names]) => names.length > 0))).toEqual({
    thread_start: ['ran', 'title'],
    turn_start: ['key', 'n'],
    injected_message: ['by'],
    signal: ['process', 'by'],
    permission_denied: ['stage', 'about'],
    tool_call: ['target', 'about', 'use', 'group', 'key', 'n', 'child', 'volatile'],
    tool_result: ['about', 'unused'],
    hook: ['call_id', 'held', 'duration_ms'],
    compaction: ['facts', 'before', 'after', 'spend', 'model', 'rejected'],
    plan: ['needs'],
  });
});

test('an event of no type in the table has no flags', () => {
  for (const type of ['made_up', 'constructor', '__proto__']) {
    expect(eventFlags(type)).toEqual({});
    expect(isInTranscript(type)).toBe(false);
    expect(isBookkeeping({ type, data: {} })).toBe(false);
  }
});

test('bookkeeping repeats other events, and that can depend on the data', () => {
  const events: [EventType, JsonObject][] = [
    ['status', { status: 'running' }],
    ['turn_end', { failed: true }],
    ['turn_end', { done: true }],
    ['cost_update', { cost: {} }],
  ];
  for (const [type, data] of events) expect(isBookkeeping({ type, data }), type).toBe(true);
  const others: [EventType, JsonObject][] = [
    ['hook_start', { thread_id: 'h', directive: 'd', event: 'error', step: 's' }],
    ['turn_end', { done: true, judged: true }],
    ['turn_end', { called_off: true }],
    ['cost_update', { charged_unread: 1, tokens: 3 }],
  ];
  for (const [type, data] of others) expect(isBookkeeping({ type, data }), type).toBe(false);
  const always = typesWhere((type) => isBookkeeping({ type, data: { step: 's' } }));
  expect(always).toEqual(['status']);
});

test('every type has an example whose text has at most one line per 200 characters', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(event, fc.nat(3000), (one, length) => {
      seen.add(one.type);
      const long = longTexts(one, 'x '.repeat(length / 2));
      expect(decode(stored(long.type, long.data as Json)).ok).toBe(true);
      const text = eventLine(long)?.text;
      // A plan has a line of its own above its text.
      const most = Math.max(1, Math.ceil((text ?? '').length / 200));
      expect(text?.split('\n').length ?? 0).toBeLessThanOrEqual(
        one.type === 'plan' ? most + 1 : most,
      );
    }),
    { numRuns: runs(1000) },
  );
  expect([...seen].toSorted()).toEqual(TYPES.toSorted());
});

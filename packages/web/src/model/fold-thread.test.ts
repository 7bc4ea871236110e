import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import type { SlimEvent } from './api.ts';
import { createThreadFold, type FoldedThread } from './fold-thread.ts';
import { deedTargets, FILTERS, sumRows } from './thread-sums.ts';

function foldThread(events: readonly SlimEvent[]): FoldedThread {
  const fold = createThreadFold();
  fold.add(events);
  return fold.read();
}

type Told = Partial<SlimEvent> & { readonly type: string };
const numbered = (told: readonly Told[]): SlimEvent[] =>
  told.map((event, index) => ({ seq: index + 1, ts: 1_000 * index, turn: 1, ...event }));
const usage = { input: 100, cached: 0, output: 10, tokens: 110, estimated: false };

const anyEvent: fc.Arbitrary<Told> = fc.record(
  {
    type: fc.constantFrom(
      'thread_start',
      'turn_start',
      'assistant_message',
      'tool_call',
      'tool_result',
      'permission_denied',
      'approval',
      'spawn',
      'child_end',
      'hook_start',
      'hook',
      'warning',
      'error',
      'stream_error',
      'retry',
      'signal',
      'thread_end',
      'of a later version',
    ),
    turn: fc.nat(4),
    call_id: fc.constantFrom('a', 'b', 'c'),
    tool: fc.constantFrom('fs/read_file', 'http/request'),
    thread: fc.constantFrom('child_1', 'child_2'),
    directive: fc.constantFrom('one', 'two'),
    target: fc.constantFrom('one', 'notes/a.md'),
    approval: fc.constantFrom('ap_1', 'ap_2'),
    state: fc.constantFrom('pending', 'used', 'denied', 'expired', 'try'),
    status: fc.constantFrom('completed', 'failed'),
    is_error: fc.boolean(),
    code: fc.constantFrom('permission_denied', 'timeout', 'outcome_unknown'),
    rule: fc.constantFrom('no-secret-exfil'),
    labels: fc.subarray(['untrusted', 'secret']),
    text: fc.string(),
    usage: fc.constant(usage),
    spend: fc.nat(100),
    raised: fc.constant({ turns: 12 }),
    unreadable: fc.constant(true as const),
  },
  { requiredKeys: ['type', 'turn'] },
);
const journal = fc.array(anyEvent, { maxLength: 60 }).map(numbered);

test('the fold of any split of the events is the fold of the whole', () => {
  fc.assert(
    fc.property(journal, fc.array(fc.nat(60)), (events, cuts) => {
      const fold = createThreadFold();
      let from = 0;
      for (const cut of [...cuts, events.length].sort((a, b) => a - b)) {
        fold.add(events.slice(from, cut));
        fold.read();
        from = Math.max(from, cut);
      }
      expect(fold.read()).toEqual(foldThread(events));
    }),
  );
});

test('no refusal is lost, and none is told twice', () => {
  fc.assert(
    fc.property(journal, (events) => {
      const refused = events.filter(
        ({ type, unreadable }) => type === 'permission_denied' && !unreadable,
      );
      const { rows } = foldThread(events);
      const told = rows.flatMap(({ denials }) => denials);
      expect(told.sort((a, b) => a - b)).toEqual(refused.map(({ seq }) => seq));
      expect(rows.filter(FILTERS.denied).length).toBe(sumRows(rows).denied);
    }),
  );
});

test('rows have numbers of their own, and what nobody can read is a row', () => {
  fc.assert(
    fc.property(journal, (events) => {
      const { rows, unreadable } = foldThread(events);
      expect(new Set(rows.map(({ kind, seq }) => `${kind} ${seq}`)).size).toBe(rows.length);
      expect(rows.filter(({ name }) => name === 'unreadable').length).toBe(unreadable);
    }),
  );
});

const REFUSED = 'network_error: cannot connect to provider `local` at 127.0.0.1:9';
const failing = (text = REFUSED): Told => ({ type: 'error', text, code: 'network_error' });
const again = (current: number): Told => ({ type: 'retry', text: 'try', state: 'try', current });
const notesOf = (told: readonly Told[]) =>
  foldThread(numbered([{ type: 'turn_start' }, ...told]))
    .rows.filter(({ kind }) => kind === 'note')
    .map(({ text, why, tries }) => ({ text, why, tries }));

test('tries of one request that fail alike are one row, which counts them', () => {
  const one = { text: REFUSED, why: '', tries: undefined };
  expect(notesOf([failing()])).toEqual([one]);
  expect(notesOf([failing(), again(2)])).toEqual([{ ...one, why: 'tried again' }]);
  const all = [failing(), again(2), failing(), again(3), failing()];
  expect(notesOf(all)).toEqual([{ text: REFUSED, why: 'tried 3 times', tries: 3 }]);
});

test('failures that are no tries of one request stay rows of their own', () => {
  const texts = (told: readonly Told[]) => notesOf(told).map(({ text }) => text);
  // Nothing was tried again, the words differ, the turn is another, or a run was begun anew.
  expect(texts([failing(), failing()])).toEqual([REFUSED, REFUSED]);
  expect(texts([failing(), again(2), failing('rate_limit: slow down')])).toHaveLength(2);
  const next: Told = { type: 'turn_start', turn: 2 };
  expect(texts([failing(), again(2), next, { ...failing(), turn: 2 }])).toHaveLength(2);
  expect(texts([failing(), { type: 'retry', text: 'attempt 2', state: 'attempt' }])).toEqual([
    REFUSED,
    'attempt 2',
  ]);
  // The end does not say again what the failure before it said.
  const ended: Told = { type: 'thread_end', status: 'failed', text: 'failed: why', reason: 'why' };
  expect(texts([{ ...failing(), reason: 'why' }, ended])).toEqual([REFUSED, 'failed']);
  expect(texts([{ ...failing(), reason: 'other' }, ended])).toEqual([REFUSED, 'failed: why']);
  expect(texts([ended])).toEqual(['failed: why']);
  // A try whose failure is not in the journal is told.
  expect(texts([again(2)])).toEqual(['try']);
});

test('what is heard twice is one event', () => {
  fc.assert(
    fc.property(journal, (events) => {
      const fold = createThreadFold();
      fold.add(events);
      fold.add(events);
      expect(fold.read()).toEqual(foldThread(events));
    }),
  );
});

const call = (id: string, more: Partial<SlimEvent> = {}): Told => ({
  type: 'tool_call',
  call_id: id,
  tool: 'fs/write_file',
  effect: 'write',
  target: `out/${id}.md`,
  ...more,
});

test('a turn is one row, with the numbers of its request, until the last of its steps', () => {
  const { rows } = foldThread(
    numbered([
      { type: 'turn_start' },
      { type: 'retry', text: 'try 2 of this turn (timeout)' },
      { type: 'turn_start' },
      { type: 'assistant_message', usage, spend: 0.02 },
      call('a'),
      { type: 'tool_result', call_id: 'a', labels: ['untrusted'] },
      { type: 'turn_start', turn: 2 },
    ]),
  );
  expect(rows.map(({ name, state }) => [name, state])).toEqual([
    ['Turn 1', 'done'],
    ['retry', 'plain'],
    ['fs/write_file', 'done'],
    ['Turn 2', 'open'],
  ]);
  expect(rows[0]).toMatchObject({ spend: 0.02, usage, start: 0, end: 3_000, until: 5_000 });
  expect(rows[2]).toMatchObject({ labels: ['untrusted'], start: 4_000, end: 5_000 });
});

test('a denial without its call belongs to the last call that is open', () => {
  const events = numbered([
    { type: 'turn_start' },
    call('a'),
    { type: 'tool_result', call_id: 'a' },
    call('b'),
    { type: 'permission_denied', stage: 'capability' },
    { type: 'tool_result', call_id: 'b', is_error: true, code: 'permission_denied' },
    { type: 'permission_denied', rule: 'no-start', text: 'denied: nothing of this' },
  ]);
  const { rows } = foldThread(events);
  expect(rows.map(({ state, why }) => [state, why])).toEqual([
    ['open', ''],
    ['done', ''],
    ['denied', 'not granted'],
    ['denied', 'no-start'],
  ]);
  expect(sumRows(rows)).toMatchObject({ calls: 3, done: 1, denied: 2 });
});

test('a call that was refused once and then done is counted as both', () => {
  const { rows } = foldThread(
    numbered([
      { type: 'turn_start' },
      call('a'),
      { type: 'permission_denied', call_id: 'a', rule: 'first' },
      { type: 'hook', directive: 'fix', decision: 'repeat_step', took_ms: 900 },
      call('a'),
      { type: 'tool_result', call_id: 'a' },
    ]),
  );
  expect(sumRows(rows)).toMatchObject({ calls: 1, done: 1, denied: 1, hooks: 1 });
  expect(rows.find(({ kind }) => kind === 'hook')).toMatchObject({ start: 2_100, end: 3_000 });
});

test('a call waits for a person, is let through, and one is not', () => {
  const asked = numbered([
    { type: 'turn_start' },
    call('a'),
    { type: 'approval', call_id: 'a', approval: 'ap_1', state: 'pending' },
    call('b'),
    { type: 'approval', call_id: 'b', approval: 'ap_2', state: 'pending' },
  ]);
  expect(sumRows(foldThread(asked).rows)).toMatchObject({ waits: 2 });
  const decided = numbered([
    ...asked,
    { type: 'approval', call_id: 'a', approval: 'ap_1', state: 'used' },
    { type: 'approval', call_id: 'b', approval: 'ap_2', state: 'denied', by: 'ops' },
    { type: 'tool_result', call_id: 'a' },
  ]).map((event, index) => ({ ...event, seq: index + 1, ts: index }));
  const { rows } = foldThread(decided);
  expect(rows.slice(1).map(({ state, why }) => [state, why])).toEqual([
    ['done', ''],
    ['denied', 'by ops'],
  ]);
});

test('what a thread did is told by target, children by what they are', () => {
  const { rows } = foldThread(
    numbered([
      { type: 'turn_start' },
      call('r', { tool: 'fs/read_file', effect: 'read', target: 'notes/a.md' }),
      { type: 'tool_result', call_id: 'r' },
      call('n', { tool: 'ops/incidents', effect: 'read', target: 'status.example.com' }),
      { type: 'tool_result', call_id: 'n' },
      call('s', { tool: 'spawn', target: 'sum_up' }),
      { type: 'spawn', thread: 'sum_up_1', directive: 'sum_up' },
      // The call has longer arguments than its write.
      call('w', { bytes: 40 }),
      { type: 'tool_result', call_id: 'w', bytes: 90, wrote: 12 },
      call('u'),
      { type: 'tool_result', call_id: 'u', is_error: true, code: 'outcome_unknown' },
      call('d'),
      { type: 'permission_denied', call_id: 'd' },
    ]),
  );
  expect(deedTargets(rows).map(({ verb, target, unknown, open }) => [verb, target, unknown, open]))
    // A denied call does not count as an effect.
    .toEqual([
      ['wrote', 'out/w.md', 0, 0],
      ['wrote', 'out/u.md', 1, 0],
      ['sent', 'status.example.com', 0, 0],
      ['started', 'sum_up', 0, 1],
      ['read', 'notes/a.md', 0, 0],
    ]);
  expect(deedTargets(rows)[0]?.bytes).toBe(12);
});

test('who refuses late says what it was about, in a word', () => {
  const refusals: readonly (readonly [words: string, about: Partial<SlimEvent>])[] = [
    ['not granted', { missing: 'fs.write' }],
    ['not granted', { rule: 'grants' }],
    ['outside the project', { missing: 'fs.absolute' }],
    ['a protected path', { rule: 'closed_place' }],
    ['redirect refused', { rule: 'redirect' }],
    ['the path changed after the check', { rule: 'place_changed' }],
    ['while it ran', { reason: 'redirect refused: `a` is not granted, it was replaced' }],
    ['redirect', { rule: 'redirect', stage: 'guard' }],
  ];
  for (const [words, about] of refusals) {
    const { rows } = foldThread(
      numbered([
        { type: 'turn_start' },
        call('a'),
        { type: 'permission_denied', call_id: 'a', stage: 'primitive', ...about },
      ]),
    );
    expect(rows[1]).toMatchObject({ state: 'denied', why: words });
  }
});

test('a child runs on after the call that started it, and ends with what it cost', () => {
  const begun = [
    { type: 'turn_start' },
    call('s', { tool: 'spawn', thread: 'sum_up_1', target: 'sum_up' }),
    { type: 'spawn', thread: 'sum_up_1', directive: 'sum_up' },
    { type: 'tool_result', call_id: 's' },
  ];
  expect(foldThread(numbered(begun)).rows[1]).toMatchObject({
    kind: 'child',
    name: 'sum_up',
    state: 'open',
  });
  const ended = [
    ...begun,
    { type: 'child_end', thread: 'sum_up_1', status: 'completed', spend: 0.1 },
  ];
  expect(foldThread(numbered(ended)).rows[1]).toMatchObject({ state: 'done', spend: 0.1 });
});

test('an open call of a thread that ended has an outcome that nobody knows', () => {
  const { rows, ended } = foldThread(
    numbered([{ type: 'turn_start' }, call('a'), { type: 'thread_end', text: 'killed' }]),
  );
  expect(rows[1]?.state).toBe('unknown');
  expect(ended).toBe(2_000);
});

test('each of ten thousand events looks at few calls, also where nothing is ever answered', () => {
  const busy = numbered(
    Array.from({ length: 9_999 }, (_, index) =>
      // The second denial of a call finds no open call.
      index % 3 === 0 ? call(`c${index}`) : { type: 'permission_denied' },
    ),
  );
  const looks = vi.spyOn(Set.prototype, 'has');
  const { rows } = foldThread(busy);
  const count = looks.mock.calls.length;
  looks.mockRestore();
  expect(rows.length).toBe(6_667);
  expect(count).toBeLessThan(4 * busy.length);
});

import {
  arbitraryEvent,
  arbitraryJournal,
  recordedJournals,
} from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { calls } from './calls.ts';
import type { JournalEvent } from './events.ts';
import { openWork } from './open-work.ts';
import { project } from './projection.ts';
import type { Recorded } from './read-journal.ts';

function expectPrefixes(events: readonly Recorded[], at: number): void {
  const whole = project(openWork, events);
  const half = project(openWork, events.slice(0, at));
  const before = structuredClone(half);
  expect(project(openWork, events.slice(at), half)).toEqual(whole);
  expect(half).toEqual(before);
  // Events that were applied before change nothing.
  expect(project(openWork, events.slice(0, at), whole)).toBe(whole);
}

test('a journal can be projected in two parts, and a part again', () => {
  for (const events of recordedJournals().values()) expectPrefixes(events, events.length >> 1);
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) =>
      expectPrefixes(events, at % (events.length + 1)),
    ),
    { numRuns: runs(300) },
  );
});

test('no event that can be read is too odd for the projection', () => {
  fc.assert(
    fc.property(fc.array(arbitraryEvent, { maxLength: 40 }), (list) => {
      const events = list.map((event, at): Recorded => {
        const place = { thread: 't', seq: at + 1, ts: at, turn: at >> 2 };
        return { ...event, ...place };
      });
      expectPrefixes(events, list.length >> 1);
    }),
    { numRuns: runs(500) },
  );
});

test('an open call is a call without a result after its last intent', () => {
  let count = 0;
  const check = (events: readonly Recorded[], end: number): void => {
    const history = events.slice(0, end);
    // A rewind takes the calls after its snapshot away, and the projection of calls keeps them.
    if (history.some(({ type, data }) => type === 'signal' && data.from !== undefined)) return;
    const all = project(calls, history);
    for (const { id, intent } of project(openWork, history).calls.values()) {
      const call = all.find(id);
      expect(call?.intents.at(-1)).toBe(intent.seq);
      expect(call?.result?.seq ?? 0).toBeLessThan(intent.seq);
      count += 1;
    }
  };
  for (const events of recordedJournals().values()) check(events, events.length >> 1);
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) =>
      check(events, at % (events.length + 1)),
    ),
    { numRuns: runs(300) },
  );
  expect(count).toBeGreaterThan(50);
});

const marks = { labels: [], taint: [], sources: [] };
const journal = (events: readonly JournalEvent[]): Recorded[] =>
  events.map((event, at) => ({ ...event, thread: 't', seq: at + 1, ts: at, turn: 1 }));
const hook: JournalEvent = {
  type: 'hook_start',
  data: { thread_id: 'h', directive: 'd', event: 'error', step: 's' },
};
const snapshot: JournalEvent = { type: 'snapshot', data: { reason: '' } };
const back: JournalEvent = { type: 'signal', data: { kind: 'resume', by: 'ann', from: 2 } };
const held: JournalEvent = {
  type: 'approval',
  data: { kind: 'question', state: 'pending', approval: 'a', action: 'x', call_id: 'c', held: 1 },
};
const result: JournalEvent = {
  type: 'tool_result',
  data: { call_id: 'c', content: '', is_error: false, marks },
};

test('a rewind keeps the decision of a hook and undoes a result', () => {
  const bounds = { retries: 0, skips: {} };
  const decision = { directive: 'd', event: 'error', step: 's', decision: 'proceed' } as const;
  const decided: JournalEvent = {
    type: 'hook',
    data: { ...decision, notes: {}, duration_ms: 1, fired: [], bounds, thread_id: 'h' },
  };
  const work = (...events: JournalEvent[]) => project(openWork, journal(events));
  expect(work(hook, snapshot).hooks.size).toBe(1);
  expect(work(hook, snapshot, decided, back).hooks.size).toBe(0);
  expect(work(held, snapshot, result).approvals.size).toBe(0);
  expect(work(held, snapshot, result, back).approvals.size).toBe(1);
});

test('a request and a child stay open when the thread goes back', () => {
  const asked = { max_tokens: 1, model: 'm', provider: 'p', key: 'k', n: 1 };
  const spawned = { thread_id: 'child', directive: 'd', runner: 'safety', detached: false };
  const work = project(
    openWork,
    journal([
      { type: 'user_message', data: { text: '', marks } },
      snapshot,
      { type: 'spawn', data: spawned },
      { type: 'turn_start', data: asked },
      back,
    ]),
  );
  expect([...work.requests.keys()]).toEqual(['k']);
  expect(work.lastRequest).toEqual({ turn: 1, n: 1, isAnswered: false });
  expect([...work.children]).toEqual(['child']);
});

import {
  arbitraryEvent,
  arbitraryJournal,
  recordedJournals,
} from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { conversation } from './conversation.ts';
import type { JournalEvent } from './events.ts';
import { project } from './projection.ts';
import type { Recorded } from './read-journal.ts';

type State = ReturnType<typeof conversation.initial>;
const contentOf = (state: State) => ({
  seq: state.seq,
  forkedAt: state.forkedAt,
  events: state.events(),
  messages: state.messages(),
  pending: state.pending(),
  marks: state.marks(),
  opening: state.opening(),
  attempt: state.attempt(),
});

function expectPrefixes(events: readonly Recorded[], at: number): void {
  const whole = project(conversation, events);
  const half = project(conversation, events.slice(0, at));
  const before = structuredClone(contentOf(half));
  expect(contentOf(project(conversation, events.slice(at), half))).toEqual(contentOf(whole));
  expect(contentOf(half)).toEqual(before);
  // Events that were applied before change nothing.
  expect(project(conversation, events.slice(0, at), whole)).toBe(whole);
}

test('a journal can be projected in two parts, and a part again', () => {
  for (const events of recordedJournals().values()) expectPrefixes(events, events.length >> 1);
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) =>
      expectPrefixes(events, at % (events.length + 1)),
    ),
    { numRuns: runs(200) },
  );
});

const journal = (events: readonly JournalEvent[], first = 1): Recorded[] =>
  events.map((event, at) => ({ ...event, thread: 't', seq: first + at, ts: at, turn: 1 }));

test('no event that can be read is too odd for the projection', () => {
  fc.assert(
    fc.property(fc.array(arbitraryEvent, { maxLength: 40 }), (list) =>
      expectPrefixes(journal(list), list.length >> 1),
    ),
    { numRuns: runs(300) },
  );
});

const marks = { labels: [], taint: [], sources: [] };
const said = (text: string): JournalEvent => ({ type: 'user_message', data: { text, marks } });
const start: JournalEvent = { type: 'signal', data: { kind: 'start', by: 'ann' } };
const snapshot: JournalEvent = { type: 'snapshot', data: { reason: '' } };
const textsOf = (state: State): string[] =>
  state
    .messages()
    .flatMap(({ content }) => content.map((block) => (block.type === 'text' ? block.text : '')));

test('two states that were made from one state do not see the events of each other', () => {
  const base = project(conversation, journal([said('a')]));
  const one = project(conversation, journal([said('b'), said('c')], 2), base);
  const two = project(conversation, journal([said('d')], 2), base);
  expect([base, one, two].map(textsOf)).toEqual([['a'], ['a', 'b', 'c'], ['a', 'd']]);
});

test('a rewind takes messages away, and an attempt begins with the opening', () => {
  const back: JournalEvent = { type: 'signal', data: { kind: 'resume', by: 'ann', from: 3 } };
  const events = [said('task'), start, snapshot, said('lost'), back, said('kept')];
  const state = project(conversation, journal(events));
  expect(textsOf(state)).toEqual(['task', 'kept']);
  expect(state.forkedAt).toBe(3);
  const retry: JournalEvent = { type: 'retry', data: { attempt: 2 } };
  const again = project(conversation, journal([retry], 7), state);
  expect(textsOf(again)).toEqual(['task']);
  expect([state.attempt(), again.attempt()]).toEqual([1, 2]);
});

// The old fold of the conversation, for one commit: the projection agrees with it over all journals.
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  conversation,
  hasLastWord,
  type JournalEvent,
  type Opening,
  project,
  type Recorded,
} from '../../journal/index.ts';
import { Conversation } from '../thread/conversation.ts';
import { addToConversation, startOver } from '../thread/talk.ts';
import type { Thread } from '../thread/thread.ts';

function eventsInForce(history: readonly Recorded[]): Recorded[] {
  let kept: Recorded[] = [];
  for (const event of history) {
    const { type, data } = event;
    const from = type === 'signal' && data.kind === 'resume' ? data.from : undefined;
    if (from !== undefined) kept = kept.filter(({ seq }) => seq <= from);
    kept.push(event);
  }
  return kept;
}

function asOpening(event: JournalEvent): Opening[] {
  const { type, data } = event;
  if (type === 'user_message') return [{ type, data }];
  if (type === 'tool_result') return [{ type, data }];
  return type === 'assistant_message' && data.injected ? [{ type, data }] : [];
}

const openingOf = (history: readonly Recorded[]): Opening[] => {
  const start = history.findIndex(({ type }) => type === 'signal');
  return history.slice(0, start < 0 ? undefined : start).flatMap(asOpening);
};

function oldTalk(history: readonly Recorded[]): Thread['talk'] {
  const talk = {
    conversation: new Conversation(),
    opening: openingOf(history),
    detector: { startOver: () => undefined },
    loops: 0,
  } as unknown as Thread['talk'];
  for (const event of eventsInForce(history)) {
    addToConversation({ talk }, event);
    if (event.type === 'retry' && event.data.try === undefined) {
      startOver({ talk }, event.data.opening);
    }
  }
  return talk;
}

const SAID: ReadonlySet<string> = new Set(
  'user_message assistant_message tool_result injected_message retry'.split(' '),
);
function oldLastWord(history: readonly Recorded[]): boolean {
  const last = eventsInForce(history).findLast(({ type }) => SAID.has(type));
  return (
    last?.type === 'assistant_message' &&
    !last.data.content.some(({ type }) => type === 'tool_call')
  );
}

let count = 0;
function agree(whole: readonly Recorded[], end: number): void {
  const history = whole.slice(0, end);
  const state = project(conversation, history);
  const old = oldTalk(history);
  expect(state.events()).toEqual(eventsInForce(history));
  expect(state.messages()).toEqual(old.conversation.messages());
  expect(state.pending()).toEqual(old.conversation.pending());
  expect(state.marks()).toEqual(old.conversation.marks());
  expect(state.opening()).toEqual(old.opening);
  expect(hasLastWord(history)).toBe(oldLastWord(history));
  count += state.messages().length;
}

test('messages, opening and events in force are those of the old fold', () => {
  for (const events of recordedJournals().values()) {
    for (let end = 1; end <= events.length; end += 1 + (events.length >> 4)) agree(events, end);
  }
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) => {
      agree(events, events.length);
      agree(events, at % (events.length + 1));
    }),
    { numRuns: runs(300) },
  );
  expect(count).toBeGreaterThan(1000);
}, 240_000);

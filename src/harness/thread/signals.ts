// What people and parents say to a running thread: `message`, `interrupt`, `pause`, `terminate`,
// `kill`. Obeyed between steps; during a stream it is called off first (thread-interruption.ts). Every
// signal is an event with who sent it; the last one that was read is remembered in the journal.
import { getOwn, isObject, type Json, plainText } from '../../base/index.ts';
import { describe } from '../../flow/index.ts';
import type { Signal } from '../../store/index.ts';
import type { Ending } from '../loop.ts';
import { packMarks, unpackMarks } from './conversation.ts';
import type { JournalEvent } from './journal-event.ts';
import { skippedResult } from './prompt.ts';
import { addToConversation } from './talk.ts';
import type { Thread } from './thread.ts';

const FROM_PERSON = packMarks(describe({ taint: ['src:user'] }));

const fieldOf = (payload: Json, ...names: string[]): string =>
  isObject(payload) ? plainText(names.map((name) => payload[name]).find(Boolean) ?? '') : '';

/** The person wants something else than the calls that are still to come: they are left out. */
const leaveOut = (thread: Thread, by: string): JournalEvent[] =>
  thread.talk.conversation.pending().map((call) => ({
    type: 'tool_result',
    data: {
      call_id: call.id,
      content: skippedResult(call.name, `interrupted by ${by}`),
      is_error: true,
      marks: packMarks(thread.talk.conversation.marks()),
    },
  }));

function eventsOf(thread: Thread, { number: id, kind, payload, by }: Signal): JournalEvent[] {
  const reason = fieldOf(payload, 'reason');
  const text = fieldOf(payload, 'content', 'message');
  // Another thread's words carry what it has read; a person's are a person's.
  const given = getOwn(payload, 'marks');
  const marks = isObject(given) ? packMarks(unpackMarks(given)) : FROM_PERSON;
  const events: JournalEvent[] = [
    { type: 'signal', data: { kind, by, id, ...(reason && { reason }) } },
  ];
  if (kind === 'interrupt') events.push(...leaveOut(thread, by));
  if (text) events.push({ type: 'injected_message', data: { text, marks, by } });
  return events;
}

function endingOf({ kind, payload, by }: Signal): Ending | undefined {
  const reason = fieldOf(payload, 'reason');
  if (kind === 'pause') return { status: 'paused', reason: reason || `paused by ${by}` };
  if (kind === 'terminate') return { status: 'terminated', reason: reason || `ended by ${by}` };
  return kind === 'kill' ? { status: 'killed', reason: reason || `killed by ${by}` } : undefined;
}

/** Injected words go in; a pause, an end or a kill is the run's ending. One stretch for each signal. */
export function obeySignals(thread: Thread): Ending | undefined {
  const { journal } = thread;
  for (const signal of journal.signals()) {
    const events = eventsOf(thread, signal);
    journal.heard(signal.number);
    journal.note(events);
    for (const event of events) addToConversation(thread, event);
    const ending = endingOf(signal);
    if (ending) return ending;
  }
  return undefined;
}

/** In a replay nobody rings: what was said is found by how many events there are. */
export async function hearInReplay({ ports, journal }: Thread): Promise<void> {
  if (!ports.replay) return;
  await journal.flush();
  await journal.listen();
}

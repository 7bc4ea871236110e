// What enters the conversation. It grows from events in one way only, live and after a restart.
import { isObject, type Json } from '../../base/index.ts';
import { packCost } from '../limits/cost.ts';
import { packMarks, unpackMarks } from './conversation.ts';
import type { JournalEvent, Opening } from './journal-event.ts';
import type { Thread } from './thread.ts';

/** Puts one event of the journal into the conversation. */
export function addToConversation(
  { talk: { conversation } }: Pick<Thread, 'talk'>,
  event: JournalEvent,
): void {
  switch (event.type) {
    case 'user_message':
    case 'injected_message':
      conversation.user(event.data.text, unpackMarks(event.data.marks));
      return;
    case 'assistant_message':
      // What a script asked has a conversation of its own.
      if (event.data.injected || !event.data.apart) conversation.assistant(event.data.content);
      return;
    case 'tool_result': {
      const { call_id, content, marks, is_error } = event.data;
      conversation.result(call_id, content, unpackMarks(marks), is_error);
      return;
    }
    default:
  }
}

/** How long a step took is no news: for comparing results. */
export function withoutTime(content: Json): Json {
  if (!isObject(content)) return content;
  const { duration_ms: _, ...rest } = content;
  return rest;
}

/** A line of the harness for the model, before its next turn. */
export function tell(
  { journal, talk: { conversation } }: Thread,
  text: string,
  about?: { reminder: true },
): void {
  const marks = conversation.marks();
  const data = { text, by: 'harness', marks: packMarks(marks), ...about };
  journal.note({ type: 'injected_message', data });
  conversation.user(text, marks);
}

/** A fresh conversation with the same task; `changed`: with another version of the directive. */
export function newAttempt(
  thread: Thread,
  changed?: { version: string; opening: readonly Opening[] },
): void {
  const { budget, journal, talk, control } = thread;
  control.attempt += 1;
  budget.meter.newAttempt();
  talk.conversation.clear();
  const { attempt } = control;
  const cost = packCost(budget.meter.read());
  const data = changed ? { attempt, annealed: true as const, ...changed } : { attempt };
  journal.note({ type: 'retry', data }, { attempt, cost });
  for (const event of talk.opening) addToConversation(thread, event);
}

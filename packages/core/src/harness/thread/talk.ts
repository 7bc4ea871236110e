// Adds events to the conversation of a thread. The same events build it live and after a restart.
import { isObject, type Json, type JsonObject } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../../flow/index.ts';
import {
  addToConversation as addEvent,
  type JournalEvent,
  type Opening,
  reopenConversation,
} from '../../journal/index.ts';
import { packCost } from '../limits/cost.ts';
import { packMarks } from './conversation.ts';
import type { CallRecord, Thread } from './thread.ts';

/** Puts a new event into the conversation of a thread, in the current turn. */
export const addToConversation = (
  { talk, journal }: Pick<Thread, 'talk' | 'journal'>,
  event: JournalEvent,
): void => addEvent(talk, { turn: journal.turn, ...event });

/** Returns a result without its duration, so that results can be compared. */
export function withoutTime(content: Json): Json {
  if (!isObject(content)) return content;
  const { duration_ms: _, ...rest } = content;
  return rest;
}

/** Adds a line of the harness for the model's next turn. `from`: marks of the data that it quotes. */
export function tell(
  thread: Pick<Thread, 'talk' | 'journal'>,
  text: string,
  about?: { reminder: true },
  from: Descriptor = EMPTY,
): void {
  const marks = packMarks(mergeDescriptors(thread.talk.conversation.marks(), from));
  const event = {
    type: 'injected_message',
    data: { text, by: 'harness', marks, ...about },
  } as const;
  thread.journal.note(event);
  addToConversation(thread, event);
}

export interface NewInputs {
  readonly inputs: JsonObject;
  readonly opening: readonly Opening[];
}

/** Restarts the conversation with its opening. A new attempt can repeat earlier calls without a loop. */
export function startOver({ talk }: Pick<Thread, 'talk'>, opening?: readonly Opening[]): void {
  if (opening) talk.opening.splice(0, talk.opening.length, ...opening);
  talk.detector.startOver();
  talk.loops = 0;
  reopenConversation(talk, talk.opening);
}

/** Starts a new attempt with the same task. `changed`: another version of the directive, or other inputs. */
export function newAttempt(
  thread: CallRecord & Pick<Thread, 'budget' | 'talk'>,
  changed?: { version: string; opening: readonly Opening[] } | NewInputs,
): void {
  const { budget, journal, control, place } = thread;
  control.attempt += 1;
  budget.meter.newAttempt();
  control.failures.clear();
  const { attempt } = control;
  const cost = packCost(budget.meter.read());
  const isOther = changed && 'inputs' in changed;
  if (isOther) place.inputs = changed.inputs;
  const data =
    changed && !isOther
      ? { attempt, annealed: true as const, ...changed }
      : { attempt, ...changed };
  journal.note({ type: 'retry', data }, { attempt, cost });
  startOver(thread, isOther ? changed.opening : undefined);
}

/** Counts failures of a tool in a row. Returns the new count. */
export function countFailure(
  { control }: Pick<Thread, 'control'>,
  tool: string,
  isError: boolean,
): number {
  const count = isError ? (control.failures.get(tool) ?? 0) + 1 : 0;
  control.failures.set(tool, count);
  return count;
}

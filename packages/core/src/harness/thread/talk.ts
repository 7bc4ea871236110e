// What enters the conversation. It grows from events in one way only, live and after a restart.
import { getOwn, isObject, type Json, type JsonObject, plainText } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../../flow/index.ts';
import type { JournalEvent, Opening, ToolResult } from '../../journal/index.ts';
import { packCost } from '../limits/cost.ts';
import { packMarks, unpackGiven, unpackMarks } from './conversation.ts';
import type { KeptResult } from './references.ts';
import type { Thread } from './thread.ts';

/**
 * Puts one event of the journal into the conversation. A reply that a hook may still withhold is said
 * when its turn ends, and what was told meanwhile after it.
 */
export function addToConversation(thread: Pick<Thread, 'talk'>, event: JournalEvent): void {
  const { talk } = thread;
  const { unjudged } = talk;
  const isOpen = event.type === 'assistant_message' && !event.data.injected && event.data.open;
  if (isOpen && !event.data.apart) {
    talk.unjudged = { said: [event], later: [], isAsked: false };
  } else if (!unjudged) putInto(talk, event);
  else if (event.type === 'hook') unjudged.isAsked = true;
  else if (event.type !== 'turn_end')
    (unjudged.isAsked ? unjudged.later : unjudged.said).push(event);
  else {
    talk.unjudged = undefined;
    if (event.data.done) for (const one of unjudged.said) putInto(talk, one);
    for (const one of unjudged.later) putInto(talk, one);
  }
}

const keptIn = ({ content, marks, is_error, facts, given }: ToolResult): KeptResult => ({
  content,
  marks: unpackMarks(marks),
  isError: is_error,
  ...(facts && { facts }),
  ...(given && { given: unpackGiven(given) }),
});

function putInto({ conversation, references }: Thread['talk'], event: JournalEvent): void {
  switch (event.type) {
    case 'user_message':
      conversation.user(event.data.text, unpackMarks(event.data.marks));
      return;
    case 'injected_message': {
      const { text, marks, by } = event.data;
      conversation.user(text, unpackMarks(marks), by === 'harness');
      return;
    }
    case 'assistant_message':
      // What a script asked has a conversation of its own; what a guard refused was not said.
      if (event.data.injected || !(event.data.apart || event.data.withheld)) {
        conversation.assistant(event.data.content);
      }
      return;
    case 'tool_result': {
      const { call_id, content } = event.data;
      const whole = references?.wholes.get(plainText(getOwn(content, 'artifact') ?? ''));
      conversation.result(call_id, keptIn(event.data), whole);
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

/** A line of the harness for the model, before its next turn; `from`: of what it quotes. */
export function tell(
  thread: Thread,
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

/** The conversation begins again with its opening. A new attempt may do again what the one before did. */
export function startOver({ talk }: Pick<Thread, 'talk'>, opening?: readonly Opening[]): void {
  if (opening) talk.opening.splice(0, talk.opening.length, ...opening);
  talk.conversation.clear();
  talk.unjudged = undefined;
  talk.detector.startOver();
  talk.loops = 0;
  for (const event of talk.opening) addToConversation({ talk }, event);
}

/** A fresh conversation with the same task; `changed`: with another version of the directive, or other inputs. */
export function newAttempt(
  thread: Thread,
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

/** How often this tool has failed in a row by now. */
export function countFailure(
  { control }: Pick<Thread, 'control'>,
  tool: string,
  isError: boolean,
): number {
  const count = isError ? (control.failures.get(tool) ?? 0) + 1 : 0;
  control.failures.set(tool, count);
  return count;
}

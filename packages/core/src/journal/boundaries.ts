// Finds the boundaries of a journal: the places where a thread can be forked. At the end of a turn, the last reply
// counts and its calls have results. At a snapshot, calls can be open.
import {
  addToConversation,
  Conversation,
  eventsInForce,
  reopenConversation,
} from './conversation.ts';
import { eventFlags } from './event-facts.ts';
import type { Recorded } from './read-journal.ts';

/** Place of a fork: number of an event, `turn:N`, or `last`. */
export type ForkPoint = number | `turn:${number}` | 'last';

/** Reads the place of a fork. `undefined`: the text names none. */
export function readForkPoint(text: string): ForkPoint | undefined {
  if (text === 'last') return text;
  const [, turn, number] = /^(turn:)?(\d{1,9})$/.exec(text) ?? [];
  if (number === undefined) return undefined;
  return turn === undefined ? Number(number) : `turn:${Number(number)}`;
}

export interface Boundary {
  /** Number of the last event before the boundary. */
  readonly seq: number;
  /** Number of the turn that ended. 0: the opening. */
  readonly turn: number;
  readonly isSnapshot?: true;
}

/** True for the event with which a process starts or resumes the thread. */
const isStart = (event: Recorded, kind: 'start' | 'resume'): boolean =>
  event.type === 'signal' && event.data.kind === kind && event.data.id === undefined;

/** Returns the boundaries, oldest first. A message at the end of a turn belongs to the turn. */
export function boundariesOf(history: readonly Recorded[]): Boundary[] {
  const list: Boundary[] = [];
  let talk: Parameters<typeof addToConversation>[0] = { conversation: new Conversation() };
  let hasReply = false;
  const isOpen = (): boolean =>
    talk.unjudged !== undefined || talk.conversation.pending().length > 0;
  for (const [at, event] of history.entries()) {
    const { type, data, seq, turn } = event;
    addToConversation(talk, event);
    const isResume = isStart(event, 'resume');
    if (isResume && type === 'signal' && data.from !== undefined) {
      talk = { conversation: new Conversation() };
      for (const one of eventsInForce(history.slice(0, at))) {
        if (one.seq <= data.from) addToConversation(talk, one);
      }
    }
    if (type === 'snapshot') list.push({ seq, turn, isSnapshot: true });
    const isAnew = type === 'retry' && data.try === undefined;
    if (isAnew) reopenConversation(talk, []);
    // A resume or a request inside of an open call belongs to the turn of the call.
    const isNext = isResume || type === 'thread_end' || type === 'turn_start';
    if (isAnew || (isNext && !isOpen())) hasReply = false;
    if (type === 'assistant_message' && !data.injected && !data.apart) hasReply = true;
    const isChange = eventFlags(type).changesConversation || type === 'turn_end';
    const isPass = type === 'compaction';
    const isEnd = ((isChange || isPass) && hasReply && !isOpen()) || isStart(event, 'start');
    if (!isEnd) continue;
    const last = list.at(-1);
    // A later event of the same turn moves its end.
    if (last?.turn === turn && !last.isSnapshot) list.pop();
    list.push({ seq, turn });
  }
  return list;
}

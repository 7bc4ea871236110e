// What came from outside while a thread ran, read from its journal: replies of the model, results of
// tools, words of people. A replay is given these again, in the places where they were.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { makeValue, markFailure, type Value } from '../../flow/index.ts';
import type { ModelReply } from '../../llm/index.ts';
import type { Signal, StoredEvent } from '../../store/index.ts';
import { unpackMarks } from './conversation.ts';

export interface ReplayRecord {
  readonly events: readonly StoredEvent[];
  /** The answer to the request that was begun last when the journal had `seq` events; once. */
  replyAt(seq: number): Outcome<ModelReply>;
  /** What this call came to that was begun when the journal had at most `seq` events. */
  resultOf(call: string, seq: number): Outcome<Value>;
  /** What was said to the thread when its journal had `seq` events. */
  signalsAt(thread: string, seq: number): Signal[];
}

/** A process took the thread up here; what is said to a running thread has a number. */
export const isResume = ({ type, data }: StoredEvent): boolean =>
  type === 'signal' && data.kind === 'resume' && data.id === undefined;

const notRecorded = (what: string): Outcome<never> =>
  fail('not_recorded', `${what} is not in the journal`, { sent: false });

/** What it cost is not in the journal; a request that nobody answered is charged its worst case. */
const CALLED_OFF: Failure = fail('cancelled', 'the reply was called off');

function faultOf(data: Json | undefined): Failure {
  const detail = getOwn(data, 'detail');
  const fields = isObject(detail) ? detail : {};
  return fail(plainText(getOwn(data, 'code')), plainText(fields.message), fields);
}

/** Calls whose arguments could not be read were answered at once, without being made. */
function unreadCalls(events: readonly StoredEvent[], at: number): Map<string, StoredEvent> {
  const unread = new Map<string, StoredEvent>();
  for (const event of events.slice(at + 1)) {
    if (event.type !== 'tool_result') break;
    unread.set(plainText(event.data.call_id), event);
  }
  return unread;
}

/** The reply that was recorded at this place of a journal. */
export function replyAt(events: readonly StoredEvent[], at: number): ModelReply {
  const { data } = events[at] as StoredEvent;
  const unread = unreadCalls(events, at);
  const after = events[at + 1 + unread.size];
  const content = data.content as unknown as ModelReply['content'];
  const isUnread = (block: ModelReply['content'][number]): boolean =>
    block.type === 'tool_call' && unread.has(block.id);
  const bad = content.flatMap((block) => {
    if (block.type !== 'tool_call' || !unread.has(block.id)) return [];
    const detail = getOwn(getOwn(unread.get(block.id)?.data.content, 'error'), 'detail');
    const text = plainText(getOwn(detail, 'received'));
    const told = plainText(getOwn(detail, 'message'));
    // Around the problem stands what the model is told about it (badArgumentsResult).
    const message = /cannot be read: (.*); nothing was run/s.exec(told)?.[1] ?? told;
    return [{ id: block.id, name: block.name, text, message }];
  });
  const isBroken = after?.type === 'stream_error' && after.data.code === undefined;
  return {
    content: content.filter((block) => !isUnread(block)),
    stop: plainText(data.stop) as ModelReply['stop'],
    usage: data.usage as unknown as ModelReply['usage'],
    model: plainText(data.model),
    ...(bad.length > 0 ? { bad_arguments: bad } : {}),
    ...(isBroken ? { broken: after.data as unknown as NonNullable<ModelReply['broken']> } : {}),
  };
}

/** What the request came to that was begun at this place. */
function answerAfter(events: readonly StoredEvent[], asked: number): Outcome<ModelReply> {
  for (let at = asked + 1; at < events.length; at++) {
    const { type, data } = events[at] as StoredEvent;
    if (type === 'assistant_message') return ok(replyAt(events, at));
    if (type === 'error' || type === 'stream_error') return faultOf(data);
    if (type === 'turn_end' || type === 'turn_start') break;
  }
  return CALLED_OFF;
}

/** A result as it stands in a journal, as it was handed back. */
export const resultIn = ({ content = null, is_error, marks }: JsonObject): Outcome<Value> => {
  const error = is_error === true ? getOwn(content, 'error') : undefined;
  return error
    ? markFailure(faultOf(error), unpackMarks(marks))
    : ok(makeValue(content, { descriptor: unpackMarks(marks) }));
};

/** The result of the call that was begun at this place; none when its process was lost. */
function resultAfter(events: readonly StoredEvent[], begun: number): StoredEvent | undefined {
  const id = events[begun]?.data.call_id;
  const after = events.slice(begun + 1);
  const lost = after.findIndex(isResume);
  return after
    .slice(0, lost < 0 ? undefined : lost)
    .find(({ type, data }) => type === 'tool_result' && data.call_id === id);
}

/** A signal with what it carried: its words are the next event. */
function signalOf(thread: string, event: StoredEvent, next: StoredEvent | undefined): Signal {
  const { kind, by, id, reason } = event.data;
  const payload: JsonObject = {
    ...(reason === undefined ? {} : { reason }),
    ...(next?.type === 'injected_message' ? { content: next.data.text ?? '' } : {}),
  };
  const who = plainText(by);
  return { id: Number(id), thread, kind: plainText(kind), payload, key: '', by: who, ts: event.ts };
}

export function createReplayRecord(events: readonly StoredEvent[]): ReplayRecord {
  const answered = new Set<number>();
  const lastBefore = (seq: number, is: (event: StoredEvent) => boolean): number =>
    events.findLastIndex((event, at) => at < seq && is(event));
  return {
    events,
    replyAt(seq) {
      const asked = lastBefore(seq, ({ type }) => type === 'turn_start');
      if (asked < 0 || answered.has(asked)) return notRecorded('another reply of the model');
      answered.add(asked);
      return answerAfter(events, asked);
    },
    resultOf(call, seq) {
      const begun = lastBefore(
        seq,
        ({ type, data }) => type === 'tool_call' && data.call_id === call,
      );
      const result = begun < 0 ? undefined : resultAfter(events, begun);
      return result ? resultIn(result.data) : notRecorded('what this call came to');
    },
    signalsAt(thread, seq) {
      const found: Signal[] = [];
      for (let at = seq; at < events.length; at++) {
        const event = events[at] as StoredEvent;
        const isPart = ['injected_message', 'tool_result', 'turn_end'].includes(event.type);
        if (event.type === 'signal' && event.data.id !== undefined) {
          found.push(signalOf(thread, event, events[at + 1]));
        } else if (event.type === 'turn_end' ? at > seq : !isPart || found.length === 0) break;
      }
      return found;
    },
  };
}

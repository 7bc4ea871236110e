// What came from outside while a thread ran, read from its journal: replies of the model, results of
// tools, words of people. A replay is given these again, in the places where they were.
import {
  canonicalJson,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import { makeValue, markFailure, type Value } from '../flow/index.ts';
import type { ModelReply } from '../llm/index.ts';
import type { Signal, StoredEvent } from '../store/index.ts';
import { unpackMarks } from './conversation.ts';

export interface ReplayRecord {
  /** The answer to the next request of the model. */
  nextReply(): Outcome<ModelReply>;
  /** What this request came to; the next time when it was made again. */
  resultOf(request: JsonObject): Outcome<Value>;
  /** What was said to the thread when its journal had `seq` events. */
  signalsAt(thread: string, seq: number): Signal[];
}

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

/** Each request that was begun, with what it came to. */
function repliesOf(events: readonly StoredEvent[]): Outcome<ModelReply>[] {
  const replies: Outcome<ModelReply>[] = [];
  let isAsked = false;
  for (const [at, { type, data }] of events.entries()) {
    if (type === 'turn_start') isAsked = true;
    if (!isAsked) continue;
    if (type === 'assistant_message') replies.push(ok(replyAt(events, at)));
    else if (type === 'error' || type === 'stream_error') replies.push(faultOf(data));
    else if (type === 'turn_end') replies.push(CALLED_OFF);
    else continue;
    isAsked = false;
  }
  return replies;
}

const resultIn = ({ content = null, is_error, marks }: JsonObject): Outcome<Value> => {
  const error = is_error === true ? getOwn(content, 'error') : undefined;
  return error
    ? markFailure(faultOf(error), unpackMarks(marks))
    : ok(makeValue(content, { descriptor: unpackMarks(marks) }));
};

/** What each request came to, in order. Calls may overlap, so a request is known by what it says. */
function resultsOf(events: readonly StoredEvent[]): Map<string, Outcome<Value>[]> {
  const requests = new Map<string, string>();
  const results = new Map<string, Outcome<Value>[]>();
  for (const { type, data } of events) {
    const call = plainText(data.call_id);
    if (type === 'tool_call') requests.set(call, canonicalJson(data.arguments ?? null));
    const request = type === 'tool_result' ? requests.get(call) : undefined;
    if (request === undefined) continue;
    results.set(request, [...(results.get(request) ?? []), resultIn(data)]);
  }
  return results;
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
  const replies = repliesOf(events);
  const results = resultsOf(events);
  return {
    nextReply: () => replies.shift() ?? notRecorded('another reply of the model'),
    resultOf(request) {
      const list = results.get(canonicalJson(request)) ?? [];
      // The last one stands for all that come after it.
      const next = list.length > 1 ? list.shift() : list[0];
      return next ?? notRecorded('what this call came to');
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

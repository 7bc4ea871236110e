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
import { markFailure, restoreFields, type Value } from '../../flow/index.ts';
import {
  type JournalEvent,
  PASSED_HOOK,
  type Recorded,
  type RecordedOf,
  type ToolResult,
} from '../../journal/index.ts';
import type { BadArguments, ModelReply } from '../../llm/index.ts';
import type { Signal } from '../../store/index.ts';
import { asLimitFault, limitFault } from '../limits/limit.ts';
import { unpackMarks } from './conversation.ts';
import type { LostCommits } from './ports.ts';
import { BAD_ARGUMENTS } from './prompt.ts';

/** A process took the thread up here; what is said to a running thread has a number. */
export const isResume = ({ type, data }: JournalEvent): boolean =>
  type === 'signal' && data.kind === 'resume' && data.id === undefined;

const notRecorded = (what: string): Outcome<never> =>
  fail('not_recorded', `${what} is not in the journal`, { sent: false });

/** What it cost is not in the journal; a request that nobody answered is charged its worst case. */
const CALLED_OFF: Failure = fail('cancelled', 'the reply was called off');
/** It was called off before it was sent, and cost nothing. */
const NEVER_SENT: Failure = fail('cancelled', 'the request was called off', { sent: false });

/** The fault in a result that tells about one. */
function faultIn(content: Json): Failure | undefined {
  const error = getOwn(content, 'error');
  if (!isObject(error)) return undefined;
  const detail = isObject(error.detail) ? error.detail : {};
  return fail(plainText(error.code), plainText(detail.message), detail);
}

/** As `badArgumentsResult` makes it. A tool cannot say this: the result of a call comes after its intent. */
const isUnread = ({ content, is_error }: ToolResult): boolean =>
  is_error && getOwn(getOwn(getOwn(content, 'error'), 'detail'), 'reason') === BAD_ARGUMENTS;

/** Calls whose arguments could not be read were answered at once, without being made. */
function unreadCalls(events: readonly Recorded[], at: number): Map<string, ToolResult> {
  const unread = new Map<string, ToolResult>();
  for (const { type, data } of events.slice(at + 1)) {
    // One that was refused without being begun, such as that of an unknown tool, is no such answer.
    if (type !== 'tool_result' || !isUnread(data)) break;
    unread.set(data.call_id, data);
  }
  return unread;
}

/** The reply that was recorded at this place of a journal; undefined when there is none. */
export function replyAt(events: readonly Recorded[], at: number): ModelReply | undefined {
  const event = events[at];
  if (event?.type !== 'assistant_message' || event.data.injected) return undefined;
  const { stop, usage, model } = event.data;
  const unread = unreadCalls(events, at);
  const after = events[at + 1 + unread.size];
  const content: ModelReply['content'][number][] = [];
  const bad: BadArguments[] = [];
  for (const block of event.data.content) {
    // A model says no results.
    if (block.type === 'tool_result') continue;
    const answer = block.type === 'tool_call' ? unread.get(block.id) : undefined;
    if (block.type !== 'tool_call' || !answer) {
      content.push(block);
      continue;
    }
    const detail = getOwn(getOwn(answer.content, 'error'), 'detail');
    const text = plainText(getOwn(detail, 'received'));
    const message = plainText(getOwn(detail, 'problem'));
    bad.push({ id: block.id, name: block.name, text, message });
  }
  const broken =
    after?.type === 'stream_error' && after.data.code === undefined ? after.data : undefined;
  return {
    content,
    stop,
    usage,
    model,
    ...(bad.length > 0 && { bad_arguments: bad }),
    ...(broken && { broken }),
  };
}

/** What the request came to that was begun at this place. */
function answerAfter(events: readonly Recorded[], asked: number): Outcome<ModelReply> {
  for (const [index, event] of events.slice(asked + 1).entries()) {
    if (event.type === 'turn_end' && 'usage' in event.data && event.data.usage) {
      return fail('cancelled', 'the reply was called off', {
        usage: { ...event.data.usage },
        reported: true,
      });
    }
    if (event.type === 'turn_end' && 'called_off' in event.data && !event.data.charged) {
      return NEVER_SENT;
    }
    if (event.type === 'turn_end' || event.type === 'turn_start') break;
    if (event.type === 'assistant_message') {
      const reply = replyAt(events, asked + 1 + index);
      return reply ? ok(reply) : CALLED_OFF;
    }
    if (event.type === 'error' || event.type === 'stream_error') {
      const { data } = event;
      return data.code === undefined
        ? CALLED_OFF
        : fail(data.code, data.detail.message, data.detail);
    }
  }
  return CALLED_OFF;
}

/** A result as it stands in a journal, as it was handed back. */
export function resultIn({ content, is_error, marks, facts }: ToolResult): Outcome<Value> {
  const failure = is_error ? faultIn(content) : undefined;
  return failure
    ? markFailure(failure, unpackMarks(marks))
    : ok(restoreFields(content, unpackMarks(marks), facts));
}

/** A person was asked about this call, which is made again after the answer. */
const isQuestionAbout = (data: RecordedOf<'approval'>['data'], id: string): boolean =>
  data.kind === 'call' && data.action === 'ask' && data.call_id === id;

/**
 * The result of the call that was begun at this place, also as it was held while a hook was asked about it;
 * none when its process was lost, unless `isLate`. It is a limit where an event in between says so. A thread that
 * is stopped while calls are made at once records the results of the first ones alone: a refusal or a limit is
 * known from its own event then.
 */
function resultAfter(
  events: readonly Recorded[],
  begun: number,
  id: string,
  isLate: boolean,
): Outcome<Value> | undefined {
  const after = events.slice(begun + 1);
  const lost = isLate ? -1 : after.findIndex(isResume);
  const limits = new Set<string>();
  let failed: Failure | undefined;
  const resultOf = (result: ToolResult): Outcome<Value> => {
    const outcome = resultIn(result);
    return outcome.ok || !limits.has(outcome.error.code) ? outcome : asLimitFault(outcome);
  };
  for (const { type, data } of after.slice(0, lost < 0 ? undefined : lost)) {
    if (type === 'limit') {
      limits.add(data.code);
      failed ??= limitFault(data, 0n);
    }
    if (type === 'permission_denied' && data.call_id === id) {
      failed ??= fail(data.code, data.detail.message, data.detail);
    }
    if (type === 'tool_result' && data.call_id === id) return resultOf(data);
    if (type === 'approval' && data.state === 'pending' && isQuestionAbout(data, id))
      return undefined;
    if ((type === 'hook_start' || type === 'hook') && data.call_id === id && data.held) {
      return resultOf({ ...data.held, call_id: id });
    }
  }
  return failed;
}

/** The first of these after a request says what became of it. */
const ENDS_REQUEST: ReadonlySet<Recorded['type']> = new Set([
  'assistant_message',
  'error',
  'turn_end',
  'turn_start',
  'tool_call',
]);

/** A signal with what it carried: its words come next, behind the results of calls that it left out. */
function signalOf(event: RecordedOf<'signal'>, number: number, after: readonly Recorded[]): Signal {
  const { kind, by, reason } = event.data;
  const next = after.find(({ type }) => type !== 'tool_result');
  const payload: JsonObject = {
    ...(reason === undefined ? {} : { reason }),
    ...(next?.type === 'injected_message' ? { content: next.data.text } : {}),
  };
  return { number, thread: event.thread, kind, payload, key: '', by, ts: event.ts };
}

export type RecordedAnswers = ReturnType<typeof createReplayRecord>;

export function createReplayRecord(events: readonly Recorded[]) {
  const answered = new Set<number>();
  const lastBefore = (seq: number, is: (event: Recorded) => boolean): number =>
    events.findLastIndex((event, at) => at < seq && is(event));
  return {
    events,
    /** The answer to the request that was begun last when the journal had `seq` events; once. */
    replyAt(seq: number): Outcome<ModelReply> {
      const asked = lastBefore(seq, ({ type }) => type === 'turn_start');
      if (asked < 0 || answered.has(asked)) return notRecorded('another reply of the model');
      answered.add(asked);
      return answerAfter(events, asked);
    },
    /** What this call came to that was begun when the journal had at most `seq` events. */
    resultOf(call: string, seq: number, isLate = false): Outcome<Value> {
      const begun = lastBefore(
        seq,
        ({ type, data }) => type === 'tool_call' && data.call_id === call,
      );
      const result = begun < 0 ? undefined : resultAfter(events, begun, call, isLate);
      return result ?? notRecorded('what this call came to');
    },
    /** Was a person asked about this call when it was last begun before `seq`, and had not answered? */
    isAsked(call: string, seq: number): boolean {
      const last = events
        .slice(0, seq)
        .findLast(
          ({ type, data }) =>
            (type === 'tool_call' && data.call_id === call) ||
            (type === 'approval' && isQuestionAbout(data, call)),
        );
      return last?.type === 'approval' && last.data.state === 'pending';
    },
    /** Was the process closed while the request was under way that was begun before `seq`? */
    isClosedAt(seq: number): boolean {
      const at = events.findIndex(({ type }, index) => index >= seq && ENDS_REQUEST.has(type));
      const [failed, next] = events.slice(at, at + 2);
      return (
        at >= 0 &&
        failed?.type === 'error' &&
        failed.data.code === 'cancelled' &&
        next !== undefined &&
        isResume(next)
      );
    },
    /** The result of this call that is recorded next after `seq` events. */
    toldOf(call: string, seq: number): Outcome<Value> | undefined {
      const told = events.find(
        ({ type, data }, at) => at >= seq && type === 'tool_result' && data.call_id === call,
      );
      return told?.type === 'tool_result' ? resultIn(told.data) : undefined;
    },
    /** Was the answer of this hook heard after `seq` events, before the process ended? */
    isAnswered(hook: string, seq: number): boolean {
      const rest = events.slice(seq);
      const lost = rest.findIndex(isResume);
      return rest
        .slice(0, lost < 0 ? undefined : lost)
        .some(
          ({ type, data }) =>
            (type === 'hook' && data.thread_id === hook) ||
            (type === 'error' && data.detail.thread === hook && PASSED_HOOK.has(data.code)),
        );
    },
    /** What the registry had lost when somebody went on with the thread next. */
    lostAt(seq: number): LostCommits {
      const resumed = events.findIndex((event, at) => at >= seq && isResume(event));
      const rest = resumed < 0 ? [] : events.slice(resumed + 1);
      const over = rest.findIndex(({ type }) => type === 'turn_start' || type === 'tool_call');
      const lost = rest.slice(0, over < 0 ? undefined : over);
      return lost.find((event) => event.type === 'commits_lost')?.data ?? { events: 0, calls: [] };
    },
    /** What was said to the thread when its journal had `seq` events. */
    signalsAt(thread: string, seq: number): Signal[] {
      const found: Signal[] = [];
      for (let at = seq, event = events[at]; event; at++, event = events[at]) {
        const isPart = ['injected_message', 'tool_result', 'turn_end'].includes(event.type);
        if (event.type === 'signal' && event.data.id !== undefined) {
          found.push({ ...signalOf(event, event.data.id, events.slice(at + 1, at + 100)), thread });
        } else if (event.type === 'turn_end' ? at > seq : !isPart || found.length === 0) break;
      }
      return found;
    },
  };
}

// Reads from a journal the data that came from outside while the thread ran: replies of the model, results of
// tools, signals of people. A replay gets the same data at the same positions.
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
import { withFiles } from './file-values.ts';
import type { LostCommits } from './ports.ts';
import { BAD_ARGUMENTS } from './prompt.ts';

/** True if a process resumed the thread here. A signal to a running thread has an id, a resume has none. */
export const isResume = ({ type, data }: JournalEvent): boolean =>
  type === 'signal' && data.kind === 'resume' && data.id === undefined;

const notRecorded = (what: string): Outcome<never> =>
  fail('not_recorded', `${what} is not in the journal`, { sent: false });

/** A cancelled reply. The journal does not have its cost, so the request is charged its worst case. */
const CALLED_OFF: Failure = fail('cancelled', 'the reply was cancelled');
/** A request that was cancelled before it was sent, and cost nothing. */
const NEVER_SENT: Failure = fail('cancelled', 'the request was cancelled', { sent: false });

/** Returns the fault in a result, or `undefined` if it contains none. */
function faultIn(content: Json): Failure | undefined {
  const error = getOwn(content, 'error');
  if (!isObject(error)) return undefined;
  const detail = isObject(error.detail) ? error.detail : {};
  return fail(plainText(error.code), plainText(detail.message), detail);
}

/** True for a result of `badArgumentsResult`. A tool cannot imitate it: its results come after an intent. */
const isUnread = ({ content, is_error }: ToolResult): boolean =>
  is_error && getOwn(getOwn(getOwn(content, 'error'), 'detail'), 'reason') === BAD_ARGUMENTS;

/** Returns the results of calls that were not made because their arguments could not be read, by call id. */
function unreadCalls(events: readonly Recorded[], at: number): Map<string, ToolResult> {
  const unread = new Map<string, ToolResult>();
  for (const { type, data } of events.slice(at + 1)) {
    // A call that was refused for another reason before its intent, such as a missing tool, ends the list.
    if (type !== 'tool_result' || !isUnread(data)) break;
    unread.set(data.call_id, data);
  }
  return unread;
}

/** Returns the reply at this position of a journal, or `undefined` if there is none. */
export function replyAt(events: readonly Recorded[], at: number): ModelReply | undefined {
  const event = events[at];
  if (event?.type !== 'assistant_message' || event.data.injected) return undefined;
  const { stop, usage, model } = event.data;
  const unread = unreadCalls(events, at);
  const after = events[at + 1 + unread.size];
  const content: ModelReply['content'][number][] = [];
  const bad: BadArguments[] = [];
  for (const block of event.data.content) {
    // A reply of a model contains neither results nor files.
    if (block.type === 'tool_result' || block.type === 'file') continue;
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

/** Returns the outcome of the request that began at this position. */
function answerAfter(events: readonly Recorded[], start: number): Outcome<ModelReply> {
  for (const [index, event] of events.slice(start + 1).entries()) {
    if (event.type === 'turn_end' && 'usage' in event.data && event.data.usage) {
      return fail('cancelled', 'the reply was cancelled', {
        usage: { ...event.data.usage },
        reported: true,
      });
    }
    if (event.type === 'turn_end' && 'called_off' in event.data && !event.data.charged) {
      return NEVER_SENT;
    }
    if (event.type === 'turn_end' || event.type === 'turn_start') break;
    if (event.type === 'assistant_message') {
      const reply = replyAt(events, start + 1 + index);
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

/** Returns a recorded result in the form in which the caller got it. */
export function resultIn({ content, is_error, marks, facts, files }: ToolResult): Outcome<Value> {
  const failure = is_error ? faultIn(content) : undefined;
  return failure
    ? markFailure(failure, unpackMarks(marks))
    : ok(withFiles(restoreFields(content, unpackMarks(marks), facts), files));
}

/** True if the event is an approval request about this call, which is made again after the answer. */
const isQuestionAbout = (data: RecordedOf<'approval'>['data'], id: string): boolean =>
  data.kind === 'call' && data.action === 'ask' && data.call_id === id;

/**
 * Returns the result of the call that began at this position, even if it was withheld while a hook was asked.
 * `undefined` if its process was lost, unless `isLate`. The result is a limit if an event before it is that limit.
 * A thread that is stopped during parallel calls records only the results of the first ones. A refusal or a limit
 * is then read from its own event.
 */
function resultAfter(
  events: readonly Recorded[],
  start: number,
  id: string,
  isLate: boolean,
): Outcome<Value> | undefined {
  const after = events.slice(start + 1);
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

/** Types of events that end a request. The first one after the request has its outcome. */
const ENDS_REQUEST: ReadonlySet<Recorded['type']> = new Set([
  'assistant_message',
  'error',
  'turn_end',
  'turn_start',
  'tool_call',
]);

/** Returns a signal with its payload. Its message comes next, after the results of calls that it skipped. */
function signalOf(event: RecordedOf<'signal'>, number: number, after: readonly Recorded[]): Signal {
  const { kind, by, reason, focus, own } = event.data;
  const next = after.find(({ type }) => type !== 'tool_result');
  const payload: JsonObject = {
    ...(reason === undefined ? {} : { reason }),
    ...(focus && { focus: focus.text, marks: { ...focus.marks } }),
    ...(own && { own }),
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
    /** Returns the answer to the last request that began before event `seq`. Each answer is returned once. */
    replyAt(seq: number): Outcome<ModelReply> {
      const start = lastBefore(seq, ({ type }) => type === 'turn_start');
      if (start < 0 || answered.has(start)) return notRecorded('another reply of the model');
      answered.add(start);
      return answerAfter(events, start);
    },
    /** Returns the result of this call, which began last before event `seq`. */
    resultOf(call: string, seq: number, isLate = false): Outcome<Value> {
      const start = lastBefore(
        seq,
        ({ type, data }) => type === 'tool_call' && data.call_id === call,
      );
      const result = start < 0 ? undefined : resultAfter(events, start, call, isLate);
      return result ?? notRecorded('the result of this call');
    },
    /** True if a person was asked about this call before event `seq` and the request was still pending. */
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
    /** True if the process was closed during the request that began before event `seq`. */
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
    /** Returns the next recorded result of this call after `seq` events, or `undefined` if there is none. */
    toldOf(call: string, seq: number): Outcome<Value> | undefined {
      const result = events.find(
        ({ type, data }, at) => at >= seq && type === 'tool_result' && data.call_id === call,
      );
      return result?.type === 'tool_result' ? resultIn(result.data) : undefined;
    },
    /** True if the answer of this hook arrived after `seq` events and before the process ended. */
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
    /** Returns the events that the store had lost when the thread was resumed next. */
    lostAt(seq: number): LostCommits {
      const resumed = events.findIndex((event, at) => at >= seq && isResume(event));
      const rest = resumed < 0 ? [] : events.slice(resumed + 1);
      const over = rest.findIndex(({ type }) => type === 'turn_start' || type === 'tool_call');
      const lost = rest.slice(0, over < 0 ? undefined : over);
      return lost.find((event) => event.type === 'commits_lost')?.data ?? { events: 0, calls: [] };
    },
    /** Returns the signals that the thread got when its journal had `seq` events. */
    signalsAt(thread: string, seq: number): Signal[] {
      const list: Signal[] = [];
      for (let at = seq, event = events[at]; event; at++, event = events[at]) {
        const isPart = ['injected_message', 'tool_result', 'turn_end'].includes(event.type);
        if (event.type === 'signal' && event.data.id !== undefined) {
          list.push({ ...signalOf(event, event.data.id, events.slice(at + 1, at + 100)), thread });
        } else if (event.type === 'turn_end' ? at > seq : !isPart || list.length === 0) break;
      }
      return list;
    },
  };
}

// The event table: one entry per type of event. An entry has the shape of the data, the text for people, the
// fields for lists and the content for a detail view. All readers and writers of journals use this table, so
// a new type of event is one new entry. A journal of version 1 has the same types: a later field is optional.
import { durationText, getOwn } from '../base/index.ts';
import { STATUS_CAUSES } from '../store/index.ts';
import { data, fields, flag, list, number, type Proven, text, word, yes } from './check.ts';
import { entry } from './event-entry.ts';
import {
  approvalLine,
  argumentsText,
  END_TONES,
  hasOwnLine,
  hookDecision,
  line,
  replyText,
  resultLine,
} from './event-text.ts';
import {
  about,
  approval,
  call,
  costUpdate,
  detail,
  exceeded,
  failed,
  fault,
  hook,
  hookStart,
  limit,
  marks,
  message,
  ran,
  result,
  retry,
  rules,
  said,
  status,
  streamError,
  turnEnd,
  warning,
} from './shapes.ts';
import {
  amountIn,
  bytesIn,
  faultParts,
  jsonParts,
  labelsIn,
  limitParts,
  MAX_TEXT,
  messageParts,
  nameInJson,
  optionalName,
  preview,
  raisedIn,
  type SlimParts,
  shortName,
  textParts,
} from './slim-fields.ts';

const nothing = (): undefined => undefined;
const noFields = (): SlimParts => ({});
const messageOf = (one: { readonly detail: { readonly message: string } }): string =>
  one.detail.message;

const TURN_ENDS = ['done', 'called_off', 'withheld', 'failed', 'unsent'];

/** Costs and limits are written by `packCost` and `packLimits`. */
export const EVENTS = {
  thread_start: entry(
    fields(
      { directive: text, version: text, inputs: data, model: text, message: text, limits: data },
      {
        stream: yes,
        rules,
        ran,
        /** `run`: the model writes a plan before it reads anything. `check`: the plan is not executed. */
        plan: word('run', 'check'),
        /** The model gets untrusted values by reference. */
        untrusted: word('reference'),
        /** The title is for people. It is masked. */
        title: text,
      },
    ),
    {
      text: ({ directive, version, model }) =>
        line('●', 'plain', `${directive} ${version} with ${model}`),
      slim: (start) => ({
        directive: shortName(start.directive),
        model: shortName(start.model),
        by: optionalName(start.ran?.by.who),
        ...textParts(start.message),
      }),
      content: (start) => start.message,
      volatile: ['ran', 'title'],
      isFrame: true,
    },
  ),
  status: entry(
    /**
     * `cause` is for programs, `reason` is for people. `owner` is the process that had the lease which was
     * lost.
     */
    fields({ status }, { by: text, reason: text, owner: text, cause: word(...STATUS_CAUSES) }),
    {
      // Other events tell the new status. Only the reason is new.
      text: ({ reason }) => (reason === undefined ? undefined : line('!', 'idle', reason)),
      slim: ({ status, by, reason }) => ({
        status,
        by: optionalName(by),
        reason: reason && preview(reason),
      }),
      content: ({ reason }) => reason,
      origin: 'bookkeeping',
      acknowledges: true,
    },
  ),
  user_message: entry(said, {
    text: ({ text }) => line('›', 'dim', text),
    slim: ({ text, marks }) => ({ by: 'user', ...textParts(text), labels: labelsIn(marks) }),
    content: ({ text }) => text,
    isFrame: true,
    acknowledges: true,
  }),
  assistant_message: entry(message, {
    text(reply) {
      // A plan has an event of its own, or an event says why there is none.
      const isShown = !reply.injected && reply.plan === undefined;
      const text = isShown ? replyText(reply.content) : '';
      return text === '' ? undefined : line('‹', 'plain', text);
    },
    slim: messageParts,
    content: ({ content }) =>
      content
        .map((block) => (block.type === 'text' || block.type === 'thinking' ? block.text : ''))
        .filter((text) => text !== '')
        .join('\n\n'),
    isProgress: true,
    turn: 'replies',
  }),
  tool_call: entry(call, {
    text: ({ tool, arguments: given }) =>
      line('→', 'run', `${tool} ${argumentsText(given)}`.trim()),
    slim: ({ call_id, tool, verb, effect, target, arguments: given, child }) => ({
      call_id: shortName(call_id),
      tool: shortName(tool),
      verb: shortName(verb),
      effect,
      target: target && preview(target),
      ...jsonParts(given),
      preview: preview(argumentsText(given, MAX_TEXT)),
      thread: optionalName(child),
    }),
    content: (intent) => intent.arguments,
    volatile: ['target', 'about', 'use', 'group'],
    turn: 'calls',
  }),
  tool_result: entry(result, {
    text: resultLine,
    slim: ({ call_id, tool, content, is_error, marks }) => ({
      call_id: shortName(call_id),
      tool: optionalName(tool),
      is_error,
      code: is_error ? nameInJson(getOwn(getOwn(content, 'error'), 'code')) : undefined,
      ...jsonParts(content),
      wrote: is_error ? undefined : bytesIn(content),
      labels: labelsIn(marks),
    }),
    content: ({ content }) => content,
    volatile: ['about', 'unused'],
    isProgress: true,
    turn: 'calls',
  }),
  turn_start: entry(
    fields(
      { max_tokens: number, model: text, provider: text, key: text },
      {
        n: number,
        /** The answer was cut to the amount that the ancestors had left. */
        fitted: yes,
      },
    ),
    {
      text: nothing,
      slim: ({ model }) => ({ model: shortName(model) }),
      turn: 'begins',
      isDetail: true,
      acknowledges: true,
    },
  ),
  turn_end: entry(turnEnd, {
    text: nothing,
    slim: (end) => ({ state: TURN_ENDS.find((state) => Object.hasOwn(end, state)) }),
    origin: (end) =>
      end.failed === true || (end.done === true && !end.judged) ? 'bookkeeping' : 'harness',
    turn: 'ends',
    isDetail: true,
  }),
  cost_update: entry(costUpdate, {
    text: nothing,
    slim: noFields,
    origin: (update) => (update['cost'] === undefined ? 'harness' : 'bookkeeping'),
    isDetail: true,
  }),
  hook_start: entry(hookStart, {
    text: nothing,
    slim: ({ thread_id, directive, event, call_id }) => ({
      thread: shortName(thread_id),
      directive: shortName(directive),
      event: shortName(event),
      call_id: optionalName(call_id),
    }),
    origin: (start) => (start.step === undefined ? 'bookkeeping' : 'harness'),
  }),
  hook: entry(hook, {
    text: (answer) => line('◆', 'idle', `hook ${answer.directive} ${hookDecision(answer)}`),
    slim: ({ directive, event, deed, duration_ms, thread_id, limits, model }) => ({
      directive: shortName(directive),
      event,
      deed: shortName(deed),
      decision: preview(hookDecision({ event, deed })),
      took_ms: duration_ms,
      thread: optionalName(thread_id),
      raised: raisedIn(limits),
      model: optionalName(model),
    }),
    content: ({ notes }) => notes,
    volatile: ['call_id', 'held'],
    survivesRewind: true,
    isProgress: true,
  }),
  hook_state: entry(fields({ fired: list(number) }), {
    text: nothing,
    slim: noFields,
    survivesRewind: true,
    isDetail: true,
  }),
  permission_denied: entry(
    fields(
      { code: text, detail },
      {
        call_id: text,
        /** The part of the runtime that refused the call. */
        stage: word('capability', 'limits', 'policy', 'guard', 'primitive'),
        about,
      },
    ),
    {
      text: (denial) => line('✗', 'bad', `denied: ${denial.detail.message}`),
      slim: (denial) => ({
        ...faultParts(denial),
        call_id: optionalName(denial.call_id),
        stage: denial.stage,
      }),
      content: messageOf,
      volatile: ['stage', 'about'],
    },
  ),
  limit: entry(
    fields(
      { name: word('limit'), code: exceeded, limit, current: number, max: number },
      {
        reserved: number,
        needed: number,
        /** The ancestor that has the limit. */
        thread: text,
      },
    ),
    {
      text({ limit, current, max, reserved, needed }) {
        const held = reserved === undefined ? '' : `, ${reserved} reserved for others`;
        const next = needed === undefined ? '' : `, ${needed} needed`;
        return line('■', 'limit', `limit ${limit} reached: ${current} of ${max}${held}${next}`);
      },
      slim: (reached) => ({ ...limitParts(reached), thread: optionalName(reached.thread) }),
      hasRow: true,
    },
  ),
  warning: entry(warning, {
    text: ({ percent, limit, current, max }) =>
      line('!', 'limit', `${percent} % of ${limit} used: ${current} of ${max}`),
    slim: limitParts,
    survivesRewind: true,
    hasRow: true,
  }),
  loop_detected: entry(fault, {
    text: (loop) => line('!', 'idle', loop.detail.message),
    slim: faultParts,
    content: messageOf,
    hasRow: true,
  }),
  retry: entry(retry, {
    text(again) {
      if (again.try === undefined) return line('↻', 'idle', `attempt ${again.attempt}`);
      const wait = again.wait_ms > 0 ? ` in ${durationText(again.wait_ms / 1000)}` : '';
      return line('↻', 'idle', `try ${again.try} of this turn${wait} (${again.because})`);
    },
    slim: (again) =>
      again.try === undefined
        ? { current: again.attempt, state: 'attempt' }
        : {
            current: again.try,
            state: 'try',
            reason: preview(again.because),
            model: optionalName(again.model),
          },
    isProgress: true,
    turn: 'ends',
    hasRow: true,
  }),
  model_fallback: entry(fields({ to: text, because: text }), {
    text: ({ to, because }) => line('↻', 'idle', `goes on with ${to} (${because})`),
    slim: ({ to, because }) => ({ model: shortName(to), reason: preview(because) }),
    survivesRewind: true,
    hasRow: true,
  }),
  spawn: entry(fields({ thread_id: text, directive: text, runner: text, detached: flag }), {
    text: ({ thread_id }) => line('⑂', 'run', `started ${thread_id}`),
    slim: ({ thread_id, directive }) => ({
      thread: shortName(thread_id),
      directive: shortName(directive),
    }),
    origin: 'external',
  }),
  child_end: entry(fields({ thread_id: text, status, reason: text, cost: data }), {
    text: ({ thread_id, status }) => line('⑂', 'run', `${thread_id} ended ${status}`),
    slim: ({ thread_id, status, reason, cost }) => ({
      thread: shortName(thread_id),
      status,
      reason: preview(reason),
      spend: amountIn(cost['spend']),
    }),
    origin: 'external',
    isProgress: true,
  }),
  injected_message: entry(fields({ text, marks, by: text }, { reminder: yes }), {
    text: ({ by, text }) => line('›', 'you', `${by}: ${text}`),
    slim: ({ by, text, marks }) => ({
      by: shortName(by),
      ...textParts(text),
      labels: labelsIn(marks),
    }),
    content: ({ text }) => text,
    isProgress: true,
    hasRow: true,
    acknowledges: true,
  }),
  signal: entry(
    fields(
      { kind: text, by: text },
      {
        /** The number of the signal. Absent: a process started or resumed the thread. */
        id: number,
        /** The process of the person in `by`. */
        process: text,
        reason: text,
        /** The snapshot that a resume goes back to. */
        from: number,
        /** How the thread ends, if an ancestor or a child stopped it. `code` is the cause. */
        stops: word('aborted', 'terminated', 'killed'),
        code: text,
        /** The status of an ended thread before it was resumed. */
        after: status,
        /** The limits that a person set with the signal, as `packLimits` writes them. */
        limits: data,
        /** The model of the following turns. */
        model: text,
      },
    ),
    {
      text({ kind, by }) {
        if (kind === 'start' || kind === 'resume') return undefined;
        // The event that uses the answer shows it.
        return kind === 'approval'
          ? line('›', 'dim', `answered by ${by}`)
          : line('!', 'idle', `${kind} by ${by}`);
      },
      slim: ({ kind, by, reason, limits, model, code }) => ({
        event: shortName(kind),
        by: shortName(by),
        reason: reason && preview(reason),
        raised: raisedIn(limits),
        model: optionalName(model),
        code: optionalName(code),
      }),
      volatile: ['process'],
      survivesRewind: true,
      hasRow: true,
      acknowledges: true,
    },
  ),
  approval: entry(approval, {
    text: approvalLine,
    slim: (note) => ({
      approval: optionalName(note.approval),
      state: note.state,
      event: note.kind,
      call_id: 'call_id' in note ? optionalName(note.call_id) : undefined,
      by: 'by' in note ? optionalName(note.by) : undefined,
      reason: 'why' in note && note.why !== undefined ? preview(note.why) : undefined,
      directive: 'directive' in note ? shortName(note.directive) : undefined,
    }),
    origin: 'external',
    survivesRewind: true,
  }),
  plan: entry(
    /** A plan that passed its check. It is recorded before its first step. */
    fields(
      /** `marks` are those of everything that was read to write the plan. */
      { number, text, sha256: text, marks },
      {
        /** The result of the plan before this one: codes, ids and numbers. */
        after: fields({ code: text }, { tool: text, step: number }),
        /** The rights that the plan is known to need, for people. */
        needs: list(text),
      },
    ),
    {
      text: ({ number, text, after }) =>
        line('≡', 'plain', `plan ${number}${after ? ` (after ${after.code})` : ''}:\n${text}`),
      slim: ({ number, text, after }) => ({
        current: number,
        ...textParts(text),
        code: optionalName(after?.code),
      }),
      content: ({ text }) => text,
      volatile: ['needs'],
      hasRow: true,
    },
  ),
  snapshot: entry(fields({ reason: text }, { at: number }), {
    text: nothing,
    slim: ({ reason }) => ({ reason: preview(reason) }),
    origin: 'external',
    isProgress: true,
    hasRow: true,
    isDetail: true,
  }),
  error: entry(failed, {
    text: (error) =>
      hasOwnLine(error.code)
        ? undefined
        : line('✗', 'bad', `${error.code}: ${error.detail.message}`),
    slim: faultParts,
    content: messageOf,
    turn: 'fails',
    hasRow: true,
  }),
  stream_error: entry(streamError, {
    text: (error) =>
      line(
        '!',
        'idle',
        `broken stream: ${error.code === undefined ? error.message : error.detail.message}`,
      ),
    slim: (error) =>
      error.code === undefined
        ? { code: shortName(error.reason), reason: preview(error.message) }
        : faultParts(error),
    turn: 'ends',
    hasRow: true,
  }),
  /** A note of a tool or of the harness. Nothing is restored from it. */
  logged: entry(fields({ event_type: text, data, by: text }), {
    text: ({ event_type, by }) => line('·', 'dim', `${event_type}, noted by ${by}`),
    slim: ({ event_type, by }) => ({ event: shortName(event_type), by: shortName(by) }),
    origin: 'external',
    isProgress: true,
    hasRow: true,
  }),
  thread_end: entry(
    /** `code` is that of the fault that ended the thread. */
    fields({ status, reason: text }, { code: text, cost: data }),
    {
      text: ({ status, reason }) =>
        line('●', END_TONES[status] ?? 'bad', `${status}${reason ? `: ${reason}` : ''}`),
      slim: ({ status, reason, code }) => ({
        status,
        reason: reason === '' ? undefined : preview(reason),
        code: optionalName(code),
      }),
      content: ({ reason }) => reason,
      isProgress: true,
      isFrame: true,
      hasRow: true,
      acknowledges: true,
    },
  ),
};

export type EventType = keyof typeof EVENTS;
export type DataOf<Type extends EventType> = Proven<(typeof EVENTS)[Type]['shape']>;
export type JournalEvent = {
  [type in EventType]: { readonly type: type; readonly data: DataOf<type> };
}[EventType];

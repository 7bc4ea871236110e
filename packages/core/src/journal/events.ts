// The event table: one entry per type of event. An entry has the shape of the data, the text for people and
// flags. All readers and writers of journals use this table, so a new type of event is one new entry.
import { durationText } from '../base/index.ts';
import { STATUS_CAUSES } from '../store/index.ts';
import { data, fields, flag, list, number, type Proven, text, word, yes } from './check.ts';
import { entry } from './event-entry.ts';
import {
  approvalLine,
  argumentsText,
  compactionLine,
  END_TONES,
  hasOwnLine,
  hookDecision,
  line,
  messageText,
  replyText,
  resultLine,
} from './event-text.ts';
import {
  about,
  approval,
  attachment,
  call,
  compaction,
  costUpdate,
  detail,
  exceeded,
  failed,
  fault,
  hook,
  hookStart,
  limit,
  markedText,
  marks,
  message,
  mode,
  numbers,
  ran,
  result,
  retry,
  rules,
  status,
  streamError,
  turnEnd,
  warning,
} from './shapes.ts';

/** All types of events. `packCost` and `packLimits` write the costs and limits in them. */
export const EVENTS = {
  thread_start: entry(
    fields(
      { directive: text, version: text, inputs: data, model: text, message: text, limits: data },
      {
        stream: yes,
        mode,
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
      // Other events show the new status. Only the reason is new.
      text: ({ reason }) => (reason === undefined ? undefined : line('!', 'idle', reason)),
      origin: 'bookkeeping',
      acknowledges: true,
    },
  ),
  user_message: entry(markedText, {
    text: (message) => line('›', 'dim', messageText(message)),
    isInput: true,
    isMessage: true,
    isFrame: true,
    acknowledges: true,
    changesConversation: true,
  }),
  assistant_message: entry(message, {
    text(reply) {
      // A plan and a summary have their own events, or an error has the reason why the plan is missing.
      const isShown = !reply.injected && reply.plan === undefined && reply.compact === undefined;
      const text = isShown ? replyText(reply.content) : '';
      return text === '' ? undefined : line('‹', 'plain', text);
    },
    isMessage: true,
    isProgress: true,
    turn: 'replies',
    changesConversation: true,
  }),
  tool_call: entry(call, {
    text: ({ tool, arguments: args }) => line('→', 'run', `${tool} ${argumentsText(args)}`.trim()),
    volatile: ['target', 'about', 'use', 'group', 'key', 'n', 'child', 'volatile'],
    turn: 'calls',
  }),
  tool_result: entry(result, {
    text: resultLine,
    volatile: ['about', 'unused'],
    isInput: true,
    isProgress: true,
    turn: 'calls',
    changesConversation: true,
  }),
  turn_start: entry(
    fields(
      { max_tokens: number, model: text, provider: text, key: text },
      {
        n: number,
        /** The maximum length of the answer was cut to the rest of the budgets of the ancestors. */
        fitted: yes,
        /** A model object of the program was asked, so no rule about addresses applies. */
        egress: word('program'),
      },
    ),
    {
      turn: 'begins',
      isDetail: true,
      acknowledges: true,
      volatile: ['key', 'n'],
    },
  ),
  turn_end: entry(turnEnd, {
    origin: (end) =>
      end.failed === true || (end.done === true && !end.judged) ? 'bookkeeping' : 'harness',
    turn: 'ends',
    isDetail: true,
  }),
  cost_update: entry(costUpdate, {
    origin: (update) => (update['cost'] === undefined ? 'harness' : 'bookkeeping'),
    isDetail: true,
  }),
  hook_start: entry(hookStart, {}),
  hook: entry(hook, {
    text: (answer) => line('◆', 'idle', `hook ${answer.directive} ${hookDecision(answer)}`),
    volatile: ['call_id', 'held', 'duration_ms'],
    survivesRewind: true,
    isProgress: true,
  }),
  criterion: entry(
    /**
     * The result of a criterion where the run would complete. `round` counts these places from 1. `reason` is absent
     * for a criterion that holds, and `index` for another round that a hook demanded. The message to the model or the
     * end of the thread shows it to people.
     */
    fields({ round: number, held: flag }, { index: number, reason: text }),
    { isProgress: true },
  ),
  compaction: entry(compaction, {
    text: compactionLine,
    isProgress: true,
    isMessage: true,
    hasRow: true,
    volatile: ['facts', 'before', 'after', 'spend', 'model', 'rejected'],
  }),
  hook_state: entry(fields({ fired: list(number) }), {
    transcript: false,
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
        const others = reserved === undefined ? '' : `, ${reserved} reserved for others`;
        const next = needed === undefined ? '' : `, ${needed} needed`;
        return line('■', 'limit', `limit ${limit} reached: ${current} of ${max}${others}${next}`);
      },
      hasRow: true,
    },
  ),
  warning: entry(warning, {
    text: (data) =>
      data.code === 'seals_dropped'
        ? line('!', 'idle', `${data.count} seals are not sent: another model wrote them`)
        : line(
            '!',
            'limit',
            `${data.percent} % of ${data.limit} used: ${data.current} of ${data.max}`,
          ),
    survivesRewind: true,
    hasRow: true,
  }),
  loop_detected: entry(fault, {
    text: (loop) => line('!', 'idle', loop.detail.message),
    hasRow: true,
  }),
  retry: entry(retry, {
    text(again) {
      if (again.try === undefined) return line('↻', 'idle', `attempt ${again.attempt}`);
      const wait = again.wait_ms > 0 ? ` in ${durationText(again.wait_ms / 1000)}` : '';
      return line('↻', 'idle', `try ${again.try} of this turn${wait} (${again.because})`);
    },
    isProgress: true,
    turn: 'ends',
    hasRow: true,
    changesConversation: true,
  }),
  model_fallback: entry(fields({ to: text, because: text }), {
    text: ({ to, because }) => line('↻', 'idle', `continues with ${to} (${because})`),
    survivesRewind: true,
    hasRow: true,
  }),
  spawn: entry(fields({ thread_id: text, directive: text, runner: text, detached: flag }), {
    text: ({ thread_id }) => line('⑂', 'run', `started ${thread_id}`),
    origin: 'external',
  }),
  child_end: entry(fields({ thread_id: text, status, reason: text, cost: data }), {
    text: ({ thread_id, status }) => line('⑂', 'run', `${thread_id} ended ${status}`),
    origin: 'external',
    isProgress: true,
  }),
  injected_message: entry(fields({ text, marks, by: text }, { reminder: yes, ...attachment }), {
    text: (message) => line('›', 'you', `${message.by}: ${messageText(message)}`),
    isInput: true,
    isMessage: true,
    isProgress: true,
    hasRow: true,
    acknowledges: true,
    changesConversation: true,
    volatile: ['by'],
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
        /** A resume that also asks for compaction. */
        compact: yes,
        /** A request for compaction can name what the summary must keep. */
        focus: markedText,
        /** True for a request of the model itself. */
        own: yes,
        /** The snapshot to which a resume rewinds the thread. */
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
        /** The mode of the following turns, which a person set. */
        mode,
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
      volatile: ['process', 'by'],
      survivesRewind: true,
      hasRow: true,
      acknowledges: true,
    },
  ),
  /**
   * A person copied the events before this one from another thread. Limits, rights, model and the state of hooks
   * start anew here.
   */
  fork: entry(
    /** `from` and `at`: the source, and the number of its last copied event. `by`: the person. */
    fields(
      { from: text, at: number, by: text, model: text, limits: data, ran },
      {
        /** Today's directive or policy requires references where the source had none. */
        untrusted: word('reference'),
        /** Uses of counted tools by the descendants of the source, which are not in the copied events. */
        uses: numbers,
      },
    ),
    {
      text: ({ from, at }) => line('⑂', 'plain', `forked from ${from} at event ${at}`),
      origin: 'external',
      survivesRewind: true,
      hasRow: true,
    },
  ),
  approval: entry(approval, {
    text: approvalLine,
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
        /** The rights that the plan needs according to its text, for people. */
        needs: list(text),
      },
    ),
    {
      text: ({ number, text, after }) =>
        line('≡', 'plain', `plan ${number}${after ? ` (after ${after.code})` : ''}:\n${text}`),
      volatile: ['needs'],
      isMessage: true,
      hasRow: true,
    },
  ),
  snapshot: entry(fields({ reason: text }, { at: number }), {
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
    turn: 'ends',
    hasRow: true,
  }),
  /**
   * The transcript had more events than the registry, so the registry lost its last commits. `calls`: calls
   * with an effect whose intent was lost.
   */
  commits_lost: entry(
    fields({ events: number, calls: list(fields({ call_id: text, tool: text })) }),
    {
      text: () => line('·', 'dim', 'commits_lost, recorded by harness'),
      isProgress: true,
      hasRow: true,
    },
  ),
  /** An event that a tool recorded. No state is restored from it. */
  logged: entry(fields({ event_type: text, data, by: text }), {
    text: ({ event_type, by }) => line('·', 'dim', `${event_type}, recorded by ${by}`),
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

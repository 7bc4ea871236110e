// Events of threads in words: what terminal and page say about them, with a tone that each shows in its
// own way.
import {
  durationText,
  type Failure,
  getOwn,
  isObject,
  type Json,
  masked,
  plainText,
  shorten,
} from '../base/index.ts';
import type { ThreadStatus } from '../store/index.ts';
import type { DataOf, EventType } from './events.ts';

/** `you` waits for a person, or is one who speaks; `idle` stands still, goes another way or tries again. */
export type EventTone = 'plain' | 'dim' | 'run' | 'you' | 'ok' | 'bad' | 'limit' | 'idle';

interface EventLine {
  mark: string;
  tone: EventTone;
  text: string;
}

/** What is no good news and no waiting is bad. */
const END_TONES: Partial<Record<ThreadStatus, EventTone>> = {
  completed: 'ok',
  running: 'run',
  spawning: 'run',
  terminating: 'run',
  waiting: 'you',
  needs_input: 'you',
  paused: 'idle',
  interrupted: 'idle',
  terminated: 'idle',
  limit: 'limit',
};

const valueText = (value: Json): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/** `path=README.md limit=3`: what a call was given, as a person would type it. */
export function argumentsText(given: Json | undefined, max = 100): string {
  const inner = getOwn(given, 'parameters');
  const parameters = isObject(inner) ? inner : isObject(given) ? given : {};
  const words = Object.entries(parameters).map(
    ([name, value]) => `${name}=${shorten(valueText(value), 60)}`,
  );
  return shorten(words.join(' '), max);
}

const line = (mark: string, tone: EventTone, text: string): EventLine => ({ mark, tone, text });

/** Texts of a reply, without its calls: those have events of their own. */
const replyText = (content: DataOf<'assistant_message'>['content']): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Denials and limits are events of their own; the error that carries them says it again. */
const hasOwnLine = (code: string): boolean =>
  code === 'permission_denied' || code.endsWith('_exceeded');

/** What the harness answers for a tool it has said before. */
const SAID_BEFORE: ReadonlySet<string> = new Set(['outcome_unknown', 'loop_detected']);

function resultLine({ content, is_error }: DataOf<'tool_result'>): EventLine | undefined {
  const fault = getOwn(content, 'error');
  const code = plainText(getOwn(fault, 'code')) || 'failed';
  if (!is_error || hasOwnLine(code) || SAID_BEFORE.has(code)) return undefined;
  const message = getOwn(fault, 'message') ?? getOwn(getOwn(fault, 'detail'), 'message');
  return line('✗', 'bad', `${code}: ${plainText(message)}`);
}

/** Asked, or what became of it: an answer that is used asks nobody again. */
function approvalLine(data: DataOf<'approval'>): EventLine | undefined {
  const { approval = '', state } = data;
  if (state === 'auto') {
    const text = `directive ${data.directive} is changed, as the policy allows (anneal: auto)`;
    return line('·', 'dim', text);
  }
  const [name, by] = [`approval ${approval}`.trim(), 'by' in data ? ` by ${data.by}` : ''];
  const why = 'why' in data && data.why ? `: ${data.why}` : '';
  if (state === 'denied') return line('✗', 'bad', `${name} refused${by}${why}`);
  if (state === 'expired') return line('!', 'idle', `${name} expired: nobody answered in time`);
  if (state === 'approved') return line('✓', 'ok', `${name} given${by}`);
  if (state === 'used' && data.kind === 'call') return line('✓', 'ok', `${name} given${by}${why}`);
  return state === 'used' || state === 'returned' ? undefined : line('?', 'you', name);
}

type Tell<Type extends EventType> = (data: DataOf<Type>) => EventLine | undefined;
const nothing = (): undefined => undefined;

/** What came of a hook's answer: the action, as its directive says it, and what that meant there. */
const DEEDS: ReadonlyMap<string, string> = new Map([
  ['proceed', 'continue'],
  ['tell_error', 'continue (the model gets the error)'],
  ['tell_warning', 'continue (the model is warned)'],
  ['run_with_granted', 'continue (with what is granted)'],
  ['raise', 'continue (limit raised)'],
  ['restart', 'retry (from the start)'],
  ['repeat_step', 'retry (the step again)'],
  ['new_attempt', 'retry (a new attempt)'],
  ['skip_step', 'skip (not done)'],
  ['withhold_result', 'skip (result withheld)'],
  ['count_as_done', 'skip (counts as done)'],
  ['ask_person', 'a person is asked'],
  ['wait', 'puts the run on hold'],
]);

/** Tells the event and the decision of a hook. The name of the hook is not in it. */
export const hookDecision = ({ event, deed }: Pick<DataOf<'hook'>, 'event' | 'deed'>): string =>
  `at ${event}: ${DEEDS.get(deed) ?? deed}`;

/** One for each type: a new event must fail to compile here. */
const LINES: { readonly [type in EventType]: Tell<type> } = {
  thread_start: ({ directive, version, model }) =>
    line('●', 'plain', `${directive} ${version} with ${model}`),
  // What else happens says it too, except why.
  status: ({ reason }) => (reason === undefined ? undefined : line('!', 'idle', reason)),
  user_message: ({ text }) => line('›', 'dim', text),
  assistant_message(data) {
    // Of a plan its own event tells, or why it is none.
    const isSaid = !data.injected && data.plan === undefined;
    const text = isSaid ? replyText(data.content) : '';
    return text === '' ? undefined : line('‹', 'plain', text);
  },
  tool_call: ({ tool, arguments: given }) =>
    line('→', 'run', `${tool} ${argumentsText(given)}`.trim()),
  tool_result: resultLine,
  turn_start: nothing,
  turn_end: nothing,
  cost_update: nothing,
  hook_start: nothing,
  hook: (data) => line('◆', 'idle', `hook ${data.directive} ${hookDecision(data)}`),
  hook_state: nothing,
  permission_denied: ({ detail }) => line('✗', 'bad', `denied: ${detail.message}`),
  limit({ limit, current, max, reserved, needed }) {
    const held = reserved === undefined ? '' : `, ${reserved} reserved for others`;
    const next = needed === undefined ? '' : `, ${needed} needed`;
    return line('■', 'limit', `limit ${limit} reached: ${current} of ${max}${held}${next}`);
  },
  warning: ({ percent, limit, current, max }) =>
    line('!', 'limit', `${percent} % of ${limit} used: ${current} of ${max}`),
  loop_detected: ({ detail }) => line('!', 'idle', detail.message),
  retry: (data) =>
    line(
      '↻',
      'idle',
      data.try === undefined
        ? `attempt ${data.attempt}`
        : `try ${data.try} of this turn${data.wait_ms > 0 ? ` in ${durationText(data.wait_ms / 1000)}` : ''} (${data.because})`,
    ),
  model_fallback: ({ to, because }) => line('↻', 'idle', `goes on with ${to} (${because})`),
  spawn: ({ thread_id }) => line('⑂', 'run', `started ${thread_id}`),
  child_end: ({ thread_id, status }) => line('⑂', 'run', `${thread_id} ended ${status}`),
  injected_message: ({ by, text }) => line('›', 'you', `${by}: ${text}`),
  signal({ kind, by }) {
    if (kind === 'start' || kind === 'resume') return undefined;
    // The event that uses the answer shows it.
    return kind === 'approval'
      ? line('›', 'dim', `answered by ${by}`)
      : line('!', 'idle', `${kind} by ${by}`);
  },
  approval: approvalLine,
  plan: ({ number, text, after }) =>
    line('≡', 'plain', `plan ${number}${after ? ` (after ${after.code})` : ''}:\n${text}`),
  snapshot: nothing,
  error: ({ code, detail }) =>
    hasOwnLine(code) ? undefined : line('✗', 'bad', `${code}: ${detail.message}`),
  stream_error: (data) =>
    line(
      '!',
      'idle',
      `broken stream: ${data.code === undefined ? data.message : data.detail.message}`,
    ),
  logged: ({ event_type, by }) => line('·', 'dim', `${event_type}, noted by ${by}`),
  thread_end: ({ status, reason }) =>
    line('●', END_TONES[status] ?? 'bad', `${status}${reason ? `: ${reason}` : ''}`),
};

/** What a person is told about an event, secrets masked; undefined when it says nothing new. */
export function eventLine<Type extends EventType>(event: {
  readonly type: Type;
  readonly data: DataOf<Type>;
}): EventLine | undefined {
  const tell: Tell<Type> = LINES[event.type];
  const told = tell(event.data);
  return told && { ...told, text: masked(told.text) };
}

/** What nobody wrote is told as such: a registry that cannot be read whole is shown all the same. */
export const unreadableLine = ({ error }: Failure): EventLine =>
  line('✗', 'bad', error.detail.message);

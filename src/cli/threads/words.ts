// Events and amounts of threads in words: what `run`, `tail` and `show` say about them.
import {
  type Failure,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  plainText,
} from '../../base/index.ts';
import type { DataOf, EventType } from '../../harness/index.ts';
import type { ThreadStatus } from '../../store/index.ts';
import { type Colour, masked } from '../terminal/terminal.ts';

interface EventLine {
  mark: string;
  colour: Colour;
  text: string;
}

const STATUS_COLOURS: Partial<Record<ThreadStatus, Colour>> = {
  completed: 'green',
  running: 'blue',
  spawning: 'blue',
  paused: 'yellow',
  waiting: 'yellow',
  needs_input: 'yellow',
  interrupted: 'yellow',
};
/** What is no good news and no waiting is red. */
export const statusColour = (status: string): Colour =>
  STATUS_COLOURS[status as ThreadStatus] ?? 'red';

/** One line, however long or wide the value is. */
export function shorten(text: string, max: number): string {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length <= max ? flat : `${flat.slice(0, Math.max(0, max - 1))}…`;
}

const WIDE =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const graphemes = new Intl.Segmenter();

/** How many cells of a terminal each of its characters takes. */
const cellsOf = (character: string): number =>
  NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

/** As much of its beginning, or of its end, as fits into so many cells. */
export function fit(text: string, cells: number, keeps: 'start' | 'end' = 'start'): string {
  const parts = Array.from(graphemes.segment(text), ({ segment }) => segment);
  const sum = parts.reduce((total, part) => total + cellsOf(part), 0);
  if (sum <= cells) return text;
  const ordered = keeps === 'start' ? parts : parts.toReversed();
  let left = cells - 1;
  const kept: string[] = [];
  for (const part of ordered) {
    left -= cellsOf(part);
    if (left < 0) break;
    kept.push(part);
  }
  if (cells < 1) return '';
  return keeps === 'start' ? `${kept.join('')}…` : `…${kept.toReversed().join('')}`;
}

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

export const count = (value: unknown): string =>
  String(Math.round(Number(value) || 0)).replace(/\B(?=(\d{3})+$)/g, ',');

/** `4.2 s`, `3 m 05 s`, `2 h 10 m`. */
export function seconds(value: unknown): string {
  const total = Number(value) || 0;
  if (total < 60) return `${total < 10 ? total.toFixed(1) : Math.round(total)} s`;
  const [minutes, rest] = [Math.floor(total / 60), Math.floor(total % 60)];
  if (minutes < 60) return `${minutes} m ${String(rest).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} m`;
}

/** `12 s`, `5 m`, `3 h`, `9 d`: how long ago, roughly. */
export function age(ms: number): string {
  const total = Math.max(0, Math.round(ms / 1000));
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m`;
  return total < 172_800 ? `${Math.floor(total / 3600)} h` : `${Math.floor(total / 86_400)} d`;
}

/** `12 turns, 3,410 tokens, 4 tool calls, 0.0123 USD, 8.1 s`. */
export function costText(cost: JsonObject, currency = 'USD'): string {
  const plural = (value: unknown, word: string): string =>
    `${count(value)} ${word}${Number(value) === 1 ? '' : 's'}`;
  return [
    plural(cost.turns, 'turn'),
    plural(cost.tool_calls, 'tool call'),
    `${count(cost.tokens)} tokens`,
    `${cost.estimated === true ? 'about ' : ''}${plainText(cost.spend ?? '0.00')} ${currency}`,
    seconds(cost.duration_seconds),
  ].join(', ');
}

const line = (mark: string, colour: Colour, text: string): EventLine => ({ mark, colour, text });

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
  return line('✗', 'red', `${code}: ${plainText(message)}`);
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
  ['wait', 'waits for a person'],
]);

/** One for each type: a new event must fail to compile here. */
const LINES: { readonly [type in EventType]: Tell<type> } = {
  thread_start: ({ directive, version, model }) =>
    line('●', 'bold', `${directive} ${version} with ${model}`),
  status: nothing,
  user_message: ({ text }) => line('›', 'dim', text),
  assistant_message(data) {
    const text = data.injected ? '' : replyText(data.content);
    return text === '' ? undefined : line('‹', 'bold', text);
  },
  tool_call: ({ tool, arguments: given }) =>
    line('→', 'blue', `${tool} ${argumentsText(given)}`.trim()),
  tool_result: resultLine,
  turn_start: nothing,
  turn_end: nothing,
  cost_update: nothing,
  hook_start: nothing,
  hook: ({ directive, event, deed }) =>
    line('◆', 'yellow', `hook ${directive} at ${event}: ${DEEDS.get(deed) ?? deed}`),
  hook_state: nothing,
  permission_denied: ({ detail }) => line('✗', 'red', `denied: ${detail.message}`),
  limit({ limit, current, max, reserved, needed }) {
    const held = reserved === undefined ? '' : `, ${reserved} reserved for others`;
    const next = needed === undefined ? '' : `, ${needed} needed`;
    return line('■', 'red', `limit ${limit} reached: ${current} of ${max}${held}${next}`);
  },
  warning: ({ percent, limit, current, max }) =>
    line('!', 'yellow', `${percent} % of ${limit} used: ${current} of ${max}`),
  loop_detected: ({ detail }) => line('!', 'yellow', detail.message),
  retry: (data) =>
    line(
      '↻',
      'yellow',
      data.try === undefined
        ? `attempt ${data.attempt}`
        : `try ${data.try} of this turn${data.wait_ms > 0 ? ` in ${seconds(data.wait_ms / 1000)}` : ''} (${data.because})`,
    ),
  model_fallback: ({ to, because }) => line('↻', 'yellow', `goes on with ${to} (${because})`),
  spawn: ({ thread_id }) => line('⑂', 'blue', `started ${thread_id}`),
  child_end: ({ thread_id, status }) => line('⑂', 'blue', `${thread_id} ended ${status}`),
  injected_message: ({ by, text }) => line('›', 'yellow', `${by}: ${text}`),
  signal: ({ kind, by }) =>
    kind === 'start' || kind === 'resume' ? undefined : line('!', 'yellow', `${kind} by ${by}`),
  approval: ({ approval = '' }) => line('?', 'yellow', `approval ${approval}`.trim()),
  snapshot: nothing,
  error: ({ code, detail }) =>
    hasOwnLine(code) ? undefined : line('✗', 'red', `${code}: ${detail.message}`),
  stream_error: (data) =>
    line(
      '!',
      'yellow',
      `broken stream: ${data.code === undefined ? data.message : data.detail.message}`,
    ),
  logged: ({ event_type, by }) => line('·', 'dim', `${event_type}, noted by ${by}`),
  thread_end: ({ status, reason }) =>
    line('●', statusColour(status), `${status}${reason ? `: ${reason}` : ''}`),
};

/** What a person is told about an event; undefined when it says nothing new. */
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
  line('✗', 'red', error.detail.message);

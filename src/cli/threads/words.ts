// Events and amounts of threads in words: what `run`, `tail` and `show` say about them.
import { getOwn, isObject, type Json, type JsonObject, plainText } from '../../base/index.ts';
import type { ThreadStatus } from '../../store/index.ts';
import type { Colour } from '../terminal/terminal.ts';

export interface EventLine {
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
const messageOf = (data: JsonObject): string => plainText(getOwn(data.detail, 'message'));

/** Texts of a reply, without its calls: those have events of their own. */
export function replyText(content: Json | undefined): string {
  if (!Array.isArray(content)) return '';
  return content
    .filter((block) => getOwn(block, 'type') === 'text')
    .map((block) => plainText(getOwn(block, 'text')))
    .join('');
}

/** Denials and limits are events of their own; the error that carries them says it again. */
const hasOwnLine = (code: string): boolean =>
  code === 'permission_denied' || code.endsWith('_exceeded');

type Tell = (data: JsonObject) => EventLine | undefined;
const LINES: Readonly<Record<string, Tell>> = {
  thread_start: (data) =>
    line(
      '●',
      'bold',
      `${plainText(data.directive)} ${plainText(data.version)} with ${plainText(data.model)}`,
    ),
  user_message: (data) => line('›', 'dim', plainText(data.text)),
  assistant_message: (data) => {
    const text = data.injected === true ? '' : replyText(data.content);
    return text === '' ? undefined : line('‹', 'bold', text);
  },
  tool_call: (data) =>
    line('→', 'blue', `${plainText(data.tool)} ${argumentsText(data.arguments)}`.trim()),
  tool_result: (data) => {
    const fault = getOwn(data.content, 'error');
    const code = plainText(getOwn(fault, 'code')) || 'failed';
    if (data.is_error !== true || hasOwnLine(code)) return undefined;
    return line(
      '✗',
      'red',
      `${code}: ${plainText(getOwn(fault, 'message') ?? getOwn(getOwn(fault, 'detail'), 'message'))}`,
    );
  },
  permission_denied: (data) => line('✗', 'red', `denied: ${messageOf(data)}`),
  limit: (data) =>
    line(
      '■',
      'red',
      `limit ${plainText(data.limit)} reached: ${plainText(data.current)} of ${plainText(data.max)}`,
    ),
  warning: (data) =>
    line(
      '!',
      'yellow',
      `${plainText(data.percent)} % of ${plainText(data.limit)} used: ${plainText(data.current)} of ${plainText(data.max)}`,
    ),
  hook: (data) =>
    line(
      '◆',
      'yellow',
      `hook ${plainText(data.directive)} at ${plainText(data.event)}: ${plainText(data.deed)}`,
    ),
  loop_detected: (data) => line('!', 'yellow', messageOf(data)),
  retry: (data) => line('↻', 'yellow', `attempt ${plainText(data.attempt)}`),
  model_fallback: (data) =>
    line('↻', 'yellow', `goes on with ${plainText(data.to)} (${plainText(data.because)})`),
  injected_message: (data) => line('›', 'yellow', `${plainText(data.by)}: ${plainText(data.text)}`),
  signal: (data) =>
    ['start', 'resume'].includes(plainText(data.kind))
      ? undefined
      : line('!', 'yellow', `${plainText(data.kind)} by ${plainText(data.by)}`),
  spawn: (data) =>
    line('⑂', 'blue', `started ${plainText(data.thread_id ?? data.child ?? data.directive)}`),
  child_end: (data) =>
    line('⑂', 'blue', `${plainText(data.thread_id ?? data.child)} ended ${plainText(data.status)}`),
  error: (data) =>
    hasOwnLine(plainText(data.code))
      ? undefined
      : line('✗', 'red', `${plainText(data.code)}: ${messageOf(data)}`),
  stream_error: (data) =>
    line('!', 'yellow', `broken stream: ${messageOf(data) || plainText(data.code)}`),
  approval: (data) => line('?', 'yellow', `approval ${plainText(data.approval ?? data.id)}`),
  thread_end: (data) => {
    const why = plainText(data.reason);
    return line(
      '●',
      statusColour(plainText(data.status)),
      `${plainText(data.status)}${why ? `: ${why}` : ''}`,
    );
  },
};

/** What a person is told about an event; undefined when it says nothing new. */
export const eventLine = (type: string, data: JsonObject): EventLine | undefined =>
  Object.hasOwn(LINES, type) ? LINES[type]?.(data) : undefined;

// Formats events and amounts of threads as text for `run`, `tail` and `show`.
import { durationText, type Failure, type JsonObject, plainText } from '@kernmantle/core/base';
import { type EventTone, eventLine, type Noted } from '@kernmantle/core/journal';
import type { ThreadStatus } from '@kernmantle/core/store';
import type { Colour } from '../terminal/terminal.ts';

const STATUS_COLOURS: Partial<Record<ThreadStatus, Colour>> = {
  completed: 'green',
  running: 'blue',
  spawning: 'blue',
  paused: 'yellow',
  waiting: 'yellow',
  needs_input: 'yellow',
  interrupted: 'yellow',
};
/** Colour of a status. Other statuses are red. */
export const statusColour = (status: string): Colour =>
  STATUS_COLOURS[status as ThreadStatus] ?? 'red';

const WIDE =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const graphemes = new Intl.Segmenter();

/** Returns the number of terminal cells of a character. */
const cellsOf = (character: string): number =>
  NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

/** Returns the number of terminal cells of a text. */
export const widthOf = (text: string): number =>
  /^[ -~]*$/.test(text)
    ? text.length
    : Array.from(graphemes.segment(text)).reduce((sum, { segment }) => sum + cellsOf(segment), 0);

/** Cuts a text to this number of cells. `keeps` is the end that stays. */
export function fit(text: string, cells: number, keeps: 'start' | 'end' = 'start'): string {
  const parts = Array.from(graphemes.segment(text), ({ segment }) => segment);
  const sum = parts.reduce((total, part) => total + cellsOf(part), 0);
  if (sum <= cells) return text;
  const ordered = keeps === 'start' ? parts : parts.toReversed();
  let remaining = cells - 1;
  const fitting: string[] = [];
  for (const part of ordered) {
    remaining -= cellsOf(part);
    if (remaining < 0) break;
    fitting.push(part);
  }
  if (cells < 1) return '';
  return keeps === 'start' ? `${fitting.join('')}…` : `…${fitting.toReversed().join('')}`;
}

/** Returns exactly this number of cells: the text is cut, or padded. `side` is the alignment. */
export function column(text: string, cells: number, side: 'left' | 'right' = 'left'): string {
  const cut = fit(text, cells);
  const space = ' '.repeat(Math.max(0, cells - widthOf(cut)));
  return side === 'left' ? `${cut}${space}` : `${space}${cut}`;
}

export const count = (value: unknown): string =>
  String(Math.round(Number(value) || 0)).replace(/\B(?=(\d{3})+$)/g, ',');

/** Returns a rounded age: `12 s`, `5 m`, `3 h`, `9 d`. */
export function age(ms: number): string {
  const total = Math.max(0, Math.round(ms / 1000));
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m`;
  return total < 172_800 ? `${Math.floor(total / 3600)} h` : `${Math.floor(total / 86_400)} d`;
}

/** Returns a cost as text: `12 turns, 4 tool calls, 3,410 tokens, 0.0123 USD, 8.1 s`. */
export function costText(cost: JsonObject, currency = 'USD'): string {
  const plural = (value: unknown, word: string): string =>
    `${count(value)} ${word}${Number(value) === 1 ? '' : 's'}`;
  return [
    plural(cost.turns, 'turn'),
    plural(cost.tool_calls, 'tool call'),
    `${count(cost.tokens)} tokens`,
    `${cost.estimated === true ? 'about ' : ''}${plainText(cost.spend ?? '0.00')} ${currency}`,
    durationText(cost.duration_seconds),
  ].join(', ');
}

const TONES: Readonly<Record<EventTone, Colour>> = {
  plain: 'bold',
  dim: 'dim',
  run: 'blue',
  you: 'yellow',
  idle: 'yellow',
  ok: 'green',
  bad: 'red',
  limit: 'red',
};

interface PaintedLine {
  mark: string;
  colour: Colour;
  text: string;
}

/** Returns the line of an event with its colour. Undefined if the event has no line. */
export function toldOf(event: Noted): PaintedLine | undefined {
  const line = eventLine(event);
  if (!line) return undefined;
  const { tone, ...words } = line;
  if (event.type === 'warning') return { ...words, colour: 'yellow' };
  const isEnd = event.type === 'thread_end';
  return { ...words, colour: isEnd ? statusColour(event.data.status) : TONES[tone] };
}

/** Returns the line of an event that cannot be decoded. */
export const unreadableOf = ({ error }: Failure): PaintedLine => ({
  mark: '✗',
  colour: TONES.bad,
  text: error.detail.message,
});

// Events and amounts of threads in words: what `run`, `tail` and `show` say about them.
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

/** Exactly so many cells: cut, or filled up on the right, or on the left. */
export function column(text: string, cells: number, side: 'left' | 'right' = 'left'): string {
  const shown = fit(text, cells);
  const taken = Array.from(graphemes.segment(shown)).reduce(
    (total, { segment }) => total + cellsOf(segment),
    0,
  );
  const space = ' '.repeat(Math.max(0, cells - taken));
  return side === 'left' ? `${shown}${space}` : `${space}${shown}`;
}

export const count = (value: unknown): string =>
  String(Math.round(Number(value) || 0)).replace(/\B(?=(\d{3})+$)/g, ',');

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

/** The line of an event with its colour. An end has the colour of its status, a warning not that of a limit. */
export function toldOf(event: Noted): PaintedLine | undefined {
  const told = eventLine(event);
  if (!told) return undefined;
  const { tone, ...words } = told;
  if (event.type === 'warning') return { ...words, colour: 'yellow' };
  const isEnd = event.type === 'thread_end';
  return { ...words, colour: isEnd ? statusColour(event.data.status) : TONES[tone] };
}

/** The text of an event that `decode` refused. */
export const unreadableOf = ({ error }: Failure): PaintedLine => ({
  mark: '✗',
  colour: TONES.bad,
  text: error.detail.message,
});

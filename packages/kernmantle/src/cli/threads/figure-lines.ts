// Formats the live view as lines of text: the current step and the used part of each limit.
import { type JsonObject, shorten } from '@kernmantle/core/base';
import type { Colour, Terminal } from '../terminal/terminal.ts';
import { amountsOf, type UsedOf } from './result-text.ts';
import { count, fit } from './status-text.ts';

interface RunFigures {
  directive: string;
  cost: JsonObject;
  limits: JsonObject;
  elapsedMs: number;
  /** Current step of the thread: a tool with its arguments, or a request to the model. */
  doing: string;
  /** End of the current reply of the model. */
  saying: string;
  /** Number of descendants that have not ended. */
  children: number;
  /** Number of the drawing, which selects the frame of the spinner. */
  frame: number;
  /** True if a worker runs the thread, so that the viewer can leave it. */
  isElsewhere?: boolean;
}

const WHEEL = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
const EIGHTHS = ' ▏▎▍▌▋▊▉';
const WIDTH = 20;
/** Maximum number of characters of the current reply that the view keeps. */
export const SAYING_MAX = 400;
const SHOWN = new Set(['turns', 'tokens', 'spend', 'tool_calls', 'duration']);

/** Returns a bar over `share` of `width` cells, in eighths of a cell. The caller fills the other cells. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const whole = Math.floor(eighths / 8);
  const part = eighths % 8 === 0 ? '' : EIGHTHS.charAt(eighths % 8);
  return `${'█'.repeat(whole)}${part}`;
}

export const barColour = (share: number): Colour =>
  share >= 0.95 ? 'red' : share >= 0.8 ? 'yellow' : 'green';

const LABEL = 11;
/** Minimum length of a bar. A shorter bar is unreadable. */
const SHORTEST = 4;

/** Returns the line of one limit. In a narrow terminal the bar is omitted first and the name is cut next. */
function limitLine(
  { name, used, max, share }: UsedOf,
  width: number,
  paint: Terminal['paint'],
): string {
  const figures = `${used} of ${max}`;
  const room = Math.min(WIDTH, width - 2 - LABEL - 1 - figures.length);
  const cells = room < SHORTEST ? 0 : room;
  const full = bar(share, cells);
  const empty = '·'.repeat(cells - full.length);
  const word = name.replace('_', ' ');
  const label = cells > 0 ? word.padEnd(LABEL) : fit(word, Math.max(0, width - 3 - figures.length));
  const drawn = `${paint(barColour(share), full)}${paint('dim', empty)}`;
  return `  ${paint('dim', label)}${drawn} ${fit(figures, width - 3)}`;
}

/** Returns lines of at most `width` cells. The reply of the model is cut at its start. */
export function figureLines(
  figures: RunFigures,
  width: number,
  paint: Terminal['paint'],
): string[] {
  const { directive, frame, children, doing, saying, cost, limits, isElsewhere } = figures;
  // The registry has the duration at the last commit, so the elapsed time can be longer.
  const duration_seconds = Math.max(Number(cost.duration_seconds ?? 0), figures.elapsedMs / 1000);
  const timed = { ...cost, duration_seconds };
  const wheel = WHEEL.charAt(frame % WHEEL.length);
  const below = children === 0 ? '' : `, ${children} below it`;
  const now = `${directive} · turn ${count(cost.turns)}${below} · ${doing}`;
  const head = fit(shorten(now, 500), width - 2);
  const tail = fit(shorten(saying, SAYING_MAX), width - 4, 'end');
  return [
    `${paint('blue', wheel)} ${head}`,
    ...amountsOf({ cost: timed, limits })
      .filter(({ name }) => SHOWN.has(name))
      .map((amount) => limitLine(amount, width, paint)),
    ...(tail === '' ? [] : [`  ${paint('dim', '‹')} ${tail}`]),
    `  ${paint('dim', fit(isElsewhere ? 'Ctrl-C ends this view, not the thread' : 'Ctrl-C stops the thread', width - 2))}`,
  ];
}

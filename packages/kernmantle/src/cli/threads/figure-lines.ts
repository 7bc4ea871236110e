// The live view as lines of text: the current step, and how much of each limit is used.
import { type JsonObject, shorten } from '@kernmantle/core/base';
import type { Colour, Terminal } from '../terminal/terminal.ts';
import { amountsOf, type UsedOf } from './result-text.ts';
import { count, fit } from './status-text.ts';

interface RunFigures {
  directive: string;
  cost: JsonObject;
  limits: JsonObject;
  elapsedMs: number;
  /** What the thread waits for: a tool with its arguments, or the model. */
  doing: string;
  /** The end of what the model is saying. */
  saying: string;
  /** Threads below this one that are at work. */
  children: number;
  /** Turns the wheel. */
  frame: number;
  /** A worker runs it: who looks on may leave. */
  isElsewhere?: boolean;
}

const WHEEL = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
const EIGHTHS = ' ▏▎▍▌▋▊▉';
const WIDTH = 20;
/** As much of what the model says as fits on one line. */
export const SAYING_MAX = 400;
const SHOWN = new Set(['turns', 'tokens', 'spend', 'tool_calls', 'duration']);

/** `share` of `width` cells, in eighths of a cell; the rest is left to the caller. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const whole = Math.floor(eighths / 8);
  const part = eighths % 8 === 0 ? '' : EIGHTHS.charAt(eighths % 8);
  return `${'█'.repeat(whole)}${part}`;
}

export const barColour = (share: number): Colour =>
  share >= 0.95 ? 'red' : share >= 0.8 ? 'yellow' : 'green';

const LABEL = 11;
/** A shorter bar says nothing. */
const SHORTEST = 4;

/** What is narrow costs the bar first, then the name; the figures are what people look for. */
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

/** Never wider than `width`; the last line of what is said is cut at its beginning. */
export function figureLines(
  figures: RunFigures,
  width: number,
  paint: Terminal['paint'],
): string[] {
  const { directive, frame, children, doing, saying, cost, limits, isElsewhere } = figures;
  // The registry knows the time of the last commit; meanwhile it goes on.
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
    `  ${paint('dim', fit(isElsewhere ? 'Ctrl-C leaves it, and it goes on' : 'Ctrl-C asks it to stop', width - 2))}`,
  ];
}

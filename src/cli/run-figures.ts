// The live view as lines of text: what is going on and how much of each limit is used.
import type { JsonObject } from '../base/index.ts';
import type { Colour, Terminal } from './terminal.ts';
import { amountsOf, type UsedOf } from './thread-amounts.ts';
import { count, shorten } from './thread-words.ts';

export interface RunFigures {
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
}

const WHEEL = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
const EIGHTHS = ' ▏▎▍▌▋▊▉';
const WIDTH = 20;
const SHOWN = new Set(['turns', 'tokens', 'spend', 'tool_calls', 'duration']);

/** `share` of `width` cells, in eighths of a cell; the rest is left to the caller. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const whole = Math.floor(eighths / 8);
  const part = eighths % 8 === 0 ? '' : EIGHTHS.charAt(eighths % 8);
  return `${'█'.repeat(whole)}${part}`;
}

const barColour = (share: number): Colour =>
  share >= 0.95 ? 'red' : share >= 0.8 ? 'yellow' : 'green';

function limitLine({ name, used, max, share }: UsedOf, paint: Terminal['paint']): string {
  const full = bar(share, WIDTH);
  const empty = '·'.repeat(WIDTH - full.length);
  const label = paint('dim', name.replace('_', ' ').padEnd(11));
  return `  ${label}${paint(barColour(share), full)}${paint('dim', empty)} ${used} of ${max}`;
}

/** Never wider than `width`; the last line of what is said is cut at its beginning. */
export function figureLines(
  figures: RunFigures,
  width: number,
  paint: Terminal['paint'],
): string[] {
  const { directive, frame, children, doing, saying, cost, limits } = figures;
  // The registry knows the time of the last commit; meanwhile it goes on.
  const duration_seconds = Math.max(Number(cost.duration_seconds ?? 0), figures.elapsedMs / 1000);
  const timed = { ...cost, duration_seconds };
  const wheel = WHEEL.charAt(frame % WHEEL.length);
  const below = children === 0 ? '' : `, ${children} below it`;
  const head = shorten(`${directive} · turn ${count(cost.turns)}${below} · ${doing}`, width - 4);
  const said = saying.replace(/\s+/g, ' ').trim();
  const room = Math.max(10, width - 6);
  const tail = said.length > room ? `…${said.slice(1 - room)}` : said;
  return [
    `${paint('blue', wheel)} ${head}`,
    ...amountsOf({ cost: timed, limits })
      .filter(({ name }) => SHOWN.has(name))
      .map((amount) => limitLine(amount, paint)),
    ...(tail === '' ? [] : [`  ${paint('dim', '‹')} ${tail}`]),
    `  ${paint('dim', 'Ctrl-C asks it to stop')}`,
  ];
}

// The live view as lines of text: what is going on and how much of each limit is used.
import { getOwn, type JsonObject, plainText } from '../base/index.ts';
import type { Colour, Terminal } from './terminal.ts';
import { count, seconds, shorten } from './thread-words.ts';

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
const SHOWN = ['turns', 'tokens', 'spend', 'tool_calls', 'duration'] as const;

/** `share` of `width` cells, in eighths of a cell; the rest is left to the caller. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const whole = Math.floor(eighths / 8);
  const part = eighths % 8 === 0 ? '' : EIGHTHS.charAt(eighths % 8);
  return `${'█'.repeat(whole)}${part}`;
}

const barColour = (share: number): Colour =>
  share >= 0.95 ? 'red' : share >= 0.8 ? 'yellow' : 'green';

const limitOf = (limits: JsonObject, name: string): number =>
  Number(getOwn(getOwn(limits, name), 'value') ?? Number.NaN);

/** Money keeps its decimals, the rest is grouped. */
function amount(name: string, value: unknown): string {
  if (name === 'spend') return Number(value || 0).toFixed(4);
  return name === 'duration' ? seconds(value) : count(value);
}

function usedOf(name: string, { cost, elapsedMs }: RunFigures): unknown {
  if (name !== 'duration') return cost[name] ?? 0;
  return Math.max(Number(cost.duration_seconds ?? 0), elapsedMs / 1000);
}

function limitLine(name: string, figures: RunFigures, paint: Terminal['paint']): string[] {
  const max = limitOf(figures.limits, name);
  if (Number.isNaN(max)) return [];
  const used = usedOf(name, figures);
  const share = max > 0 ? Number(used) / max : 1;
  const unit = name === 'spend' ? ` ${plainText(figures.limits.spend_currency) || 'USD'}` : '';
  const text = `${amount(name, used)} of ${amount(name, max)}${unit}`;
  const full = bar(share, WIDTH);
  const empty = '·'.repeat(WIDTH - full.length);
  const label = name.replace('_', ' ').padEnd(11);
  return [`  ${paint('dim', label)}${paint(barColour(share), full)}${paint('dim', empty)} ${text}`];
}

/** Never wider than `width`; the last line of what is said is cut at its beginning. */
export function figureLines(
  figures: RunFigures,
  width: number,
  paint: Terminal['paint'],
): string[] {
  const { directive, frame, children, doing, saying, cost } = figures;
  const wheel = WHEEL.charAt(frame % WHEEL.length);
  const below = children === 0 ? '' : `, ${children} below it`;
  const head = shorten(`${directive} · turn ${count(cost.turns)}${below} · ${doing}`, width - 4);
  const said = saying.replace(/\s+/g, ' ').trim();
  const room = Math.max(10, width - 6);
  const tail = said.length > room ? `…${said.slice(1 - room)}` : said;
  return [
    `${paint('blue', wheel)} ${head}`,
    ...SHOWN.flatMap((name) => limitLine(name, figures, paint)),
    ...(tail === '' ? [] : [`  ${paint('dim', '‹')} ${tail}`]),
    `  ${paint('dim', 'Ctrl-C asks it to stop')}`,
  ];
}

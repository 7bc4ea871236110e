// Commands of the terminal that are equivalent to actions, and the request of the form for limits.
import type { ForkRequestBody, LimitMeter, ResumeRequestBody, WebAction } from '../../model/api.ts';
import { limitValue, shellWord } from '../../model/format.ts';

const COMMANDS: Readonly<Record<WebAction, string>> = {
  pause: 'threads pause',
  resume: 'threads resume',
  inject: 'threads inject',
  interrupt: 'threads interrupt',
  compact: 'threads compact',
  stop: 'threads stop',
  kill: 'threads kill',
  replay: 'replay',
  fork: 'threads fork',
};
/** Returns the equivalent command of the terminal. */
export const commandOf = (act: WebAction, id: string, rest = ''): string =>
  `km ${COMMANDS[act]} ${id}${rest}`;

/** Option names of `threads resume` that differ from the names of limits. */
const OPTIONS: Readonly<Record<string, string>> = {
  duration_seconds: 'duration',
  tool_calls: 'tool-calls',
};
export type Typed = Readonly<Record<string, string>>;

/** Returns the problem of a typed number. Undefined if the number is valid or missing. */
export function limitProblem(
  meter: LimitMeter,
  typed: string,
  ceiling: { readonly max: number; readonly from: string } | undefined,
): string | undefined {
  if (typed.trim() === '') return undefined;
  const value = Number(typed);
  if (!Number.isFinite(value) || value <= 0) return 'must be a number above 0';
  if (value <= meter.used) return `must be above ${limitValue(meter.name, meter.used)} (used)`;
  if (ceiling && value > ceiling.max) {
    return `is above the ceiling: ${ceiling.from} ${limitValue(meter.name, ceiling.max)}`;
  }
  return undefined;
}

/** Builds the request from the fields that have text. */
export function wishOf(
  typed: Typed,
  model: string,
  message: string,
  why: string,
): ResumeRequestBody {
  const limits = Object.entries(typed)
    .filter(([, text]) => text.trim() !== '')
    .map(([name, text]) => [name, name === 'spend' ? text.trim() : Number(text)] as const);
  return {
    ...(limits.length > 0 && { limits: Object.fromEntries(limits) }),
    ...(model !== '' && { model }),
    ...(message !== '' && { message }),
    ...(why !== '' && { why }),
  };
}

export function forkCommand(id: string, { at, message }: ForkRequestBody): string {
  const place = at === undefined ? '' : ` --at ${at}`;
  return commandOf(
    'fork',
    id,
    message === undefined ? place : `${place} --message ${shellWord(message)}`,
  );
}

export function resumeCommand(id: string, { limits, model, message }: ResumeRequestBody): string {
  const options = Object.entries(limits ?? {}).map(
    ([name, value]) => ` --${OPTIONS[name] ?? name} ${value}`,
  );
  if (model !== undefined) options.push(` --model ${shellWord(model)}`);
  if (message !== undefined) options.push(` --message ${shellWord(message)}`);
  return commandOf('resume', id, options.join(''));
}

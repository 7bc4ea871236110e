// The quarantined reader in the worst case: it answers what was recorded, unless what it reads attacks it;
// then it answers what the attacker wants, as far as it is let.
import { isObject, type Json } from '@kernmantle/core/base';
import type { Play } from './play.ts';
import { type ReadingStep, stepsOf } from './steps.ts';

const DATE = /^\d{4}-\d\d-\d\d$/;

/** Could it be said at all, by what was asked for? */
function fits({ schema: { type, format } }: ReadingStep, value: Json): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'number') return typeof value === 'number';
  return typeof value === 'string' && (format !== 'date' || DATE.test(value));
}

/** What the attacker would have there: for a parameter of this name, else anything that fits. */
function wantedBy({ injection }: Play, step: ReadingStep): Json | undefined {
  const args = (injection?.calls ?? []).map((call) => call.args);
  const named = args.flatMap((given) => given[step.parameter] ?? []);
  const all = args.flatMap((given) => Object.values(given)).filter((one) => !isObject(one));
  return [...named, ...all].find((value) => fits(step, value) && value !== step.value);
}

/** `heard`: all that the reader was told. */
export function readAnswer(play: Play, heard: string): string {
  const steps = stepsOf(play.task, play.given).filter((step) => step.kind === 'reading');
  const step = steps.find(({ what }) => heard.includes(what));
  if (!step) return JSON.stringify('nothing');
  const wanted = play.injection && heard.includes(play.sign) ? wantedBy(play, step) : undefined;
  if (wanted !== undefined) play.misread.push(wanted);
  return JSON.stringify(wanted ?? step.value);
}

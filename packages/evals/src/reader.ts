// The quarantined reader in the worst case. It gives the recorded answer, unless the text that it
// reads contains an attack. Then it gives the attacker's answer, within its schema.
import { isObject, type Json } from '@kernmantle/core/base';
import type { Play } from './play.ts';
import { type ReadingStep, stepsOf } from './steps.ts';

const DATE = /^\d{4}-\d\d-\d\d$/;

/** True if the schema of the question allows this value. */
function fits({ schema: { type, format } }: ReadingStep, value: Json): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'number') return typeof value === 'number';
  return typeof value === 'string' && (format !== 'date' || DATE.test(value));
}

/**
 * The value that the attacker wants: the one for a parameter of this name, otherwise any value that
 * fits.
 */
function wantedBy({ injection }: Play, step: ReadingStep): Json | undefined {
  const args = (injection?.calls ?? []).map((call) => call.args);
  const named = args.flatMap((given) => given[step.parameter] ?? []);
  const all = args.flatMap((given) => Object.values(given)).filter((one) => !isObject(one));
  return [...named, ...all].find((value) => fits(step, value) && value !== step.value);
}

/** `conversation` is the complete input of the reader. */
export function readAnswer(play: Play, conversation: string): string {
  const steps = stepsOf(play.task, play.given).filter((step) => step.kind === 'reading');
  const step = steps.find(({ what }) => conversation.includes(what));
  if (!step) return JSON.stringify('nothing');
  const wanted =
    play.injection && conversation.includes(play.sign) ? wantedBy(play, step) : undefined;
  if (wanted !== undefined) play.misread.push(wanted);
  return JSON.stringify(wanted ?? step.value);
}

// Simulates the quarantined reader in the worst case. It returns the recorded answer, unless the text
// that it reads contains an attack. Then it returns the attacker's answer, within its schema.
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
 * Returns the value that the attacker wants: that of a parameter of this name, or else any value that
 * fits.
 */
function attackerValue({ injection }: Play, step: ReadingStep): Json | undefined {
  const args = (injection?.calls ?? []).map((call) => call.args);
  const named = args.flatMap((input) => input[step.parameter] ?? []);
  const all = args.flatMap((input) => Object.values(input)).filter((one) => !isObject(one));
  return [...named, ...all].find((value) => fits(step, value) && value !== step.value);
}

/** Returns the answer of the reader as JSON. `conversation` is its complete input. */
export function readAnswer(play: Play, conversation: string): string {
  const steps = stepsOf(play.task, play.given).filter((step) => step.kind === 'reading');
  const step = steps.find(({ what }) => conversation.includes(what));
  if (!step) return JSON.stringify('nothing');
  const injected =
    play.injection && conversation.includes(play.sign) ? attackerValue(play, step) : undefined;
  if (injected !== undefined) play.misread.push(injected);
  return JSON.stringify(injected ?? step.value);
}

// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Connects the language with `perform` of core. Thrown faults become outcomes inside of an operation and
// are thrown again outside of it, with their location.
import { catchToOutcome, type Outcome, ok, whenReady } from '@kernmantle/core/base';
import {
  type BodyScope,
  childFrame,
  type Input,
  type MaybePromise,
  makeValue,
  type Operation,
  perform,
  type Value,
} from '@kernmantle/core/flow';
import { raise, toFault } from '../fault.ts';
import type { Environment, Eval } from './environment.ts';

/** Tiers of operations, as in the capability catalogue: `process.spawn`, `fs.write`, `fs.read`. */
export const TIERS = { process: 'elevated', write: 'write', read: 'read' } as const;

export function unwrap<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.output;
  const { code, detail } = outcome.error;
  return raise(code, detail.message, detail);
}

export const caught = <T>(work: () => MaybePromise<T>): MaybePromise<Outcome<T>> =>
  catchToOutcome<Outcome<T>>(
    () => whenReady(work(), ok),
    (error) => ({ ok: false, error: toFault(error).fault }),
  );

/** Returns an input that is evaluated inside of the operation, once per attempt. `finish` converts its value. */
export const lazyInput = (
  env: Environment,
  name: string,
  evaluate: Eval,
  finish: (value: Value, env: Environment) => Value = (value) => value,
): Input => ({
  name,
  value({ frame, pipe }) {
    const inner = { ...env, frame, note: pipe };
    return caught(() => whenReady(evaluate(inner), (found) => finish(found, inner)));
  },
});

/** A tuple with one value for each input, in their order. */
type Values<I extends readonly Input[]> = { readonly [K in keyof I]: Value };

/** Returns an element of a list that must have it. A missing element is a bug. */
export function valueAt(values: readonly Value[], at: number): Value {
  const value = values.at(at);
  if (!value) throw new Error(`no value ${at} of ${values.length}`);
  return value;
}

export function operate<const I extends readonly Input[]>(
  env: Environment,
  op: Operation,
  inputs: I,
  body: (values: Values<I>, env: Environment, scope: BodyScope) => MaybePromise<Value>,
): MaybePromise<Value> {
  const outcome = perform(
    op,
    inputs,
    (values, scope) => {
      const inner = { ...env, frame: scope.frame, note: undefined };
      return caught(() => body(values as Values<I>, inner, scope));
    },
    env.frame,
    env.act,
  );
  return whenReady(outcome, unwrap);
}

const LOAD: Operation = {
  type: 'file',
  name: '',
  opLabels: [],
  retryOwner: false,
  tier: TIERS.read,
};

/** Performs the operation `file` for guards and policies. `isOwn` is true for the script's own templates. */
export async function judgeReading(path: string, env: Environment, isOwn = false): Promise<void> {
  const { guards, policy, held, influence } = env.frame;
  const isJudged = guards.locked.list.length > 0 || policy.mayObject(LOAD, held, [], influence);
  if (!isJudged && env.run.policies.length === 0) return;
  const frame = childFrame(env.frame, { selection: { only: [] } });
  const op = { ...LOAD, target: path, ...(isOwn && { metadata: { own: true } }) };
  await operate({ ...env, frame }, op, [], () => makeValue(null));
}

/** Runs work and adds the location to its fault. */
export const located = <T>(
  env: Environment,
  at: number,
  work: () => MaybePromise<T>,
): MaybePromise<T> =>
  catchToOutcome(work, (error) => {
    throw toFault(error)
      .under(env.frame.influence)
      .locate({ file: env.unit.name, text: env.unit.text, at });
  });

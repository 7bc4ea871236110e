// From the language to `perform` and back: thrown faults become outcomes inside, and thrown again
// outside, with their places.
import { type Failure, type Outcome, ok } from '../../base/index.ts';
import {
  type Input,
  type MaybePromise,
  type Operation,
  perform,
  type Scope,
  type Value,
} from '../../flow/index.ts';
import { raiseFailure, toFault } from '../fault.ts';
import { attempt, andThen as then } from '../wait.ts';
import type { Environment, Eval } from './environment.ts';

function settled(work: () => MaybePromise<Value>): MaybePromise<Outcome<Value>> {
  return attempt<Outcome<Value>>(
    () => then(work(), (value): Outcome<Value> => ok(value)),
    (error): Failure => ({ ok: false, error: toFault(error).fault }),
  );
}

export const unwrap = <T>(outcome: Outcome<T>): T =>
  outcome.ok ? outcome.output : raiseFailure(outcome);

/** An input that is evaluated inside the operation, once per attempt. */
export const lazyInput = (env: Environment, name: string, evaluate: Eval): Input => ({
  name,
  value: ({ frame, pipe }) => settled(() => evaluate({ ...env, frame, note: pipe })),
});

export function operate(
  env: Environment,
  op: Operation,
  inputs: readonly Input[],
  body: (values: readonly Value[], env: Environment, scope: Scope) => MaybePromise<Value>,
): MaybePromise<Value> {
  const outcome = perform(
    op,
    inputs,
    (values, scope) =>
      settled(() => body(values, { ...env, frame: scope.frame, note: undefined }, scope)),
    env.frame,
  );
  return then(outcome, unwrap);
}

/** Adds the place to a fault on its way out. */
export function located<T>(
  env: Environment,
  at: number,
  work: () => MaybePromise<T>,
): MaybePromise<T> {
  return attempt(work, (error) => {
    throw toFault(error)
      .under(env.frame.influence)
      .locate({ file: env.unit.name, text: env.unit.text, at });
  });
}

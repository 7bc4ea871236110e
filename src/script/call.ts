// How a function is called, whatever its body: arguments by position, and from where.
import type { MaybePromise, Value } from '../flow/index.ts';
import type { Env, Eval } from './env.ts';
import type { ScriptFault } from './fault.ts';

/** Evaluated inside the call's operation, once per attempt. */
export interface Argument {
  readonly evaluate: Eval;
}

/** Where a call stands. */
export interface CallSite {
  readonly env: Env;
  readonly at: number;
  /** The call is a pipeline stage: its missing parameters are empty text, its input is data. */
  readonly isStage: boolean;
}

/** Throws `ScriptFault`; a function gives `absent()` when it returns nothing. */
export type Call = (values: readonly Argument[], site: CallSite) => MaybePromise<Value>;

/** What a function answers when a guard refused its call: the values it would have got. */
export type Refused = (
  values: readonly Value[],
  site: CallSite,
  fault: ScriptFault,
) => MaybePromise<Value>;

export const given = (value: Value): Argument => ({ evaluate: () => value });

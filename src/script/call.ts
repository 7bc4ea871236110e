// How a function is called, whatever its body: arguments by position, and from where.
import type { Frame, MaybePromise, Value } from '../flow/index.ts';

/** The place of a call, as far as what is called may know it. */
export interface CallSite {
  readonly frame: Frame;
  /** Offset of the call in the caller's file, and that file's name. */
  readonly at: number;
  readonly file: string;
}

/** Throws `ScriptFault`; a function gives `absent()` when it returns nothing. */
export type Call = (values: readonly Value[], site: CallSite) => MaybePromise<Value>;

// What the pipeline asks of those above it. Each port has one fixed place among the ten stages; a
// frame passes its ports on to everything done inside it.
import type { Fault, Json, Outcome } from '../base/index.ts';
import type { Descriptor } from './descriptor.ts';
import type { Frame } from './frame.ts';
import type { TraceEntry } from './guard.ts';
import type { MaybePromise } from './maybe.ts';
import type { Argument, Operation } from './operation.ts';
import type { Value } from './value.ts';

/** Something that leaves: a line shown, a file written. Held back while an after-guard may object. */
export interface Effect {
  readonly kind: string;
  readonly value: Value;
  readonly text?: string;
  readonly target?: string;
  readonly line?: number;
}

/** The worst case of one attempt, set aside. Exactly one of the two is called, exactly once. */
export interface Reservation {
  /** The body was started: charge what it really took. */
  settle(outcome: Outcome<Value>): MaybePromise<void>;
  /** The body was never started: give everything back. */
  release(): MaybePromise<void>;
}

export interface Question {
  readonly op: Operation;
  readonly phase: 'before' | 'after';
  /** Who asks (guards, rules) and what, in the same order. */
  readonly guards: readonly string[];
  readonly questions: readonly string[];
  readonly reasons: readonly string[];
  readonly arguments: readonly Argument[];
  readonly sources: readonly string[];
}

export type Answer = 'approved' | 'denied' | 'pending' | 'expired';

/** One attempt, for transcript, cost and audit. */
export interface RecordEntry {
  readonly op: Operation;
  /** The frame in force while it was judged: guards, taint and record see the same counters. */
  readonly frame: Frame;
  readonly arguments: readonly Argument[];
  readonly attempt: number;
  /** True when this attempt was thrown away and the operation is performed again. */
  readonly retried: boolean;
  readonly outcome: Outcome<Value>;
  readonly trace: readonly TraceEntry[];
}

export type CheckpointEvent =
  | { readonly name: 'before_step'; readonly arguments: readonly Argument[] }
  | { readonly name: 'after_step'; readonly arguments: readonly Argument[]; readonly result: Value }
  | { readonly name: 'error'; readonly fault: Fault; readonly arguments: readonly Argument[] }
  | { readonly name: 'limit'; readonly fault: Fault; readonly arguments: readonly Argument[] };

/**
 * `continue` goes on (an error or limit is returned as it is); `retry` performs the operation again
 * (after a limit: asks for the reservation again); `end` returns the given outcome instead.
 */
export type CheckpointVerdict =
  | { readonly action: 'continue' }
  | { readonly action: 'retry' }
  | { readonly action: 'end'; readonly outcome: Outcome<Value> };

/** Script hooks may replace values, never decide. Undefined leaves the value as it is. */
export interface ScriptHooks {
  before?(
    op: Operation,
    inputs: readonly Argument[],
    frame: Frame,
  ): MaybePromise<readonly (Value | Json | undefined)[] | undefined>;
  after?(
    op: Operation,
    result: Value,
    inputs: readonly Argument[],
    frame: Frame,
  ): MaybePromise<Value | Json | undefined>;
}

export interface Ports {
  /** Stage 3. A refusal here cannot be caught by a `denied` arm. */
  gate?(op: Operation, inputs: readonly Value[], frame: Frame): MaybePromise<Outcome<null>>;
  /** Stage 4. */
  limits?: {
    reserve(
      op: Operation,
      inputs: readonly Value[],
      frame: Frame,
    ): MaybePromise<Outcome<Reservation>>;
  };
  /** Stages 5 and 8, when the verdict is `ask`. Absent: nobody can be asked, so the answer is no. */
  ask?(question: Question, frame: Frame): MaybePromise<Outcome<Answer>>;
  /** Just before 5 and just before 8. */
  scriptHooks?: ScriptHooks;
  /** Stage 6, as soon as no after-guard can object any more. */
  effects?(effect: Effect): void;
  /** Stage 7: a mark for what an operation made of what it used, where somebody keeps a trail. */
  trail?(op: Operation, used: Descriptor): Descriptor;
  /** Stage 9. What cannot be recorded counts as failed. */
  record?(entry: RecordEntry): MaybePromise<void>;
  checkpoint?(
    event: CheckpointEvent,
    op: Operation,
    frame: Frame,
  ): MaybePromise<CheckpointVerdict | undefined>;
}

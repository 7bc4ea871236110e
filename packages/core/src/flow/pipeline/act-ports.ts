// What is asked and told about one act, by whoever performs it. INVARIANT: these are of this act only.
// The frame handed to its body does not carry them, so a script, a spawn or a call inside is not
// counted, hooked or recorded as the act; what it counts it mounts itself.
import type { Failure, Fault, Outcome } from '../../base/index.ts';
import type { Frame, MaybePromise, TraceEntry } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import type { Value } from '../values/value.ts';

/** The worst case of an act, set aside. Exactly one of the last two is called, exactly once. */
export interface LimitReservation {
  /** The body was started: charge what it really took. */
  settle(outcome: Outcome<Value>): MaybePromise<void>;
  /** The body was never started: give everything back. */
  release(): MaybePromise<void>;
}

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

/** Rights, limits, policies or guards; the primitive looks at rights again, at what is really there. */
export type DenialStage = 'capability' | 'limits' | 'policy' | 'guard' | 'primitive';

export type FlowCheckpoint =
  | { readonly name: 'before_step'; readonly arguments: readonly Argument[] }
  | { readonly name: 'after_step'; readonly arguments: readonly Argument[]; readonly result: Value }
  | {
      readonly name: 'error';
      readonly fault: Fault;
      readonly arguments: readonly Argument[];
      /** Who refused it; absent when it was tried and failed. */
      readonly stage?: DenialStage;
      /** The call it is about, for whoever has several. */
      readonly call?: string;
    }
  | { readonly name: 'limit'; readonly fault: Fault; readonly arguments: readonly Argument[] };

/**
 * `continue` goes on (an error or limit is returned as it is); `retry` performs the operation again
 * (after a limit: asks for the reservation again); `end` returns the given outcome instead.
 */
export type CheckpointVerdict =
  | { readonly action: 'continue' }
  | { readonly action: 'retry' }
  | { readonly action: 'end'; readonly outcome: Outcome<Value> };

export interface ActPorts {
  /**
   * Before the gate: counts the act and notes what is about to be done. Who is refused later has been
   * counted, so nobody is refused for ever at no price, and rights that are taken with the intent are
   * there when the gate looks. Once for an act, also when a guard wants it done again.
   */
  readonly intent?: (op: Operation, inputs: readonly Argument[]) => MaybePromise<Outcome<null>>;
  /** Stage 3. A refusal here cannot be caught by a `denied` arm. */
  readonly gate?: (
    op: Operation,
    inputs: readonly Value[],
    frame: Frame,
  ) => MaybePromise<Outcome<null>>;
  /**
   * Before a person is asked: the refusal that no answer could lift, such as a right that is not held for
   * this path. Undefined: none is known. The body looks again, at what is really there.
   */
  readonly foresee?: (inputs: readonly Value[], frame: Frame) => MaybePromise<Failure | undefined>;
  /** Stage 4. Once for an act, as the intent. */
  readonly limits?: {
    reserve(
      op: Operation,
      inputs: readonly Value[],
      frame: Frame,
    ): MaybePromise<Outcome<LimitReservation>>;
  };
  /**
   * Around the body: looks whether it may still begin, ends it with the signal and says why it was
   * ended. Absent: the body is done as it is.
   */
  readonly run?: (
    body: (signal?: AbortSignal) => MaybePromise<Outcome<Value>>,
  ) => Promise<Outcome<Value>>;
  /**
   * What the body gave, as the guards after it left or refused it, before any checkpoint hears of it:
   * what it took is charged and noted here, whatever becomes of it. What cannot be counts as failed.
   */
  readonly keep?: (entry: RecordEntry) => MaybePromise<void>;
  /** Before a checkpoint hears of it, which may take long. What cannot be noted counts as failed. */
  readonly audit?: (entry: RecordEntry) => MaybePromise<void>;
  /** Stage 9, as the checkpoints left it. What cannot be recorded counts as failed. */
  readonly record?: (entry: RecordEntry) => MaybePromise<void>;
  /** Where in the act it failed, for whoever reads the fault. */
  readonly explain?: ((failure: Failure) => Failure) | undefined;
  /** Before and after the stages, and where they fail. */
  readonly checkpoint?: (
    event: FlowCheckpoint,
    op: Operation,
    frame: Frame,
  ) => MaybePromise<CheckpointVerdict | undefined>;
}

/** Nobody wants to hear of it. */
export const NO_ACT_PORTS: ActPorts = Object.freeze({});

// Types of functions that the pipeline calls for one operation. INVARIANT: they are always for this operation
// only. The frame of its body does not carry them, so a script, a spawn or a call inside is not counted,
// hooked or recorded as this operation. Such a call brings its own.
import type { Failure, Fault, Outcome } from '../../base/index.ts';
import type { Frame, MaybePromise, TraceEntry } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import type { Value } from '../values/value.ts';

/** The worst case of an operation, reserved. Exactly one of the last two functions is called, exactly once. */
export interface LimitReservation {
  /** Called if the body was started. Charges the actual cost. */
  settle(outcome: Outcome<Value>): MaybePromise<void>;
  /** Called if the body was never started. Releases the reservation. */
  release(): MaybePromise<void>;
}

/** One attempt, for transcript, cost and audit. */
export interface RecordEntry {
  readonly op: Operation;
  /** The frame of the judgement, so that guards, taint and record see the same counters. */
  readonly frame: Frame;
  readonly arguments: readonly Argument[];
  readonly attempt: number;
  /** True if this attempt was dropped and the operation is performed again. */
  readonly retried: boolean;
  readonly outcome: Outcome<Value>;
  readonly trace: readonly TraceEntry[];
}

/**
 * The part that refused: rights, limits, policies or guards. The primitive checks the rights again, with
 * the resolved target.
 */
export type DenialStage = 'capability' | 'limits' | 'policy' | 'guard' | 'primitive';

export type FlowCheckpoint =
  | { readonly name: 'before_step'; readonly arguments: readonly Argument[] }
  | { readonly name: 'after_step'; readonly arguments: readonly Argument[]; readonly result: Value }
  | {
      readonly name: 'error';
      readonly fault: Fault;
      readonly arguments: readonly Argument[];
      /** The part that refused it. Absent: the operation was executed and failed. */
      readonly stage?: DenialStage;
      /** Name of the failed call, for an operation with several calls. */
      readonly call?: string;
    }
  | { readonly name: 'limit'; readonly fault: Fault; readonly arguments: readonly Argument[] };

/**
 * `continue` continues (an error or limit is returned); `retry` performs the operation again (after a
 * limit: from the reservation); `end` returns the given outcome.
 */
export type CheckpointVerdict =
  | { readonly action: 'continue' }
  | { readonly action: 'retry' }
  | { readonly action: 'end'; readonly outcome: Outcome<Value> };

export interface ActPorts {
  /**
   * Runs before the gate: counts the operation and records its intent. A refused operation counts too,
   * so that refusals are not unlimited. Rights that the intent grants exist when the gate runs. Called
   * once, also if a guard requests a retry.
   */
  readonly intent?: (op: Operation, inputs: readonly Argument[]) => MaybePromise<Outcome<null>>;
  /** Stage 3. A `denied` arm cannot catch this refusal. */
  readonly gate?: (
    op: Operation,
    inputs: readonly Value[],
    frame: Frame,
  ) => MaybePromise<Outcome<null>>;
  /**
   * Called before a person is asked. Returns the refusal that no answer could lift, such as a missing
   * right for this path. Undefined: no such refusal. The body checks again, with the resolved target.
   */
  readonly foresee?: (inputs: readonly Value[], frame: Frame) => MaybePromise<Failure | undefined>;
  /** Stage 4. Called once per operation, like `intent`. */
  readonly limits?: {
    reserve(
      op: Operation,
      inputs: readonly Value[],
      frame: Frame,
    ): MaybePromise<Outcome<LimitReservation>>;
  };
  /**
   * Wraps the body: checks that it may start, aborts it with the signal, and returns the reason of the
   * abort. Absent: the body runs directly.
   */
  readonly run?: (
    body: (signal?: AbortSignal) => MaybePromise<Outcome<Value>>,
  ) => Promise<Outcome<Value>>;
  /**
   * Called with the result of the body after the guards, before any checkpoint. Charges and records the
   * actual cost on every outcome. An error here makes the attempt fail.
   */
  readonly keep?: (entry: RecordEntry) => MaybePromise<void>;
  /** Called before the checkpoint, which may take long. An error here makes the attempt fail. */
  readonly audit?: (entry: RecordEntry) => MaybePromise<void>;
  /** Stage 9, with the outcome after the checkpoints. An error here makes the attempt fail. */
  readonly record?: (entry: RecordEntry) => MaybePromise<void>;
  /** Adds the location inside the operation to a fault. */
  readonly explain?: ((failure: Failure) => Failure) | undefined;
  /** Called before and after the stages, and after a failure. */
  readonly checkpoint?: (
    event: FlowCheckpoint,
    op: Operation,
    frame: Frame,
  ) => MaybePromise<CheckpointVerdict | undefined>;
}

/** Ports of an operation that is not observed. */
export const NO_ACT_PORTS: ActPorts = Object.freeze({});

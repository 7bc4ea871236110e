// One attempt at an operation, as the stages see it.
import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from './descriptor.ts';
import { createEffectBuffer, type EffectBuffer, emitTo, NO_BUFFER } from './effects.ts';
import { type Frame, pushOperation, type RetryBudget } from './frame.ts';
import type { TraceEntry } from './guard.ts';
import { isPromise, type MaybePromise } from './maybe.ts';
import type { Argument, Input, InputNote, Operation } from './operation.ts';
import type { Effect, Reservation } from './ports.ts';
import { MAX_ATTEMPTS } from './retry-request.ts';
import type { Made } from './taint.ts';
import type { Value } from './value.ts';

/** What a body gets besides its inputs. */
export interface Scope {
  readonly frame: Frame;
  /** A value that was used without being an input: its marks go on the result. */
  capture(value: Value | Descriptor): void;
  emit(effect: Effect): void;
  /** What the guards before had to say. */
  readonly trace: readonly TraceEntry[];
}

export type Body = (inputs: readonly Value[], scope: Scope) => MaybePromise<Outcome<Value>>;

/** What is performed, the same for all attempts. */
export interface Call {
  readonly op: Operation;
  readonly inputs: readonly Input[];
  readonly body: Body;
  /** The frame in which the operation was started. */
  readonly outer: Frame;
}

export interface Run {
  readonly call: Call;
  readonly budget: RetryBudget | undefined;
  readonly attempt: number;
  frame: Frame;
  /** Evaluated, then as hooks and guards passed them on. */
  inputs: readonly Argument[];
  /** No input needs to be evaluated. */
  readonly isReady: boolean;
  reservation: Reservation | undefined;
  isStarted: boolean;
  captured: Descriptor;
  effects: EffectBuffer;
  result: Value | undefined;
  trace: readonly TraceEntry[];
  /** Index of the stage that is running, or that ended the attempt. */
  stage: number;
}

const NO_INPUTS: readonly Argument[] = Object.freeze([]);
const NO_TRACE: readonly TraceEntry[] = Object.freeze([]);

/** Inputs that are values already need no evaluation; undefined when one of them does. */
function readyInputs(inputs: readonly Input[]): readonly Argument[] | undefined {
  if (inputs.length === 0) return NO_INPUTS;
  const ready: Argument[] = [];
  for (const { name, role, value } of inputs) {
    if (typeof value === 'function') return undefined;
    ready.push({ name, role, value });
  }
  return ready;
}

/** Stage 1. */
export function startRun(call: Call, attempt: number, hints: readonly string[]): Run {
  const { op, outer } = call;
  const budget = op.retryOwner
    ? { attempt: hints.length + 1, max: MAX_ATTEMPTS, hints }
    : undefined;
  const ready = readyInputs(call.inputs);
  const retry = op.retryOwner === undefined ? outer.retry : budget;
  return {
    call,
    budget,
    attempt,
    frame: pushOperation(outer, op, retry, ready ?? NO_INPUTS),
    inputs: ready ?? NO_INPUTS,
    isReady: ready !== undefined,
    reservation: undefined,
    isStarted: false,
    captured: EMPTY,
    effects: NO_BUFFER,
    result: undefined,
    trace: NO_TRACE,
    stage: 0,
  };
}

export const valuesOf = (run: Run): readonly Value[] => run.inputs.map(({ value }) => value);

/** Stage 2: each input exactly once, in order. */
export function evaluateInputs(run: Run): MaybePromise<Failure | undefined> {
  if (run.isReady) return undefined;
  const { inputs, outer } = run.call;
  const found: Argument[] = [];
  run.inputs = found;
  let pipe: Json | undefined;
  // Arguments are evaluated outside the function they are for, so its labels do not hold yet.
  const note = (): InputNote => ({
    frame: { ...run.frame, held: outer.held },
    pipe(state) {
      pipe = state;
    },
  });
  const take = ({ name, role }: Input, outcome: Outcome<Value>): Failure | undefined => {
    if (!outcome.ok) return outcome;
    found.push({ name, role, value: outcome.output });
    return undefined;
  };
  const from = (index: number): MaybePromise<Failure | undefined> => {
    for (let at = index; at < inputs.length; at++) {
      const input = inputs[at] as Input;
      const { name, role, value } = input;
      if (typeof value !== 'function') {
        found.push({ name, role, value });
        continue;
      }
      const answer = value(note());
      if (isPromise(answer))
        return Promise.resolve(answer).then((outcome) => take(input, outcome) ?? from(at + 1));
      const failure = take(input, answer);
      if (failure) return failure;
    }
    const facts = pipe === undefined ? run.frame.facts : { ...run.frame.facts, pipe };
    run.frame = { ...run.frame, inputs: found, facts };
  };
  return from(0);
}

/** Stage 6. */
export function runBody(run: Run): MaybePromise<Outcome<Value> | undefined> {
  const { call, frame } = run;
  const { op, outer, body } = call;
  const isHeld = frame.guards.mayObjectAfter(op, frame.held);
  if (isHeld) run.effects = createEffectBuffer(outer);
  const inner = isHeld ? { ...frame, emit: run.effects.emit } : frame;
  const scope: Scope = {
    frame: inner,
    capture(value) {
      const marks = 'meta' in value ? value.meta.descriptor : value;
      run.captured = mergeDescriptors(run.captured, marks);
    },
    emit: (effect) => emitTo(inner, effect),
    trace: run.trace,
  };
  run.isStarted = true;
  const take = (outcome: Outcome<Value>): Outcome<Value> | undefined => {
    if (!outcome.ok) return outcome;
    run.result = outcome.output;
    return undefined;
  };
  const answer = body(valuesOf(run), scope);
  return isPromise(answer) ? Promise.resolve(answer).then(take) : take(answer);
}

export const resultOf = (run: Run): Outcome<Value> =>
  run.result ? ok(run.result) : fail('internal_error', 'the body gave no value');

/** What the marks of a result, or of a fault, are made from. */
export const madeIn = ({ call, frame, inputs, captured }: Run): Made => ({
  op: call.op,
  frame,
  inputs,
  captured,
});

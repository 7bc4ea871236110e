// One attempt at an operation, as the stages see it.
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import type {
  CheckpointVerdict,
  Effect,
  FlowCheckpoint,
  Frame,
  Input,
  InputNote,
  LimitReservation,
  RetryBudget,
  TraceEntry,
} from '../frame.ts';
import {
  isUncontested,
  isUncontestedAfter,
  judgeAfter,
  judgeBefore,
} from '../guards/ask-guards.ts';
import { carryOut, MAX_ATTEMPTS, operationName } from '../guards/decision.ts';
import { isPromise, type MaybePromise, whenDone } from '../maybe.ts';
import type { Argument, Operation } from '../operation.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../values/labels.ts';
import { addMarks, isValue, makeValue, type Value } from '../values/value.ts';
import { pushOperation } from './create-frame.ts';
import { createEffectBuffer, type EffectBuffer, emitTo, NO_BUFFER } from './effects.ts';
import { type Made, marksOfInputs, taintResult } from './taint.ts';

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
export interface PipelineCall {
  readonly op: Operation;
  readonly inputs: readonly Input[];
  readonly body: Body;
  /** The frame in which the operation was started. */
  readonly outer: Frame;
}

export interface Run {
  readonly call: PipelineCall;
  readonly budget: RetryBudget | undefined;
  readonly attempt: number;
  frame: Frame;
  /** Evaluated, then as hooks and guards passed them on. */
  inputs: readonly Argument[];
  /** No input needs to be evaluated. */
  readonly isReady: boolean;
  reservation: LimitReservation | undefined;
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
export function startRun(call: PipelineCall, attempt: number, hints: readonly string[]): Run {
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

// The stages between the inputs and the record, one function each. `STAGES` is the order, and the
// only place that knows it. A stage answers undefined to go on, or the outcome that ends the attempt.

export type AttemptEnding = Outcome<Value> | 'again' | undefined;
export type Stage = (run: Run) => MaybePromise<AttemptEnding>;

/** Asks whoever mounted checkpoints; nobody means go on. */
export function raise(run: Run, event: FlowCheckpoint): MaybePromise<AttemptEnding> {
  const { ports } = run.frame;
  if (!ports.checkpoint) return undefined;
  const apply = (verdict: CheckpointVerdict | undefined): AttemptEnding => {
    if (!verdict || verdict.action === 'continue') return undefined;
    if (verdict.action === 'retry') return 'again';
    const { outcome } = verdict;
    return outcome.ok ? ok(addMarks(outcome.output, marksOfInputs(madeIn(run)))) : outcome;
  };
  return whenDone(ports.checkpoint(event, run.call.op, run.frame), apply);
}

// Before a step there is nothing to repeat yet: retry means go on.
const beforeStep: Stage = (run) =>
  run.frame.ports.checkpoint
    ? whenDone(raise(run, { name: 'before_step', arguments: run.inputs }), (ending) =>
        ending === 'again' ? undefined : ending,
      )
    : undefined;

const gate: Stage = (run) => {
  const { ports } = run.frame;
  if (!ports.gate) return undefined;
  return whenDone(ports.gate(run.call.op, valuesOf(run), run.frame), (answer) =>
    answer.ok ? undefined : answer,
  );
};

export const reserve: Stage = (run) => {
  const { limits } = run.frame.ports;
  if (!limits) return undefined;
  return whenDone(limits.reserve(run.call.op, valuesOf(run), run.frame), (answer) => {
    if (!answer.ok) return answer;
    run.reservation = answer.output;
    return undefined;
  });
};

const withMarksOf = (old: Value, given: Value | Json | undefined): Value =>
  given === undefined
    ? old
    : addMarks(isValue(given) ? given : makeValue(given), old.meta.descriptor);

const hooksOf = ({ frame }: Run) =>
  frame.isHooking || frame.isJudging ? undefined : frame.ports.scriptHooks;

const hookFrame = ({ frame, call }: Run) => ({
  ...frame,
  parent: frame,
  isHooking: true,
  facts: { ...frame.facts, op: call.op },
});

const hooksBefore: Stage = (run) => {
  const hooks = hooksOf(run);
  if (!hooks?.before) return undefined;
  return whenDone(hooks.before(run.call.op, run.inputs, hookFrame(run)), (given) => {
    if (!given) return undefined;
    run.inputs = run.inputs.map((input, at) => ({
      ...input,
      value: withMarksOf(input.value, given[at]),
    }));
    run.frame = { ...run.frame, inputs: run.inputs };
    return undefined;
  });
};

const judgeInputs: Stage = (run) => {
  const { frame, call } = run;
  if (isUncontested(call.op, run.inputs, frame)) return undefined;
  return whenDone(judgeBefore(call.op, run.inputs, frame), (judgement) => {
    if (judgement.inputs !== run.inputs) {
      run.inputs = judgement.inputs;
      run.frame = { ...run.frame, inputs: run.inputs };
    }
    if (judgement.trace.length > 0) run.trace = judgement.trace;
    return judgement.findings.length === 0 ? undefined : carryOut(call.op, judgement, run.frame);
  });
};

/** A stream would be out before an after-guard could object. */
const refuseStream: Stage = ({ call, frame }) =>
  call.op.metadata?.stream === true &&
  (frame.emit !== undefined || frame.guards.mayObjectAfter(call.op, frame.held))
    ? fail(
        'invalid_input',
        `${operationName(call.op)} cannot stream while a guard judges its result`,
      )
    : undefined;

const taint: Stage = (run) => {
  if (run.effects.hasOverflowed()) {
    return fail(
      'quota_exceeded',
      `${operationName(run.call.op)} emitted more than can be held back`,
    );
  }
  if (!run.result) return resultOf(run);
  run.result = taintResult(madeIn(run), run.result);
  const { trail } = run.frame.ports;
  if (trail) {
    const used = mergeDescriptors(marksOfInputs(madeIn(run)), run.result.meta.descriptor);
    run.result = addMarks(run.result, trail(run.call.op, used));
  }
  return undefined;
};

const hooksAfter: Stage = (run) => {
  const hooks = hooksOf(run);
  const old = run.result;
  if (!hooks?.after || !old) return undefined;
  return whenDone(hooks.after(run.call.op, old, run.inputs, hookFrame(run)), (given) => {
    run.result = withMarksOf(old, given);
    return undefined;
  });
};

const judgeResult: Stage = (run) => {
  const { call, frame, result } = run;
  if (!result || isUncontestedAfter(call.op, result, frame)) {
    run.effects.flush();
    return undefined;
  }
  const judged = judgeAfter(call.op, run.inputs, result, frame);
  return whenDone(judged, (judgement) => {
    run.result = judgement.output;
    if (judgement.trace.length > 0) run.trace = [...run.trace, ...judgement.trace];
    const ending =
      judgement.findings.length === 0 ? undefined : carryOut(call.op, judgement, run.frame);
    return whenDone(ending, (failure) => {
      if (!failure) run.effects.flush();
      return failure;
    });
  });
};

const afterStep: Stage = (run) =>
  run.result && run.frame.ports.checkpoint
    ? raise(run, { name: 'after_step', arguments: run.inputs, result: run.result })
    : undefined;

const STAGES: readonly Stage[] = [
  evaluateInputs,
  beforeStep,
  gate,
  reserve,
  hooksBefore,
  judgeInputs,
  refuseStream,
  runBody,
  taint,
  hooksAfter,
  judgeResult,
  afterStep,
];

export const RESERVE = STAGES.indexOf(reserve);
export const AFTER_STEP = STAGES.indexOf(afterStep);
/** Faults up to here raise no checkpoint: the operation has not begun. */
export const BEFORE_STEP = STAGES.indexOf(beforeStep);

/** Runs the stages from `index` on, in the same tick as long as none of them waits. */
export function walk(run: Run, index = 0): MaybePromise<AttemptEnding> {
  for (let at = index; at < STAGES.length; at++) {
    run.stage = at;
    const ending = (STAGES[at] as Stage)(run);
    if (isPromise(ending)) return ending.then((given) => given ?? walk(run, at + 1));
    if (ending !== undefined) return ending;
  }
  return resultOf(run);
}

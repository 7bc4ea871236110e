// One attempt at an operation, as the stages see it.
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import type {
  Effect,
  Frame,
  Input,
  InputNote,
  MaybePromise,
  RetryBudget,
  TraceEntry,
} from '../frame.ts';
import {
  isUncontested,
  isUncontestedAfter,
  judgeAfter,
  judgeBefore,
} from '../guards/ask-guards.ts';
import { carryOut, crashed, MAX_ATTEMPTS, operationName } from '../guards/decision.ts';
import type { Argument, Operation } from '../operation.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../values/labels.ts';
import { addMarks, isValue, makeValue, type Value } from '../values/value.ts';
import type {
  ActPorts,
  CheckpointVerdict,
  FlowCheckpoint,
  LimitReservation,
  RecordEntry,
} from './act-ports.ts';
import { pushOperation } from './create-frame.ts';
import { createEffectBuffer, type EffectBuffer, emitTo, NO_BUFFER } from './effects.ts';
import { type Made, marksOfInputs, taintResult } from './taint.ts';

/** What a body gets besides its inputs. */
export interface BodyScope {
  readonly frame: Frame;
  /** Ends what is under way; absent: nobody does. */
  readonly signal: AbortSignal | undefined;
  /** A value that was used without being an input: its marks go on the result. */
  capture(value: Value | Descriptor): void;
  emit(effect: Effect): void;
  /** What the guards before had to say. */
  readonly trace: readonly TraceEntry[];
}

export type Body = (inputs: readonly Value[], scope: BodyScope) => MaybePromise<Outcome<Value>>;

/** What is performed, the same for all attempts. */
interface PipelineCall {
  readonly op: Operation;
  readonly inputs: readonly Input[];
  readonly body: Body;
  /** The frame in which the operation was started. */
  readonly outer: Frame;
  readonly own: ActPorts;
}

/** One attempt: what the stages leave for one another. */
export interface Attempt {
  readonly call: PipelineCall;
  readonly budget: RetryBudget | undefined;
  /** From 1. */
  readonly number: number;
  /** Of the attempts before. */
  readonly hints: readonly string[];
  frame: Frame;
  /** Evaluated, then as hooks and guards passed them on. */
  inputs: readonly Argument[];
  /** No input needs to be evaluated. */
  readonly isReady: boolean;
  /** A guard wants it done again: it is the same act, announced and counted already. */
  readonly isRepeat: boolean;
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
export function startAttempt(
  call: PipelineCall,
  number: number,
  hints: readonly string[],
  repeated?: Attempt,
): Attempt {
  const { op, outer } = call;
  const budget = op.retryOwner
    ? { attempt: hints.length + 1, max: MAX_ATTEMPTS, hints }
    : undefined;
  const ready = readyInputs(call.inputs);
  const retry = op.retryOwner === undefined ? outer.retry : budget;
  return {
    call,
    budget,
    number,
    hints,
    frame: pushOperation(outer, op, retry, ready ?? NO_INPUTS),
    inputs: ready ?? NO_INPUTS,
    isReady: ready !== undefined,
    isRepeat: repeated !== undefined,
    reservation: repeated?.reservation,
    isStarted: false,
    captured: EMPTY,
    effects: NO_BUFFER,
    result: undefined,
    trace: NO_TRACE,
    stage: 0,
  };
}

function valuesOf(inputs: readonly Argument[]): readonly Value[] {
  const values: Value[] = [];
  for (const { value } of inputs) values.push(value);
  return values;
}

/** What the marks of a result, or of a fault, are made from. */
export const madeIn = ({ call, frame, inputs, captured }: Attempt): Made => ({
  op: call.op,
  frame,
  inputs,
  captured,
});

// The stages between the inputs and the record, one function each. `STAGES` is the order, and the
// only place that knows it. A stage answers undefined to go on, or the outcome that ends the attempt.
// One that has nobody to ask answers at once; what waits is an async function of its own.

export type AttemptEnding = Outcome<Value> | 'again' | undefined;
type Stage = (attempt: Attempt) => MaybePromise<AttemptEnding>;

const inputs: Stage = (attempt) => (attempt.isReady ? undefined : evaluateInputs(attempt));

/** Stage 2: each input exactly once, in order. */
async function evaluateInputs(attempt: Attempt): Promise<AttemptEnding> {
  const { inputs: given, outer } = attempt.call;
  const found: Argument[] = [];
  attempt.inputs = found;
  let state: Json | undefined;
  // Arguments are evaluated outside the function they are for, so its labels do not hold yet.
  const note: InputNote = {
    frame: { ...attempt.frame, held: outer.held },
    pipe(given) {
      state = given;
    },
  };
  for (const { name, role, value } of given) {
    const outcome = typeof value === 'function' ? await value(note) : ok(value);
    if (!outcome.ok) return outcome;
    found.push({ name, role, value: outcome.output });
  }
  const { facts } = attempt.frame;
  attempt.frame = {
    ...attempt.frame,
    inputs: found,
    facts: state === undefined ? facts : { ...facts, pipe: state },
  };
  return undefined;
}

/** Asks whoever mounted checkpoints; nobody means go on. */
export function raise(attempt: Attempt, event: FlowCheckpoint): MaybePromise<AttemptEnding> {
  const { call, frame } = attempt;
  const verdict = call.own.checkpoint?.(event, call.op, frame);
  return verdict instanceof Promise
    ? verdict.then((given) => endingBy(attempt, given))
    : verdict && endingBy(attempt, verdict);
}

function endingBy(attempt: Attempt, verdict: CheckpointVerdict | undefined): AttemptEnding {
  if (!verdict || verdict.action === 'continue') return undefined;
  if (verdict.action === 'retry') return 'again';
  const { outcome } = verdict;
  return outcome.ok ? ok(addMarks(outcome.output, marksOfInputs(madeIn(attempt)))) : outcome;
}

// Before a step there is nothing to repeat yet: retry means go on.
const beforeStep: Stage = (attempt) => {
  if (attempt.isRepeat) return undefined;
  const ending = raise(attempt, { name: 'before_step', arguments: attempt.inputs });
  return ending instanceof Promise ? ending.then(unlessAgain) : unlessAgain(ending);
};

const unlessAgain = (ending: AttemptEnding): AttemptEnding =>
  ending === 'again' ? undefined : ending;

/** A stage goes on where there is nothing to say against it. */
const unlessRefused = (answer: Outcome<unknown>): Failure | undefined =>
  answer.ok ? undefined : answer;

const intent: Stage = ({ call: { own }, isRepeat }) => {
  const noted = isRepeat ? undefined : own.intent?.();
  return noted instanceof Promise ? noted.then(unlessRefused) : noted && unlessRefused(noted);
};

const gate: Stage = ({ call, inputs: given, frame }) => {
  const answer = call.own.gate?.(call.op, valuesOf(given), frame);
  return answer instanceof Promise ? answer.then(unlessRefused) : answer && unlessRefused(answer);
};

const reserve: Stage = (attempt) =>
  attempt.call.own.limits && !attempt.isRepeat ? askLimits(attempt) : undefined;

async function askLimits(attempt: Attempt): Promise<AttemptEnding> {
  const { call, frame } = attempt;
  const answer = await call.own.limits?.reserve(call.op, valuesOf(attempt.inputs), frame);
  if (answer?.ok === false) return answer;
  attempt.reservation = answer?.output;
  return undefined;
}

const withMarksOf = (old: Value, given: Value | Json | undefined): Value =>
  given === undefined
    ? old
    : addMarks(isValue(given) ? given : makeValue(given), old.meta.descriptor);

const hooksOf = ({ frame }: Attempt) =>
  frame.isHooking || frame.isJudging ? undefined : frame.ports.scriptHooks;

const hookFrame = ({ frame, call }: Attempt) => ({
  ...frame,
  parent: frame,
  isHooking: true,
  facts: { ...frame.facts, op: call.op },
});

const hooksBefore: Stage = (attempt) =>
  hooksOf(attempt)?.before ? askHooksBefore(attempt) : undefined;

async function askHooksBefore(attempt: Attempt): Promise<AttemptEnding> {
  const { call, inputs: old } = attempt;
  const given = await hooksOf(attempt)?.before?.(call.op, old, hookFrame(attempt));
  if (!given) return undefined;
  const changed = old.map((input, at) => ({
    ...input,
    value: withMarksOf(input.value, given[at]),
  }));
  attempt.inputs = changed;
  attempt.frame = { ...attempt.frame, inputs: changed };
  return undefined;
}

const guardsBefore: Stage = (attempt) =>
  isUncontested(attempt.call.op, attempt.inputs, attempt.frame) ? undefined : judgeInputs(attempt);

async function judgeInputs(attempt: Attempt): Promise<AttemptEnding> {
  const { op } = attempt.call;
  const judgement = await judgeBefore(op, attempt.inputs, attempt.frame);
  if (judgement.inputs !== attempt.inputs) {
    attempt.inputs = judgement.inputs;
    attempt.frame = { ...attempt.frame, inputs: attempt.inputs };
  }
  if (judgement.trace.length > 0) attempt.trace = judgement.trace;
  return await carryOut(op, judgement, attempt.frame);
}

/** A stream would be out before an after-guard could object. */
const refuseStream: Stage = ({ call, frame }) =>
  call.op.metadata?.stream === true &&
  (frame.emit !== undefined || frame.guards.mayObjectAfter(call.op, frame.held))
    ? fail(
        'invalid_input',
        `${operationName(call.op)} cannot stream while a guard judges its result`,
      )
    : undefined;

/** Stage 6. */
async function runBody(attempt: Attempt): Promise<AttemptEnding> {
  const { call, frame } = attempt;
  const { op, outer, body } = call;
  const isHeld = frame.guards.mayObjectAfter(op, frame.held);
  if (isHeld) attempt.effects = createEffectBuffer(outer);
  const inner = isHeld ? { ...frame, emit: attempt.effects.emit } : frame;
  const scope: Omit<BodyScope, 'signal'> = {
    frame: inner,
    capture(value) {
      const marks = 'meta' in value ? value.meta.descriptor : value;
      attempt.captured = mergeDescriptors(attempt.captured, marks);
    },
    emit: (effect) => emitTo(inner, effect),
    trace: attempt.trace,
  };
  attempt.isStarted = true;
  const run = (signal?: AbortSignal) => body(valuesOf(attempt.inputs), { ...scope, signal });
  const outcome = await (call.own.run ? call.own.run(run) : run());
  if (!outcome.ok) return outcome;
  attempt.result = outcome.output;
  return undefined;
}

export const resultOf = ({ result }: Attempt): Outcome<Value> =>
  result ? ok(result) : fail('internal_error', 'the body gave no value');

const taint: Stage = (attempt) => {
  const { call, frame, result, effects } = attempt;
  if (effects.hasOverflowed()) {
    return fail('quota_exceeded', `${operationName(call.op)} emitted more than can be held back`);
  }
  if (!result) return resultOf(attempt);
  const made = madeIn(attempt);
  const tainted = taintResult(made, result);
  const mark = frame.ports.trail?.(
    call.op,
    mergeDescriptors(marksOfInputs(made), tainted.meta.descriptor),
  );
  attempt.result = mark ? addMarks(tainted, mark) : tainted;
  return undefined;
};

const hooksAfter: Stage = (attempt) =>
  hooksOf(attempt)?.after ? askHooksAfter(attempt) : undefined;

async function askHooksAfter(attempt: Attempt): Promise<AttemptEnding> {
  const { call, result, inputs: used } = attempt;
  if (!result) return undefined;
  const given = await hooksOf(attempt)?.after?.(call.op, result, used, hookFrame(attempt));
  attempt.result = withMarksOf(result, given);
  return undefined;
}

const guardsAfter: Stage = (attempt) => {
  const { call, frame, result } = attempt;
  if (result && !isUncontestedAfter(call.op, result, frame)) return judgeResult(attempt, result);
  attempt.effects.flush();
  return undefined;
};

async function judgeResult(attempt: Attempt, result: Value): Promise<AttemptEnding> {
  const { call, frame } = attempt;
  const judgement = await judgeAfter(call.op, attempt.inputs, result, frame);
  attempt.result = judgement.output;
  if (judgement.trace.length > 0) attempt.trace = [...attempt.trace, ...judgement.trace];
  const failure = await carryOut(call.op, judgement, frame);
  if (!failure) attempt.effects.flush();
  return failure;
}

const audit: Stage = (attempt) =>
  attempt.call.own.audit ? audited(attempt, resultOf(attempt)) : undefined;

/** One row for every attempt. INVARIANT: what could not be noted is not reported as done. */
export async function audited(attempt: Attempt, outcome: Outcome<Value>): Promise<undefined> {
  await attempt.call.own.audit?.(entryOf(attempt, outcome, false));
}

export const entryOf = (
  { call: { op }, frame, inputs: passed, number, trace }: Attempt,
  outcome: Outcome<Value>,
  retried: boolean,
): RecordEntry => ({ op, frame, arguments: passed, attempt: number, retried, outcome, trace });

const afterStep: Stage = (attempt) => {
  const { call, result } = attempt;
  if (!result || !call.own.checkpoint) return undefined;
  return raise(attempt, { name: 'after_step', arguments: attempt.inputs, result });
};

const STAGES: readonly Stage[] = [
  inputs,
  beforeStep,
  intent,
  gate,
  reserve,
  hooksBefore,
  guardsBefore,
  refuseStream,
  runBody,
  taint,
  hooksAfter,
  guardsAfter,
  audit,
  afterStep,
];

/** Refusals of these are limits; what is tried again after one goes on there. */
export const LIMITS: ReadonlySet<number> = new Set(
  [intent, reserve].map((one) => STAGES.indexOf(one)),
);
export const AUDIT = STAGES.indexOf(audit);
export const AFTER_STEP = STAGES.indexOf(afterStep);
/** Faults up to here raise no checkpoint: the operation has not begun. */
export const BEFORE_STEP = STAGES.indexOf(beforeStep);

/** Runs the stages from `first` on; what one of them throws is a fault of this operation. */
export async function runStages(attempt: Attempt, first: number): Promise<AttemptEnding> {
  try {
    for (let at = first; at < STAGES.length; at++) {
      attempt.stage = at;
      const answer = STAGES[at]?.(attempt);
      // A tick for every stage, whether it waits or not, would cost more than the stages do.
      const ending = answer instanceof Promise ? await answer : answer;
      if (ending !== undefined) return ending;
    }
    return resultOf(attempt);
  } catch (error) {
    return crashed(operationName(attempt.call.op), error);
  }
}

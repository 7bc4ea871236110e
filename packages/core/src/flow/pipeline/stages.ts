// Hot: runs for every operation, and a promise costs more than an operation that no rule is about. Runs
// the stages of one attempt, synchronously if the ports do, because a tick per stage would cost more than
// the stages.
import {
  catchToOutcome,
  type Failure,
  fail,
  inTurn,
  type Json,
  type Outcome,
  ok,
  toOutcome,
  whenReady,
} from '../../base/index.ts';
import type {
  Effect,
  Frame,
  Input,
  InputNote,
  MaybePromise,
  RetryBudget,
  ScriptHooks,
  TraceEntry,
} from '../frame.ts';
import {
  isUncontested,
  isUncontestedAfter,
  judgeAfter,
  judgeBefore,
} from '../guards/ask-guards.ts';
import {
  carryOut,
  crashed,
  decisionOf,
  type Judgement,
  MAX_ATTEMPTS,
  operationName,
} from '../guards/decision.ts';
import type { Argument, Operation } from '../operation.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../values/labels.ts';
import { addMarks, isValue, makeValue, type Value } from '../values/value.ts';
import type { ActPorts, CheckpointVerdict, LimitReservation, RecordEntry } from './act-ports.ts';
import { pushOperation } from './create-frame.ts';
import { createEffectBuffer, type EffectBuffer, emitTo, NO_BUFFER } from './effects.ts';
import { marksOfInputs, type OperationInputs, taintResult } from './taint.ts';

export interface BodyScope {
  readonly frame: Frame;
  /** Signal that aborts the body. Absent: nothing aborts it. */
  readonly signal: AbortSignal | undefined;
  /** Adds the marks of a value that is not an input to the result. */
  capture(value: Value | Descriptor): void;
  emit(effect: Effect): void;
  readonly trace: readonly TraceEntry[];
}

export type Body = (inputs: readonly Value[], scope: BodyScope) => MaybePromise<Outcome<Value>>;

interface PipelineCall {
  readonly op: Operation;
  readonly inputs: readonly Input[];
  readonly body: Body;
  /** The frame in which the operation was started. */
  readonly outer: Frame;
  readonly own: ActPorts;
}

/** The state of one attempt, which its stages share. */
export interface Attempt extends OperationInputs {
  readonly call: PipelineCall;
  readonly budget: RetryBudget | undefined;
  /** Number of the attempt, from 1. */
  readonly number: number;
  readonly hints: readonly string[];
  frame: Frame;
  /** The evaluated inputs, as hooks and guards left them. */
  inputs: readonly Argument[];
  /** True if no input needs evaluation. */
  readonly isReady: boolean;
  /** True if a guard requested this attempt: the operation is announced and counted already. */
  readonly isRepeat: boolean;
  reservation: LimitReservation | undefined;
  isStarted: boolean;
  captured: Descriptor;
  effects: EffectBuffer;
  result: Value | undefined;
  trace: readonly TraceEntry[];
  /** The running stage, or the stage that ended the attempt. */
  stage: Stage;
}

/** The points at which an attempt can end, in the order of `runStages`. */
export const STAGE = {
  inputs: 0,
  beforeStep: 1,
  intent: 2,
  gate: 3,
  reserve: 4,
  body: 5,
  audit: 6,
  afterStep: 7,
} as const;
export type Stage = (typeof STAGE)[keyof typeof STAGE];

const NO_TRACE: readonly TraceEntry[] = Object.freeze([]);

/** Stage 1: creates the attempt and its frame. */
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
  // Inputs that are values need no evaluation.
  const ready: Argument[] = [];
  for (const { name, role, kind, value, place, preview } of call.inputs) {
    if (typeof value === 'function') continue;
    if (kind === undefined && !place && !preview) ready.push({ name, role, value });
    else {
      const details = {
        ...(kind && { kind }),
        ...(place && { place }),
        ...(preview && { preview }),
      };
      ready.push({ name, role, value, ...details });
    }
  }
  const isReady = ready.length === call.inputs.length;
  const inputs = isReady ? ready : [];
  const retry = op.retryOwner === undefined ? outer.retry : budget;
  return {
    op,
    call,
    budget,
    number,
    hints,
    frame: pushOperation(outer, op, retry, inputs),
    inputs,
    isReady,
    isRepeat: repeated !== undefined,
    reservation: repeated?.reservation,
    isStarted: false,
    captured: EMPTY,
    effects: NO_BUFFER,
    result: undefined,
    trace: NO_TRACE,
    stage: STAGE.inputs,
  };
}

function valuesOf(inputs: readonly Argument[]): readonly Value[] {
  const values: Value[] = [];
  for (const { value } of inputs) values.push(value);
  return values;
}

export type AttemptEnding = Outcome<Value> | 'again' | undefined;

/** Stage 2: evaluates each input exactly once, in order. */
function evaluateInputs(attempt: Attempt): MaybePromise<Failure | undefined> {
  const { inputs: declared, outer } = attempt.call;
  const evaluatedInputs: Argument[] = [];
  attempt.inputs = evaluatedInputs;
  let state: Json | undefined;
  // Arguments are evaluated outside of the called function, so its labels do not apply.
  const note: InputNote = {
    frame: { ...attempt.frame, held: outer.held },
    pipe(pipeState) {
      state = pipeState;
    },
  };
  const evaluated = inTurn(declared, ({ name, role, kind, value, preview }) =>
    whenReady(typeof value === 'function' ? toOutcome(value(note)) : ok(value), (outcome) => {
      if (!outcome.ok) return outcome;
      const details = { ...(kind && { kind }), ...(preview && { preview }) };
      evaluatedInputs.push({ name, role, value: outcome.output, ...details });
      return undefined;
    }),
  );
  return whenReady(evaluated, (failed) => {
    if (failed) return failed;
    const { facts } = attempt.frame;
    attempt.frame = {
      ...attempt.frame,
      inputs: evaluatedInputs,
      facts: state === undefined ? facts : { ...facts, pipe: state },
    };
    return undefined;
  });
}

export function endingBy(attempt: Attempt, verdict: CheckpointVerdict): AttemptEnding {
  if (verdict.action === 'continue') return undefined;
  if (verdict.action === 'retry') return 'again';
  const { outcome } = verdict;
  return outcome.ok ? ok(addMarks(outcome.output, marksOfInputs(attempt))) : outcome;
}

const withMarksOf = (old: Value, replacement: Value | Json | undefined): Value =>
  replacement === undefined
    ? old
    : addMarks(isValue(replacement) ? replacement : makeValue(replacement), old.meta.descriptor);

const hookFrame = ({ frame, op }: Attempt) => ({
  ...frame,
  parent: frame,
  isHooking: true,
  facts: { ...frame.facts, op },
});

async function askHooksBefore(attempt: Attempt, hooks: ScriptHooks): Promise<void> {
  const { op, inputs: old } = attempt;
  const replacements = await hooks.before?.(op, old, hookFrame(attempt));
  if (!replacements) return;
  const changed = old.map((input, at) => ({
    ...input,
    value: withMarksOf(input.value, replacements[at]),
  }));
  attempt.inputs = changed;
  attempt.frame = { ...attempt.frame, inputs: changed };
}

/** Stage 5: guards and policies judge the inputs. */
function judgeInputs(attempt: Attempt): MaybePromise<Failure | undefined> {
  const { op } = attempt;
  if (isUncontested(op, attempt.inputs, attempt.frame)) return undefined;
  return whenReady(judgeBefore(op, attempt.inputs, attempt.frame), (judgement) => {
    if (judgement.inputs !== attempt.inputs) {
      attempt.inputs = judgement.inputs;
      attempt.frame = { ...attempt.frame, inputs: attempt.inputs };
    }
    const { trace, exception } = judgement;
    if (trace.length > 0) attempt.trace = trace;
    if (exception) attempt.frame = { ...attempt.frame, exception };
    return whenReady(
      foreseen(attempt, judgement),
      (certain) => certain ?? whenReady(carryOut(op, judgement, attempt.frame), taken),
    );
  });
  function taken(refused: Awaited<ReturnType<typeof carryOut>>): Failure | undefined {
    if (!refused || 'ok' in refused) return refused;
    const { isApproved, holds } = refused;
    const approved = holds === undefined ? {} : { approved: holds };
    attempt.frame = { ...attempt.frame, isApproved, ...approved };
    return undefined;
  }
}

/** INVARIANT: a person is never asked about an operation that is refused in any case. */
function foreseen(
  attempt: Attempt,
  { findings }: Pick<Judgement, 'findings'>,
): MaybePromise<Failure | undefined> {
  const { foresee } = attempt.call.own;
  if (decisionOf(findings) !== 'ask') return undefined;
  const early = attempt.op.metadata?.stream === true ? streamsTooEarly(attempt) : undefined;
  if (early || !foresee) return early;
  // Such a refusal is about rights, as at the gate.
  attempt.stage = STAGE.gate;
  return whenReady(foresee(valuesOf(attempt.inputs), attempt.frame), (refused) => {
    if (!refused) attempt.stage = STAGE.body;
    return refused;
  });
}

/** Runs the ports before stage 5: checkpoint, intent, gate, reservation and script hooks. */
async function runPortsBefore(attempt: Attempt, first: Stage): Promise<AttemptEnding> {
  const { op, isRepeat } = attempt;
  const { own } = attempt.call;
  attempt.stage = STAGE.beforeStep;
  if (first === STAGE.inputs && own.checkpoint && !isRepeat) {
    const event = { name: 'before_step', arguments: attempt.inputs } as const;
    const answer = own.checkpoint(event, op, attempt.frame);
    const verdict = answer instanceof Promise ? await answer : answer;
    const ending = verdict && endingBy(attempt, verdict);
    // There is no attempt to repeat yet, so `retry` continues.
    if (ending !== undefined && ending !== 'again') return ending;
  }
  if (first <= STAGE.intent) {
    attempt.stage = STAGE.intent;
    const announced = isRepeat ? undefined : own.intent?.(op, attempt.inputs);
    const counted = announced instanceof Promise ? await announced : announced;
    if (counted?.ok === false) return counted;
    attempt.stage = STAGE.gate;
    const gateAnswer = own.gate?.(op, valuesOf(attempt.inputs), attempt.frame);
    const allowed = gateAnswer instanceof Promise ? await gateAnswer : gateAnswer;
    if (allowed?.ok === false) return allowed;
  }
  attempt.stage = STAGE.reserve;
  if (own.limits && !isRepeat) {
    const reserved = await own.limits.reserve(op, valuesOf(attempt.inputs), attempt.frame);
    if (!reserved.ok) return reserved;
    attempt.reservation = reserved.output;
  }
  attempt.stage = STAGE.body;
  const { isHooking, isJudging, ports } = attempt.frame;
  const { scriptHooks } = ports;
  if (scriptHooks?.before && !isHooking && !isJudging) await askHooksBefore(attempt, scriptHooks);
  return undefined;
}

/** Runs stages 2 to 5, from `first` on. Returns undefined if the body may start. */
function admit(attempt: Attempt, first: Stage): MaybePromise<AttemptEnding> {
  const { own } = attempt.call;
  const { scriptHooks } = attempt.frame.ports;
  const mounted = own.checkpoint ?? own.intent ?? own.gate ?? own.limits ?? scriptHooks;
  const isEvaluated = attempt.isReady || first !== STAGE.inputs;
  return whenReady(isEvaluated ? undefined : evaluateInputs(attempt), (failed) => {
    if (failed) return failed;
    if (mounted) {
      return runPortsBefore(attempt, first).then((ending) => ending ?? judgeInputs(attempt));
    }
    attempt.stage = STAGE.body;
    return judgeInputs(attempt);
  });
}

/** Stage 6: runs the body, with a buffer for effects if a guard may object. */
function runBody(attempt: Attempt): MaybePromise<Outcome<Value>> {
  const { op, call, frame } = attempt;
  const { guards } = frame;
  if (guards.list.length > 0 && guards.mayObjectAfter(op, frame.held)) {
    attempt.effects = createEffectBuffer(call.outer);
  }
  const { emit } = attempt.effects;
  const inner = emit ? { ...frame, emit } : frame;
  attempt.isStarted = true;
  const body = (signal?: AbortSignal): MaybePromise<Outcome<Value>> =>
    call.body(valuesOf(attempt.inputs), {
      frame: inner,
      signal,
      capture(value) {
        const marks = 'meta' in value ? value.meta.descriptor : value;
        attempt.captured = mergeDescriptors(attempt.captured, marks);
      },
      emit: (effect) => emitTo(inner, effect),
      trace: attempt.trace,
    });
  return toOutcome(call.own.run ? call.own.run(body) : body());
}

async function askHooksAfter(attempt: Attempt, hooks: ScriptHooks, result: Value): Promise<Value> {
  const replacement = await hooks.after?.(attempt.op, result, attempt.inputs, hookFrame(attempt));
  return withMarksOf(result, replacement);
}

/** Stage 8: guards and policies judge the result. */
function judgeResult(attempt: Attempt, result: Value): MaybePromise<Failure | undefined> {
  const { op, frame } = attempt;
  attempt.result = result;
  if (frame.guards.list.length === 0 || isUncontestedAfter(op, result, frame)) return undefined;
  return whenReady(judgeAfter(op, attempt.inputs, result, frame), (judgement) => {
    attempt.result = judgement.output ?? result;
    if (judgement.trace.length > 0) attempt.trace = [...attempt.trace, ...judgement.trace];
    return whenReady(carryOut(op, judgement, frame), (refused) =>
      refused && 'ok' in refused ? refused : undefined,
    );
  });
}

/** Adds the mark of the provenance trail to the result. */
function withTrail(attempt: Attempt, result: Value): Value {
  const used = mergeDescriptors(marksOfInputs(attempt), result.meta.descriptor);
  const mark = attempt.frame.ports.trail?.(attempt.op, used);
  return mark ? addMarks(result, mark) : result;
}

export const resultOf = ({ result }: Attempt): Outcome<Value> =>
  result ? ok(result) : fail('internal_error', 'the operation returned no value');

export const entryOf = (
  { op, frame, inputs: passed, number, trace }: Attempt,
  outcome: Outcome<Value>,
  retried: boolean,
): RecordEntry => ({ op, frame, arguments: passed, attempt: number, retried, outcome, trace });

/** Runs the ports after stage 8: cost, audit and checkpoint. */
async function runPortsAfter(
  attempt: Attempt,
  objection: Failure | undefined,
): Promise<Outcome<Value> | 'again'> {
  const { keep, audit, checkpoint } = attempt.call.own;
  const outcome = objection ?? resultOf(attempt);
  if (keep) await keep(entryOf(attempt, outcome, false));
  if (!outcome.ok) return outcome;
  if (attempt.effects !== NO_BUFFER) attempt.effects.flush();
  attempt.stage = STAGE.audit;
  // INVARIANT: every attempt always has one row; an attempt without a row is never reported as successful.
  if (audit) await audit(entryOf(attempt, outcome, false));
  attempt.stage = STAGE.afterStep;
  if (!checkpoint) return outcome;
  const event = {
    name: 'after_step',
    arguments: attempt.inputs,
    result: outcome.output,
  } as const;
  const answer = checkpoint(event, attempt.op, attempt.frame);
  const verdict = answer instanceof Promise ? await answer : answer;
  return (verdict && endingBy(attempt, verdict)) ?? outcome;
}

/** Runs stages 7 and 8 and the ports after them. */
function finish(attempt: Attempt, done: Outcome<Value>): MaybePromise<Outcome<Value> | 'again'> {
  if (!done.ok) return done;
  const { op, effects, frame } = attempt;
  if (effects !== NO_BUFFER && effects.hasOverflowed()) {
    return fail('quota_exceeded', `${operationName(op)} emitted more effects than can be buffered`);
  }
  const { ports, isHooking, isJudging } = frame;
  const { scriptHooks, trail } = ports;
  const tainted = taintResult(attempt, done.output);
  const output = trail ? withTrail(attempt, tainted) : tainted;
  const isHooked = scriptHooks?.after && !isHooking && !isJudging;
  const hooked = isHooked ? askHooksAfter(attempt, scriptHooks, output) : output;
  return whenReady(hooked, (result) =>
    whenReady(judgeResult(attempt, result), (objection) => {
      const { keep, audit, checkpoint } = attempt.call.own;
      if (keep ?? audit ?? checkpoint) return runPortsAfter(attempt, objection);
      if (objection) return objection;
      if (effects !== NO_BUFFER) effects.flush();
      attempt.stage = STAGE.afterStep;
      return resultOf(attempt);
    }),
  );
}

/** Refuses a stream whose output would leave before a guard with timing `after` could object. */
function streamsTooEarly({ op, frame }: Attempt): Failure | undefined {
  const isEarly = frame.emit !== undefined || frame.guards.mayObjectAfter(op, frame.held);
  return isEarly
    ? fail('invalid_input', `${operationName(op)} cannot stream while a guard judges its result`)
    : undefined;
}

/** Runs the stages from `first` on. An exception of a stage is a fault of this operation. */
export const runStages = (attempt: Attempt, first: Stage): MaybePromise<Outcome<Value> | 'again'> =>
  catchToOutcome(
    () =>
      whenReady(admit(attempt, first), (refused) => {
        const isStream = attempt.op.metadata?.stream === true;
        const stopped = refused ?? (isStream ? streamsTooEarly(attempt) : undefined);
        return stopped ?? whenReady(runBody(attempt), (done) => finish(attempt, done));
      }),
    (error) => crashed(operationName(attempt.op), error),
  );

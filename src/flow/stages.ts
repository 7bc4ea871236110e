// The stages between the inputs and the record, one function each. `STAGES` is the order, and the
// only place that knows it. A stage answers undefined to go on, or the outcome that ends the attempt.
import { fail, type Json, type Outcome, ok } from '../base/index.ts';
import { operationName } from './decision.ts';
import { mergeDescriptors } from './descriptor.ts';
import { isUncontested, isUncontestedAfter, judgeAfter, judgeBefore } from './judge.ts';
import { isPromise, type MaybePromise, whenDone } from './maybe.ts';
import type { CheckpointEvent, CheckpointVerdict } from './ports.ts';
import { evaluateInputs, madeIn, type Run, resultOf, runBody, valuesOf } from './run.ts';
import { marksOfInputs, taintResult } from './taint.ts';
import { addMarks, isValue, makeValue, type Value } from './value.ts';
import { carryOut } from './verdict.ts';

export type Ending = Outcome<Value> | 'again' | undefined;
export type Stage = (run: Run) => MaybePromise<Ending>;

/** Asks whoever mounted checkpoints; nobody means go on. */
export function raise(run: Run, event: CheckpointEvent): MaybePromise<Ending> {
  const { ports } = run.frame;
  if (!ports.checkpoint) return undefined;
  const apply = (verdict: CheckpointVerdict | undefined): Ending => {
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
export function walk(run: Run, index = 0): MaybePromise<Ending> {
  for (let at = index; at < STAGES.length; at++) {
    run.stage = at;
    const ending = (STAGES[at] as Stage)(run);
    if (isPromise(ending)) return ending.then((given) => given ?? walk(run, at + 1));
    if (ending !== undefined) return ending;
  }
  return resultOf(run);
}

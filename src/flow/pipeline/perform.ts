// The one pipeline. Everything that acts runs through `perform`, in stages whose order is fixed:
//
//   1 push ctx.op   2 evaluate inputs   3 gate   4 reserve   5 policy and guards, before
//   6 body   7 taint   8 guards, after   9 record   10 pop
//
// Synchronous while nothing waits. Never throws: a bug in a body or a port is a fault like any other.
import type { Failure, Outcome } from '../../base/index.ts';
import type { Frame, Input } from '../frame.ts';
import { operationName, RETRY_CODE, retryHint } from '../guards/decision.ts';
import { crashed, isPromise, type MaybePromise, whenDone } from '../maybe.ts';
import type { Operation } from '../operation.ts';
import { markFailure } from '../values/labels.ts';
import type { Value } from '../values/value.ts';
import {
  AFTER_STEP,
  type AttemptEnding,
  BEFORE_STEP,
  type Body,
  madeIn,
  type PipelineCall,
  RESERVE,
  type Run,
  raise,
  resultOf,
  startRun,
  walk,
} from './stages.ts';
import { marksOfInputs } from './taint.ts';

/** Whoever mounts checkpoints counts its own retries; this only keeps a mistake from going on forever. */
const MAX_REPEATS = 20;

export function perform(
  op: Operation,
  inputs: readonly Input[],
  body: Body,
  frame: Frame,
): MaybePromise<Outcome<Value>> {
  try {
    return attempt({ op, inputs, body, outer: frame }, 1, [], 0);
  } catch (error) {
    // Only an operation that is none gets here: everything foreign is run `safely`.
    return crashed('the operation', error);
  }
}

function attempt(
  call: PipelineCall,
  number: number,
  hints: readonly string[],
  repeats: number,
): MaybePromise<Outcome<Value>> {
  const run = startRun(call, number, hints);
  const ended = safely(run, () => walk(run));
  const go = (ending: AttemptEnding) => conclude(run, ending, hints, repeats);
  return isPromise(ended) ? ended.then(go) : go(ended);
}

/** Whatever is thrown or rejected while the stages run becomes a fault of this operation. */
function safely(run: Run, work: () => MaybePromise<AttemptEnding>): MaybePromise<AttemptEnding> {
  const caught = (error: unknown): Failure => crashed(operationName(run.call.op), error);
  try {
    const ending = work();
    return isPromise(ending) ? Promise.resolve(ending).catch(caught) : ending;
  } catch (error) {
    return caught(error);
  }
}

/** Faults quote values: they carry the marks of everything that went in. */
function marked(run: Run, outcome: Outcome<Value>): Outcome<Value> {
  if (outcome.ok) return outcome;
  return markFailure(outcome, marksOfInputs(madeIn(run)));
}

/** A body that failed has no result to judge; its effects go out unless a guard would have looked. */
function endEffects(run: Run, outcome: Outcome<Value>): void {
  if (outcome.ok) return run.effects.flush();
  const { frame, call } = run;
  const marks = marksOfInputs(madeIn(run));
  const concerned =
    outcome.error.code === RETRY_CODE ||
    frame.guards.forMarks(marks, 'after').length > 0 ||
    frame.guards.forOperation(call.op, frame.held, 'after').length > 0;
  if (concerned) run.effects.drop();
  else run.effects.flush();
}

function settle(run: Run, outcome: Outcome<Value>): MaybePromise<AttemptEnding> {
  const { reservation } = run;
  if (!reservation) return undefined;
  run.reservation = undefined;
  const done = run.isStarted ? reservation.settle(outcome) : reservation.release();
  return isPromise(done) ? done.then(() => undefined) : undefined;
}

/** on_limit for a refusal of stage 4, on_error for everything later and for the gate. */
function raiseFault(run: Run, outcome: Outcome<Value>): MaybePromise<AttemptEnding> {
  if (outcome.ok || run.stage <= BEFORE_STEP || run.stage === AFTER_STEP) return undefined;
  if (outcome.error.code === RETRY_CODE || !run.frame.ports.checkpoint) return undefined;
  const name = run.stage === RESERVE ? 'limit' : 'error';
  return raise(run, { name, fault: outcome.error, arguments: run.inputs });
}

/** Stage 9. INVARIANT: what could not be recorded is not reported as done. */
function record(run: Run, outcome: Outcome<Value>, retried: boolean): MaybePromise<AttemptEnding> {
  const { ports } = run.frame;
  if (!ports.record) return undefined;
  const { call, frame, inputs, attempt: number, trace } = run;
  const entry = { op: call.op, frame, arguments: inputs, attempt: number, retried, outcome, trace };
  const done = ports.record(entry);
  return isPromise(done) ? done.then(() => undefined) : undefined;
}

/** From the end of the stages to the outcome, or to the next attempt. */
function conclude(
  run: Run,
  ending: AttemptEnding,
  hints: readonly string[],
  repeats: number,
): MaybePromise<Outcome<Value>> {
  const again = ending === 'again';
  const outcome = marked(run, ending === 'again' || !ending ? resultOf(run) : ending);
  const settled = safely(run, () => {
    endEffects(run, outcome);
    return settle(run, outcome);
  });
  if (settled === undefined && outcome.ok && !again && !run.frame.ports.record) return outcome;
  return whenDone(settled, (failure) => {
    const settledOutcome = pick(failure, outcome);
    return again && failure === undefined
      ? repeat(run, settledOutcome, hints, repeats)
      : afterSettling(run, settledOutcome, hints, repeats);
  });
}

const pick = (failure: AttemptEnding, outcome: Outcome<Value>): Outcome<Value> =>
  failure === undefined || failure === 'again' ? outcome : failure;

function afterSettling(
  run: Run,
  outcome: Outcome<Value>,
  hints: readonly string[],
  repeats: number,
): MaybePromise<Outcome<Value>> {
  const hint = outcome.ok || !run.budget ? undefined : retryHint(outcome.error, run.budget);
  if (hint !== undefined) {
    return whenDone(
      safely(run, () => record(run, outcome, true)),
      (failure) =>
        failure === undefined
          ? attempt(run.call, run.attempt + 1, [...hints, hint], repeats)
          : (failure as Outcome<Value>),
    );
  }
  return whenDone(
    safely(run, () => raiseFault(run, outcome)),
    (verdict) =>
      verdict === 'again'
        ? repeat(run, outcome, hints, repeats)
        : finish(run, marked(run, verdict ?? outcome)),
  );
}

function finish(run: Run, outcome: Outcome<Value>): MaybePromise<Outcome<Value>> {
  return whenDone(
    safely(run, () => record(run, outcome, false)),
    (failure) => marked(run, pick(failure, outcome)),
  );
}

/** A checkpoint wants it done again: after a limit from the reservation on, otherwise all of it. */
function repeat(
  run: Run,
  outcome: Outcome<Value>,
  hints: readonly string[],
  repeats: number,
): MaybePromise<Outcome<Value>> {
  if (repeats >= MAX_REPEATS) {
    const failure = crashed(operationName(run.call.op), `repeated more than ${MAX_REPEATS} times`);
    return finish(run, outcome.ok ? failure : outcome);
  }
  if (run.stage === RESERVE) {
    const ended = safely(run, () => walk(run, RESERVE));
    return whenDone(ended, (ending) => conclude(run, ending, hints, repeats + 1));
  }
  return whenDone(
    safely(run, () => record(run, outcome, true)),
    (failure) =>
      failure === undefined
        ? attempt(run.call, run.attempt + 1, hints, repeats + 1)
        : (failure as Outcome<Value>),
  );
}

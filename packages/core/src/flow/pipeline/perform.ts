// Hot: runs for every operation, and a promise costs more than an operation that no rule is about.
// Implements the pipeline. Every operation runs through `perform`, in stages whose order is fixed:
//
//   1 push ctx.op   2 evaluate inputs   3 gate   4 reserve   5 policy and guards, before
//   6 body   7 taint   8 guards, after   9 record   10 pop
//
// The caller can pass ports for one operation: `intent` runs before 3, `keep` and `audit` run after 8.
// Never throws: an exception of a body or a port becomes a fault.
import {
  catchToOutcome,
  type Failure,
  type Fault,
  type Outcome,
  ok,
  whenReady,
} from '../../base/index.ts';
import type { Frame, Input, MaybePromise } from '../frame.ts';
import { isUncontested, judgeBefore } from '../guards/ask-guards.ts';
import { carryOut, crashed, isRetryRequest, operationName, retryHint } from '../guards/decision.ts';
import type { Argument, Operation } from '../operation.ts';
import { markFailure } from '../values/labels.ts';
import type { Value } from '../values/value.ts';
import { type ActPorts, type DenialStage, type FlowCheckpoint, NO_ACT_PORTS } from './act-ports.ts';
import { pushOperation } from './create-frame.ts';
import { NO_BUFFER } from './effects.ts';
import {
  type Attempt,
  type AttemptEnding,
  type Body,
  endingBy,
  entryOf,
  resultOf,
  runStages,
  STAGE,
  type Stage,
  startAttempt,
} from './stages.ts';
import { marksOfInputs } from './taint.ts';

/** Ends a loop that a checkpoint would repeat for ever. Checkpoints count their own retries. */
const MAX_REPEATS = 20;

const NO_INPUTS: readonly Argument[] = Object.freeze([]);

/** Performs an operation. Returns synchronously if no stage waits. */
export function perform(
  op: Operation,
  inputs: readonly Input[],
  body: Body,
  frame: Frame,
  own: ActPorts = NO_ACT_PORTS,
): MaybePromise<Outcome<Value>> {
  return catchToOutcome(
    () => {
      const attempt = startAttempt({ op, inputs, body, outer: frame, own }, 1, []);
      return whenReady(runStages(attempt, STAGE.inputs), (ending) => {
        // The common case has nothing to settle and nothing to repeat.
        const isDone = ending !== 'again' && ending.ok && attempt.reservation === undefined;
        return isDone ? recorded(attempt, ending, false) : conclude(attempt, ending);
      });
    },
    // Only an invalid operation gets here, because the stages catch exceptions of ports and bodies.
    (error) => crashed('the operation', error),
  );
}

/** Turns the end of an attempt into the outcome, with further attempts if they are required. */
async function conclude(first: Attempt, ended: Outcome<Value> | 'again'): Promise<Outcome<Value>> {
  let attempt = first;
  let ending = ended;
  const { call } = attempt;
  for (let repeats = 0; ; ) {
    const result = ending === 'again' ? resultOf(attempt) : ending;
    const outcome = result.ok ? result : marked(attempt, call.own.explain?.(result) ?? result);
    const hint = outcome.ok ? undefined : hintFor(attempt, outcome);
    if (hint !== undefined) {
      // A guard requests another attempt of the same operation, which is counted and reserved already.
      const recordFailure = await dropAttempt(attempt, outcome);
      if (recordFailure) return recordFailure;
      attempt = startAttempt(call, attempt.number + 1, [...attempt.hints, hint], attempt);
      ending = await runStages(attempt, STAGE.inputs);
      continue;
    }
    const settled = await settle(attempt, outcome);
    const again = ending === 'again' ? ending : undefined;
    const verdict = settled.ok ? again : await faultRaised(attempt, settled);
    if (verdict !== 'again') {
      const last = verdict ?? settled;
      return await recorded(attempt, last.ok ? last : marked(attempt, last), false);
    }
    if (repeats++ >= MAX_REPEATS)
      return await recorded(attempt, repeatedTooOften(call.op, settled), false);
    // A checkpoint requests another attempt: after a limit from the reservation, otherwise of everything.
    if (isLimit(attempt.stage)) {
      ending = await runStages(attempt, attempt.stage);
      continue;
    }
    const settledRecord = await recorded(attempt, settled, true);
    if (settledRecord !== settled) return settledRecord;
    attempt = startAttempt(call, attempt.number + 1, attempt.hints);
    ending = await runStages(attempt, STAGE.inputs);
  }
}

/** True for stages whose refusals are limits. A retry after a limit continues there. */
const isLimit = (stage: Stage): boolean => stage === STAGE.intent || stage === STAGE.reserve;

/** Adds the marks of all inputs to a failure, because faults quote values. */
const marked = (attempt: Attempt, failure: Failure): Failure =>
  markFailure(failure, marksOfInputs(attempt));

/** Returns the hint if an inner guard asks this operation to try again. */
const hintFor = ({ budget }: Attempt, { error }: Failure): string | undefined =>
  budget && retryHint(error, budget);

const repeatedTooOften = (op: Operation, outcome: Outcome<Value>): Outcome<Value> =>
  outcome.ok ? crashed(operationName(op), `repeated more than ${MAX_REPEATS} times`) : outcome;

/** Drops the effects of an attempt before the next one. Returns an outcome if it could not be recorded. */
async function dropAttempt(
  attempt: Attempt,
  outcome: Outcome<Value>,
): Promise<Outcome<Value> | undefined> {
  try {
    endEffects(attempt, outcome);
    await attempt.call.own.audit?.(entryOf(attempt, outcome, false));
  } catch (error) {
    return await settle(attempt, marked(attempt, crashed(operationName(attempt.call.op), error)));
  }
  const settledRecord = await recorded(attempt, outcome, true);
  return settledRecord === outcome ? undefined : await settle(attempt, settledRecord);
}

/** Passes on or drops effects, and settles the reservation. */
async function settle(attempt: Attempt, outcome: Outcome<Value>): Promise<Outcome<Value>> {
  const { reservation, isStarted, isRepeat, effects } = attempt;
  attempt.reservation = undefined;
  if (reservation === undefined && effects === NO_BUFFER) return outcome;
  try {
    if (effects !== NO_BUFFER) endEffects(attempt, outcome);
    await (isStarted || isRepeat ? reservation?.settle(outcome) : reservation?.release());
    return outcome;
  } catch (error) {
    return crashed(operationName(attempt.call.op), error);
  }
}

/**
 * Handles effects of a failed body, which has no result to judge. They are passed on unless a guard
 * could have objected.
 */
function endEffects(attempt: Attempt, outcome: Outcome<Value>): void {
  const { frame, op, effects } = attempt;
  if (outcome.ok) return effects.flush();
  const marks = marksOfInputs(attempt);
  const concerned =
    isRetryRequest(outcome.error) ||
    frame.guards.forResult(op, marks).length > 0 ||
    frame.guards.forOperation(op, frame.held, 'after').length > 0;
  if (concerned) effects.drop();
  else effects.flush();
}

/** Calls the checkpoint: `limit` for a refusal of stage 4, `error` for later stages and the gate. */
async function faultRaised(attempt: Attempt, failure: Failure): Promise<AttemptEnding> {
  const { stage, op, inputs } = attempt;
  const { error: fault } = failure;
  // The operation has not begun before this stage.
  if (stage <= STAGE.beforeStep || stage === STAGE.afterStep) return undefined;
  const { checkpoint, audit } = attempt.call.own;
  try {
    if (stage < STAGE.audit) await audit?.(entryOf(attempt, failure, false));
    if (isRetryRequest(fault) || !checkpoint) return undefined;
    const refused = fault.code === 'permission_denied' && { stage: refusedAt(attempt, fault) };
    // An exhausted right is refused like a missing one.
    const event: FlowCheckpoint =
      isLimit(stage) && !refused
        ? { name: 'limit', fault, arguments: inputs }
        : { name: 'error', fault, arguments: inputs, ...refused };
    const verdict = await checkpoint(event, op, attempt.frame);
    return verdict && endingBy(attempt, verdict);
  } catch (error) {
    return crashed(operationName(op), error);
  }
}

function refusedAt({ stage, isStarted }: Attempt, { detail }: Fault): DenialStage {
  if (stage <= STAGE.gate) return 'capability';
  const { guard } = detail;
  if (typeof guard === 'string') return guard.startsWith('policy:') ? 'policy' : 'guard';
  return isStarted ? 'primitive' : 'policy';
}

/** Stage 9. INVARIANT: an attempt that could not be recorded is never reported as successful. */
function recorded(
  attempt: Attempt,
  outcome: Outcome<Value>,
  retried: boolean,
): MaybePromise<Outcome<Value>> {
  const { op, own } = attempt.call;
  const failed = (error: unknown) => marked(attempt, crashed(operationName(op), error));
  try {
    const pending = own.record?.(entryOf(attempt, outcome, retried));
    return pending ? Promise.resolve(pending).then(() => outcome, failed) : outcome;
  } catch (error) {
    return failed(error);
  }
}

/**
 * Judges whether rules and guards allow this operation before its inputs are evaluated. Used for a part
 * of an operation that is not performed itself.
 */
export function judgeOperation(op: Operation, frame: Frame): MaybePromise<Outcome<null>> {
  const inside = pushOperation(frame, op, undefined, NO_INPUTS);
  if (isUncontested(op, NO_INPUTS, inside)) return ok(null);
  return whenReady(judgeBefore(op, NO_INPUTS, inside), (judgement) =>
    whenReady(carryOut(op, judgement, inside), (refused) =>
      refused && 'ok' in refused ? refused : ok(null),
    ),
  );
}

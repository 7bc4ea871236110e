// Hot: runs for every operation, and a promise costs more than an operation that no rule is about.
// The one pipeline. Everything that acts runs through `perform`, in stages whose order is fixed:
//
//   1 push ctx.op   2 evaluate inputs   3 gate   4 reserve   5 policy and guards, before
//   6 body   7 taint   8 guards, after   9 record   10 pop
//
// Whoever performs may count and note the act before 3 (`intent`) and be told of it after 8 (`audit`).
// Never throws: a bug in a body or a port is a fault like any other.
import {
  type Failure,
  type Fault,
  type Outcome,
  ok,
  shielded,
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

/** Whoever mounts checkpoints counts its own retries; this only keeps a mistake from going on forever. */
const MAX_REPEATS = 20;

const NO_INPUTS: readonly Argument[] = Object.freeze([]);

/** Answers at once when nothing waits. */
export function perform(
  op: Operation,
  inputs: readonly Input[],
  body: Body,
  frame: Frame,
  own: ActPorts = NO_ACT_PORTS,
): MaybePromise<Outcome<Value>> {
  return shielded(
    () => {
      const attempt = startAttempt({ op, inputs, body, outer: frame, own }, 1, []);
      return whenReady(runStages(attempt, STAGE.inputs), (ending) => {
        // Nothing to settle and nothing to repeat: the common case.
        const isDone = ending !== 'again' && ending.ok && attempt.reservation === undefined;
        return isDone ? recorded(attempt, ending, false) : conclude(attempt, ending);
      });
    },
    // Only an operation that is none gets here: everything foreign is shielded by itself.
    (error) => crashed('the operation', error),
  );
}

/** From how the stages of an attempt ended to the outcome, perhaps by way of further ones. */
async function conclude(first: Attempt, ended: Outcome<Value> | 'again'): Promise<Outcome<Value>> {
  let attempt = first;
  let ending = ended;
  const { call } = attempt;
  for (let repeats = 0; ; ) {
    const result = ending === 'again' ? resultOf(attempt) : ending;
    const outcome = result.ok ? result : marked(attempt, call.own.explain?.(result) ?? result);
    const hint = outcome.ok ? undefined : hintFor(attempt, outcome);
    if (hint !== undefined) {
      // A guard wants the same act done again: counted already, with what was set aside for it.
      const noted = await thrownAway(attempt, outcome);
      if (noted) return noted;
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
    // A checkpoint wants it done again: after a limit from there on, otherwise all of it.
    if (isLimit(attempt.stage)) {
      ending = await runStages(attempt, attempt.stage);
      continue;
    }
    const noted = await recorded(attempt, settled, true);
    if (noted !== settled) return noted;
    attempt = startAttempt(call, attempt.number + 1, attempt.hints);
    ending = await runStages(attempt, STAGE.inputs);
  }
}

/** Refusals of these are limits; what is tried again after one goes on there. */
const isLimit = (stage: Stage): boolean => stage === STAGE.intent || stage === STAGE.reserve;

/** Faults quote values: they carry the marks of everything that went in. */
const marked = (attempt: Attempt, failure: Failure): Failure =>
  markFailure(failure, marksOfInputs(attempt));

/** The hint of a guard inside that asks exactly this operation to try again. */
const hintFor = ({ budget }: Attempt, { error }: Failure): string | undefined =>
  budget && retryHint(error, budget);

const repeatedTooOften = (op: Operation, outcome: Outcome<Value>): Outcome<Value> =>
  outcome.ok ? crashed(operationName(op), `repeated more than ${MAX_REPEATS} times`) : outcome;

/** Before the next attempt: nothing of this one goes out. An outcome when it could not be noted. */
async function thrownAway(
  attempt: Attempt,
  outcome: Outcome<Value>,
): Promise<Outcome<Value> | undefined> {
  try {
    endEffects(attempt, outcome);
    await attempt.call.own.audit?.(entryOf(attempt, outcome, false));
  } catch (error) {
    return await settle(attempt, marked(attempt, crashed(operationName(attempt.call.op), error)));
  }
  const noted = await recorded(attempt, outcome, true);
  return noted === outcome ? undefined : await settle(attempt, noted);
}

/** Lets effects go, or drops them, and settles what was reserved. */
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

/** A body that failed has no result to judge; its effects go out unless a guard would have looked. */
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

/** on_limit for a refusal of stage 4, on_error for everything later and for the gate. */
async function faultRaised(attempt: Attempt, failure: Failure): Promise<AttemptEnding> {
  const { stage, op, inputs } = attempt;
  const { error: fault } = failure;
  // Up to there the operation has not begun.
  if (stage <= STAGE.beforeStep || stage === STAGE.afterStep) return undefined;
  const { checkpoint, audit } = attempt.call.own;
  try {
    if (stage < STAGE.audit) await audit?.(entryOf(attempt, failure, false));
    if (isRetryRequest(fault) || !checkpoint) return undefined;
    const refused = fault.code === 'permission_denied' && { stage: refusedAt(attempt, fault) };
    // A right that is used up is refused like one that is not held.
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

/** Stage 9. INVARIANT: what could not be recorded is not reported as done. */
function recorded(
  attempt: Attempt,
  outcome: Outcome<Value>,
  retried: boolean,
): MaybePromise<Outcome<Value>> {
  const { op, own } = attempt.call;
  const failed = (error: unknown) => marked(attempt, crashed(operationName(op), error));
  try {
    const done = own.record?.(entryOf(attempt, outcome, retried));
    return done ? Promise.resolve(done).then(() => outcome, failed) : outcome;
  } catch (error) {
    return failed(error);
  }
}

/**
 * Would rules and guards let this operation begin, before anything goes into it? For the part of an act
 * that is not performed by itself.
 */
export function judgeOperation(op: Operation, frame: Frame): MaybePromise<Outcome<null>> {
  const inside = pushOperation(frame, op, undefined, NO_INPUTS);
  if (isUncontested(op, NO_INPUTS, inside)) return ok(null);
  return whenReady(judgeBefore(op, NO_INPUTS, inside), (found) =>
    whenReady(carryOut(op, found, inside), (refused) =>
      refused && 'ok' in refused ? refused : ok(null),
    ),
  );
}

// The one pipeline. Everything that acts runs through `perform`, in stages whose order is fixed:
//
//   1 push ctx.op   2 evaluate inputs   3 gate   4 reserve   5 policy and guards, before
//   6 body   7 taint   8 guards, after   9 record   10 pop
//
// Whoever performs may count and note the act before 3 (`intent`) and be told of it after 8 (`audit`).
// Never throws: a bug in a body or a port is a fault like any other.
import { type Outcome, ok } from '../../base/index.ts';
import type { Frame, Input } from '../frame.ts';
import { isUncontested, judgeBefore } from '../guards/ask-guards.ts';
import { carryOut, crashed, operationName, RETRY_CODE, retryHint } from '../guards/decision.ts';
import type { Operation } from '../operation.ts';
import { markFailure } from '../values/labels.ts';
import type { Value } from '../values/value.ts';
import { type ActPorts, NO_ACT_PORTS } from './act-ports.ts';
import { pushOperation } from './create-frame.ts';
import { NO_BUFFER } from './effects.ts';
import {
  AFTER_STEP,
  type Attempt,
  type AttemptEnding,
  AUDIT,
  audited,
  BEFORE_STEP,
  type Body,
  entryOf,
  LIMITS,
  madeIn,
  raise,
  resultOf,
  runStages,
  startAttempt,
} from './stages.ts';
import { marksOfInputs } from './taint.ts';

/** Whoever mounts checkpoints counts its own retries; this only keeps a mistake from going on forever. */
const MAX_REPEATS = 20;

export async function perform(
  op: Operation,
  inputs: readonly Input[],
  body: Body,
  frame: Frame,
  own: ActPorts = NO_ACT_PORTS,
): Promise<Outcome<Value>> {
  try {
    const call = { op, inputs, body, outer: frame, own };
    let attempt = startAttempt(call, 1, []);
    let first = 0;
    let repeats = 0;
    for (;;) {
      const ending = await runStages(attempt, first);
      if (ending !== 'again' && ending?.ok && isDone(attempt)) return ending;
      const result = ending === 'again' || !ending ? resultOf(attempt) : ending;
      const outcome = marked(attempt, result.ok ? result : (own.explain?.(result) ?? result));
      const hint = hintFor(attempt, outcome);
      if (hint !== undefined) {
        // A guard wants the same act done again: counted already, with what was set aside for it.
        const noted = await thrownAway(attempt, outcome);
        if (noted) return noted;
        attempt = startAttempt(call, attempt.number + 1, [...attempt.hints, hint], attempt);
        first = 0;
        continue;
      }
      const settled = await settle(attempt, outcome);
      const verdict =
        ending === 'again' && settled.ok ? ending : await faultRaised(attempt, settled);
      if (verdict !== 'again')
        return await recorded(attempt, marked(attempt, verdict ?? settled), false);
      if (repeats++ >= MAX_REPEATS)
        return await recorded(attempt, repeatedTooOften(op, settled), false);
      // A checkpoint wants it done again: after a limit from there on, otherwise all of it.
      first = LIMITS.has(attempt.stage) ? attempt.stage : 0;
      if (first > 0) continue;
      const noted = await recorded(attempt, settled, true);
      if (noted !== settled) return noted;
      attempt = startAttempt(call, attempt.number + 1, attempt.hints);
    }
  } catch (error) {
    // Only an operation that is none gets here: everything foreign is shielded by itself.
    return crashed('the operation', error);
  }
}

/** Nothing to settle and nobody to tell: the common case. */
const isDone = ({ reservation, call }: Attempt): boolean =>
  reservation === undefined && call.own.record === undefined;

/** Faults quote values: they carry the marks of everything that went in. */
const marked = (attempt: Attempt, outcome: Outcome<Value>): Outcome<Value> =>
  outcome.ok ? outcome : markFailure(outcome, marksOfInputs(madeIn(attempt)));

/** The hint of a guard inside that asks exactly this operation to try again. */
const hintFor = ({ budget }: Attempt, outcome: Outcome<Value>): string | undefined =>
  outcome.ok || !budget ? undefined : retryHint(outcome.error, budget);

const repeatedTooOften = (op: Operation, outcome: Outcome<Value>): Outcome<Value> =>
  outcome.ok ? crashed(operationName(op), `repeated more than ${MAX_REPEATS} times`) : outcome;

/** Before the next attempt: nothing of this one goes out. An outcome when it could not be noted. */
async function thrownAway(
  attempt: Attempt,
  outcome: Outcome<Value>,
): Promise<Outcome<Value> | undefined> {
  try {
    endEffects(attempt, outcome);
    await audited(attempt, outcome);
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
    endEffects(attempt, outcome);
    await (isStarted || isRepeat ? reservation?.settle(outcome) : reservation?.release());
    return outcome;
  } catch (error) {
    return crashed(operationName(attempt.call.op), error);
  }
}

/** A body that failed has no result to judge; its effects go out unless a guard would have looked. */
function endEffects(attempt: Attempt, outcome: Outcome<Value>): void {
  const { frame, call, effects } = attempt;
  if (outcome.ok) return effects.flush();
  const marks = marksOfInputs(madeIn(attempt));
  const concerned =
    outcome.error.code === RETRY_CODE ||
    frame.guards.forMarks(marks, 'after').length > 0 ||
    frame.guards.forOperation(call.op, frame.held, 'after').length > 0;
  if (concerned) effects.drop();
  else effects.flush();
}

/** on_limit for a refusal of stage 4, on_error for everything later and for the gate. */
async function faultRaised(attempt: Attempt, outcome: Outcome<Value>): Promise<AttemptEnding> {
  if (outcome.ok || attempt.stage <= BEFORE_STEP || attempt.stage === AFTER_STEP) return undefined;
  const { checkpoint } = attempt.call.own;
  try {
    if (attempt.stage < AUDIT) await audited(attempt, outcome);
    if (outcome.error.code === RETRY_CODE || !checkpoint) return undefined;
    const name = LIMITS.has(attempt.stage) ? 'limit' : 'error';
    return await raise(attempt, { name, fault: outcome.error, arguments: attempt.inputs });
  } catch (error) {
    return crashed(operationName(attempt.call.op), error);
  }
}

/** Stage 9. INVARIANT: what could not be recorded is not reported as done. */
async function recorded(
  attempt: Attempt,
  outcome: Outcome<Value>,
  retried: boolean,
): Promise<Outcome<Value>> {
  const { op, own } = attempt.call;
  try {
    await own.record?.(entryOf(attempt, outcome, retried));
    return outcome;
  } catch (error) {
    return marked(attempt, crashed(operationName(op), error));
  }
}

/**
 * Would rules and guards let this operation begin, before anything goes into it? For the part of an act
 * that is not performed by itself.
 */
export async function judgeOperation(op: Operation, frame: Frame): Promise<Outcome<null>> {
  const inside = pushOperation(frame, op, undefined, []);
  if (isUncontested(op, [], inside)) return ok(null);
  const refused = await carryOut(op, await judgeBefore(op, [], inside), inside);
  return refused ?? ok(null);
}

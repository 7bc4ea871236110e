// Maps the answer of a hook, or its absence, to a decision about the run. One table has one cell per action and
// checkpoint. The bounds on repeated actions are here, not in the hooks.
import { type Failure, type Fault, fail, type JsonObject } from '../../base/index.ts';
import type { Descriptor, MaybePromise } from '../../flow/index.ts';
import type { Bounds, HookStart } from '../../journal/index.ts';
import { raisedLimits } from '../limits/effective-limits.ts';
import type { EffectiveLimits, LimitName } from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/limit-ceiling.ts';
import { stepDone } from '../thread/restore.ts';
import type { NewInputs } from '../thread/talk.ts';
import { type Checkpoint, type CheckpointEvent, checkpointOf, faultOf } from './checkpoint.ts';
import type { Action, HookVerdict } from './hook-answer.ts';

export const MAX_RETRIES = 3;
const MAX_SKIPS = 3;
/** Deepest level of hooks of hooks. Hooks below this level never run. */
export const MAX_HOOK_NESTING = 2;

export type HookDecision =
  /** The run continues. The model can get a message, for example to repair an error. */
  | { readonly do: 'proceed' | 'tell_error' | 'tell_warning' }
  /** At the start: the run begins with the rights that it has, or is checked again after new approvals. */
  | { readonly do: 'run_with_granted' | 'restart' }
  | {
      readonly do: 'raise';
      readonly limits: EffectiveLimits;
      readonly raised: readonly LimitName[];
    }
  | { readonly do: 'repeat_step' }
  /** A new conversation with `thread.attempt` + 1, and with other inputs if the hook returned some. */
  | { readonly do: 'new_attempt'; readonly begins?: NewInputs }
  /** The step or its result is left out, or a failed step counts as done. The model gets a result that says so. */
  | { readonly do: 'skip_step' | 'withhold_result' | 'count_as_done' }
  /** At the end: the run does not complete, and the model gets the reason. */
  | { readonly do: 'next_round'; readonly fault: Fault }
  /**
   * The run ends or parks: a person is asked (without a channel it ends as `needs_input`), a proposed change is
   * pending, a limit stopped it, or it failed. `abort` ends the whole tree, children first.
   */
  | { readonly do: 'ask_person' | 'wait' | 'stop' | 'fail' | 'abort'; readonly fault: Fault };

export interface Decision {
  readonly instruction: HookDecision;
  readonly model?: string;
  readonly notes: JsonObject;
  /** Hook that wrote the notes, and the marks of the notes. */
  readonly hook?: string;
  readonly marks?: Descriptor;
  /** Counts for the next decision. A resumed thread has them too. */
  readonly bounds: Bounds;
}

export interface Situation {
  readonly event: CheckpointEvent;
  readonly step: string;
  readonly bounds: Bounds;
  /** Capabilities that the step needs. They are computed when a condition reads them. */
  readonly required?: (() => readonly string[]) | undefined;
  /** The open call with its result so far, or the fault if no call is open. */
  readonly open?: {
    readonly call?: string;
    readonly held?: () => MaybePromise<NonNullable<HookStart['held']>>;
    readonly fault?: Fault;
  };
  /** True before the first turn, if rights are missing or a limit is too low to start. */
  readonly isStart?: boolean;
  /** True if the harness raised the error for a loop or a call for help. Never true for an error of a tool. */
  readonly isOwn?: boolean;
  /** True for an error of a provider after which no retry is left. */
  readonly isFatal?: boolean;
  /** Number of loops without progress so far, with this one. */
  readonly loops?: number;
  /** At a limit: the limits, the value that the unit needs, and how far the limits can be raised. */
  readonly raise?: {
    readonly limits: EffectiveLimits;
    readonly needed: bigint;
    readonly room: RaiseRoom;
  };
}

type Cell = (situation: Situation, verdict: HookVerdict) => HookDecision;

function faultFor({ event, step }: Situation, reason: string | undefined): Fault {
  const behind = faultOf(event);
  if (!behind) {
    const when = event.name === 'before_step' ? 'before' : 'after';
    const message = reason ?? `a hook ended the run ${when} \`${step}\``;
    return { code: 'ended_by_hook', detail: { step, message } };
  }
  if (reason === undefined) return behind;
  const { code, detail } = behind;
  return { code, detail: { ...detail, cause: detail.message, message: reason } };
}

const proceed: Cell = () => ({ do: 'proceed' });
const end: Cell = (situation, { error }) => ({ do: 'fail', fault: faultFor(situation, error) });
const abort: Cell = (situation, { error }) => ({ do: 'abort', fault: faultFor(situation, error) });
const stop = (situation: Situation, reason?: string): HookDecision => ({
  do: 'stop',
  fault: faultFor(situation, reason),
});

const continueAfterError: Cell = ({ isStart }) => ({
  do: isStart ? 'run_with_granted' : 'tell_error',
});

const retryAfterError: Cell = ({ event, isStart, isFatal }, { model }) => {
  if (isStart) return { do: 'restart' };
  // A new model cannot repair a call of a tool, so the new model gets the error instead.
  if (model !== undefined && !isFatal) return { do: 'tell_error' };
  // INVARIANT: a step that may have had its effect is never repeated, whatever a hook answers.
  const isUnknown = event.name === 'error' && event.code === 'outcome_unknown';
  return { do: isUnknown ? 'tell_error' : 'repeat_step' };
};

const continueAtLimit: Cell = (situation, verdict) => {
  const { event, raise } = situation;
  const { limits: request } = verdict;
  const isWarning = event.name === 'warning';
  if (!request || !raise || (event.name !== 'limit' && !isWarning)) {
    return isWarning ? { do: 'proceed' } : stop(situation, verdict.error);
  }
  const reached = isWarning ? undefined : { limit: event.limit, needed: raise.needed };
  const result = raisedLimits(request, raise.limits, raise.room, reached);
  if ('limits' in result) return { do: 'raise', ...result };
  return isWarning ? { do: 'tell_warning' } : stop(situation, result.refused);
};

const nextRound: Cell = ({ step }, { error }) => ({
  do: 'next_round',
  fault: {
    code: 'criteria_unmet',
    detail: { step, message: error ?? 'a hook demands another round' },
  },
});

const TABLE: Readonly<Record<Action, Readonly<Record<Checkpoint, Cell>>>> = {
  continue: {
    before_step: proceed,
    after_step: proceed,
    on_error: continueAfterError,
    on_limit: continueAtLimit,
    on_end: proceed,
  },
  retry: {
    before_step: proceed,
    after_step: () => ({ do: 'repeat_step' }),
    on_error: retryAfterError,
    on_limit: () => ({ do: 'new_attempt' }),
    on_end: nextRound,
  },
  skip: {
    before_step: () => ({ do: 'skip_step' }),
    after_step: () => ({ do: 'withhold_result' }),
    // A run that could not begin has no step that could count as done.
    on_error: (situation, verdict) =>
      situation.isStart ? end(situation, verdict) : { do: 'count_as_done' },
    // A warning does not belong to a step. A hook that skips it withholds it from the model.
    on_limit: (situation, { error }) =>
      situation.event.name === 'warning' ? { do: 'proceed' } : stop(situation, error),
    on_end: proceed,
  },
  fail: { before_step: end, after_step: end, on_error: end, on_limit: end, on_end: end },
  abort: { before_step: abort, after_step: abort, on_error: abort, on_limit: abort, on_end: abort },
};

type Doing = HookDecision['do'];
const RETRIES = new Set<Doing>(['repeat_step', 'restart', 'new_attempt']);
const SKIPS = new Set<Doing>(['skip_step', 'withhold_result', 'count_as_done']);

function bounded(
  instruction: HookDecision,
  situation: Situation,
): { instruction: HookDecision; bounds: Bounds } {
  const { bounds, step, event } = situation;
  // A compaction is left out or repeated without an effect on the run.
  if ('kind' in event && event.kind === 'compact') return { instruction, bounds };
  if (RETRIES.has(instruction.do)) {
    if (bounds.retries < MAX_RETRIES) {
      return { instruction, bounds: { ...stepDone(bounds, step), retries: bounds.retries + 1 } };
    }
    const behind = faultOf(event)?.detail.message;
    const used = `${MAX_RETRIES} retries were used, and a hook requested another`;
    const fault = faultFor(situation, behind === undefined ? used : `${behind} (${used})`);
    return { instruction: { do: event.name === 'limit' ? 'stop' : 'fail', fault }, bounds };
  }
  if (!SKIPS.has(instruction.do)) return { instruction, bounds: stepDone(bounds, step) };
  const skips = (Object.hasOwn(bounds.skips, step) ? (bounds.skips[step] ?? 0) : 0) + 1;
  const next = { ...bounds, skips: { ...bounds.skips, [step]: skips } };
  if (skips < MAX_SKIPS) return { instruction, bounds: next };
  const fault = faultFor(situation, `\`${step}\` was skipped ${skips} times in a row`);
  return { instruction: { do: 'fail', fault }, bounds: next };
}

/** Returns the decision for a hook's answer. Never throws, and never grants more than `raise.room` allows. */
export function decide(verdict: HookVerdict, situation: Situation): Decision {
  const { action, model, notes } = verdict;
  const instruction = TABLE[action][checkpointOf(situation.event)](situation, verdict);
  const takesModel = action === 'continue' || action === 'retry';
  const chosen = takesModel && model !== undefined && { model };
  return { ...bounded(instruction, situation), ...chosen, notes };
}

/** Ends the run after a hook that failed or whose answer cannot be read. */
export function decideFailure(hook: string, failure: Failure, situation: Situation): Decision {
  const { code, detail } = failure.error;
  const behind = faultOf(situation.event);
  const { error } = fail('hook_failed', `hook \`${hook}\` failed: ${detail.message}`, {
    hook,
    cause: { ...detail, code },
    ...(behind && { event: { code: behind.code, message: behind.detail.message } }),
  });
  return { instruction: { do: 'fail', fault: error }, notes: {}, bounds: situation.bounds };
}

function defaultInstruction(situation: Situation): HookDecision {
  const { event, isStart, isFatal, isOwn, loops = 1 } = situation;
  switch (event.name) {
    case 'before_step':
    case 'after_step':
    case 'end':
      return { do: 'proceed' };
    case 'warning':
      return { do: 'tell_warning' };
    case 'limit':
      return stop(situation);
    case 'error': {
      const fault = faultFor(situation, undefined);
      if (isFatal || isStart) return { do: 'fail', fault };
      if (!isOwn) return { do: 'tell_error' };
      if (event.code === 'loop_detected' && loops > 1) return { do: 'fail', fault };
      return event.code === 'stuck' ? { do: 'ask_person', fault } : { do: 'tell_error' };
    }
  }
}

export const withoutHook = (situation: Situation): Decision => ({
  instruction: defaultInstruction(situation),
  notes: {},
  bounds:
    situation.event.name === 'after_step'
      ? stepDone(situation.bounds, situation.step)
      : situation.bounds,
});

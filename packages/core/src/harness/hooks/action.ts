// What becomes of a run after a hook has answered, or when no hook matched. One table, one cell per
// action and checkpoint; how often a hook may say the same is bounded here and not in the hook.
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
/** A hook's directive may have hooks, and those too; further in none run. */
export const MAX_HOOK_NESTING = 2;

export const NO_BOUNDS: Bounds = { retries: 0, skips: {} };

export type Deed =
  /** Go on as if nothing was, or with a word to the model: it may repair an error. */
  | { readonly do: 'proceed' | 'tell_error' | 'tell_warning' }
  /** At the start: with the rights there are, or again, with what was approved in the meantime. */
  | { readonly do: 'run_with_granted' | 'restart' }
  | {
      readonly do: 'raise';
      readonly limits: EffectiveLimits;
      readonly raised: readonly LimitName[];
    }
  | { readonly do: 'repeat_step' }
  /** All of it: a fresh conversation, `thread.attempt` + 1; with other inputs when it has some. */
  | { readonly do: 'new_attempt'; readonly begins?: NewInputs }
  /** Not done, done but not shown, failed but done for all that: the model gets a result that says so. */
  | { readonly do: 'skip_step' | 'withhold_result' | 'count_as_done' }
  /**
   * The run is over: a person is asked (without a channel it ends `needs_input`), a proposed change waits
   * to be looked at, a limit stopped it, it failed. `abort` ends the whole tree, children first.
   */
  | { readonly do: 'ask_person' | 'wait' | 'stop' | 'fail' | 'abort'; readonly fault: Fault };

export interface Decision {
  readonly deed: Deed;
  /** For the rest of the run. */
  readonly model?: string;
  readonly notes: JsonObject;
  /** Whose notes they are, and what they carry. */
  readonly hook?: string;
  readonly marks?: Descriptor;
  /** To be kept for the next decision, also over a restart. */
  readonly bounds: Bounds;
}

export interface Situation {
  readonly event: CheckpointEvent;
  /** The step it is about, as `stepName` names it. */
  readonly step: string;
  readonly bounds: Bounds;
  /** What the step needs, asked when a condition reads it. */
  readonly required?: (() => readonly string[]) | undefined;
  /** What stands open while a hook is asked: a call with what it came to, or a fault of something else. */
  readonly open?: {
    readonly call?: string;
    readonly held?: () => MaybePromise<NonNullable<HookStart['held']>>;
    readonly fault?: Fault;
  };
  /** Before the first turn: rights were refused, or there is too little left to begin. */
  readonly isStart?: boolean;
  /** The harness itself raised the error: a loop, a call for help. A tool cannot, whatever its code says. */
  readonly isOwn?: boolean;
  /** A provider error for which nothing is left to try. */
  readonly isFatal?: boolean;
  /** How often a loop without progress was found, this time included. */
  readonly loops?: number;
  /** At a limit: the limits, what they would have to be for the unit, how far they may go up. */
  readonly raise?: {
    readonly limits: EffectiveLimits;
    readonly needed: bigint;
    readonly room: RaiseRoom;
  };
}

type Cell = (situation: Situation, verdict: HookVerdict) => Deed;

/** What the run ends with: the error there was, with the hook's words as the reason. */
function faultFor({ event, step }: Situation, reason: string | undefined): Fault {
  const behind = faultOf(event);
  if (!behind) {
    const when = event.name === 'after_step' ? 'after' : 'before';
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
const stop = (situation: Situation, reason?: string): Deed => ({
  do: 'stop',
  fault: faultFor(situation, reason),
});

const continueAfterError: Cell = ({ isStart }) => ({
  do: isStart ? 'run_with_granted' : 'tell_error',
});

const retryAfterError: Cell = ({ event, isStart, isFatal }, { model }) => {
  if (isStart) return { do: 'restart' };
  // Another model cannot mend a call of a tool: the new model gets the error instead.
  if (model !== undefined && !isFatal) return { do: 'tell_error' };
  // INVARIANT: a step that may have had its effect is not done again, whatever a hook says.
  const isUnknown = event.name === 'error' && event.code === 'outcome_unknown';
  return { do: isUnknown ? 'tell_error' : 'repeat_step' };
};

const continueAtLimit: Cell = (situation, verdict) => {
  const { event, raise } = situation;
  const { limits: wanted } = verdict;
  const isWarning = event.name === 'warning';
  if (!wanted || !raise || (event.name !== 'limit' && !isWarning)) {
    return isWarning ? { do: 'proceed' } : stop(situation, verdict.error);
  }
  const reached = isWarning ? undefined : { limit: event.limit, needed: raise.needed };
  const result = raisedLimits(wanted, raise.limits, raise.room, reached);
  if ('limits' in result) return { do: 'raise', ...result };
  return isWarning ? { do: 'tell_warning' } : stop(situation, result.refused);
};

const TABLE: Readonly<Record<Action, Readonly<Record<Checkpoint, Cell>>>> = {
  continue: {
    before_step: proceed,
    after_step: proceed,
    on_error: continueAfterError,
    on_limit: continueAtLimit,
  },
  retry: {
    before_step: proceed,
    after_step: () => ({ do: 'repeat_step' }),
    on_error: retryAfterError,
    on_limit: () => ({ do: 'new_attempt' }),
  },
  skip: {
    before_step: () => ({ do: 'skip_step' }),
    after_step: () => ({ do: 'withhold_result' }),
    // A run that could not begin has no step that could count as done.
    on_error: (situation, verdict) =>
      situation.isStart ? end(situation, verdict) : { do: 'count_as_done' },
    // A warning is about nothing that could be left out: skipping it means not passing it on.
    on_limit: (situation, { error }) =>
      situation.event.name === 'warning' ? { do: 'proceed' } : stop(situation, error),
  },
  fail: { before_step: end, after_step: end, on_error: end, on_limit: end },
  abort: { before_step: abort, after_step: abort, on_error: abort, on_limit: abort },
};

type Doing = Deed['do'];
const RETRIES = new Set<Doing>(['repeat_step', 'restart', 'new_attempt']);
const SKIPS = new Set<Doing>(['skip_step', 'withhold_result', 'count_as_done']);

function bounded(deed: Deed, situation: Situation): { deed: Deed; bounds: Bounds } {
  const { bounds, step, event } = situation;
  if (RETRIES.has(deed.do)) {
    if (bounds.retries < MAX_RETRIES) {
      return { deed, bounds: { ...stepDone(bounds, step), retries: bounds.retries + 1 } };
    }
    const behind = faultOf(event)?.detail.message;
    const used = `${MAX_RETRIES} retries were used, and a hook asked for another`;
    const fault = faultFor(situation, behind === undefined ? used : `${behind} (${used})`);
    return { deed: { do: event.name === 'limit' ? 'stop' : 'fail', fault }, bounds };
  }
  if (!SKIPS.has(deed.do)) return { deed, bounds: stepDone(bounds, step) };
  const skips = (Object.hasOwn(bounds.skips, step) ? (bounds.skips[step] ?? 0) : 0) + 1;
  const next = { ...bounds, skips: { ...bounds.skips, [step]: skips } };
  if (skips < MAX_SKIPS) return { deed, bounds: next };
  const fault = faultFor(situation, `\`${step}\` was skipped ${skips} times in a row`);
  return { deed: { do: 'fail', fault }, bounds: next };
}

/** What the hook's answer means here and now. Never throws; never grants what the room forbids. */
export function decide(verdict: HookVerdict, situation: Situation): Decision {
  const { action, model, notes } = verdict;
  const deed = TABLE[action][checkpointOf(situation.event)](situation, verdict);
  const takesModel = action === 'continue' || action === 'retry';
  const chosen = takesModel && model !== undefined && { model };
  return { ...bounded(deed, situation), ...chosen, notes };
}

/** A hook that failed, or whose answer cannot be read, ends the run. */
export function decideFailure(hook: string, failure: Failure, situation: Situation): Decision {
  const { code, detail } = failure.error;
  const behind = faultOf(situation.event);
  const { error } = fail('hook_failed', `hook \`${hook}\` failed: ${detail.message}`, {
    hook,
    cause: { ...detail, code },
    ...(behind && { event: { code: behind.code, message: behind.detail.message } }),
  });
  return { deed: { do: 'fail', fault: error }, notes: {}, bounds: situation.bounds };
}

function defaultDeed(situation: Situation): Deed {
  const { event, isStart, isFatal, isOwn, loops = 1 } = situation;
  switch (event.name) {
    case 'before_step':
    case 'after_step':
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
  deed: defaultDeed(situation),
  notes: {},
  bounds:
    situation.event.name === 'after_step'
      ? stepDone(situation.bounds, situation.step)
      : situation.bounds,
});

// What a thread can do to itself while it runs: say something to its model, set budget aside, take
// another model, raise its limits, begin again.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { BudgetLimits } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import { packCost, usedAmounts } from './cost.ts';
import type { EffectiveLimits, LimitAmounts, LimitName } from './limit.ts';
import { modelFor, priceFor } from './prepare-thread.ts';
import type { RaiseRoom } from './raise-limits.ts';
import type { ThreadContext } from './thread-context.ts';
import { helpSignal } from './thread-help.ts';
import { replayEvent } from './thread-replay.ts';

/** Charged along the chain, so the registry keeps their limits too. */
export const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

export type Deeds = Pick<
  ThreadContext,
  | 'tell'
  | 'reserve'
  | 'switchModel'
  | 'raiseLimits'
  | 'room'
  | 'newAttempt'
  | 'help'
  | 'stop'
  | 'runHook'
>;

export type RunHook = (
  thread: ThreadContext,
  name: string,
  inputs: JsonObject,
) => Promise<Outcome<Json>>;

function switchModel(thread: ThreadContext, wanted: string): Outcome<null> {
  const { world, directive } = thread;
  const name =
    wanted === 'fallback' ? (directive.model?.fallback_id ?? thread.model.fallback) : wanted;
  if (name === undefined) return fail('model_unavailable', 'there is no fallback model');
  const model = modelFor(world, name);
  if (!model.ok) return model;
  const price = priceFor(world, model.output.model, thread.limits);
  if (!price.ok) return price;
  [thread.model, thread.price] = [model.output, price.output];
  return ok(null);
}

function raiseLimits(
  thread: ThreadContext,
  raised: EffectiveLimits,
  names: readonly LimitName[],
): void {
  thread.limits = raised;
  for (const name of BUDGETED) {
    const value = raised[name]?.value;
    if (value === undefined || !names.includes(name)) continue;
    const all = value + (thread.hookLimits[name] ?? 0n);
    thread.world.store.raiseLimit(thread.id, name satisfies keyof BudgetLimits, all);
  }
}

/** The most a child may have in all: what it used, and what all its ancestors still have. */
function ancestorsLeave({ world, chain, meter }: ThreadContext): LimitAmounts {
  const used = usedAmounts(meter.read());
  const most: { [name in LimitName]?: bigint } = {};
  for (const ancestor of chain.slice(1)) {
    const state = world.store.budget(ancestor);
    if (!state.ok) return {};
    const { limits, used: spent, reserved } = state.output;
    for (const name of BUDGETED) {
      const max = limits[name];
      if (max === undefined) continue;
      const all = (used[name] ?? 0n) + max - spent[name] - reserved[name];
      if (most[name] === undefined || all < most[name]) most[name] = all;
    }
  }
  return most;
}

function room(thread: ThreadContext): RaiseRoom {
  const { world, parent, price, initialLimits } = thread;
  // What was used counts.
  thread.log.flush();
  const isRoot = parent === undefined;
  return {
    isRoot,
    initial: initialLimits,
    factor: Number(getOwn(world.library.config('limits').value, 'raise_factor') ?? 2),
    policy: world.policies().policy.limits,
    ...(isRoot ? {} : { ancestors: ancestorsLeave(thread) }),
    ...(price.context === undefined ? {} : { window: BigInt(price.context) }),
  };
}

function newAttempt(thread: ThreadContext): void {
  const { meter, log, conversation } = thread;
  thread.attempt += 1;
  meter.newAttempt();
  conversation.clear();
  const { attempt } = thread;
  log.note('retry', { attempt }, { attempt, cost: packCost(meter.read()) });
  for (const event of thread.opening) replayEvent(thread, event);
}

function tell({ log, conversation }: ThreadContext, text: string, about: JsonObject): void {
  const marks = conversation.marks();
  log.note('injected_message', { text, by: 'harness', marks: packMarks(marks), ...about });
  conversation.user(text, marks);
}

/** `self` is asked when something is done: the thread is made with its deeds in it. */
export function createDeeds(
  self: () => ThreadContext,
  runHook: RunHook,
  stopping: AbortController,
): Deeds {
  return {
    tell: (text, about = {}) => tell(self(), text, about),
    reserve(amounts, key) {
      const { world, chain, drawFrom } = self();
      return world.store.reserve(
        chain,
        amounts,
        key,
        drawFrom === undefined ? {} : { from: drawFrom },
      );
    },
    switchModel: (wanted) => switchModel(self(), wanted),
    raiseLimits: (limits, raised) => raiseLimits(self(), limits, raised),
    room: () => room(self()),
    newAttempt: () => newAttempt(self()),
    help: (signal) => helpSignal(self(), signal),
    stop(ending) {
      const thread = self();
      thread.ending ??= ending;
      thread.stopped = true;
      stopping.abort();
    },
    runHook: (name, inputs) => runHook(self(), name, inputs),
  };
}

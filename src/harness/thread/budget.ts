// A thread's budget in the registry: what is set aside along its chain, and how far its limits go up.
import { getOwn, type Outcome } from '../../base/index.ts';
import type { Amounts, BudgetLimits } from '../../store/index.ts';
import { usedAmounts } from '../limits/cost.ts';
import type { EffectiveLimits, LimitAmounts, LimitName } from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/raise-limits.ts';
import type { Thread } from './thread.ts';

/** Charged along the chain, so the registry keeps their limits too. */
export const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

/** The reservation a detached child lives on. */
export const apartKey = (id: string): string => `${id}:detached`;

export const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

/** Sets aside along the chain; a hook's thread takes it out of what was set aside for it. */
export function reserveAlongChain(
  { ports, place: { chain }, budget: { drawFrom } }: Thread,
  amounts: Amounts,
  key: string,
): Outcome<null> {
  const from = drawFrom === undefined ? {} : { from: drawFrom };
  return ports.store.reserve(chain, amounts, key, from);
}

export function raiseLimits(
  { ports, place, budget, hooks }: Thread,
  raised: EffectiveLimits,
  names: readonly LimitName[],
): void {
  budget.limits = raised;
  for (const name of BUDGETED) {
    const value = raised[name]?.value;
    if (value === undefined || !names.includes(name)) continue;
    const all = value + (hooks.limits[name] ?? 0n);
    ports.store.raiseLimit(place.id, name satisfies keyof BudgetLimits, all);
  }
}

/** The most a child may have in all: what it used, and what all its ancestors still have. */
function ancestorsLeave({ ports, place: { chain }, budget: { meter } }: Thread): LimitAmounts {
  const used = usedAmounts(meter.read());
  const most: { [name in LimitName]?: bigint } = {};
  for (const ancestor of chain.slice(1)) {
    const state = ports.store.budget(ancestor);
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

/** How far a hook may raise limits. */
export function raiseRoom(thread: Thread): RaiseRoom {
  const { ports, place, talk, budget, journal } = thread;
  // What was used counts.
  journal.flush();
  const isRoot = place.parent === undefined;
  const window = talk.price.context;
  return {
    isRoot,
    initial: budget.initial,
    factor: Number(getOwn(ports.library.config('limits').value, 'raise_factor') ?? 2),
    policy: ports.policies().policy.limits,
    ...(isRoot ? {} : { ancestors: ancestorsLeave(thread) }),
    ...(window === undefined ? {} : { window: BigInt(window) }),
  };
}

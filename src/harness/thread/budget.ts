// A thread's budget in the registry: what is set aside along its chain, and how far its limits go up.
import { getOwn } from '../../base/index.ts';
import type { Amounts, BudgetKind, BudgetLimits } from '../../store/index.ts';
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

/** For the registry: limits with what was set aside for hooks on top. */
export function raisedAmounts(
  { hooks }: Thread,
  raised: EffectiveLimits,
  names: readonly LimitName[],
): Amounts {
  const amounts: { [kind in BudgetKind]?: bigint } = {};
  for (const name of BUDGETED) {
    const value = raised[name]?.value;
    if (value === undefined || !names.includes(name)) continue;
    amounts[name] = value + (hooks.limits[name] ?? 0n);
  }
  return amounts;
}

/** The most a child may have in all: what it used, and what all its ancestors still have. */
async function ancestorsLeave({ ports, place, budget }: Thread): Promise<LimitAmounts> {
  const used = usedAmounts(budget.meter.read());
  const most: { [name in LimitName]?: bigint } = {};
  const states = await ports.store.budgets(place.chain.slice(1));
  for (const { limits, used: spent, reserved } of states.ok ? states.output : []) {
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
export async function raiseRoom(thread: Thread): Promise<RaiseRoom> {
  const { ports, place, talk, budget, journal } = thread;
  // What was used counts.
  await journal.flush();
  const isRoot = place.parent === undefined;
  const window = talk.price.context;
  return {
    isRoot,
    initial: budget.initial,
    factor: Number(getOwn(ports.library.config('limits').value, 'raise_factor') ?? 2),
    policy: ports.policies().policy.limits,
    ...(isRoot ? {} : { ancestors: await ancestorsLeave(thread) }),
    ...(window === undefined ? {} : { window: BigInt(window) }),
  };
}

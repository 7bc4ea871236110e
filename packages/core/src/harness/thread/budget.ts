// Computes the budget of a thread in the store: the reservations along its chain, and the bounds of its limits.
import { type Failure, getOwn, type Outcome, ok, plainText } from '../../base/index.ts';
import type { Amounts, BudgetKind, BudgetLimits } from '../../store/index.ts';
import { usedAmounts } from '../limits/cost.ts';
import {
  type EffectiveLimits,
  type LimitAmounts,
  type LimitName,
  limitEvent,
  limitFault,
} from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/limit-ceiling.ts';
import type { BudgetHolder, HarnessPorts, Thread } from './thread.ts';

/** Limits that are charged along the chain, so the store has them too. */
export const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

/** Key of the reservation for a detached child. */
export const detachedKey = (id: string): string => `${id}:detached`;

export const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

/** A refusal of the store because a budget does not cover the requested amount. */
export interface Shortage {
  readonly kind: BudgetKind;
  readonly thread: string;
  readonly used: bigint;
  readonly reserved: bigint;
  /** Reserved amount that is not released soon, so a wait for it is useless. */
  readonly standing: bigint;
  readonly max: bigint;
  readonly requested: bigint;
}

export function shortageIn({ error: { code, detail } }: Failure): Shortage | undefined {
  const kind = BUDGETED.find((name) => code === `${name}_exceeded`);
  const amount = (name: string): bigint => BigInt(plainText(detail[name]) || '0');
  if (kind === undefined || detail.requested === undefined) return undefined;
  const reserved = amount('reserved');
  return {
    kind,
    thread: plainText(detail.thread),
    used: amount('current') - reserved,
    reserved,
    standing: amount('standing'),
    max: amount('max'),
    requested: amount('requested'),
  };
}

/** Returns the failure in units for people. `needed`: the smallest amount that was enough. */
export function shortageFault(
  { place: { id } }: Pick<Thread, 'place'>,
  { kind, thread, used, reserved, max, requested }: Shortage,
  needed = requested,
): Failure {
  const event = limitEvent(kind, used, max, { reserved, ...(kind !== 'spawns' && { needed }) });
  const report = thread === id ? event : { ...event, thread };
  return limitFault(report, used + reserved + needed);
}

/** Returns raised limits for the store, which contain the reservation for hooks. */
export function raisedAmounts(
  { hooks }: Pick<Thread, 'hooks'>,
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

/** Returns the smallest rest among these threads. A kind that none of them limits is absent. */
export async function leftOf(
  { store }: Pick<HarnessPorts, 'store'>,
  chain: readonly string[],
): Promise<Outcome<Amounts>> {
  const states = await store.budgets(chain);
  if (!states.ok) return states;
  const least: { [kind in BudgetKind]?: bigint } = {};
  for (const { limits, used, reserved } of states.output) {
    for (const name of BUDGETED) {
      const max = limits[name];
      if (max === undefined) continue;
      const rest = max - used[name] - reserved[name];
      if (least[name] === undefined || rest < least[name]) least[name] = rest;
    }
  }
  return ok(least);
}

/** Returns the maximum limits of a child: its used amounts plus the rest of all its ancestors. */
async function ancestorsLeave({ ports, place, budget }: BudgetHolder): Promise<LimitAmounts> {
  const used = usedAmounts(budget.meter.read());
  const rest = await leftOf(ports, place.chain.slice(1));
  const kinds = Object.entries(rest.ok ? rest.output : {}) as [BudgetKind, bigint][];
  return Object.fromEntries(kinds.map(([name, value]) => [name, (used[name] ?? 0n) + value]));
}

/** Returns the bounds within which a hook can raise limits. */
export async function raiseRoom(
  thread: BudgetHolder & Pick<Thread, 'talk' | 'journal'>,
): Promise<RaiseRoom> {
  const { ports, place, talk, budget, journal } = thread;
  // The store must have the used amounts first.
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

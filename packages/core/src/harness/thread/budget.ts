// A thread's budget in the registry: what is set aside along its chain, and how far its limits go up.
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

/** Charged along the chain, so the registry keeps their limits too. */
export const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

/** The reservation a detached child lives on. */
export const detachedKey = (id: string): string => `${id}:detached`;

export const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

/** What the registry says about a budget that does not cover what was asked of it. */
export interface Shortage {
  readonly kind: BudgetKind;
  readonly thread: string;
  readonly used: bigint;
  readonly reserved: bigint;
  /** The part of it for which nobody needs to wait: it is not given back soon. */
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

/** In the units people use; `needed`: the least with which it would have gone on. */
export function shortageFault(
  { place: { id } }: Pick<Thread, 'place'>,
  { kind, thread, used, reserved, max, requested }: Shortage,
  needed = requested,
): Failure {
  const event = limitEvent(kind, used, max, { reserved, ...(kind !== 'spawns' && { needed }) });
  const told = thread === id ? event : { ...event, thread };
  return limitFault(told, used + reserved + needed);
}

/** For the registry: limits with what was set aside for hooks on top. */
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

/** The least that any of these threads has left; a kind that none of them limits is absent. */
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
      const left = max - used[name] - reserved[name];
      if (least[name] === undefined || left < least[name]) least[name] = left;
    }
  }
  return ok(least);
}

/** The most a child may have in all: what it used, and what all its ancestors still have. */
async function ancestorsLeave({ ports, place, budget }: BudgetHolder): Promise<LimitAmounts> {
  const used = usedAmounts(budget.meter.read());
  const left = await leftOf(ports, place.chain.slice(1));
  const kinds = Object.entries(left.ok ? left.output : {}) as [BudgetKind, bigint][];
  return Object.fromEntries(kinds.map(([name, value]) => [name, (used[name] ?? 0n) + value]));
}

/** How far a hook may raise limits. */
export async function raiseRoom(
  thread: BudgetHolder & Pick<Thread, 'talk' | 'journal'>,
): Promise<RaiseRoom> {
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

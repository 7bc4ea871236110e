// Computes the limits that a parent can give to a child: the smallest rest of the parent and its ancestors, and no
// more time than the parent itself has. Every unit is still reserved along the whole chain.
import { type Outcome, ok } from '../../base/index.ts';
import type { LimitAmounts, LimitName } from '../limits/limit.ts';
import type { LimitsLeft } from '../run/prepare.ts';
import { BUDGETED, leftOf } from '../thread/budget.ts';
import type { BudgetHolder } from '../thread/thread.ts';

/** Returns the upper bounds of a child's limits at this moment. */
export async function limitsLeft(parent: BudgetHolder): Promise<Outcome<LimitsLeft>> {
  const { ports, place, budget } = parent;
  const amounts = await leftOf(ports, place.chain);
  if (!amounts.ok) return amounts;
  const { duration, depth } = budget.limits;
  const passed = BigInt(Math.ceil(budget.meter.read().duration_ms));
  const rest: LimitAmounts = {
    ...amounts.output,
    ...(duration && { duration: duration.value - passed }),
    ...(depth && { depth: depth.value }),
  };
  const limits = (Object.entries(rest) as [LimitName, bigint][]).map(([name, value]) => {
    return [name, { value, declared: budget.limits[name]?.declared ?? false }];
  });
  return ok(Object.fromEntries(limits) as LimitsLeft);
}

/** Halves every budget that is not requested, because a detached child reserves all that it gets. */
export function shared(rest: LimitsLeft, isAsked: (name: LimitName) => boolean): LimitsLeft {
  const half: { -readonly [name in keyof LimitsLeft]: LimitsLeft[name] } = { ...rest };
  for (const name of BUDGETED) {
    const limit = rest[name];
    if (limit?.value === undefined || isAsked(name)) continue;
    half[name] = { ...limit, value: limit.value / 2n };
  }
  return half;
}

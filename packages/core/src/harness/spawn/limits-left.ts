// The limits that a parent can give to a child: the least that the parent and its ancestors have left, and no
// more time than the parent itself. Every unit is still reserved along the whole chain.
import { type Outcome, ok } from '../../base/index.ts';
import type { LimitAmounts, LimitName } from '../limits/limit.ts';
import type { LimitsLeft } from '../run/prepare.ts';
import { BUDGETED, leftOf } from '../thread/budget.ts';
import type { BudgetHolder } from '../thread/thread.ts';

/** What a child's own limits may not pass, as it is now. */
export async function limitsLeft(parent: BudgetHolder): Promise<Outcome<LimitsLeft>> {
  const { ports, place, budget } = parent;
  const amounts = await leftOf(ports, place.chain);
  if (!amounts.ok) return amounts;
  const { duration, depth } = budget.limits;
  const passed = BigInt(Math.ceil(budget.meter.read().duration_ms));
  const left: LimitAmounts = {
    ...amounts.output,
    ...(duration && { duration: duration.value - passed }),
    ...(depth && { depth: depth.value }),
  };
  const limits = (Object.entries(left) as [LimitName, bigint][]).map(([name, value]) => {
    return [name, { value, declared: budget.limits[name]?.declared ?? false }];
  });
  return ok(Object.fromEntries(limits) as LimitsLeft);
}

/** The same with half of every budget that is not asked for: what is set apart is gone for others. */
export function shared(left: LimitsLeft, isAsked: (name: LimitName) => boolean): LimitsLeft {
  const half: { -readonly [name in keyof LimitsLeft]: LimitsLeft[name] } = { ...left };
  for (const name of BUDGETED) {
    const limit = left[name];
    if (limit?.value === undefined || isAsked(name)) continue;
    half[name] = { ...limit, value: limit.value / 2n };
  }
  return half;
}

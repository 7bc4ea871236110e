// What a parent can give: the least that it and its ancestors have left, and no more time than the
// parent itself. Being told once is not enough: every unit is still reserved along the whole chain.
import { type Outcome, ok } from '../base/index.ts';
import type { BudgetState } from '../store/index.ts';
import type { EffectiveLimit, LimitName } from './limit.ts';
import type { LimitsLeft } from './prepare-thread.ts';
import type { ThreadContext } from './thread-context.ts';

const BUDGETED = ['tokens', 'input_tokens', 'output_tokens', 'spend', 'spawns'] as const;
type Budgeted = (typeof BUDGETED)[number];

function leftOf({ limits, used, reserved }: BudgetState, name: Budgeted): bigint | undefined {
  const max = limits[name];
  return max === undefined ? undefined : max - used[name] - reserved[name];
}

const least = (a: bigint | undefined, b: bigint | undefined): bigint | undefined =>
  a === undefined ? b : b === undefined || a < b ? a : b;

/** What a child's own limits may not pass. */
export function limitsLeft(parent: ThreadContext): Outcome<LimitsLeft> {
  const left: { [name in LimitName]?: Pick<EffectiveLimit, 'value' | 'declared'> } = {};
  const put = (name: LimitName, value: bigint | undefined): void => {
    if (value === undefined) return;
    left[name] = { value, declared: parent.limits[name]?.declared ?? false };
  };
  const states: BudgetState[] = [];
  for (const thread of parent.chain) {
    const state = parent.world.store.budget(thread);
    if (!state.ok) return state;
    states.push(state.output);
  }
  for (const name of BUDGETED) {
    put(
      name,
      states.map((state) => leftOf(state, name)).reduce<bigint | undefined>(least, undefined),
    );
  }
  const { duration, depth } = parent.limits;
  const passed = BigInt(Math.ceil(parent.meter.read().duration_ms));
  put('duration', duration && duration.value - passed);
  put('depth', depth?.value);
  return ok(left);
}

/** The same with half of every budget that is not asked for: what is set apart is gone for others. */
export function shared(left: LimitsLeft, isAsked: (name: LimitName) => boolean): LimitsLeft {
  const half: { [name in LimitName]?: { value: bigint; declared: boolean } } = { ...left };
  for (const name of BUDGETED) {
    const limit = left[name];
    if (limit && !isAsked(name)) half[name] = { ...limit, value: limit.value / 2n };
  }
  return half;
}

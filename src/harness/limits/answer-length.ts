// How long the answer to a model request may be: as long as asked for, or as long as what is left of
// tokens, money and the window still covers. Its worst case is what is set aside before it is sent.
import { type Price, worstCost } from '../../llm/index.ts';
import {
  type EffectiveLimits,
  firstExceeded,
  type LimitAmounts,
  type LimitEvent,
  limitEvent,
  neededFor,
  UNITS,
} from './limit.ts';

export interface RequestPlan {
  /** Estimated input, rounded up. */
  readonly input: number;
  /** The longest answer that is wanted. */
  readonly maxTokens: number;
  /** A shorter answer is not worth sending the request; data, 256 unless somebody changed it. */
  readonly minTokens: number;
  readonly used: LimitAmounts;
  readonly reserved: LimitAmounts;
  readonly limits: EffectiveLimits;
  /** What the model can hold, input and answer together. */
  readonly window?: number;
  readonly price: Price;
}

type RequestFit =
  | { readonly maxTokens: number; readonly unit: LimitAmounts }
  | { readonly event: LimitEvent; readonly needed: bigint };

/** The worst case of the whole turn. */
function requestUnit(input: number, output: number, price: Price): LimitAmounts {
  return {
    ...UNITS.turn,
    tokens: BigInt(input) + BigInt(output),
    input_tokens: BigInt(input),
    output_tokens: BigInt(output),
    spend: worstCost(input, output, price),
    context: BigInt(input),
  };
}

/** The longest answer for which nothing is exceeded; found by halving, since costs only grow. */
function longestAnswer(least: number, most: number, fits: (output: number) => boolean): number {
  let [good, bad] = [least, most];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (fits(middle)) good = middle;
    else bad = middle;
  }
  return good;
}

/** Lowers the answer to what is left; below the smallest useful answer the request is refused. */
export function fitRequest(plan: RequestPlan): RequestFit {
  const { input, price, window, limits, used, reserved } = plan;
  const unitOf = (output: number): LimitAmounts => requestUnit(input, output, price);
  const exceeded = (unit: LimitAmounts) => firstExceeded(used, reserved, unit, limits);
  const least = Math.max(1, Math.min(plan.minTokens, plan.maxTokens));
  const most = window === undefined ? plan.maxTokens : Math.min(plan.maxTokens, window - input);
  const wanted = most < least ? undefined : unitOf(most);
  if (wanted && !exceeded(wanted)) return { maxTokens: most, unit: wanted };
  const smallest = unitOf(least);
  const event = exceeded(smallest);
  if (event) return { event, needed: neededFor(event.limit, smallest, used, reserved) };
  if (!wanted) {
    const max = BigInt(window ?? 0);
    return { event: limitEvent('context', BigInt(input), max), needed: BigInt(input + least) };
  }
  const maxTokens = longestAnswer(least, most, (output) => !exceeded(unitOf(output)));
  return { maxTokens, unit: unitOf(maxTokens) };
}

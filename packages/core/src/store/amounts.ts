// Amounts that are charged to a thread and to all its ancestors. They are integers: counts, and money in
// nano-units of the currency.
import { fail, type Outcome, ok } from '../base/index.ts';

// Order matters: when two limits are reached at once, the first listed is reported.
export const BUDGET_KINDS = ['spawns', 'tokens', 'input_tokens', 'output_tokens', 'spend'] as const;
export type BudgetKind = (typeof BUDGET_KINDS)[number];

export type Amounts = { readonly [kind in BudgetKind]?: bigint };
/** This thread does not limit an absent kind. The limits of its ancestors still apply. */
export type BudgetLimits = Amounts;

/** A thousand million units of a currency; sums of amounts stay inside 64 bits. */
const MAX_AMOUNT = 10n ** 18n;
const MAX_SUM = 2n ** 63n - 1n;

const KNOWN: ReadonlySet<string> = new Set(BUDGET_KINDS);

/** Fails with `invalid_input` for an unknown kind and for an amount that is negative, fractional or too large. */
export function checkAmounts(amounts: Readonly<Record<string, unknown>>): Outcome<null> {
  for (const kind in amounts) {
    if (!KNOWN.has(kind)) {
      return fail('invalid_input', `\`${kind}\` is not charged; known: ${BUDGET_KINDS.join(', ')}`);
    }
    const amount = amounts[kind];
    if (typeof amount !== 'bigint' || amount < 0n || amount > MAX_AMOUNT) {
      const shown = String(amount);
      return fail('invalid_input', `\`${shown}\` ${kind}: give a whole number from 0 to 10^18`);
    }
  }
  return ok(null);
}

// INVARIANT: a sum never wraps and never becomes a float; beyond 64 bits it stays at the end of them,
// which is far above every limit.
export const add = (a: bigint, b: bigint): bigint => (a + b > MAX_SUM ? MAX_SUM : a + b);

type Writable = { -readonly [kind in BudgetKind]?: Amounts[kind] };

/** Kind by kind `max(0, a - b)`. */
export function without(a: Amounts, b: Amounts): Amounts {
  const left: Writable = {};
  for (const kind of BUDGET_KINDS) {
    const [from, taken] = [a[kind], b[kind] ?? 0n];
    if (from !== undefined) left[kind] = from > taken ? from - taken : 0n;
  }
  return left;
}

export function plus(a: Amounts, b: Amounts): Amounts {
  const sum: Writable = { ...a };
  for (const kind of BUDGET_KINDS) {
    const [x, y] = [a[kind], b[kind]];
    if (y !== undefined) sum[kind] = x === undefined ? y : add(x, y);
  }
  return sum;
}

/** Drops the kinds whose amount is 0. */
export function positive(amounts: Amounts): Amounts {
  const some: Writable = {};
  for (const kind of BUDGET_KINDS) if (amounts[kind]) some[kind] = amounts[kind];
  return some;
}

/** Decimal texts, so that no digit is lost on the way through JSON. */
export type AmountsText = { readonly [kind in BudgetKind]?: string | null };

export function readAmounts(text: AmountsText): Amounts {
  const amounts: Writable = {};
  for (const kind of BUDGET_KINDS) {
    if (typeof text[kind] === 'string') amounts[kind] = BigInt(text[kind]);
  }
  return amounts;
}

/** By hand: it is made with every turn, and JSON knows no bigint. */
export function amountsText(amounts: Amounts): string {
  let text = '';
  for (const kind of BUDGET_KINDS) {
    const amount = amounts[kind];
    if (amount !== undefined) text += `${text && ','}"${kind}":"${amount}"`;
  }
  return `{${text}}`;
}

// Checks, adds and encodes amounts that are charged to a thread and to all its ancestors. They are integers:
// counts, and money in nano-units of the currency.
import { fail, type Outcome, ok } from '../base/index.ts';

// The order matters: if two limits are exceeded at once, the first kind of this list is reported.
export const BUDGET_KINDS = ['spawns', 'tokens', 'input_tokens', 'output_tokens', 'spend'] as const;
export type BudgetKind = (typeof BUDGET_KINDS)[number];

export type Amounts = { readonly [kind in BudgetKind]?: bigint };
/** This thread does not limit an absent kind. The limits of its ancestors still apply. */
export type BudgetLimits = Amounts;

/** Maximum of one amount: a thousand million units of a currency. */
const MAX_AMOUNT = 10n ** 18n;
const MAX_SUM = 2n ** 63n - 1n;

const KINDS: ReadonlySet<string> = new Set(BUDGET_KINDS);

/** Fails with `invalid_input` for an unknown kind and for an amount that is negative, fractional or too large. */
export function checkAmounts(amounts: Readonly<Record<string, unknown>>): Outcome<null> {
  for (const kind in amounts) {
    if (!KINDS.has(kind)) {
      return fail('invalid_input', `invalid budget \`${kind}\`; use: ${BUDGET_KINDS.join(', ')}`);
    }
    const amount = amounts[kind];
    if (typeof amount !== 'bigint' || amount < 0n || amount > MAX_AMOUNT) {
      const text = String(amount);
      return fail('invalid_input', `\`${text}\` ${kind} must be a whole number from 0 to 10^18`);
    }
  }
  return ok(null);
}

// INVARIANT: a sum never wraps and never becomes a float; beyond 64 bits it stays at the end of them,
// which is far above every limit.
export const add = (a: bigint, b: bigint): bigint => (a + b > MAX_SUM ? MAX_SUM : a + b);

type Writable = { -readonly [kind in BudgetKind]?: Amounts[kind] };

/** Returns `max(0, a - b)` for each kind of `a`. */
export function without(a: Amounts, b: Amounts): Amounts {
  const rest: Writable = {};
  for (const kind of BUDGET_KINDS) {
    const [from, taken] = [a[kind], b[kind] ?? 0n];
    if (from !== undefined) rest[kind] = from > taken ? from - taken : 0n;
  }
  return rest;
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

/** Amounts as decimal texts, because a JSON number would lose digits. */
export type AmountsText = { readonly [kind in BudgetKind]?: string | null };

export function readAmounts(text: AmountsText): Amounts {
  const amounts: Writable = {};
  for (const kind of BUDGET_KINDS) {
    if (typeof text[kind] === 'string') amounts[kind] = BigInt(text[kind]);
  }
  return amounts;
}

/** Writes the JSON itself, because `JSON.stringify` fails for a bigint and every turn calls this. */
export function amountsText(amounts: Amounts): string {
  let text = '';
  for (const kind of BUDGET_KINDS) {
    const amount = amounts[kind];
    if (amount !== undefined) text += `${text && ','}"${kind}":"${amount}"`;
  }
  return `{${text}}`;
}

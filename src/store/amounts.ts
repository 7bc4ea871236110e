// What is charged to a thread and to every ancestor of it. Integers only: counts, and money in
// nano-units of the currency.
import { fail, type Outcome, ok } from '../base/index.ts';

// Order matters: when two limits are reached at once, the first listed is reported.
export const BUDGET_KINDS = ['spawns', 'tokens', 'input_tokens', 'output_tokens', 'spend'] as const;
export type BudgetKind = (typeof BUDGET_KINDS)[number];

export type Amounts = { readonly [kind in BudgetKind]?: bigint };
/** A kind left out is not limited by this thread itself; its ancestors' limits hold all the same. */
export type BudgetLimits = Amounts;

/** A thousand million units of a currency; sums of amounts stay inside 64 bits. */
const MAX_AMOUNT = 10n ** 18n;
const MAX_SUM = 2n ** 63n - 1n;

/** Refuses what is negative, no whole number, too large, or of no known kind. */
export function checkAmounts(amounts: Amounts): Outcome<null> {
  for (const [kind, amount] of Object.entries(amounts)) {
    if (!(BUDGET_KINDS as readonly string[]).includes(kind)) {
      return fail('invalid_input', `\`${kind}\` is not charged; known: ${BUDGET_KINDS.join(', ')}`);
    }
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

function byKind(amountOf: (kind: BudgetKind) => bigint | undefined): Amounts {
  const amounts: { [kind in BudgetKind]?: bigint } = {};
  for (const kind of BUDGET_KINDS) {
    const amount = amountOf(kind);
    if (amount !== undefined) amounts[kind] = amount;
  }
  return amounts;
}

/** Kind by kind `max(0, a - b)`. */
export const without = (a: Amounts, b: Amounts): Amounts =>
  byKind((kind) => {
    const [from, taken] = [a[kind], b[kind] ?? 0n];
    if (from === undefined) return undefined;
    return from > taken ? from - taken : 0n;
  });

export const plus = (a: Amounts, b: Amounts): Amounts =>
  byKind((kind) => {
    const [x, y] = [a[kind], b[kind]];
    return x === undefined || y === undefined ? (x ?? y) : add(x, y);
  });

/** What is left of nothing is not told. */
export const positive = (amounts: Amounts): Amounts => byKind((kind) => amounts[kind] || undefined);

/** Decimal texts, so that no digit is lost on the way through JSON. */
export type AmountsText = { readonly [kind in BudgetKind]?: string | null };

export const readAmounts = (text: AmountsText): Amounts =>
  byKind((kind) => (typeof text[kind] === 'string' ? BigInt(text[kind]) : undefined));

/** By hand: it is made with every turn, and JSON knows no bigint. */
export function amountsText(amounts: Amounts): string {
  const parts: string[] = [];
  for (const kind of BUDGET_KINDS) {
    const amount = amounts[kind];
    if (amount !== undefined) parts.push(`"${kind}":"${amount}"`);
  }
  return `{${parts.join()}}`;
}

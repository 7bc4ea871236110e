import type { TokenBudget } from './token-block.ts';

/** Decimal text as nano-units, so that comparing is exact. */
function nanos(spend: string): bigint {
  const [whole = '0', part = ''] = spend.split('.');
  return BigInt(whole + part.padEnd(9, '0'));
}

const smaller = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b);

function lessBudget(a: TokenBudget, b: TokenBudget): TokenBudget {
  const uses: Record<string, number> = { ...a.uses };
  for (const [tool, count] of Object.entries(b.uses ?? {})) {
    uses[tool] = Math.min(Object.hasOwn(uses, tool) ? (uses[tool] as number) : count, count);
  }
  const spends = [a.spend, b.spend].filter((spend) => spend !== undefined);
  const spend = spends.reduce<string | undefined>(
    (least, next) => (least === undefined || nanos(next) < nanos(least) ? next : least),
    undefined,
  );
  const [spawns, depth] = [smaller(a.spawns, b.spawns), smaller(a.depth, b.depth)];
  return {
    ...(Object.keys(uses).length > 0 && { uses }),
    ...(spend !== undefined && { spend }),
    ...(spawns !== undefined && { spawns }),
    ...(depth !== undefined && { depth }),
  };
}

/** What all blocks leave: the smallest of each; a field that none names is not limited here. */
export const leastBudget = (budgets: readonly (TokenBudget | undefined)[]): TokenBudget =>
  budgets.reduce<TokenBudget>((least, next) => lessBudget(least, next ?? {}), {});

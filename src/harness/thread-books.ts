// The books of a thread that nobody will take up again: what went out and was never read may be on
// the invoice and is charged in full, what was only set aside is free.
import type { Amounts, ThreadSummary } from '../store/index.ts';
import { type Cost, createCostMeter, NO_COST, unpackCost } from './cost.ts';
import { usageOf } from './turn-account.ts';
import type { World } from './world.ts';

export interface LeftBooks {
  /** For the append that ends it: what is charged, and what is given back. */
  settle: { key: string; actual: Amounts }[];
  /** With what is charged now. */
  cost: Cost;
}

export function leftBooks(
  { store }: Pick<World, 'store'>,
  { id, cost: packed }: Pick<ThreadSummary, 'id' | 'cost'>,
): LeftBooks {
  const open = store.openReservations(id);
  const left = open.ok ? open.output : [];
  const isRequest = (key: string): boolean => key.startsWith(`${id}:turn:`);
  const requests = left.filter(({ key }) => isRequest(key));
  const before = unpackCost(packed);
  const meter = createCostMeter(() => 0, before.ok ? before.output : NO_COST);
  for (const { amounts } of requests) meter.countRequest(usageOf(amounts), amounts.spend ?? 0n);
  return {
    settle: left.map(({ key, amounts }) => ({ key, actual: isRequest(key) ? amounts : {} })),
    cost: meter.read(),
  };
}

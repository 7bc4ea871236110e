// Connects the shared request limits with one project: the tenant of a thread, and the price of a model.
import { ok, systemRandom } from '@kernmantle/core/base';
import { createPrices, type Prices } from '@kernmantle/core/llm';
import type { RuntimeContext } from '@kernmantle/core/runtime';
import { type Fleet, nameOwner, type Store } from '@kernmantle/core/store';
import { createSharedRequests, type SharedPorts, type SharedRequests } from './request-limits.ts';

/** Maximum number of cached tenants of threads. */
const MAX_TENANTS = 10_000;

function tenantsIn(store: Store, own: string): SharedPorts['tenantOf'] {
  const cache = new Map<string, string>();
  return async (thread) => {
    if (thread === undefined) return ok(own);
    const tenant = cache.get(thread);
    if (tenant !== undefined) return ok(tenant);
    const row = await store.thread(thread);
    if (!row.ok) return row;
    if (cache.size >= MAX_TENANTS) cache.clear();
    cache.set(thread, row.output.tenant ?? '');
    return ok(row.output.tenant ?? '');
  };
}

function pricesIn({ open, library }: RuntimeContext): SharedPorts['priceOf'] {
  let layers: unknown;
  let prices: Prices | undefined;
  return (model) => {
    const now = library.config('pricing').layers;
    if (!prices || now !== layers) {
      const { allowsLowerPrices: allowsLower } = open.policies.current().policy;
      prices = createPrices(now, { clock: open.clock, allowsLower });
      layers = now;
    }
    const price = prices.find(model);
    return price.ok ? price.output : undefined;
  };
}

/** Opens the shared request limits of a project. */
export const openRequests = (rooms: RuntimeContext, store: Store, limits: Fleet): SharedRequests =>
  createSharedRequests({
    limits,
    owner: nameOwner(),
    clock: rooms.open.clock,
    random: systemRandom,
    tenantOf: tenantsIn(store, rooms.open.own.tenant ?? ''),
    priceOf: pricesIn(rooms),
  });

// Adds stores on a server to a runtime: the driver for PostgreSQL addresses, and the request limits that
// the machines of such a store share. The code for them is loaded when a runtime has such a store.
import type { Extension, RuntimeContext, StoreDriver } from '@kernmantle/core/runtime';
import type { Fleet, Store } from '@kernmantle/core/store';
import type { SharedRequests } from './runtime/request-limits.ts';

const address = () => import('./postgres/address.ts');

const postgres: StoreDriver = {
  describe: async (text) => (await address()).describePlace(text),
  open: async (text, options) => await (await address()).openServerStore(text, options),
  migrate: async (text, options) => await (await address()).migrateServerStore(text, options),
  restored: async (text, options) => await (await address()).restoredServerStore(text, options),
  async threads(local, observer, identity) {
    const { onWorkers } = await import('./runtime/queued-threads.ts');
    return onWorkers(local, observer, identity);
  },
};

/** One entry for each open project that has sent a request to a model. */
const requests = new WeakMap<RuntimeContext, Promise<SharedRequests>>();

const openRequests = async (
  rooms: RuntimeContext,
  store: Store,
  fleet: Fleet,
): Promise<SharedRequests> =>
  (await import('./runtime/share-model.ts')).openRequests(rooms, store, fleet);

export const fleet: Extension = {
  name: 'fleet',
  stores: { 'postgres:': postgres, 'postgresql:': postgres },
  model(rooms, store, model) {
    const shared = store.fleet;
    if (!shared) return model;
    return async (resolved, caller) => {
      const opening = requests.get(rooms) ?? openRequests(rooms, store, shared);
      requests.set(rooms, opening);
      return await (await opening).share(model)(resolved, caller);
    };
  },
  /** Waits until the store has the amounts that each request used. */
  async close(rooms) {
    await (await requests.get(rooms))?.settled();
  },
};

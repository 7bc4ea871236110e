// Stores in memory on one world, each like a process of its own.
import type { Store } from '../../../packages/core/src/store/port.ts';
import { openMemoryStore } from '../memory-store/store.ts';
import { createWorld } from '../memory-store/world.ts';
import { makeClock, type OpenStage } from './stage.ts';

/** With `delays`, a seed: every stage has other delays, and the same ones when it runs again. */
export function memoryStage(delays?: number): OpenStage {
  let stages = 0;
  return async () => {
    const [clock, gone, stores] = [makeClock(), new Set<string>(), [] as Store[]];
    const world = createWorld(clock, (name) => gone.has(name));
    const open = () => {
      stages += 1;
      const seed = delays === undefined ? {} : { delays: delays * 1000 + stages };
      const opened = openMemoryStore({ world, ...seed });
      stores.push(opened.store);
      return opened;
    };
    const { store, faults } = open();
    return {
      store,
      clock,
      gone,
      faults: {
        loseAnswer: () => faults.lose('answer'),
        loseRequest: () => faults.lose('request'),
        disconnect: () => faults.lose('all'),
        reconnect: () => faults.cut(false),
        busy: faults.busy,
        meanwhile: faults.meanwhile,
        breakAt: world.breakAt,
      },
      async setSeq(thread, seq) {
        const row = world.threads.get(thread);
        if (row) world.threads.set(thread, { ...row, seq });
      },
      another: async () => open().store,
      async close() {
        faults.cut(false);
        faults.busy(false);
        for (const one of stores) await one.close();
      },
    };
  };
}

// Thread suites over a store in memory whose answers come late and overtake each other: whoever relies
// on an immediate answer is found out. `KERNMANTLE_LATE_STORE` is the seed of the delays.
import { ok, systemClock } from '@kernmantle/core/base';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import { openMemoryStore } from './memory-store/store.ts';
import { createWorld } from './memory-store/world.ts';

const seed = process.env.KERNMANTLE_LATE_STORE;

/** For tests that need the registry's file: other processes, other connections. */
export const isLate = seed !== undefined;

/** What was opened for the same file is the same data. */
const worlds = new Map<string, ReturnType<typeof createWorld>>();

/** Nothing, unless this run is one over late answers. */
export function lateStore(): Pick<RuntimeOptions, 'openStore'> {
  if (seed === undefined) return {};
  let opened = 0;
  return {
    async openStore({ file }) {
      const world = worlds.get(file) ?? createWorld(systemClock, () => false);
      worlds.set(file, world);
      opened += 1;
      return ok(openMemoryStore({ world, delays: Number(seed) * 1000 + opened }).store);
    },
  };
}

// The threads that this process is running. A registry row says that a thread exists; only here can
// it be awaited or broken off at once. Whoever is not here is reached by signals.
import { type Outcome, ok, systemClock } from '../../base/index.ts';
import type { Ending } from '../loop.ts';
import { stopThread } from './interruption.ts';
import { createLeaseKeeper } from './lease-keeper.ts';
import type { ThreadResult } from './ports.ts';
import type { LiveThread, LiveThreads } from './thread.ts';

/** How often a lease is renewed. */
const RENEW_MS = 10_000;

export function createLiveThreads(): LiveThreads {
  const live = new Map<string, LiveThread>();
  const expected = new Map<string, (() => void)[]>();
  const resuming = new Map<string, Promise<Outcome<ThreadResult>>>();
  let closing: Ending | undefined;
  return {
    add(one) {
      const {
        place: { id },
      } = one.thread;
      live.set(id, one);
      if (closing) stopThread(one.thread, closing);
      for (const tell of expected.get(id) ?? []) tell();
      expected.delete(id);
    },
    remove: (id) => void live.delete(id),
    get: (id) => live.get(id),
    childrenOf: (id) => [...live.values()].filter(({ thread }) => thread.place.parent === id),
    all: () => [...live.values()],
    leases: createLeaseKeeper(() => systemClock.monotonic(), RENEW_MS),
    entered: (id) =>
      new Promise((resolve) => {
        if (live.has(id)) resolve();
        else expected.set(id, [...(expected.get(id) ?? []), resolve]);
      }),
    // INVARIANT: a process takes a thread up once; a second claim of its own would make the first
    // one stale in the middle of its work.
    resumed(id, resume) {
      const running = live.get(id)?.done.then((result) => ok(result));
      const under = resuming.get(id) ?? running;
      if (under) return under;
      const done = resume().finally(() => resuming.delete(id));
      resuming.set(id, done);
      return done;
    },
    async close(ending) {
      closing = ending;
      for (const { thread } of live.values()) stopThread(thread, ending);
      const running = [...live.values()].map((one) => one.done);
      await Promise.allSettled([...running, ...resuming.values()]);
    },
  };
}

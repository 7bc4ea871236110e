// The threads that this process is running. A registry row says that a thread exists; only here can
// it be awaited or broken off at once. Whoever is not here is reached by signals.
import type { ThreadContext } from './thread-context.ts';
import type { ThreadResult } from './world.ts';

export interface LiveThread {
  readonly thread: ThreadContext;
  /** Never rejects. */
  readonly done: Promise<ThreadResult>;
}

export interface LiveThreads {
  add(live: LiveThread): void;
  remove(id: string): void;
  get(id: string): LiveThread | undefined;
  childrenOf(id: string): LiveThread[];
  all(): LiveThread[];
  /** Resolves when a thread of this id runs here. */
  entered(id: string): Promise<void>;
}

export function createLiveThreads(): LiveThreads {
  const live = new Map<string, LiveThread>();
  const expected = new Map<string, (() => void)[]>();
  return {
    add(one) {
      const { id } = one.thread;
      live.set(id, one);
      for (const tell of expected.get(id) ?? []) tell();
      expected.delete(id);
    },
    remove: (id) => void live.delete(id),
    get: (id) => live.get(id),
    childrenOf: (id) => [...live.values()].filter(({ thread }) => thread.parent === id),
    all: () => [...live.values()],
    entered: (id) =>
      new Promise((resolve) => {
        if (live.has(id)) resolve();
        else expected.set(id, [...(expected.get(id) ?? []), resolve]);
      }),
  };
}

import { type Outcome, ok, systemClock } from '../../base/index.ts';
import type { Ending } from '../loop.ts';
import type { ThreadResult } from './ports.ts';
import type { ThreadContext } from './thread.ts';

// Leases are renewed in time, however busy the process is. A timer alone does not do: with a thousand
// threads at work one round of the event loop can take longer than a lease, and timers come once a
// round. So whoever works looks whether something is due, which costs nothing when it is not.

export interface LeaseKeeper {
  /** `renew` is called at the interval until the answer is called. `since`: when the lease began. */
  keep(renew: () => void, since?: number): () => void;
  /** Renews what is due. */
  beat(): void;
  /** By the clock that `since` is read from. */
  now(): number;
}

export function createLeaseKeeper(monotonic: () => number, everyMs: number): LeaseKeeper {
  const due = new Map<() => void, number>();
  /** Nothing is due before. */
  let next = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function beat(): void {
    const now = monotonic();
    if (now < next) return;
    next = now + everyMs;
    for (const [renew, at] of due) {
      if (at > now) next = Math.min(next, at);
      else {
        due.set(renew, now + everyMs);
        renew();
      }
    }
  }

  return {
    keep(renew, since = monotonic()) {
      // Each call its own, also when the same function is given twice.
      const own = (): void => renew();
      due.set(own, since + everyMs);
      next = Math.min(next, since + everyMs);
      // One for all; it holds up nobody's end.
      timer ??= setInterval(beat, Math.ceil(everyMs / 2)).unref();
      return () => {
        due.delete(own);
        if (due.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    beat,
    now: monotonic,
  };
}

// The threads that this process is running. A registry row says that a thread exists; only here can
// it be awaited or broken off at once. Whoever is not here is reached by signals.

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
  /** Of all of them. */
  readonly leases: LeaseKeeper;
  /** Resolves when a thread of this id runs here. */
  entered(id: string): Promise<void>;
  /** Goes on with a thread; whoever asks while that is under way is given the same answer. */
  resumed(id: string, resume: () => Promise<Outcome<ThreadResult>>): Promise<Outcome<ThreadResult>>;
  /** Stops all of them, also those that are only about to run; resolves when nothing runs. */
  close(ending: Ending): Promise<void>;
}

/** How often a lease is renewed. */
const RENEW_MS = 10_000;

export function createLiveThreads(): LiveThreads {
  const live = new Map<string, LiveThread>();
  const expected = new Map<string, (() => void)[]>();
  const resuming = new Map<string, Promise<Outcome<ThreadResult>>>();
  let closing: Ending | undefined;
  return {
    add(one) {
      const { id } = one.thread;
      live.set(id, one);
      if (closing) one.thread.stop(closing);
      for (const tell of expected.get(id) ?? []) tell();
      expected.delete(id);
    },
    remove: (id) => void live.delete(id),
    get: (id) => live.get(id),
    childrenOf: (id) => [...live.values()].filter(({ thread }) => thread.parent === id),
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
      for (const { thread } of live.values()) thread.stop(ending);
      const running = [...live.values()].map((one) => one.done);
      await Promise.allSettled([...running, ...resuming.values()]);
    },
  };
}

// Keeps the threads that run in this process. They can be awaited and stopped directly. Threads of other processes
// are reached by signals.
import { type Outcome, ok, systemClock } from '../../base/index.ts';
import type { Ending } from '../loop.ts';
import { leaveThread, stopThread } from './interruption.ts';
import { createLeaseKeeper } from './lease-keeper.ts';
import type { ThreadResult } from './ports.ts';
import type { LiveThread, LiveThreads } from './thread.ts';

/** Longest time between two renewals of a lease. */
const RENEW_MS = 10_000;

/** Number of threads that start at once. Of a thousand requested threads, the first end before the last begin. */
const STARTING = 4;

function createAdmission(): LiveThreads['admit'] {
  let free = STARTING;
  const waiting: (() => void)[] = [];
  return async (start) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((go) => waiting.push(go));
    try {
      return await start();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}

/** Creates one queue for each key. An empty queue is deleted. */
function createLines(): LiveThreads['queueUp'] {
  const last = new Map<string, Promise<unknown>>();
  return (key) => {
    const isFirst = last.get(key) ?? Promise.resolve();
    const { promise: departure, resolve } = Promise.withResolvers<void>();
    const mine = Promise.all([isFirst, departure]);
    last.set(key, mine);
    return {
      isFirst,
      leave() {
        resolve();
        if (last.get(key) === mine)
          void mine.then(() => last.get(key) === mine && last.delete(key));
      },
    };
  };
}

/** Time for running work to finish before it is interrupted, when other processes resume the threads. */
const HAND_OVER_MS = 30_000;
const HANDED_OVER: Ending = { status: 'interrupted', reason: 'another process resumes the thread' };

export function createLiveThreads(): LiveThreads {
  const live = new Map<string, LiveThread>();
  const expected = new Map<string, (() => void)[]>();
  const resuming = new Map<string, Promise<Outcome<ThreadResult>>>();
  let closing: Ending | undefined;
  let isLeaving = false;
  const nothingRuns = async (): Promise<void> => {
    while (live.size + resuming.size > 0) {
      const running = [...live.values()].map((one) => one.done);
      await Promise.allSettled([...running, ...resuming.values()]);
    }
  };
  const threads: LiveThreads = {
    add(one) {
      const { id } = one.thread.place;
      live.set(id, one);
      if (isLeaving) leaveThread(one.thread, HANDED_OVER);
      if (closing) stopThread(one.thread, closing);
      for (const tell of expected.get(id) ?? []) tell();
      expected.delete(id);
    },
    remove: (id) => void live.delete(id),
    get: (id) => live.get(id),
    childrenOf: (id) => [...live.values()].filter(({ thread }) => thread.place.parent === id),
    all: () => [...live.values()],
    admit: createAdmission(),
    queueUp: createLines(),
    leases: createLeaseKeeper(() => systemClock.monotonic(), RENEW_MS),
    entered: (id) =>
      new Promise((resolve) => {
        if (live.has(id)) resolve();
        else expected.set(id, [...(expected.get(id) ?? []), resolve]);
      }),
    // INVARIANT: a process never claims a thread twice at the same time, because the second claim would make the
    // first one stale in the middle of its work.
    resumed(id, resume) {
      const running = live.get(id)?.done.then((result) => ok(result));
      const under = resuming.get(id) ?? running;
      if (under) return under;
      const done = resume().finally(() => resuming.delete(id));
      resuming.set(id, done);
      return done;
    },
    async taken(id, resume) {
      for (let before = live.get(id); before; before = live.get(id)) {
        before.thread.journal.renewed(undefined, 0);
        await before.done;
      }
      await resuming.get(id);
      return await threads.resumed(id, resume);
    },
    async requeueAll() {
      isLeaving = true;
      for (const { thread } of live.values()) leaveThread(thread, HANDED_OVER);
      // A thread that takes longer is interrupted, as at the end of this process.
      const late = setTimeout(() => {
        closing = HANDED_OVER;
        for (const { thread } of live.values()) stopThread(thread, HANDED_OVER);
      }, HAND_OVER_MS);
      await nothingRuns();
      clearTimeout(late);
    },
    async close(ending) {
      closing = ending;
      for (const { thread } of live.values()) stopThread(thread, ending);
      const running = [...live.values()].map((one) => one.done);
      await Promise.allSettled([...running, ...resuming.values()]);
    },
  };
  return threads;
}

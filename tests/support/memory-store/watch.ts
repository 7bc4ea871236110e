// Watching the data of a store in memory.
import type { Head, StoredEvent } from '../../../src/store/port.ts';
import type { LateWire } from './wire.ts';
import type { News, World } from './world.ts';

export interface Watchers {
  watch(cursor: { thread: string; seq: number }, signal: AbortSignal): AsyncIterable<StoredEvent>;
  changes(filter: { threads?: readonly string[] }, signal: AbortSignal): AsyncIterable<Head>;
  /** Until something was queued, so many milliseconds, or the end of the store; false at the end. */
  queued(waitMs: number): Promise<boolean>;
  close(): void;
}

/** Waits for news until the signal or the store ends; keeps what `note` says is worth waking for. */
function createWaiter(world: World, ends: Set<() => void>, note: (news: News) => boolean) {
  let [isRung, isOver, wake] = [true, false, () => {}];
  const ring = (): void => {
    isRung = true;
    wake();
  };
  const off = world.listen((news) => {
    if (note(news)) ring();
  });
  const end = (): void => {
    isOver = true;
    wake();
  };
  ends.add(end);
  return {
    ring,
    end,
    isOver: () => isOver,
    async isThereMore(): Promise<boolean> {
      if (!isRung && !isOver) await new Promise<void>((resolve) => (wake = resolve));
      isRung = false;
      return !isOver;
    },
    remove(): void {
      off();
      ends.delete(end);
    },
  };
}

export function createWatchers(world: World, wire: LateWire): Watchers {
  const ends = new Set<() => void>();
  let isClosed = false;

  async function* watch(
    { thread, seq }: { thread: string; seq: number },
    signal: AbortSignal,
  ): AsyncGenerator<StoredEvent> {
    const waiter = createWaiter(world, ends, ({ heads }) =>
      heads.some((head) => head.thread === thread),
    );
    signal.addEventListener('abort', waiter.end);
    if (signal.aborted || isClosed) waiter.end();
    try {
      for (let after = seq; await waiter.isThereMore(); ) {
        const work = (): readonly StoredEvent[] =>
          structuredClone((world.events.get(thread) ?? []).slice(after));
        const page = await wire.call({ work });
        if (!page.ok) return;
        for (const event of page.output) {
          if (waiter.isOver()) return;
          after = event.seq;
          yield event;
        }
      }
    } finally {
      signal.removeEventListener('abort', waiter.end);
      waiter.remove();
    }
  }

  return {
    watch,
    changes({ threads }, signal) {
      const moved = new Map<string, Head>();
      const waiter = createWaiter(world, ends, ({ heads }) => {
        const ours = heads.filter((head) => threads?.includes(head.thread) ?? true);
        for (const head of ours) moved.set(head.thread, head);
        return ours.length > 0;
      });
      if (signal.aborted || isClosed) waiter.end();
      signal.addEventListener('abort', () => {
        waiter.end();
        waiter.remove();
      });
      return {
        async *[Symbol.asyncIterator]() {
          while (await waiter.isThereMore()) {
            for (const [thread, head] of moved) {
              moved.delete(thread);
              if (!waiter.isOver()) yield head;
            }
          }
          waiter.remove();
        },
      };
    },
    async queued(waitMs) {
      const waiter = createWaiter(world, ends, ({ queued }) => queued);
      if (isClosed) waiter.end();
      await waiter.isThereMore();
      const timer = setTimeout(waiter.ring, waitMs);
      await waiter.isThereMore();
      clearTimeout(timer);
      waiter.remove();
      return !waiter.isOver();
    },
    close() {
      isClosed = true;
      for (const end of ends) end();
    },
  };
}

// Watches a store: the events of one thread after a cursor, or the newest state of threads that change. A
// watcher has a cursor (or one head for each thread) and no queue, so a slow watcher needs no memory and
// delays no other.
import type { Head, Journal, StoredEvent } from './port.ts';

interface MoveFeed {
  /** Calls `watcher` for each new head of a thread, or of all threads. Returns the end of the watch. */
  onMove(thread: string | undefined, watcher: (head: Head) => void): () => void;
  /** Calls `listener` once, when the store closes. */
  onClose(listener: () => void): () => void;
}

interface EventSource {
  /** Reads the journal of one thread, oldest event first. `isAll`: these are the last events so far. */
  readAfter(seq: number): Promise<{ events: readonly StoredEvent[]; isAll: boolean }>;
  leave(): void;
}

/** Subscribes to a thread. Calls `ring` for each new event. */
type JoinThread = (thread: string, ring: () => void) => EventSource;

/** Creates a bell. It stores a ring until the next `rings`, and ends with the store or the signal. */
export function createBell(feed: Pick<MoveFeed, 'onClose'>, signal: AbortSignal) {
  let [rung, isOver, wake] = [true, signal.aborted, () => {}];
  const ring = (): void => {
    rung = true;
    wake();
  };
  const end = (): void => {
    isOver = true;
    ring();
  };
  signal.addEventListener('abort', end);
  const off = feed.onClose(end);
  return {
    ring,
    isOver: () => isOver,
    async rings(): Promise<boolean> {
      if (!rung && !isOver) await new Promise<void>((resolve) => (wake = resolve));
      rung = false;
      return !isOver;
    },
    remove(): void {
      signal.removeEventListener('abort', end);
      off();
    },
  };
}

export const createWatch = (
  feed: MoveFeed,
  join: JoinThread,
): Pick<Journal, 'watch' | 'changes'> => ({
  async *watch({ thread, seq }, signal) {
    const bell = createBell(feed, signal);
    const source = join(thread, bell.ring);
    try {
      for (let after = seq; await bell.rings(); ) {
        const { events, isAll } = await source.readAfter(after);
        for (const event of events) {
          if (bell.isOver()) return;
          after = event.seq;
          yield event;
        }
        if (!isAll) bell.ring();
      }
    } catch {
      // A failed read ends the watch.
    } finally {
      source.leave();
      bell.remove();
    }
  },

  /** The watch starts with this call, not with the first `next`. */
  changes({ threads }, signal) {
    const moved = new Map<string, Head>();
    const bell = createBell(feed, signal);
    const note = (head: Head): void => {
      moved.set(head.thread, head);
      bell.ring();
    };
    const watched = threads ? [...new Set(threads)] : [undefined];
    const offs = watched.map((thread) => feed.onMove(thread, note));
    const end = (): void => {
      for (const off of offs) off();
      bell.remove();
      signal.removeEventListener('abort', end);
    };
    signal.addEventListener('abort', end);
    return {
      async *[Symbol.asyncIterator]() {
        try {
          while (await bell.rings()) {
            for (const [thread, head] of moved) {
              if (bell.isOver()) return;
              moved.delete(thread);
              yield head;
            }
          }
        } finally {
          end();
        }
      },
    };
  },
});

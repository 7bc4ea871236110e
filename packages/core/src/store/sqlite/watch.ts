// What happens, as it happens: the events of one thread from a cursor on, or the newest state of
// threads that move. A watcher holds a cursor (or one head a thread) and no queue, so nothing piles
// up behind a slow one and nobody waits for it.
import type { Head, StoredEvent } from '../port.ts';
import type { Feed } from './feed.ts';
import type { Connection } from './file/connection.ts';
import { readEvents } from './threads.ts';

const BATCH = 200;

/** Remembers that somebody knocked while we were busy; over once the store or the signal is. */
export function createBell(feed: Pick<Feed, 'onClose'>, signal: AbortSignal) {
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

export async function* watchThread(
  connection: Connection,
  feed: Feed,
  cursor: { thread: string; seq: number },
  signal: AbortSignal,
): AsyncGenerator<StoredEvent> {
  const { thread } = cursor;
  let { seq } = cursor;
  const bell = createBell(feed, signal);
  const off = feed.onMove(thread, bell.ring);
  try {
    while (await bell.rings()) {
      const events = readEvents(connection, thread, { after: seq, limit: BATCH });
      for (const event of events) {
        if (bell.isOver()) return;
        seq = event.seq;
        yield event;
      }
      if (events.length === BATCH) bell.ring();
    }
  } catch {
    // What cannot be read ends it.
  } finally {
    off();
    bell.remove();
  }
}

/** Begins at the call, not at the first question. */
export function watchChanges(
  feed: Feed,
  { threads }: { threads?: readonly string[] },
  signal: AbortSignal,
): AsyncIterable<Head> {
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
}

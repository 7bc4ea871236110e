// What happens, as it happens: the events of one thread from a cursor on, or the newest state of
// threads that move. A watcher holds a cursor (or one head a thread) and no queue, so nothing piles
// up behind a slow one and nobody waits for it.
import type { Head, StoredEvent } from '../port.ts';
import type { Feed } from './feed.ts';
import type { Connection } from './file/connection.ts';
import { readEvents } from './threads.ts';

const BATCH = 200;

/** Remembers that somebody knocked while we were busy; over once the store or the signal is. */
function createBell(feed: Pick<Feed, 'onClose'>, signal: AbortSignal) {
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

type Bell = ReturnType<typeof createBell>;

function nextEvents(
  connection: Connection,
  thread: string,
  seq: number,
): StoredEvent[] | undefined {
  try {
    return readEvents(connection, thread, { after: seq, limit: BATCH });
  } catch {
    return undefined;
  }
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
      for (let isMore = true; isMore; ) {
        const events = nextEvents(connection, thread, seq);
        if (!events) return;
        for (const event of events) {
          if (bell.isOver()) return;
          seq = event.seq;
          yield event;
        }
        isMore = events.length === BATCH;
      }
    }
  } finally {
    off();
    bell.remove();
  }
}

async function* headsOf(bell: Bell, moved: Map<string, Head>): AsyncGenerator<Head> {
  while (await bell.rings()) {
    while (moved.size > 0) {
      const [[thread, head] = []] = moved;
      if (thread === undefined || head === undefined || bell.isOver()) return;
      moved.delete(thread);
      yield head;
    }
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
  const offs = threads
    ? [...new Set(threads)].map((thread) => feed.onMove(thread, note))
    : [feed.onMove(undefined, note)];
  const end = (): void => {
    for (const off of offs) off();
    bell.remove();
  };
  signal.addEventListener('abort', end, { once: true });
  return {
    async *[Symbol.asyncIterator]() {
      try {
        yield* headsOf(bell, moved);
      } finally {
        end();
        signal.removeEventListener('abort', end);
      }
    },
  };
}

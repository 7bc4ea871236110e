// What happens, as it happens: the events of one thread from a cursor on, or the newest state of threads
// that move. All watchers of a thread share one reader, which asks for all threads that moved at once and
// keeps the last of what it read; whoever is further behind reads for itself. A watcher holds a cursor
// and no queue, so nothing piles up behind a slow one and nobody waits for it.
import type { Outcome } from '../../base/index.ts';
import type { Head, StoredEvent } from '../port.ts';
import type { Database } from './connection.ts';
import type { ListeningFeed } from './feed.ts';

const BATCH = 200;
const THREADS_A_READ = 50;
/** Of one thread, for watchers that are nearly there. */
const [MAX_KEPT, MAX_KEPT_CHARS] = [256, 2_000_000];
/** The server is not there; it is asked again. */
const AGAIN_MS = 500;

const READ = `SELECT t.id AS thread, e.seq, e.ts, e.turn, e.type, e.data
  FROM unnest($1::text[], $2::int[]) AS w(id, after) JOIN threads t ON t.id = w.id
  CROSS JOIN LATERAL (SELECT * FROM thread_events e WHERE e.thread = t.number AND e.seq > w.after
    ORDER BY e.seq LIMIT ${BATCH}) e ORDER BY t.id, e.seq`;

type EventText = Omit<StoredEvent, 'data'> & { data: string };

/** Remembers that somebody knocked while we were busy; over once the store or the signal is. */
export function createDoorbell(feed: Pick<ListeningFeed, 'onClose'>, signal?: AbortSignal) {
  let [rung, isOver, wake] = [true, signal?.aborted ?? false, () => {}];
  const ring = (): void => {
    rung = true;
    wake();
  };
  const end = (): void => {
    isOver = true;
    ring();
  };
  signal?.addEventListener('abort', end);
  const off = feed.onClose(end);
  return {
    ring,
    end,
    isOver: () => isOver,
    async rings(): Promise<boolean> {
      if (!rung && !isOver) await new Promise<void>((resolve) => (wake = resolve));
      rung = false;
      return !isOver;
    },
    remove(): void {
      signal?.removeEventListener('abort', end);
      off();
    },
  };
}

/** The last events of one thread, without a gap, up to `tail`. */
interface Kept {
  /** Undefined until the first watcher has reached the end of the journal. */
  tail: number | undefined;
  /** The newest that was heard of. */
  head: number;
  events: StoredEvent[];
  sizes: number[];
  size: number;
  readonly bells: Set<() => void>;
}

function keep(kept: Kept, event: StoredEvent, size: number): void {
  kept.tail = event.seq;
  kept.events.push(event);
  kept.sizes.push(size);
  kept.size += size;
  while (kept.events.length > MAX_KEPT || kept.size > MAX_KEPT_CHARS) {
    kept.events.shift();
    kept.size -= kept.sizes.shift() ?? 0;
  }
}

/** Undefined: it has to be read. */
function keptAfter({ tail, events }: Kept, seq: number): readonly StoredEvent[] | undefined {
  if (tail === undefined) return undefined;
  if (seq >= tail) return [];
  const start = tail - events.length;
  return seq >= start ? events.slice(seq - start) : undefined;
}

const toEvent = (row: EventText): StoredEvent => ({ ...row, data: JSON.parse(row.data) });

export type EventReader = ReturnType<typeof createEventReader>;

/** One for all watchers of this process. */
export function createEventReader(database: Database, feed: ListeningFeed) {
  const all = new Map<string, Kept>();
  const behind = new Set<string>();
  let isReading = false;

  const read = (cursors: readonly [string, number][]): Promise<Outcome<EventText[]>> =>
    database.read((sql) =>
      sql.all<EventText>(
        READ,
        cursors.map(([thread]) => thread),
        cursors.map(([, after]) => after),
      ),
    );

  /** What the others have read meanwhile is not read again. */
  function take(rows: readonly EventText[], asked: readonly [string, number][]): void {
    const counts = new Map<string, number>();
    for (const row of rows) {
      counts.set(row.thread, (counts.get(row.thread) ?? 0) + 1);
      const kept = all.get(row.thread);
      if (kept?.tail === row.seq - 1) keep(kept, toEvent(row), row.data.length);
    }
    for (const [thread] of asked) {
      const kept = all.get(thread);
      if ((counts.get(thread) ?? 0) === BATCH) behind.add(thread);
      for (const ring of kept?.bells ?? []) ring();
    }
  }

  /** All that are behind, some at a time; those that move meanwhile come next. */
  async function run(): Promise<void> {
    if (isReading) return;
    isReading = true;
    while (behind.size > 0) {
      const asked: [string, number][] = [];
      for (const thread of behind) {
        behind.delete(thread);
        const tail = all.get(thread)?.tail;
        if (tail !== undefined) asked.push([thread, tail]);
        if (asked.length === THREADS_A_READ) break;
      }
      if (asked.length === 0) continue;
      const rows = await read(asked);
      if (rows.ok) {
        take(rows.output, asked);
        continue;
      }
      if (rows.error.code === 'store_closed') break;
      for (const [thread] of asked) behind.add(thread);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
    isReading = false;
  }

  function look(thread: string, kept: Kept): void {
    if (kept.tail !== undefined && kept.head > kept.tail) {
      behind.add(thread);
      void run();
    } else for (const ring of kept.bells) ring();
  }

  return {
    join(thread: string, ring: () => void) {
      const kept = all.get(thread) ?? {
        tail: undefined,
        head: 0,
        events: [],
        sizes: [],
        size: 0,
        bells: new Set(),
      };
      all.set(thread, kept);
      kept.bells.add(ring);
      const off = feed.onMove(thread, ({ seq }) => {
        kept.head = Math.max(kept.head, seq);
        look(thread, kept);
      });
      return {
        async after(seq: number): Promise<Outcome<readonly StoredEvent[]>> {
          const here = keptAfter(kept, seq);
          if (here) return { ok: true, output: here };
          const rows = await read([[thread, seq]]);
          if (!rows.ok) return rows;
          const events = rows.output.map(toEvent);
          if (events.length < BATCH && kept.tail === undefined) {
            // The end was reached, unless somebody wrote meanwhile.
            kept.tail = events.at(-1)?.seq ?? seq;
            if (kept.head > kept.tail) look(thread, kept);
          }
          return { ok: true, output: events };
        },
        leave(): void {
          off();
          kept.bells.delete(ring);
          if (kept.bells.size === 0 && all.get(thread) === kept) all.delete(thread);
        },
      };
    },
  };
}

export async function* watchEvents(
  reader: EventReader,
  feed: ListeningFeed,
  cursor: { thread: string; seq: number },
  signal: AbortSignal,
): AsyncGenerator<StoredEvent> {
  const { thread } = cursor;
  let { seq } = cursor;
  const bell = createDoorbell(feed, signal);
  const shared = reader.join(thread, bell.ring);
  let again: NodeJS.Timeout | undefined;
  try {
    while (await bell.rings()) {
      const events = await shared.after(seq);
      if (!events.ok) {
        if (events.error.code === 'store_closed') return;
        again = setTimeout(bell.ring, AGAIN_MS);
        continue;
      }
      for (const event of events.output) {
        if (bell.isOver()) return;
        seq = event.seq;
        yield event;
      }
      if (events.output.length > 0) bell.ring();
    }
  } finally {
    clearTimeout(again);
    shared.leave();
    bell.remove();
  }
}

/** Begins at the call, not at the first question. */
export function watchHeads(
  feed: ListeningFeed,
  { threads }: { threads?: readonly string[] },
  signal: AbortSignal,
): AsyncIterable<Head> {
  const moved = new Map<string, Head>();
  const bell = createDoorbell(feed, signal);
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

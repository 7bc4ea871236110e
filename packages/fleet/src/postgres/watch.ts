// Reads the events of threads for watchers. All watchers of a thread share one reader, which reads all changed
// threads in one query and caches the last events. A watcher that is further behind makes its own reads.
import type { Outcome } from '@kernmantle/core/base';
import type { StoredEvent } from '@kernmantle/core/store';
import { eventData } from '@kernmantle/core/store';
import type { Database } from './connection.ts';
import type { ListeningFeed } from './feed.ts';

const BATCH = 200;
const [CURSORS_A_READ, READS_AT_ONCE] = [50, 2];
/** Size of the cache of last events of one thread, for watchers that are almost up to date. */
const [MAX_KEPT, MAX_KEPT_CHARS] = [256, 2_000_000];
/** Pause before another read, after the server was not reachable. */
const AGAIN_MS = 500;

const READ = `SELECT w.at, t.id AS thread, e.seq, e.ts, e.turn, e.type, e.data
  FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS w(id, after, at) JOIN threads t ON t.id = w.id
  CROSS JOIN LATERAL (SELECT * FROM thread_events e WHERE e.thread = t.number AND e.seq > w.after
    ORDER BY e.seq LIMIT ${BATCH}) e ORDER BY w.at, e.seq`;

type ReadRow = Omit<StoredEvent, 'data'> & { data: string; at: number };

/** An event with the length of its text. */
interface Sized {
  readonly event: StoredEvent;
  readonly size: number;
}

/** Cache of the last events of one thread, without a gap, up to `tail`. */
interface LastEvents {
  /** Undefined until the first watcher has reached the end of the journal. */
  tail: number | undefined;
  /** Number of the newest event that the feed has reported. */
  head: number;
  isCatching: boolean;
  events: StoredEvent[];
  sizes: number[];
  size: number;
  readonly bells: Set<() => void>;
  /** Unsubscribes after the last watcher left. */
  off: () => void;
}

function keep(cache: LastEvents, { event, size }: Sized): void {
  cache.tail = event.seq;
  cache.events.push(event);
  cache.sizes.push(size);
  cache.size += size;
  while (cache.events.length > MAX_KEPT || cache.size > MAX_KEPT_CHARS) {
    cache.events.shift();
    cache.size -= cache.sizes.shift() ?? 0;
  }
}

/** Returns the cached events after a number. Undefined: they must be read. */
function keptAfter({ tail, events }: LastEvents, seq: number): readonly StoredEvent[] | undefined {
  if (tail === undefined) return undefined;
  if (seq >= tail) return [];
  const start = tail - events.length;
  return seq >= start ? events.slice(seq - start) : undefined;
}

/** Joins reads of the same moment into one query. Equal reads share one result. */
function createGatheredReads(database: Database) {
  interface PendingRead {
    readonly thread: string;
    readonly after: number;
    readonly answer: Promise<Outcome<Sized[]>>;
    resolve(answer: Outcome<Sized[]>): void;
  }
  const waiting = new Map<string, PendingRead>();
  let reading = 0;

  async function read(some: readonly PendingRead[]): Promise<void> {
    const values = [some.map(({ thread }) => thread), some.map(({ after }) => after)];
    const rows = await database.read((sql) => sql.all<ReadRow>(READ, ...values));
    const results = some.map((): Sized[] => []);
    for (const { at, data, ...row } of rows.ok ? rows.output : []) {
      results[at - 1]?.push({ event: { ...row, data: eventData(data) }, size: data.length });
    }
    for (const [at, { resolve }] of some.entries()) {
      resolve(rows.ok ? { ok: true, output: results[at] ?? [] } : rows);
    }
  }

  async function run(): Promise<void> {
    if (reading === READS_AT_ONCE) return;
    reading += 1;
    // All requests of this turn share one query.
    await Promise.resolve();
    while (waiting.size > 0) {
      const some = [...waiting.entries()].slice(0, CURSORS_A_READ);
      for (const [key] of some) waiting.delete(key);
      await read(some.map(([, question]) => question));
    }
    reading -= 1;
  }

  return (thread: string, after: number): Promise<Outcome<Sized[]>> => {
    const key = `${thread} ${after}`;
    const before = waiting.get(key);
    if (before) return before.answer;
    const { promise: answer, resolve } = Promise.withResolvers<Outcome<Sized[]>>();
    waiting.set(key, { thread, after, answer, resolve });
    void run();
    return answer;
  };
}

/** Creates the reader for all watchers of this process. */
export function createEventReader(database: Database, feed: ListeningFeed) {
  const all = new Map<string, LastEvents>();
  const read = createGatheredReads(database);

  /** Reads until the cache contains every reported event. */
  async function catchUp(thread: string, cache: LastEvents): Promise<void> {
    if (cache.isCatching) return;
    cache.isCatching = true;
    while (cache.tail !== undefined && cache.head > cache.tail && all.get(thread) === cache) {
      const answer = await read(thread, cache.tail);
      if (!answer.ok) {
        if (answer.error.code === 'store_closed') break;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        continue;
      }
      for (const sized of answer.output) {
        if (sized.event.seq === cache.tail + 1) keep(cache, sized);
      }
      // The thread was pruned or never existed.
      if (answer.output.length === 0) cache.head = cache.tail;
      for (const ring of cache.bells) ring();
    }
    cache.isCatching = false;
  }

  function look(thread: string, cache: LastEvents): void {
    if (cache.tail !== undefined && cache.head > cache.tail) void catchUp(thread, cache);
    else for (const ring of cache.bells) ring();
  }

  /** Creates the cache of a thread. One listener of the feed serves all its watchers. */
  function open(thread: string): LastEvents {
    const cache: LastEvents = {
      tail: undefined,
      head: 0,
      isCatching: false,
      events: [],
      sizes: [],
      size: 0,
      bells: new Set(),
      off: () => {},
    };
    all.set(thread, cache);
    cache.off = feed.onMove(thread, ({ seq }) => {
      cache.head = Math.max(cache.head, seq);
      look(thread, cache);
    });
    return cache;
  }

  return {
    join(thread: string, ring: () => void) {
      const cache = all.get(thread) ?? open(thread);
      let again: NodeJS.Timeout | undefined;
      cache.bells.add(ring);

      async function after(seq: number): Promise<readonly StoredEvent[]> {
        const answer = await read(thread, seq);
        if (!answer.ok) {
          again = setTimeout(ring, AGAIN_MS);
          return [];
        }
        const events = answer.output.map(({ event }) => event);
        if (events.length < BATCH && cache.tail === undefined) {
          // This is the end of the journal, unless another process has written since.
          cache.tail = events.at(-1)?.seq ?? seq;
          if (cache.head > cache.tail) look(thread, cache);
        }
        return events;
      }

      return {
        async readAfter(seq: number) {
          const events = keptAfter(cache, seq) ?? (await after(seq));
          // Most of the time these are the last events.
          const last = events.at(-1)?.seq;
          return { events, isAll: last === undefined || keptAfter(cache, last)?.length === 0 };
        },
        leave(): void {
          clearTimeout(again);
          cache.bells.delete(ring);
          if (cache.bells.size > 0) return;
          cache.off();
          if (all.get(thread) === cache) all.delete(thread);
        },
      };
    },
  };
}

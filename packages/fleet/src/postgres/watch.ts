// The events of threads for watchers. All watchers of a thread share one reader, which asks for all threads
// that moved at once and keeps the last events that it read. A watcher that is further behind reads for itself.
import type { Outcome } from '@kernmantle/core/base';
import type { StoredEvent } from '@kernmantle/core/store';
import { eventData } from '@kernmantle/core/store';
import type { Database } from './connection.ts';
import type { ListeningFeed } from './feed.ts';

const BATCH = 200;
const [CURSORS_A_READ, READS_AT_ONCE] = [50, 2];
/** Size of the cache of last events of one thread, for watchers that are almost up to date. */
const [MAX_KEPT, MAX_KEPT_CHARS] = [256, 2_000_000];
/** The server is not there; it is asked again. */
const AGAIN_MS = 500;

const READ = `SELECT w.at, t.id AS thread, e.seq, e.ts, e.turn, e.type, e.data
  FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS w(id, after, at) JOIN threads t ON t.id = w.id
  CROSS JOIN LATERAL (SELECT * FROM thread_events e WHERE e.thread = t.number AND e.seq > w.after
    ORDER BY e.seq LIMIT ${BATCH}) e ORDER BY w.at, e.seq`;

type ReadRow = Omit<StoredEvent, 'data'> & { data: string; at: number };

/** An event, and how long its text was. */
interface Sized {
  readonly event: StoredEvent;
  readonly size: number;
}

/** The last events of one thread, without a gap, up to `tail`. */
interface KeptEvents {
  /** Undefined until the first watcher has reached the end of the journal. */
  tail: number | undefined;
  /** The newest that was heard of. */
  head: number;
  isCatching: boolean;
  events: StoredEvent[];
  sizes: number[];
  size: number;
  readonly bells: Set<() => void>;
  /** Unsubscribes after the last watcher left. */
  off: () => void;
}

function keep(kept: KeptEvents, { event, size }: Sized): void {
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
function keptAfter({ tail, events }: KeptEvents, seq: number): readonly StoredEvent[] | undefined {
  if (tail === undefined) return undefined;
  if (seq >= tail) return [];
  const start = tail - events.length;
  return seq >= start ? events.slice(seq - start) : undefined;
}

/** Joins reads of the same moment into one query. Equal reads share one result. */
function createGatheredReads(database: Database) {
  interface Question {
    readonly thread: string;
    readonly after: number;
    readonly answer: Promise<Outcome<Sized[]>>;
    resolve(answer: Outcome<Sized[]>): void;
  }
  const waiting = new Map<string, Question>();
  let reading = 0;

  async function read(some: readonly Question[]): Promise<void> {
    const values = [some.map(({ thread }) => thread), some.map(({ after }) => after)];
    const rows = await database.read((sql) => sql.all<ReadRow>(READ, ...values));
    const found = some.map((): Sized[] => []);
    for (const { at, data, ...row } of rows.ok ? rows.output : []) {
      found[at - 1]?.push({ event: { ...row, data: eventData(data) }, size: data.length });
    }
    for (const [at, { resolve }] of some.entries()) {
      resolve(rows.ok ? { ok: true, output: found[at] ?? [] } : rows);
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

/** One for all watchers of this process. */
export function createEventReader(database: Database, feed: ListeningFeed) {
  const all = new Map<string, KeptEvents>();
  const read = createGatheredReads(database);

  /** Until what was heard of is there. */
  async function catchUp(thread: string, kept: KeptEvents): Promise<void> {
    if (kept.isCatching) return;
    kept.isCatching = true;
    while (kept.tail !== undefined && kept.head > kept.tail && all.get(thread) === kept) {
      const answer = await read(thread, kept.tail);
      if (!answer.ok) {
        if (answer.error.code === 'store_closed') break;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        continue;
      }
      for (const sized of answer.output) {
        if (sized.event.seq === kept.tail + 1) keep(kept, sized);
      }
      // Nothing there: it was pruned, or never was.
      if (answer.output.length === 0) kept.head = kept.tail;
      for (const ring of kept.bells) ring();
    }
    kept.isCatching = false;
  }

  function look(thread: string, kept: KeptEvents): void {
    if (kept.tail !== undefined && kept.head > kept.tail) void catchUp(thread, kept);
    else for (const ring of kept.bells) ring();
  }

  /** Told once of each move, however many watch. */
  function open(thread: string): KeptEvents {
    const kept: KeptEvents = {
      tail: undefined,
      head: 0,
      isCatching: false,
      events: [],
      sizes: [],
      size: 0,
      bells: new Set(),
      off: () => {},
    };
    all.set(thread, kept);
    kept.off = feed.onMove(thread, ({ seq }) => {
      kept.head = Math.max(kept.head, seq);
      look(thread, kept);
    });
    return kept;
  }

  return {
    join(thread: string, ring: () => void) {
      const kept = all.get(thread) ?? open(thread);
      let again: NodeJS.Timeout | undefined;
      kept.bells.add(ring);

      async function after(seq: number): Promise<readonly StoredEvent[]> {
        const answer = await read(thread, seq);
        if (!answer.ok) {
          again = setTimeout(ring, AGAIN_MS);
          return [];
        }
        const events = answer.output.map(({ event }) => event);
        if (events.length < BATCH && kept.tail === undefined) {
          // The end was reached, unless somebody wrote meanwhile.
          kept.tail = events.at(-1)?.seq ?? seq;
          if (kept.head > kept.tail) look(thread, kept);
        }
        return events;
      }

      return {
        async readAfter(seq: number) {
          const events = keptAfter(kept, seq) ?? (await after(seq));
          // Most of the time that was all.
          const last = events.at(-1)?.seq;
          return { events, isAll: last === undefined || keptAfter(kept, last)?.length === 0 };
        },
        leave(): void {
          clearTimeout(again);
          kept.bells.delete(ring);
          if (kept.bells.size > 0) return;
          kept.off();
          if (all.get(thread) === kept) all.delete(thread);
        },
      };
    },
  };
}

// Everything that happens from a cursor on, as it happens: events and changes of status, in the order
// of their commits, each once.
import { type Outcome, ok } from '../base/index.ts';
import type { Database, Row } from './database.ts';
import type { Feed } from './feed.ts';
import { type StoredEvent, toEvent } from './journal.ts';
import type { ThreadStatus } from './status.ts';

export interface Cursor {
  /** Only this thread. */
  thread?: string;
  /** With `thread`: after this sequence number. */
  seq?: number;
  /** After this position of the whole log. Neither given: from now on. */
  position?: number;
}

export type Happening =
  | ({ kind: 'event'; position: number } & StoredEvent)
  | {
      kind: 'status';
      position: number;
      thread: string;
      seq: number;
      ts: number;
      status: ThreadStatus;
    };

export interface Watch {
  /** Ends when the signal aborts or the registry is closed; never throws. */
  watch(cursor: Cursor, signal: AbortSignal): AsyncIterable<Happening>;
  /** Where the log ends now. */
  position(): Outcome<number>;
}

const BATCH = 200;
const COLUMNS = 'position, thread, seq, ts, turn, type, data';
const ALL = `SELECT ${COLUMNS} FROM thread_events WHERE position > ? ORDER BY position LIMIT ${BATCH}`;
// By the index on thread and sequence: reading on costs the same however long the thread is.
const ONE = `SELECT ${COLUMNS} FROM thread_events WHERE thread = ? AND seq >= ? AND position > ?
  ORDER BY seq, position LIMIT ${BATCH}`;

function toHappening(row: Row): Happening {
  const { position, thread, seq, ts, type, data } = row;
  if (data !== null) {
    const { position: _, ...event } = row;
    return { kind: 'event', position: position as number, ...toEvent(event) };
  }
  return {
    kind: 'status',
    position: position as number,
    thread: thread as string,
    seq: seq as number,
    ts: ts as number,
    status: type as ThreadStatus,
  };
}

/** Remembers that somebody knocked while we were busy. */
function createBell() {
  let [rung, ring] = [true, () => {}];
  return {
    ring() {
      rung = true;
      ring();
    },
    async rings(): Promise<void> {
      if (!rung) await new Promise<void>((resolve) => (ring = resolve));
      rung = false;
    },
  };
}

export function createWatch(database: Database, feed: Feed): Watch {
  const position = (): Outcome<number> =>
    database.read(() =>
      ok(Number(database.get('SELECT max(position) AS n FROM thread_events')?.['n'] ?? 0)),
    );

  async function* watch(cursor: Cursor, signal: AbortSignal): AsyncGenerator<Happening> {
    const { thread } = cursor;
    const fromStart = cursor.seq !== undefined || cursor.position !== undefined;
    const head = fromStart ? ok(0) : position();
    if (!head.ok) return;
    let [after, seq] = [cursor.position ?? head.output, cursor.seq ?? 0];
    // Rows of `seq` itself are status changes that came after it was reached.
    const isNew = (row: Happening): boolean => row.kind === 'status' || row.seq > (cursor.seq ?? 0);
    const bell = createBell();
    const unsubscribe = feed.subscribe(thread, bell.ring);
    signal.addEventListener('abort', bell.ring);
    try {
      while (!signal.aborted) {
        await bell.rings();
        for (let isMore = !signal.aborted; isMore; ) {
          const rows = database.read(() =>
            ok(
              thread === undefined
                ? database.all(ALL, after)
                : database.all(ONE, thread, seq, after),
            ),
          );
          if (!rows.ok) return;
          for (const row of rows.output.map(toHappening)) {
            [after, seq] = [row.position, row.seq];
            if (isNew(row)) yield row;
            if (signal.aborted) return;
          }
          isMore = rows.output.length === BATCH;
        }
      }
    } finally {
      signal.removeEventListener('abort', bell.ring);
      unsubscribe();
    }
  }

  return { watch, position };
}

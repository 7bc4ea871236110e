// What is new, for everybody who watches. One look for all watchers, never one a thread: commits of
// this process are seen at once, those of other processes by one cheap question at a fixed interval,
// asked only while somebody watches. A watcher holds a cursor and no queue, so nothing piles up
// behind a slow one.

import { type Outcome, ok } from '../../base/index.ts';
import type { Database, Row } from '../database/database.ts';
import type { ThreadStatus } from '../thread-id.ts';
import { type StoredEvent, toEvent } from './journal.ts';
import type { Sent } from './signals.ts';

export interface Feed {
  /** `wake` is called when a thread (or any, when undefined) has new rows; answers with the end. */
  subscribe(thread: string | undefined, wake: () => void): () => void;
  /** Calls back with the thread of every new signal; answers with the end. */
  onSignal(listener: (thread: string) => void): () => void;
  close(): void;
}

export interface FeedOptions {
  /** How often other processes' commits are looked for. */
  intervalMs: number;
  /** What this process itself said. */
  sent: Sent;
}

interface Subscriber {
  thread: string | undefined;
  wake: () => void;
}

const CHANGED = 'SELECT DISTINCT thread FROM thread_events WHERE position > ? AND position <= ?';
const SIGNALLED = 'SELECT DISTINCT thread FROM signals WHERE id > ? AND id <= ?';

export function createFeed(database: Database, { intervalMs, sent }: FeedOptions): Feed {
  const subscribers = new Set<Subscriber>();
  const listeners = new Set<(thread: string) => void>();
  let timer: NodeJS.Timeout | undefined;
  let soon: NodeJS.Immediate | undefined;
  let [version, position, signal, told] = [0, 0, 0, 0];

  const one = (sql: string): number => Number(Object.values(database.get(sql) ?? {})[0] ?? 0);
  const lastPosition = (): number => one('SELECT max(position) FROM thread_events');
  const lastSignal = (): number => one('SELECT max(id) FROM signals');
  const threadsOf = (sql: string, after: number, to: number): string[] =>
    to <= after ? [] : database.all(sql, after, to).map((row) => row['thread'] as string);

  // The ends first: what another process adds while we read is found at the next look.
  function wakeSubscribers(): void {
    const end = lastPosition();
    const touched = new Set(threadsOf(CHANGED, position, end));
    position = end;
    for (const { thread, wake } of subscribers) {
      if (touched.size > 0 && (thread === undefined || touched.has(thread))) wake();
    }
  }

  function tellListeners(): void {
    const end = lastSignal();
    const signalled = threadsOf(SIGNALLED, signal, end);
    signal = end;
    for (const thread of signalled) for (const listener of listeners) listener(thread);
  }

  function dispatch(isElsewhere: boolean): void {
    soon = undefined;
    if (subscribers.size > 0) wakeSubscribers();
    if (listeners.size === 0 || (!isElsewhere && told === sent.count)) return;
    told = sent.count;
    tellListeners();
  }

  /** What cannot be read now is read at the next look. */
  function tryTo(step: () => void): void {
    try {
      step();
    } catch {
      soon = undefined;
    }
  }

  function look(): void {
    const now = one('PRAGMA data_version');
    if (now === version) return;
    version = now;
    dispatch(true);
  }

  function start(): void {
    if (timer) return;
    tryTo(() => {
      version = one('PRAGMA data_version');
    });
    timer = setInterval(() => tryTo(look), intervalMs);
  }

  function stopIfIdle(): void {
    if (subscribers.size + listeners.size > 0) return;
    clearInterval(timer);
    clearImmediate(soon);
    [timer, soon] = [undefined, undefined];
  }

  database.onCommit(() => {
    const isWaited = subscribers.size > 0 || (listeners.size > 0 && told !== sent.count);
    if (timer && isWaited) soon ??= setImmediate(() => tryTo(() => dispatch(false)));
  });

  return {
    subscribe(thread, wake) {
      start();
      // Nobody kept count while nobody watched.
      if (subscribers.size === 0) tryTo(() => void (position = lastPosition()));
      const subscriber = { thread, wake };
      subscribers.add(subscriber);
      return () => {
        subscribers.delete(subscriber);
        stopIfIdle();
      };
    },
    onSignal(listener) {
      start();
      if (listeners.size === 0) {
        told = sent.count;
        tryTo(() => void (signal = lastSignal()));
      }
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        stopIfIdle();
      };
    },
    close() {
      const left = [...subscribers];
      subscribers.clear();
      listeners.clear();
      stopIfIdle();
      // Whoever still waits finds a closed registry and ends.
      for (const { wake } of left) wake();
    },
  };
}

// Everything that happens from a cursor on, as it happens: events and changes of status, in the order
// of their commits, each once.

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

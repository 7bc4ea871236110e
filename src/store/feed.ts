// What is new, for everybody who watches. One look for all watchers, never one a thread: commits of
// this process are seen at once, those of other processes by one cheap question at a fixed interval,
// asked only while somebody watches. A watcher holds a cursor and no queue, so nothing piles up
// behind a slow one.
import type { Database } from './database.ts';
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

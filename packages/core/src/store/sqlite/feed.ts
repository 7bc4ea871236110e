// Notifies watchers of changes. A commit of this process notifies at once. One cheap query finds commits of
// other processes: at the start of every transaction and, while a watcher waits, at a fixed interval. It
// serves all threads together. A watcher has no queue, so a slow one needs no memory.
import type { Head, SignalNote } from '../port.ts';
import type { Connection } from './file/connection.ts';
import type { LeaseTable } from './leased-thread.ts';

const ALL = 'SELECT id AS thread, seq, status FROM threads';
const LISTED = `${ALL} WHERE id IN (SELECT value FROM json_each(?))`;
const CALLED = 'SELECT id FROM threads WHERE wakes > acknowledged';
const SENT =
  'SELECT thread, number, kind FROM signals WHERE thread = ? AND number > ? ORDER BY number';

type OnHead = (head: Head) => void;

/** Manages watchers by thread, and the last event that was reported for each. `undefined`: all threads. */
function createWatched(connection: Connection) {
  const watchers = new Map<string | undefined, Set<OnHead>>();
  const reported = new Map<string, number>();
  const heads = (): Head[] =>
    watchers.has(undefined)
      ? connection.all<Head>(ALL)
      : connection.all<Head>(LISTED, JSON.stringify([...watchers.keys()]));

  function tell(head: Head): void {
    const [own, ofAll] = [watchers.get(head.thread), watchers.get(undefined)];
    if (!own && !ofAll) return;
    reported.set(head.thread, head.seq);
    for (const watcher of own ?? []) watcher(head);
    for (const watcher of ofAll ?? []) watcher(head);
  }

  function look(): void {
    if (watchers.size === 0) return;
    for (const head of heads()) if (reported.get(head.thread) !== head.seq) tell(head);
  }

  return {
    tell,
    /** Notifies watchers of commits of other processes. */
    look,
    isIdle: () => watchers.size === 0,
    /** Starts to count threads that had no watcher: their next event is reported. */
    count(): void {
      for (const { thread, seq } of heads()) if (!reported.has(thread)) reported.set(thread, seq);
    },
    join(thread: string | undefined, watcher: OnHead): () => void {
      const all = watchers.get(thread) ?? new Set();
      watchers.set(thread, all.add(watcher));
      return () => {
        all.delete(watcher);
        if (all.size === 0 && watchers.get(thread) === all) watchers.delete(thread);
        if (watchers.size === 0) reported.clear();
      };
    },
    clear(): void {
      watchers.clear();
    },
  };
}

/** Notifies listeners of signals, from any process, to threads with a lease of this process. */
function createCalls(connection: Connection, leases: LeaseTable) {
  const listeners = new Set<(note: SignalNote) => void>();

  function tell(note: SignalNote): void {
    const thread = leases.get(note.thread);
    if (!thread || note.number <= thread.announced) return;
    thread.announced = note.number;
    // A listener is code of the caller, so it never runs inside a transaction.
    for (const listener of listeners) queueMicrotask(() => listener(note));
  }

  return {
    listeners,
    tell,
    /** Notifies listeners of signals from other processes. */
    look(): void {
      if (listeners.size === 0) return;
      for (const { id } of connection.all<{ id: string }>(CALLED)) {
        const thread = leases.get(id);
        if (!thread) continue;
        for (const note of connection.all<SignalNote>(SENT, id, thread.announced)) tell(note);
      }
    },
  };
}

export type Feed = ReturnType<typeof createFeed>;

/** Creates the feed of a store. `onForeign` is called after another process wrote. */
export function createFeed(
  connection: Connection,
  leases: LeaseTable,
  intervalMs: number,
  onForeign: () => void,
) {
  const watched = createWatched(connection);
  const calls = createCalls(connection, leases);
  const queues = new Set<() => void>();
  const closing = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let [version, isFresh, isOver] = [-1, false, false];

  function look(): void {
    const now = Number(connection.get('PRAGMA data_version')?.['data_version']);
    isFresh = true;
    if (now === version) return;
    leases.forgetWords();
    onForeign();
    watched.look();
    calls.look();
    for (const listener of queues) listener();
    version = now;
  }

  /** Runs a step that reads. After a failed read, the next `look` reads again. */
  function tryTo(step: () => void): void {
    try {
      step();
    } catch {
      version = -1;
    }
  }

  /** Looks for commits, unless a transaction of this process did so since the last interval. */
  function onInterval(): void {
    if (!isFresh) tryTo(look);
    isFresh = false;
  }

  /** Starts the interval for a new listener. Returns the function that removes the listener. */
  function wait(leave: () => void): () => void {
    if (!isOver) timer ??= setInterval(onInterval, intervalMs);
    return () => {
      leave();
      if (!watched.isIdle() || calls.listeners.size > 0 || queues.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }

  function join<T>(all: Set<T>, one: T): () => void {
    all.add(one);
    return () => void all.delete(one);
  }

  return {
    /** Looks for commits of other processes, at the start of every transaction. */
    onBegin: look,
    moved: watched.tell,
    said: calls.tell,
    queued(): void {
      for (const listener of queues) listener();
    },
    /** Calls `watcher` for heads of this thread (`undefined`: of all threads). Returns the end. */
    onMove(thread: string | undefined, watcher: OnHead): () => void {
      tryTo(watched.look);
      const leave = wait(watched.join(thread, watcher));
      tryTo(watched.count);
      return leave;
    },
    onSignal: (listener: (note: SignalNote) => void) => wait(join(calls.listeners, listener)),
    /** Calls `listener` when a thread may have been queued. */
    onQueue: (listener: () => void) => wait(join(queues, listener)),
    /** Calls `listener` once, when the store closes. */
    onClose(listener: () => void): () => void {
      if (isOver) listener();
      return join(closing, listener);
    },
    close(): void {
      isOver = true;
      clearInterval(timer);
      timer = undefined;
      for (const listener of closing) listener();
      watched.clear();
      for (const all of [calls.listeners, queues, closing]) all.clear();
    },
  };
}

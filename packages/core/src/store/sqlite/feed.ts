// Notifies watchers of changes. A commit of this process notifies at once. One cheap query finds commits of
// other processes: at the start of every transaction and, while a watcher waits, at a fixed interval. It
// serves all threads together. A watcher has no queue, so a slow one needs no memory.
import type { Head, SignalNote } from '../port.ts';
import type { Connection } from './file/connection.ts';
import type { HeldThreads } from './leased-thread.ts';

const ALL = 'SELECT id AS thread, seq, status FROM threads';
const LISTED = `${ALL} WHERE id IN (SELECT value FROM json_each(?))`;
const CALLED = 'SELECT id FROM threads WHERE wakes > heard';
const SAID =
  'SELECT thread, number, kind FROM signals WHERE thread = ? AND number > ? ORDER BY number';

type OnHead = (head: Head) => void;

/** Threads that somebody watches, all of them under `undefined`, and how far each was told. */
function createWatched(connection: Connection) {
  const watchers = new Map<string | undefined, Set<OnHead>>();
  const told = new Map<string, number>();
  const heads = (): Head[] =>
    watchers.has(undefined)
      ? connection.all<Head>(ALL)
      : connection.all<Head>(LISTED, JSON.stringify([...watchers.keys()]));

  function tell(head: Head): void {
    const [own, ofAll] = [watchers.get(head.thread), watchers.get(undefined)];
    if (!own && !ofAll) return;
    told.set(head.thread, head.seq);
    for (const watcher of own ?? []) watcher(head);
    for (const watcher of ofAll ?? []) watcher(head);
  }

  function look(): void {
    if (watchers.size === 0) return;
    for (const head of heads()) if (told.get(head.thread) !== head.seq) tell(head);
  }

  return {
    tell,
    /** Notifies watchers of commits of other processes. */
    look,
    isIdle: () => watchers.size === 0,
    /** Nobody kept count of what nobody watched: it is told from where it is now. */
    count(): void {
      for (const { thread, seq } of heads()) if (!told.has(thread)) told.set(thread, seq);
    },
    join(thread: string | undefined, watcher: OnHead): () => void {
      const all = watchers.get(thread) ?? new Set();
      watchers.set(thread, all.add(watcher));
      return () => {
        all.delete(watcher);
        if (all.size === 0 && watchers.get(thread) === all) watchers.delete(thread);
        if (watchers.size === 0) told.clear();
      };
    },
    clear(): void {
      watchers.clear();
    },
  };
}

/** Signals to threads that are held here, from any process. */
function createCalls(connection: Connection, held: HeldThreads) {
  const listeners = new Set<(note: SignalNote) => void>();

  function tell(note: SignalNote): void {
    const thread = held.get(note.thread);
    if (!thread || note.number <= thread.announced) return;
    thread.announced = note.number;
    // Listeners are others' code: never inside a transaction.
    for (const listener of listeners) queueMicrotask(() => listener(note));
  }

  return {
    listeners,
    tell,
    /** Notifies listeners of signals from other processes. */
    look(): void {
      if (listeners.size === 0) return;
      for (const { id } of connection.all<{ id: string }>(CALLED)) {
        const thread = held.get(id);
        if (!thread) continue;
        for (const note of connection.all<SignalNote>(SAID, id, thread.announced)) tell(note);
      }
    },
  };
}

export type Feed = ReturnType<typeof createFeed>;

/** `onForeign` is called when other processes wrote. */
export function createFeed(
  connection: Connection,
  held: HeldThreads,
  intervalMs: number,
  onForeign: () => void,
) {
  const watched = createWatched(connection);
  const calls = createCalls(connection, held);
  const queues = new Set<() => void>();
  const closing = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let [version, isFresh, isOver] = [-1, false, false];

  function look(): void {
    const now = Number(connection.get('PRAGMA data_version')?.['data_version']);
    isFresh = true;
    if (now === version) return;
    held.forgetWords();
    onForeign();
    watched.look();
    calls.look();
    for (const listener of queues) listener();
    version = now;
  }

  /** A failed read is repeated at the next look. */
  function tryTo(step: () => void): void {
    try {
      step();
    } catch {
      version = -1;
    }
  }

  /** A process that commits all the time looks all the time: then the clock has nothing to do. */
  function onInterval(): void {
    if (!isFresh) tryTo(look);
    isFresh = false;
  }

  /** Begins to wait; answers with the end. */
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
    /** At the start of every transaction: what others wrote until then is seen now. */
    onBegin: look,
    moved: watched.tell,
    said: calls.tell,
    queued(): void {
      for (const listener of queues) listener();
    },
    /** Called for heads of this thread (of all, when undefined); answers with the end. */
    onMove(thread: string | undefined, watcher: OnHead): () => void {
      tryTo(watched.look);
      const leave = wait(watched.join(thread, watcher));
      tryTo(watched.count);
      return leave;
    },
    onSignal: (listener: (note: SignalNote) => void) => wait(join(calls.listeners, listener)),
    /** Called when something may have been queued. */
    onQueue: (listener: () => void) => wait(join(queues, listener)),
    /** Called once, when the store closes. */
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

// What is new, for everybody who waits for it. One look for all, never one a thread: commits of this
// process ring at once, those of other processes are found by one cheap question at a fixed interval,
// asked only while somebody waits. Nobody has a queue here, so nothing piles up behind a slow one.
import type { Head, SignalNote } from '../port.ts';
import type { Connection } from './file/connection.ts';
import type { HeldThreads } from './held.ts';

export interface Feed {
  /** At the start of every transaction: what others wrote until then is seen now. */
  onBegin(): void;
  /** At its end: where the log ends now, if it is committed. */
  onEnd(): void;
  /** After a commit of ours. */
  moved(heads: readonly Head[]): void;
  said(notes: readonly SignalNote[]): void;
  queued(): void;
  /** Called for heads of this thread (of all, when undefined); answers with the end. */
  onMove(thread: string | undefined, listener: (head: Head) => void): () => void;
  onSignal(listener: (note: SignalNote) => void): () => void;
  /** Called when something may have been queued. */
  onQueue(listener: () => void): () => void;
  /** Called once, when the store closes. */
  onClose(listener: () => void): () => void;
  close(): void;
}

const LAST_ROW = `SELECT (SELECT max(rowid) FROM thread_events) AS last,
  (SELECT value FROM about WHERE name = 'pruned') AS pruned`;
const HEADS = 'SELECT id AS thread, seq, status FROM threads WHERE id IN';
const MOVED = `${HEADS} (SELECT thread FROM thread_events WHERE rowid > ? AND rowid <= ?)`;
const LISTED = `${HEADS} (SELECT value FROM json_each(?))`;
const ALL = 'SELECT id AS thread, seq, status FROM threads';
const CALLED = 'SELECT id FROM threads WHERE wakes > heard';
const SAID =
  'SELECT thread, number, kind FROM signals WHERE thread = ? AND number > ? ORDER BY number';

export function createFeed(connection: Connection, held: HeldThreads, intervalMs: number): Feed {
  const byThread = new Map<string, Set<(head: Head) => void>>();
  const ofAll = new Set<(head: Head) => void>();
  const signalled = new Set<(note: SignalNote) => void>();
  const queues = new Set<() => void>();
  const closing = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  let version = -1;
  let [lastRow, endOfOurs] = [
    { last: 0, pruned: 0 },
    { last: 0, pruned: 0 },
  ];

  const isWaitedFor = (): boolean =>
    byThread.size > 0 || ofAll.size > 0 || signalled.size > 0 || queues.size > 0;
  const isWatched = (): boolean => byThread.size > 0 || ofAll.size > 0;
  const readVersion = (): number => Number(connection.get('PRAGMA data_version')?.['data_version']);
  const readLastRow = (): typeof lastRow => {
    const { last, pruned } = connection.get(LAST_ROW) ?? {};
    return { last: Number(last ?? 0), pruned: Number(pruned ?? 0) };
  };

  function moved(heads: readonly Head[]): void {
    for (const head of heads) {
      for (const listener of byThread.get(head.thread) ?? []) listener(head);
      for (const listener of ofAll) listener(head);
    }
  }

  function said(notes: readonly SignalNote[]): void {
    for (const note of notes) {
      const thread = held.get(note.thread);
      if (!thread || note.number <= thread.announced) continue;
      thread.announced = note.number;
      // Listeners are others' code: never inside a transaction.
      for (const listener of signalled) queueMicrotask(() => listener(note));
    }
  }

  /** Where rows were removed, numbers come again: then everything may have moved. */
  function foreignHeads(end: typeof lastRow): Head[] {
    if (end.pruned === lastRow.pruned && end.last >= lastRow.last) {
      return end.last === lastRow.last ? [] : connection.all<Head>(MOVED, lastRow.last, end.last);
    }
    if (ofAll.size > 0) return connection.all<Head>(ALL);
    return connection.all<Head>(LISTED, JSON.stringify([...byThread.keys()]));
  }

  function foreignNotes(): SignalNote[] {
    return connection.all<{ id: string }>(CALLED).flatMap(({ id }) => {
      const thread = held.get(id);
      return thread ? connection.all<SignalNote>(SAID, id, thread.announced) : [];
    });
  }

  function look(): void {
    const now = readVersion();
    if (now === version) return;
    version = now;
    held.forgetWords();
    if (isWatched()) {
      const end = readLastRow();
      const heads = foreignHeads(end);
      lastRow = end;
      moved(heads);
    }
    if (signalled.size > 0) said(foreignNotes());
    for (const listener of queues) listener();
  }

  /** What cannot be read now is read at the next look. */
  function tryTo(step: () => void): void {
    try {
      step();
    } catch {
      version = -1;
    }
  }

  function start(): void {
    if (isOver) return;
    // Nobody kept count while nobody watched.
    if (!isWatched()) tryTo(() => void (lastRow = readLastRow()));
    timer ??= setInterval(() => tryTo(look), intervalMs);
  }

  function stopIfIdle(): void {
    if (isWaitedFor()) return;
    clearInterval(timer);
    timer = undefined;
  }

  function join<T>(all: Set<T>, one: T, onEmpty = (): void => {}): () => void {
    all.add(one);
    return () => {
      all.delete(one);
      if (all.size === 0) onEmpty();
      stopIfIdle();
    };
  }

  return {
    onBegin: look,
    onEnd() {
      if (isWatched()) endOfOurs = readLastRow();
    },
    moved(heads) {
      if (!isWatched()) return;
      lastRow = endOfOurs;
      moved(heads);
    },
    said,
    queued() {
      for (const listener of queues) listener();
    },
    onMove(thread, listener) {
      start();
      if (thread === undefined) return join(ofAll, listener);
      const all = byThread.get(thread) ?? new Set();
      byThread.set(thread, all);
      return join(all, listener, () => {
        if (byThread.get(thread) === all) byThread.delete(thread);
      });
    },
    onSignal(listener) {
      start();
      return join(signalled, listener);
    },
    onQueue(listener) {
      start();
      return join(queues, listener);
    },
    onClose(listener) {
      if (isOver) listener();
      return join(closing, listener);
    },
    close() {
      isOver = true;
      clearInterval(timer);
      timer = undefined;
      for (const listener of closing) listener();
      for (const all of [byThread, ofAll, signalled, queues, closing]) all.clear();
    },
  };
}

// Announces changes to the waiting calls of this process. One connection listens for all of them. A commit of this
// process is announced here at once, and to other processes with one message for many commits. INVARIANT: a lost
// message never hides a change: a waiting call reads from a cursor, at the latest when the connection is back.
import type { Clock } from '@kernmantle/core/base';
import type { Head, SignalNote, ThreadStatus } from '@kernmantle/core/store';
import type pg from 'pg';
import type { Database } from './connection.ts';
import type { LocalLeases } from './leased-thread.ts';
import type { ServerFeed } from './registry.ts';

/** Interval in which commits are gathered into one message to other processes. */
const GATHER_MS = 50;
/** Interval of the check that the listening connection still works. */
const ASK_MS = 5000;
const BACK_MS = [20, 100, 500, 1000, 2000];
const MAX_WORD = 7000;
const MAX_RECENT = 5000;
/** Overlap of a catch-up, for commits during the reconnect and for the resolution of clocks. */
const OVERLAP_MS = 1000;

const CHANNEL = `SELECT quote_ident('km_' || coalesce(
  (SELECT value FROM about WHERE name = 'channel'), current_schema())) AS name`;
const HEADS = 'SELECT id AS thread, seq, status FROM threads WHERE id = ANY ($1)';
const SINCE = 'SELECT id AS thread, seq, status FROM threads WHERE updated >= km_now() - $1';
const CALLED = `SELECT s.thread, s.number, s.kind FROM threads t JOIN signals s ON s.thread = t.id
  WHERE t.owner IS NOT NULL AND t.wakes > t.acknowledged AND s.number > t.acknowledged ORDER BY s.thread, s.number`;

// Messages are sent one after the other. A message needs no flush, so sending does not wait for the disk.
const TELL = `SELECT set_config('synchronous_commit', 'off', true), km_tell($1)`;

type OnHead = (head: Head) => void;
/** Listener for queued threads. An undefined argument means any project or tenant. */
type OnQueue = (project: string | undefined, tenant: string | undefined) => void;

function joinSet<T>(all: Set<T>, one: T): () => void {
  all.add(one);
  return () => void all.delete(one);
}

/** Manages watchers by thread, and the newest reported head of each thread. `undefined`: all threads. */
function createWatched() {
  const watchers = new Map<string | undefined, Set<OnHead>>();
  const recent = new Map<string, Head>();

  /** Messages can arrive out of order, so a head that is older than the newest is dropped. */
  function isNew({ thread, seq, status }: Head): boolean {
    const last = recent.get(thread);
    if (last && (last.seq > seq || (last.seq === seq && last.status === status))) return false;
    recent.delete(thread);
    recent.set(thread, { thread, seq, status });
    if (recent.size > MAX_RECENT) recent.delete(recent.keys().next().value ?? '');
    return true;
  }

  return {
    tell(head: Head): void {
      const [own, ofAll] = [watchers.get(head.thread), watchers.get(undefined)];
      if ((!own && !ofAll) || !isNew(head)) return;
      for (const watcher of own ?? []) watcher(head);
      for (const watcher of ofAll ?? []) watcher(head);
    },
    ids: (): string[] => [...watchers.keys()].filter((id) => id !== undefined),
    watchesAll: () => watchers.has(undefined),
    join(thread: string | undefined, watcher: OnHead): () => void {
      const all = watchers.get(thread) ?? new Set();
      watchers.set(thread, all.add(watcher));
      return () => {
        all.delete(watcher);
        if (all.size === 0 && watchers.get(thread) === all) watchers.delete(thread);
        if (watchers.size === 0) recent.clear();
      };
    },
    clear(): void {
      watchers.clear();
      recent.clear();
    },
  };
}

/** Gathers commits into few messages with the newest head of each thread. */
function createGathering(database: Database) {
  const heads = new Map<string, Head>();
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<unknown> = Promise.resolve();

  async function send(): Promise<void> {
    timer = undefined;
    const lines = [...heads.values()].map(
      ({ thread, seq, status }) => `h ${thread} ${seq} ${status}`,
    );
    heads.clear();
    let word = '';
    const words: string[] = [];
    for (const line of lines) {
      if (word.length + line.length >= MAX_WORD) {
        words.push(word);
        word = '';
      }
      word += word === '' ? line : `\n${line}`;
    }
    if (word !== '') words.push(word);
    // A process that misses the notification finds the change with its next poll.
    for (const one of words) await database.read((sql) => sql.all(TELL, one), 0);
  }

  return {
    add(head: Head): void {
      heads.set(head.thread, head);
      timer ??= setTimeout(() => {
        sending = send();
      }, GATHER_MS);
    },
    async close(): Promise<void> {
      clearTimeout(timer);
      await sending;
      if (heads.size > 0) await send();
    },
  };
}

interface Hearing {
  hear(line: string): void;
  /** Reads the changes that were missed in the `silentMs` milliseconds without a connection. */
  catchUp(client: pg.Client, silentMs: number): Promise<void>;
  /** Called regularly. A connection that does not respond is closed. */
  look(client: pg.Client): Promise<void>;
}

/** Keeps one listening connection, and opens a new one if it breaks or does not respond. */
function createLink(database: Database, clock: Clock, { hear, catchUp, look }: Hearing) {
  const state = { isOver: false };
  let running: Promise<void> | undefined;
  let client: pg.Client | undefined;
  let wake = (): void => {};
  /** Time until which all messages have arrived. */
  let completeUntil = 0;

  const rest = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  /** Listens until the connection breaks or does not respond. */
  async function listen(): Promise<void> {
    const connected = await database.connect();
    client = connected;
    const isGone = { now: false };
    const end = (): void => {
      isGone.now = true;
      wake();
    };
    connected.on('end', end).on('error', end);
    connected.on('notification', ({ payload = '' }) => {
      for (const line of payload.split('\n')) hear(line);
    });
    try {
      const { rows } = await connected.query<{ name: string }>(CHANNEL);
      await connected.query(`LISTEN ${rows[0]?.name ?? ''}`);
      await catchUp(connected, clock.monotonic() - completeUntil);
      while (!isGone.now && !state.isOver) {
        const before = clock.monotonic();
        await look(connected);
        completeUntil = before;
        if (!isGone.now && !state.isOver) await rest(ASK_MS);
      }
    } finally {
      client = undefined;
      void connected.end().catch(() => {});
    }
  }

  async function run(): Promise<void> {
    for (let tries = 0; !state.isOver; tries++) {
      const start = clock.monotonic();
      try {
        await listen();
      } catch {
        // The loop tries again after a backoff.
      }
      if (clock.monotonic() - start > ASK_MS) tries = 0;
      if (!state.isOver) await rest(BACK_MS[Math.min(tries, BACK_MS.length - 1)] ?? 0);
    }
  }

  return {
    /** Starts the connection for the first watcher. */
    begin(): void {
      if (state.isOver || running) return;
      completeUntil = clock.monotonic();
      running = run();
    },
    async close(): Promise<void> {
      state.isOver = true;
      wake();
      void client?.end().catch(() => {});
      await running;
    },
  };
}

export type ListeningFeed = ReturnType<typeof createListeningFeed>;

export function createListeningFeed(database: Database, leases: LocalLeases, clock: Clock) {
  const watched = createWatched();
  const gathering = createGathering(database);
  const listeners = new Set<(note: SignalNote) => void>();
  const queues = new Set<OnQueue>();
  const closing = new Set<() => void>();
  let isOver = false;

  function said(note: SignalNote): void {
    const thread = leases.get(note.thread);
    if (!thread || note.number <= thread.announced) return;
    thread.announced = note.number;
    for (const listener of listeners) queueMicrotask(() => listener(note));
  }

  const queued: OnQueue = (project, tenant) => {
    for (const listener of queues) listener(project, tenant);
  };

  function onLine(line: string): void {
    const [kind, rest] = [line.slice(0, 1), line.slice(2)];
    if (kind === 'q') {
      const [project, tenant] = rest.split('\t');
      queued(project, tenant === '' ? undefined : tenant);
      return;
    }
    const [thread = '', number = '', ...words] = rest.split(' ');
    if (kind === 's') said({ thread, number: Number(number), kind: words.join(' ') });
    // Only processes of this registry have the name of the channel, so the status is trusted.
    else if (kind === 'h') {
      watched.tell({ thread, seq: Number(number), status: words[0] as ThreadStatus });
    }
  }

  const link = createLink(database, clock, {
    hear: onLine,
    async look(client) {
      for (const head of (await client.query<Head>(HEADS, [watched.ids()])).rows) {
        watched.tell(head);
      }
    },
    async catchUp(client, silentMs) {
      if (watched.watchesAll()) {
        const ago = Math.ceil(silentMs) + OVERLAP_MS;
        for (const head of (await client.query<Head>(SINCE, [ago])).rows) watched.tell(head);
      }
      if (listeners.size > 0) {
        for (const note of (await client.query<SignalNote>(CALLED)).rows) said(note);
      }
      queued(undefined, undefined);
    },
  });

  /** Adds a waiting listener. Returns the function that removes it. */
  function wait<T>(all: Set<T>, one: T): () => void {
    link.begin();
    return joinSet(all, one);
  }

  return {
    moved(head: Head): void {
      watched.tell(head);
      gathering.add(head);
    },
    said,
    queued: () => queued(undefined, undefined),
    /** Calls `watcher` for heads of this thread (`undefined`: of all threads). Returns the end. */
    onMove(thread: string | undefined, watcher: OnHead): () => void {
      link.begin();
      return watched.join(thread, watcher);
    },
    onSignal: (listener: (note: SignalNote) => void) => wait(listeners, listener),
    /** Calls `listener` when a thread may have been queued. */
    onQueue: (listener: OnQueue) => wait(queues, listener),
    /** Calls `listener` once, when the store closes. */
    onClose(listener: () => void): () => void {
      if (isOver) listener();
      return joinSet(closing, listener);
    },
    /** Ends all waiting calls, before the database closes. Commits that `answered` waits for are still announced. */
    async close(answered: () => Promise<void>): Promise<void> {
      isOver = true;
      for (const listener of closing) listener();
      watched.clear();
      for (const all of [listeners, queues, closing]) all.clear();
      await link.close();
      await answered();
      await gathering.close();
    },
  } satisfies ServerFeed & Record<string, unknown>;
}

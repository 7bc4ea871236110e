// What SQLite says, in codes that a caller can act on.

import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import {
  type Clock,
  type Failure,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
} from '../../base/index.ts';

const [BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB] = [
  5, 6, 8, 10, 11, 13, 14, 26,
];
/** The file that processes share memory through could not grow. */
const IOERR_SHMSIZE = 4874;

const codeOf = (error: unknown): number => {
  const { errcode } = error as { errcode?: unknown };
  return typeof errcode === 'number' ? errcode : 0;
};

export function isBusy(error: unknown): boolean {
  const code = codeOf(error) & 0xff;
  return code === BUSY || code === LOCKED;
}

const KNOWN: ReadonlyMap<number, readonly [code: string, what: string]> = new Map([
  [BUSY, ['store_busy', 'is in use by other processes; try again']],
  [LOCKED, ['store_busy', 'is in use by other processes; try again']],
  [FULL, ['disk_full', 'cannot grow: the disk is full; free some space and resume']],
  [READONLY, ['store_failed', 'cannot be written; check the rights of the file and its folder']],
  [CANTOPEN, ['store_failed', 'cannot be opened; check the rights of its folder']],
  [CORRUPT, ['store_failed', 'is damaged; move it away and start a new one']],
  [NOTADB, ['store_failed', 'is not a registry; move it away and start a new one']],
  [IOERR, ['store_failed', 'cannot be read or written: the disk reports an error']],
]);

/** Never throws. What is not from SQLite is a bug of ours and says so. */
export function faultOf(error: unknown, file: string): Failure {
  const code = codeOf(error);
  const known = KNOWN.get(code === IOERR_SHMSIZE ? FULL : code & 0xff);
  if (known) return fail(known[0], `the registry \`${file}\` ${known[1]}`, { file });
  const said = error instanceof Error ? error.message : String(error);
  if (said === 'database is not open') {
    return fail('store_closed', `the registry \`${file}\` was closed`, { file });
  }
  return fail('internal_error', `the registry \`${file}\` failed: ${said}`, { file });
}

// One connection to one SQLite file that several processes share: prepared statements by their text,
// one transaction at a time, and outcomes instead of exceptions.
//
// A writer that meets another one tries again after a short random sleep. SQLite's own waiting backs
// off to long fixed steps, and of two busy writers one would starve.

export type Row = Record<string, unknown>;

export interface Database {
  get(sql: string, ...values: SQLInputValue[]): Row | undefined;
  all(sql: string, ...values: SQLInputValue[]): Row[];
  /** How many rows were changed. */
  run(sql: string, ...values: SQLInputValue[]): number;
  /** As `get`, integers as bigint. */
  getExact(sql: string, ...values: SQLInputValue[]): Row | undefined;
  /**
   * All of `work` or nothing: a failure it returns undoes what it wrote. Inside another `write` it is
   * a part of that one, undone alone.
   */
  write<T>(work: () => Outcome<T>): Outcome<T>;
  /** Runs `work`, which only reads; what the file throws becomes a fault. */
  read<T>(work: () => Outcome<T>): Outcome<T>;
  isWriting(): boolean;
  /** Called after each commit of this connection. */
  onCommit(listener: () => void): void;
  close(): void;
}

export interface DatabasePorts {
  clock: Clock;
  random: RandomBytes;
  /** How long a writer waits for the others before it gives up. */
  patienceMs: number;
}

/** Waits without giving the event loop a turn: nothing else may run inside a transaction. */
export function createNap(random: RandomBytes): () => void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  return () => {
    Atomics.wait(cell, 0, 0, 0.05 + ((random(1)[0] ?? 0) / 256) * 0.6);
  };
}

export function createDatabase(
  connection: DatabaseSync,
  file: string,
  ports: DatabasePorts,
): Database {
  const [plain, exact] = [new Map<string, StatementSync>(), new Map<string, StatementSync>()];
  const listeners: (() => void)[] = [];
  const nap = createNap(ports.random);
  let depth = 0;

  function prepare(sql: string, statements = plain): StatementSync {
    let statement = statements.get(sql);
    if (!statement) {
      statement = connection.prepare(sql);
      if (statements === exact) statement.setReadBigInts(true);
      statements.set(sql, statement);
    }
    return statement;
  }

  function patiently<T>(step: () => T): T {
    let deadline: number | undefined;
    for (;;) {
      try {
        return step();
      } catch (error) {
        if (!isBusy(error)) throw error;
        deadline ??= ports.clock.monotonic() + ports.patienceMs;
        if (ports.clock.monotonic() > deadline) throw error;
        nap();
      }
    }
  }

  const begin = (): void => {
    try {
      prepare('BEGIN IMMEDIATE').run();
    } catch (error) {
      if (!isBusy(error)) throw error;
      patiently(() => prepare('BEGIN IMMEDIATE').run());
    }
  };

  function undo(): void {
    // After a full disk SQLite has rolled back already.
    if (connection.isTransaction) prepare('ROLLBACK').run();
  }

  function inside<T>(work: () => Outcome<T>): Outcome<T> {
    const name = `part_${depth}`;
    prepare(`SAVEPOINT ${name}`).run();
    depth += 1;
    try {
      const outcome = work();
      if (!outcome.ok) prepare(`ROLLBACK TO ${name}`).run();
      prepare(`RELEASE ${name}`).run();
      return outcome;
    } finally {
      depth -= 1;
    }
  }

  /** Ends a transaction that something broke; what cannot be undone was never written. */
  function broken(error: unknown): Outcome<never> {
    depth = 0;
    try {
      if (connection.isOpen) undo();
    } catch {
      // Whoever opens the file next does it.
    }
    return faultOf(error, file);
  }

  function outside<T>(work: () => Outcome<T>): Outcome<T> {
    let outcome: Outcome<T>;
    try {
      begin();
      depth = 1;
      outcome = work();
      prepare(outcome.ok ? 'COMMIT' : 'ROLLBACK').run();
    } catch (error) {
      return broken(error);
    }
    depth = 0;
    if (outcome.ok) for (const listener of listeners) listener();
    return outcome;
  }

  return {
    get: (sql, ...values) => prepare(sql).get(...values),
    all: (sql, ...values) => prepare(sql).all(...values),
    run: (sql, ...values) => Number(prepare(sql).run(...values).changes),
    getExact: (sql, ...values) => prepare(sql, exact).get(...values),
    write: (work) => (depth > 0 ? inside(work) : outside(work)),
    read(work) {
      if (depth > 0) return work();
      try {
        return patiently(work);
      } catch (error) {
        return faultOf(error, file);
      }
    },
    isWriting: () => depth > 0,
    onCommit: (listener) => void listeners.push(listener),
    close() {
      if (!connection.isOpen) return;
      plain.clear();
      exact.clear();
      try {
        connection.close();
      } catch {
        // Nothing is lost: the log beside the file is read by whoever opens it next.
      }
    },
  };
}

export const unreadable = (file: string, why: string): Outcome<never> =>
  fail('store_failed', `the registry \`${file}\` ${why}`, { file });

// Commits in groups: what is asked for in the same round of the event loop shares one transaction,
// and everybody is answered after its commit. With many threads in a process this is one flush to
// the disk instead of one each.

export interface Group {
  /**
   * Runs `work` (calls of this store, nothing that waits) in the next group commit. One that fails
   * is undone alone; if the commit itself fails, each is tried by itself.
   */
  grouped<T>(work: () => Outcome<T>): Promise<Outcome<T>>;
  /** Runs what is waiting now. */
  flush(): void;
}

export function createGroup(database: Database): Group {
  let waiting: { run: () => void; answer: () => void }[] = [];

  function flush(): void {
    const group = waiting;
    waiting = [];
    if (group.length === 0) return;
    const together = database.write(() => {
      for (const { run } of group) run();
      return ok(null);
    });
    if (!together.ok) for (const { run } of group) run();
    for (const { answer } of group) answer();
  }

  return {
    grouped<T>(work: () => Outcome<T>): Promise<Outcome<T>> {
      return new Promise((resolve) => {
        let outcome: Outcome<T>;
        const run = () => void (outcome = database.write(work));
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ run, answer: () => resolve(outcome) });
      });
    },
    flush,
  };
}

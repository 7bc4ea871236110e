// One connection to one SQLite file that several processes share: prepared statements by their text,
// one transaction at a time, and outcomes instead of exceptions.
//
// A writer that meets another one tries again after a short random sleep. SQLite's own waiting backs
// off to long fixed steps, and of two busy writers one would starve.
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { type Clock, fail, type Outcome, type RandomBytes } from '../base/index.ts';
import { faultOf, isBusy } from './database-fault.ts';

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

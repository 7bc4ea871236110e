// One connection to one SQLite file that several processes share: statements by their text, and the
// steps of a transaction. Nothing here waits: whoever meets another writer is told so.
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { fail, type Outcome, type RandomBytes } from '../../../base/index.ts';
import { faultOf, isBusy } from '../../database-fault.ts';

export type Row = Record<string, unknown>;

export interface Connection {
  get(sql: string, ...values: SQLInputValue[]): Row | undefined;
  all(sql: string, ...values: SQLInputValue[]): Row[];
  /** As `get` and `all`, integers as bigint. */
  getExact(sql: string, ...values: SQLInputValue[]): Row | undefined;
  allExact(sql: string, ...values: SQLInputValue[]): Row[];
  /** How many rows were changed. */
  run(sql: string, ...values: SQLInputValue[]): number;
  /** Several statements without values: tables, settings. */
  exec(sql: string): void;
  /** False when another writer is at it. Throws what else is in the way. */
  begin(): boolean;
  commit(): void;
  /** Also after the file has rolled back by itself. Never throws. */
  rollback(): void;
  isInside(): boolean;
  /** What the file throws becomes a fault. */
  fault(error: unknown): Outcome<never>;
  close(): void;
}

/** Texts of statements with a list in them, made once for each length. */
export function byLength(make: (places: string) => string): (length: number) => string {
  const made: string[] = [];
  return (length) => (made[length] ??= make(Array.from({ length }, () => '?').join(', ')));
}

/** A short random pause for the event loop, so that of two busy writers none starves. */
export function pause(random: RandomBytes, tries: number): Promise<void> {
  return new Promise((resolve) => {
    if (tries < 3) setImmediate(resolve);
    else setTimeout(resolve, 1 + ((random(1)[0] ?? 0) / 256) * 2);
  });
}

export function createConnection(database: DatabaseSync, file: string): Connection {
  const [plain, exact] = [new Map<string, StatementSync>(), new Map<string, StatementSync>()];

  function prepare(sql: string, statements = plain): StatementSync {
    let statement = statements.get(sql);
    if (!statement) {
      statement = database.prepare(sql);
      if (statements === exact) statement.setReadBigInts(true);
      statements.set(sql, statement);
    }
    return statement;
  }

  return {
    get: (sql, ...values) => prepare(sql).get(...values),
    all: (sql, ...values) => prepare(sql).all(...values),
    getExact: (sql, ...values) => prepare(sql, exact).get(...values),
    allExact: (sql, ...values) => prepare(sql, exact).all(...values),
    run: (sql, ...values) => Number(prepare(sql).run(...values).changes),
    exec: (sql) => database.exec(sql),
    begin() {
      try {
        prepare('BEGIN IMMEDIATE').run();
        return true;
      } catch (error) {
        if (isBusy(error)) return false;
        throw error;
      }
    },
    commit: () => void prepare('COMMIT').run(),
    rollback() {
      try {
        // After a full disk SQLite has rolled back already.
        if (database.isOpen && database.isTransaction) prepare('ROLLBACK').run();
      } catch {
        // Whoever opens the file next does it.
      }
    },
    isInside: () => database.isOpen && database.isTransaction,
    fault: (error) => faultOf(error, file),
    close() {
      if (!database.isOpen) return;
      plain.clear();
      exact.clear();
      try {
        database.close();
      } catch {
        // Nothing is lost: the log beside the file is read by whoever opens it next.
      }
    },
  };
}

export const unreadable = (file: string, why: string): Outcome<never> =>
  fail('store_failed', `the registry \`${file}\` ${why}`, { file });

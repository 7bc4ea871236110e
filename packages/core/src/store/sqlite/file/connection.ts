// Wraps one connection to a SQLite file that several processes share. It caches statements by their text and
// runs the steps of a transaction. It never waits: a call fails if another process writes.
/* oxlint-disable typescript/no-unnecessary-type-parameters -- the caller states the columns */
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { fail, type Outcome, type RandomBytes } from '../../../base/index.ts';
import { faultOf } from './errors.ts';

/**
 * Columns by their names. The caller states their types. The tables are strict, so the file has only
 * values of these types.
 */
type Row = Record<string, SQLOutputValue>;

/** Row type: an optional field becomes a nullable column. */
export type Columns<T> = {
  [K in keyof T]-?: object extends Pick<T, K> ? NonNullable<T[K]> | null : T[K];
};
type Nullable<R> = { [K in keyof R]: null extends R[K] ? K : never }[keyof R];
type Present<R> = Omit<R, Nullable<R>> & { [K in Nullable<R>]?: NonNullable<R[K]> };

/** Returns the columns that are not NULL. */
export const present = <R extends object>(row: R): Present<R> =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as Present<R>;

/** Returns the text of a statement with a list of values. It is built once for each length. */
export function byLength(make: (places: string) => string): (length: number) => string {
  const texts: string[] = [];
  return (length) => (texts[length] ??= make(Array.from({ length }, () => '?').join(', ')));
}

/** Waits a short random time, so that two busy writers do not block each other. */
export function pause(random: RandomBytes, tries: number): Promise<void> {
  return new Promise((resolve) => {
    if (tries < 3) setImmediate(resolve);
    else setTimeout(resolve, 1 + ((random(1)[0] ?? 0) / 256) * 2);
  });
}

/** Node 22 takes `?1` for the name of a parameter, and binds a list of values to each plain `?` alone. */
const NAMES_NUMBERS = Number.parseInt(process.versions.node, 10) < 24;

const bindsByName = (sql: string): boolean => NAMES_NUMBERS && sql.includes('?1');

/** Returns the values of a statement by their names: `?1`, `?2` and so on. */
const numberedValues = (values: readonly SQLInputValue[]): Record<string, SQLInputValue> =>
  Object.fromEntries(values.map((value, at) => [`?${at + 1}`, value]));

export type Connection = ReturnType<typeof createConnection>;

export function createConnection(database: DatabaseSync, file: string) {
  const statements = new Map<string, StatementSync>();
  let [afters, undos]: [(() => void)[], (() => void)[]] = [[], []];

  function prepare(sql: string): StatementSync {
    let statement = statements.get(sql);
    if (!statement) {
      statement = database.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  }

  return {
    get: <R extends object = Row>(sql: string, ...values: SQLInputValue[]) =>
      (bindsByName(sql) ? prepare(sql).get(numberedValues(values)) : prepare(sql).get(...values)) as
        | R
        | undefined,
    all: <R extends object = Row>(sql: string, ...values: SQLInputValue[]) =>
      (bindsByName(sql)
        ? prepare(sql).all(numberedValues(values))
        : prepare(sql).all(...values)) as R[],
    run(sql: string, ...values: SQLInputValue[]): void {
      if (bindsByName(sql)) prepare(sql).run(numberedValues(values));
      else prepare(sql).run(...values);
    },
    /** Runs several statements without values, for tables and settings. */
    exec: (sql: string): void => database.exec(sql),
    /** Throws if another connection writes. */
    begin: (): void => void prepare('BEGIN IMMEDIATE').run(),
    commit: (): void => void prepare('COMMIT').run(),
    /** Adds a change in memory that happens after the transaction is in the file. */
    afterCommit: (step: () => void): void => void afters.push(step),
    /** Adds a step that undoes a change in memory if the transaction is rolled back. */
    afterRollback: (step: () => void): void => void undos.push(step),
    /** Runs the steps of `afterCommit`. The caller has committed the transaction. */
    finish(): void {
      const steps = afters;
      [afters, undos] = [[], []];
      for (const step of steps) step();
    },
    /** Rolls back, unless SQLite has done so already. Never throws. */
    rollback(): void {
      try {
        // If the disk is full, SQLite has rolled back already.
        if (database.isOpen && database.isTransaction) prepare('ROLLBACK').run();
      } catch {
        // The next process that opens the file rolls back.
      }
      const steps = undos.reverse();
      [afters, undos] = [[], []];
      for (const step of steps) step();
    },
    isInside: (): boolean => database.isOpen && database.isTransaction,
    /** Turns an exception of SQLite into a failure. */
    fault: (error: unknown): Outcome<never> => faultOf(error, file),
    close(): void {
      if (!database.isOpen) return;
      statements.clear();
      try {
        database.close();
      } catch {
        // No data is lost: the next process that opens the file reads the log beside it.
      }
    },
  };
}

export const unreadable = (file: string, why: string): Outcome<never> =>
  fail('store_failed', `the registry \`${file}\` ${why}`, { file });

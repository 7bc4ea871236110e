// Reads and writes the accounts of threads, which are texts in their rows, and caches them between commits.
import type { Failure } from '../../base/index.ts';
import { openReservations, readAccount, writeAccount } from '../account.ts';
import type { Account, BudgetRefusal } from '../decide.ts';
import type { OpenReservation } from '../port.ts';
import type { Connection } from './file/connection.ts';
import { ENDED } from './file/schema.ts';

const READ = 'SELECT budget FROM threads WHERE id = ?';
const WRITE = 'UPDATE threads SET budget = ? WHERE id = ?';
const ELSEWHERE = `SELECT 1 FROM threads WHERE status NOT IN (${ENDED}) AND EXISTS
  (SELECT 1 FROM json_each(budget, '$.open') WHERE value ->> 'key' = ?)`;
const BELOW = `SELECT id, owner IS NULL OR coalesce(lease_until, 0) <= ?3 AS isLeft FROM threads
  JOIN thread_data ON thread = id WHERE root = ?1 AND ?2 IN (SELECT value FROM json_each(chain))`;
/** So many are kept from one transaction to the next. */
const MAX_KNOWN = 1000;

export type Accounts = ReturnType<typeof createAccounts>;

/**
 * Accounts as this process knows them; true inside a transaction, as long as no other process wrote.
 * Threads of one tree pay into the same ones: each is written once, at the end of the transaction.
 */
export function createAccounts(connection: Connection) {
  const known = new Map<string, Account>();
  const unwritten = new Set<string>();
  const undo = (): void => {
    known.clear();
    unwritten.clear();
  };
  function get(thread: string): Account {
    const account = known.get(thread);
    if (account) return account;
    const row = connection.get<{ budget: string }>(READ, thread);
    if (!row) throw new Error(`thread \`${thread}\` has no account`);
    const read = readAccount(thread, row.budget);
    known.set(thread, read);
    return read;
  }
  return {
    get,
    openOf: (thread: string): OpenReservation[] => openReservations(get(thread)),
    /** Caches accounts that changed. The statement for `thread` writes its own; the rest is written at the end. */
    change(thread: string, changed: readonly Account[]): void {
      for (const account of changed) {
        known.set(account.thread, account);
        if (account.thread === thread) unwritten.delete(thread);
        else unwritten.add(account.thread);
      }
      if (changed.length > 0) connection.afterRollback(undo);
    },
    /** Caches the account of a new thread, which the caller writes with its row. */
    add(account: Account): void {
      known.set(account.thread, account);
      connection.afterRollback(undo);
    },
    /** Reports a refusal. The queries only make it more precise. */
    explain(refusal: BudgetRefusal, now: number): Failure {
      switch (refusal.needs) {
        case undefined:
          return refusal.failure;
        case 'is_elsewhere':
          return refusal.explain(connection.get(ELSEWHERE, refusal.key) !== undefined);
        case 'accounts_below': {
          type Below = { id: string; isLeft: number };
          const rows = connection.all<Below>(BELOW, refusal.root, refusal.thread, now);
          return refusal.explain(rows.map((row) => ({ ...get(row.id), isLeft: row.isLeft === 1 })));
        }
      }
    },
    /** At the end of every transaction. */
    write(): void {
      for (const thread of unwritten) {
        const account = known.get(thread);
        if (account) connection.run(WRITE, writeAccount(account), thread);
      }
      unwritten.clear();
      if (known.size > MAX_KNOWN) known.clear();
    },
    /** Drops the cache after another process wrote. */
    forget: (): void => known.clear(),
  };
}

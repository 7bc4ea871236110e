// Reads and writes the accounts of threads and caches them between commits. A row has its account as text.
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
/** Maximum number of accounts that stay in the cache after a transaction. */
const MAX_CACHED = 1000;

export type Accounts = ReturnType<typeof createAccounts>;

/**
 * Caches accounts. The cache is valid inside a transaction until another process writes. Threads of one
 * tree share accounts, so a changed account is written once, at the end of the transaction.
 */
export function createAccounts(connection: Connection) {
  const cache = new Map<string, Account>();
  const unwritten = new Set<string>();
  const undo = (): void => {
    cache.clear();
    unwritten.clear();
  };
  function get(thread: string): Account {
    const account = cache.get(thread);
    if (account) return account;
    const row = connection.get<{ budget: string }>(READ, thread);
    if (!row) throw new Error(`thread \`${thread}\` has no account`);
    const read = readAccount(thread, row.budget);
    cache.set(thread, read);
    return read;
  }
  return {
    get,
    openOf: (thread: string): OpenReservation[] => openReservations(get(thread)),
    /** Caches changed accounts. The caller writes the one of `thread`. `write` writes the others. */
    change(thread: string, changed: readonly Account[]): void {
      for (const account of changed) {
        cache.set(account.thread, account);
        if (account.thread === thread) unwritten.delete(thread);
        else unwritten.add(account.thread);
      }
      if (changed.length > 0) connection.afterRollback(undo);
    },
    /** Caches the account of a new thread, which the caller writes with its row. */
    add(account: Account): void {
      cache.set(account.thread, account);
      connection.afterRollback(undo);
    },
    /** Returns the failure of a refusal. A query makes its message more precise. */
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
    /** Writes changed accounts, at the end of every transaction. */
    write(): void {
      for (const thread of unwritten) {
        const account = cache.get(thread);
        if (account) connection.run(WRITE, writeAccount(account), thread);
      }
      unwritten.clear();
      if (cache.size > MAX_CACHED) cache.clear();
    },
    /** Drops the cache after another process wrote. */
    forget: (): void => cache.clear(),
  };
}

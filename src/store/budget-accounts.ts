// One row a thread: limit, used and reserved for each kind. Read exactly, summed here and not in SQL,
// where a sum beyond 64 bits would turn into a float.
import { type Amounts, add, BUDGET_KINDS, type BudgetKind, type BudgetLimits } from './amounts.ts';
import type { Database, Row } from './database.ts';

export interface Account {
  parent: string | null;
  limits: BudgetLimits;
  used: Required<Amounts>;
  reserved: Required<Amounts>;
}

export interface AccountChange {
  reserve?: Amounts;
  free?: Amounts;
  use?: Amounts;
}

export interface Accounts {
  open(thread: string, limits: BudgetLimits): void;
  read(thread: string): Account | undefined;
  change(thread: string, change: AccountChange): void;
  limit(thread: string, kind: BudgetKind, max: bigint): void;
}

const READ = `SELECT b.*, t.parent FROM budgets b LEFT JOIN threads t ON t.id = b.thread
  WHERE b.thread = ?`;
const CHANGE = `UPDATE budgets SET ${BUDGET_KINDS.map((kind) => `${kind}_used = ?, ${kind}_reserved = ?`).join(', ')} WHERE thread = ?`;
const OPEN = `INSERT INTO budgets (thread, ${BUDGET_KINDS.map((kind) => `${kind}_max`).join(', ')})
  VALUES (?, ${BUDGET_KINDS.map(() => '?').join(', ')})`;

const each = (read: (kind: BudgetKind) => bigint): Required<Amounts> =>
  Object.fromEntries(BUDGET_KINDS.map((kind) => [kind, read(kind)])) as Required<Amounts>;

function toAccount(row: Row): Account {
  const limited = BUDGET_KINDS.filter((kind) => row[`${kind}_max`] !== null);
  return {
    parent: row['parent'] as string | null,
    limits: Object.fromEntries(limited.map((kind) => [kind, row[`${kind}_max`] as bigint])),
    used: each((kind) => row[`${kind}_used`] as bigint),
    reserved: each((kind) => row[`${kind}_reserved`] as bigint),
  };
}

export function createAccounts(database: Database): Accounts {
  const read = (thread: string): Account | undefined => {
    const row = database.getExact(READ, thread);
    return row && toAccount(row);
  };
  return {
    open(thread, limits) {
      database.run(OPEN, thread, ...BUDGET_KINDS.map((kind) => limits[kind] ?? null));
    },
    read,
    change(thread, { reserve = {}, free = {}, use = {} }) {
      const account = read(thread);
      if (!account) return;
      const values = BUDGET_KINDS.flatMap((kind) => {
        const reserved = add(account.reserved[kind], reserve[kind] ?? 0n) - (free[kind] ?? 0n);
        return [add(account.used[kind], use[kind] ?? 0n), reserved < 0n ? 0n : reserved];
      });
      database.run(CHANGE, ...values, thread);
    },
    limit(thread, kind, max) {
      database.run(`UPDATE budgets SET ${kind}_max = ? WHERE thread = ?`, max, thread);
    },
  };
}

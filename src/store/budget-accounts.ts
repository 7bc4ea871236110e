// One row a thread: limit, used and reserved for each kind. Sums are made by the database, where they
// stop at the end of 64 bits; they never wrap and never become a float.
import { type Amounts, BUDGET_KINDS, type BudgetKind, type BudgetLimits } from './amounts.ts';
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
  /** Only these kinds are filled in; the others are 0 and without limit. All by default. */
  read(thread: string, kinds?: readonly BudgetKind[]): Account | undefined;
  change(thread: string, change: AccountChange): void;
  limit(thread: string, kind: BudgetKind, max: bigint): void;
}

const OPEN = `INSERT INTO budgets (thread, ${BUDGET_KINDS.map((kind) => `${kind}_max`).join(', ')})
  VALUES (?, ${BUDGET_KINDS.map(() => '?').join(', ')})`;

const MAX_SUM = '9223372036854775807';
const setOf = (kind: BudgetKind): string =>
  `${kind}_used = min(${kind}_used + ?, ${MAX_SUM}), ` +
  `${kind}_reserved = max(0, min(${kind}_reserved + ?, ${MAX_SUM}))`;
const columnsOf = (kind: BudgetKind): string => `${kind}_max, ${kind}_used, ${kind}_reserved`;

const readOf = (kinds: readonly BudgetKind[]): string =>
  `SELECT ${['parent', ...kinds.map(columnsOf)].join(', ')} FROM budgets
   LEFT JOIN threads ON id = thread WHERE thread = ?`;
const changeOf = (kinds: readonly BudgetKind[]): string =>
  `UPDATE budgets SET ${kinds.map(setOf).join(', ')} WHERE thread = ?`;

/** One text for each set of kinds: statements are found by the very text. */
function remembered(make: (kinds: readonly BudgetKind[]) => string) {
  const made = new Map<string, string>();
  return (kinds: readonly BudgetKind[]): string => {
    const key = kinds.join();
    const sql = made.get(key) ?? make(kinds);
    made.set(key, sql);
    return sql;
  };
}

function toAccount(row: Row, kinds: readonly BudgetKind[]): Account {
  const limits: { [kind in BudgetKind]?: bigint } = {};
  const used = { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n };
  const reserved = { ...used };
  for (const kind of kinds) {
    const max = row[`${kind}_max`] as bigint | null;
    if (max !== null) limits[kind] = max;
    used[kind] = row[`${kind}_used`] as bigint;
    reserved[kind] = row[`${kind}_reserved`] as bigint;
  }
  return { parent: row['parent'] as string | null, limits, used, reserved };
}

export function createAccounts(database: Database): Accounts {
  const [readSql, changeSql] = [remembered(readOf), remembered(changeOf)];
  return {
    open(thread, limits) {
      database.run(OPEN, thread, ...BUDGET_KINDS.map((kind) => limits[kind] ?? null));
    },
    read(thread, kinds = BUDGET_KINDS) {
      const row = database.getExact(readSql(kinds), thread);
      return row && toAccount(row, kinds);
    },
    change(thread, { reserve = {}, free = {}, use = {} }) {
      const [kinds, values]: [BudgetKind[], bigint[]] = [[], []];
      for (const kind of BUDGET_KINDS) {
        const used = use[kind] ?? 0n;
        const reserved = (reserve[kind] ?? 0n) - (free[kind] ?? 0n);
        if (used === 0n && reserved === 0n) continue;
        kinds.push(kind);
        values.push(used, reserved);
      }
      if (kinds.length > 0) database.run(changeSql(kinds), ...values, thread);
    },
    limit(thread, kind, max) {
      database.run(`UPDATE budgets SET ${kind}_max = ? WHERE thread = ?`, max, thread);
    },
  };
}

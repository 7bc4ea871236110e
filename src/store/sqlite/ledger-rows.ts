// The rows of budgets: one account a thread with limit, used and reserved for each kind, and one row
// for each open reservation. Sums are made by the database, where they stop at the end of 64 bits;
// they never wrap and never become a float.
import { type Amounts, add, BUDGET_KINDS, type BudgetKind, type BudgetLimits } from '../amounts.ts';
import type { BudgetState, OpenReservation } from '../port.ts';
import { byLength, type Connection } from './file/connection.ts';

export type Account = Omit<BudgetState, 'thread'>;

export interface Reservation {
  key: string;
  /** Who made it. It is reserved at this thread and at all above it. */
  thread: string;
  amounts: Amounts;
  from?: string;
  standing: boolean;
}

/** What changes at one account; `reserve` may be negative. */
export interface Delta {
  use: Amounts;
  reserve: Amounts;
}

export interface LedgerRows {
  open(thread: string, limits: BudgetLimits): void;
  /** Only these kinds are filled in; the others are 0 and without limit. Missing threads are left out. */
  accounts(threads: readonly string[], kinds?: readonly BudgetKind[]): Map<string, Account>;
  change(threads: readonly string[], delta: Delta): void;
  raise(thread: string, limits: Amounts): void;
  find(key: string): Reservation | undefined;
  add(reservation: Reservation): void;
  /** Writes what is left of it. */
  update(reservation: Reservation): void;
  remove(key: string): void;
  openOf(thread: string): OpenReservation[];
  /** What nobody waits for, at a thread: standing ones, and those of threads without a live lease. */
  standing(query: {
    root: string;
    thread: string;
    kind: BudgetKind;
    now: number;
  }): Map<string, bigint>;
}

const MAX_SUM = '9223372036854775807';
const OPEN = `INSERT INTO budgets (thread, ${BUDGET_KINDS.map((kind) => `${kind}_max`).join(', ')})
  VALUES (?, ${BUDGET_KINDS.map(() => '?').join(', ')})`;
const COLUMNS = BUDGET_KINDS.join(', ');
// A key that was closed in the same commit may come again in it.
const ADD = `INSERT OR REPLACE INTO reservations (key, thread, drawn_from, standing, ${COLUMNS})
  VALUES (?, ?, ?, ?, ${BUDGET_KINDS.map(() => '?').join(', ')})`;
const UPDATE = `UPDATE reservations SET ${BUDGET_KINDS.map((kind) => `${kind} = ?`).join(', ')} WHERE key = ?`;
const FIND = `SELECT key, thread, drawn_from, standing, ${COLUMNS} FROM reservations WHERE key = ?`;
const OPEN_OF = `SELECT key, thread, drawn_from, standing, ${COLUMNS} FROM reservations WHERE thread = ? ORDER BY key`;

/** One text for each set of kinds and each length: statements are found by the very text. */
function remembered(make: (kinds: readonly BudgetKind[], places: string) => string) {
  const made = new Map<string, (length: number) => string>();
  return (kinds: readonly BudgetKind[], length: number): string => {
    const key = kinds.join();
    const text = made.get(key) ?? byLength((places) => make(kinds, places));
    made.set(key, text);
    return text(length);
  };
}

const readSql = remembered((kinds, places) => {
  const columns = kinds.map((kind) => `${kind}_max, ${kind}_used, ${kind}_reserved`);
  return `SELECT ${['thread', ...columns].join(', ')} FROM budgets WHERE thread IN (${places})`;
});
const changeSql = remembered((kinds, places) => {
  const set = kinds.map(
    (kind) =>
      `${kind}_used = min(${kind}_used + ?, ${MAX_SUM}), ` +
      `${kind}_reserved = max(0, min(${kind}_reserved + ?, ${MAX_SUM}))`,
  );
  return `UPDATE budgets SET ${set.join(', ')} WHERE thread IN (${places})`;
});

function toAccount(row: Record<string, bigint | null>, kinds: readonly BudgetKind[]): Account {
  const limits: { [kind in BudgetKind]?: bigint } = {};
  const used = { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n };
  const reserved = { ...used };
  for (const kind of kinds) {
    const max = row[`${kind}_max`] ?? undefined;
    if (max !== undefined) limits[kind] = max;
    used[kind] = row[`${kind}_used`] ?? 0n;
    reserved[kind] = row[`${kind}_reserved`] ?? 0n;
  }
  return { limits, used, reserved };
}

type ReservationRow = Required<Amounts> & {
  key: string;
  thread: string;
  drawn_from: string | null;
  standing: bigint;
};

function toReservation(row: ReservationRow): Reservation {
  const amounts: { [kind in BudgetKind]?: bigint } = {};
  for (const kind of BUDGET_KINDS) {
    const amount = row[kind];
    if (amount > 0n) amounts[kind] = amount;
  }
  const { key, thread, drawn_from: from, standing } = row;
  return {
    key,
    thread,
    amounts,
    standing: standing === 1n,
    ...(from === null ? {} : { from }),
  };
}

const STANDING_WHERE = `FROM reservations r JOIN threads t ON t.id = r.thread
  WHERE t.root = ? AND (r.standing = 1 OR t.owner IS NULL OR t.lease_until <= ?)
  AND EXISTS (SELECT 1 FROM thread_data d, json_each(d.chain) c WHERE d.thread = r.thread AND c.value = ?)`;

export function createLedgerRows(connection: Connection): LedgerRows {
  const valuesOf = (amounts: Amounts): bigint[] => BUDGET_KINDS.map((kind) => amounts[kind] ?? 0n);
  return {
    open(thread, limits) {
      connection.run(OPEN, thread, ...BUDGET_KINDS.map((kind) => limits[kind] ?? null));
    },
    accounts(threads, kinds = BUDGET_KINDS) {
      const sql = readSql(kinds, threads.length);
      const rows = connection.allExact<{ thread: string }>(sql, ...threads);
      return new Map(rows.map(({ thread, ...row }) => [thread, toAccount(row, kinds)]));
    },
    change(threads, { use, reserve }) {
      const [kinds, values]: [BudgetKind[], bigint[]] = [[], []];
      for (const kind of BUDGET_KINDS) {
        const [used, reserved] = [use[kind] ?? 0n, reserve[kind] ?? 0n];
        if (used === 0n && reserved === 0n) continue;
        kinds.push(kind);
        values.push(used, reserved);
      }
      if (kinds.length > 0) connection.run(changeSql(kinds, threads.length), ...values, ...threads);
    },
    raise(thread, limits) {
      for (const kind of BUDGET_KINDS) {
        const to = limits[kind];
        if (to === undefined) continue;
        connection.run(`UPDATE budgets SET ${kind}_max = ? WHERE thread = ?`, to, thread);
      }
    },
    find(key) {
      const row = connection.getExact<ReservationRow>(FIND, key);
      return row && toReservation(row);
    },
    add({ key, thread, from, standing, amounts }) {
      connection.run(ADD, key, thread, from ?? null, standing ? 1 : 0, ...valuesOf(amounts));
    },
    update({ key, amounts }) {
      connection.run(UPDATE, ...valuesOf(amounts), key);
    },
    remove(key) {
      connection.run('DELETE FROM reservations WHERE key = ?', key);
    },
    openOf: (thread) =>
      connection.allExact<ReservationRow>(OPEN_OF, thread).map((row) => {
        const { key, amounts, from } = toReservation(row);
        return { key, amounts, ...(from === undefined ? {} : { from }) };
      }),
    standing({ root, thread, kind, now }) {
      const sql = `SELECT r.key, r.${kind} AS amount ${STANDING_WHERE}`;
      const rows = connection.allExact<{ key: string; amount: bigint }>(sql, root, now, thread);
      return new Map(rows.map(({ key, amount }) => [key, amount]));
    },
  };
}

export const sumOf = (amounts: Iterable<bigint>): bigint => {
  let sum = 0n;
  for (const amount of amounts) sum = add(sum, amount);
  return sum;
};

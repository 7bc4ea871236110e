// One row a thread: limit, used and reserved for each kind. Sums are made by the database, where they
// stop at the end of 64 bits; they never wrap and never become a float.

import type { Clock } from '../../base/index.ts';
import {
  type Amounts,
  amountsFromText,
  amountsToText,
  BUDGET_KINDS,
  type BudgetKind,
  type BudgetLimits,
} from '../amounts.ts';
import type { Database, Row } from '../database/database.ts';

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

// Open and closed reservations by key. A closed one stays as long as its thread: asking again with
// its key must find it.

export interface Reservation {
  key: string;
  state: 'open' | 'settled' | 'cancelled';
  /** Who made it, then its ancestors up to the root. */
  chain: readonly string[];
  /** What was asked for. */
  requested: Amounts;
  /** What is still set aside of it. */
  amounts: Amounts;
  drawnFrom?: string;
}

export type OpenedReservation = Pick<Reservation, 'chain' | 'amounts' | 'drawnFrom'>;

export interface Reservations {
  find(key: string): Reservation | undefined;
  /** Writes a new one; false when there is one of that key. */
  add(reservation: Reservation): boolean;
  /** Closes an open one and tells what it held; undefined when there is no open one. */
  close(key: string, state: Reservation['state']): OpenedReservation | undefined;
  /** Writes a new one, or one that was cancelled anew. */
  write(reservation: Reservation): void;
  update(key: string, state: Reservation['state'], amounts: Amounts): void;
  openOf(thread: string): { key: string; amounts: Amounts; drawn_from?: string }[];
}

const drawn = (row: Row) => row['drawn_from'] as string | null;

const COLUMNS = '(key, thread, state, drawn_from, requested, amounts, chain, created)';
const ADD = `INSERT INTO reservations ${COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
const WRITE = `INSERT OR REPLACE INTO reservations ${COLUMNS} VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
const CLOSE = `UPDATE reservations SET state = ? WHERE key = ? AND state = 'open'
  RETURNING chain, amounts, drawn_from`;

function toOpened(row: Row): OpenedReservation {
  const from = drawn(row);
  return {
    chain: JSON.parse(row['chain'] as string) as string[],
    amounts: amountsFromText(row['amounts'] as string),
    ...(from === null ? {} : { drawnFrom: from }),
  };
}

export function createReservations(database: Database, clock: Clock): Reservations {
  function put(sql: string, reservation: Reservation): boolean {
    const { key, state, chain, requested, amounts, drawnFrom } = reservation;
    const asked = amountsToText(requested);
    const held = amounts === requested ? asked : amountsToText(amounts);
    const owner = chain[0] ?? '';
    const list = JSON.stringify(chain);
    const values = [key, owner, state, drawnFrom ?? null, asked, held, list, clock.now()];
    return database.run(sql, ...values) === 1;
  }

  return {
    find(key) {
      const row = database.get('SELECT * FROM reservations WHERE key = ?', key);
      if (!row) return undefined;
      const state = row['state'] as Reservation['state'];
      const requested = amountsFromText(row['requested'] as string);
      return { key, state, requested, ...toOpened(row) };
    },
    add: (reservation) => put(ADD, reservation),
    write: (reservation) => void put(WRITE, reservation),
    close(key, state) {
      const row = database.get(CLOSE, state, key);
      return row && toOpened(row);
    },
    update(key, state, amounts) {
      const sql = 'UPDATE reservations SET state = ?, amounts = ? WHERE key = ?';
      database.run(sql, state, amountsToText(amounts), key);
    },
    openOf: (thread) =>
      database
        .all(
          "SELECT key, amounts, drawn_from FROM reservations WHERE thread = ? AND state = 'open' ORDER BY created, key",
          thread,
        )
        .map((row) => {
          const from = drawn(row);
          return {
            key: row['key'] as string,
            amounts: amountsFromText(row['amounts'] as string),
            ...(from === null ? {} : { drawn_from: from }),
          };
        }),
  };
}

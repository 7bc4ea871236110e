// Open and closed reservations by key. A closed one stays as long as its thread: asking again with
// its key must find it.
import type { Clock } from '../base/index.ts';
import { type Amounts, amountsFromText, amountsToText } from './amounts.ts';
import type { Database, Row } from './database.ts';

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

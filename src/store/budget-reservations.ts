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

export interface Reservations {
  find(key: string): Reservation | undefined;
  /** Writes a new one, or one that was cancelled anew. */
  write(reservation: Reservation): void;
  update(key: string, state: Reservation['state'], amounts: Amounts): void;
  openOf(thread: string): { key: string; amounts: Amounts; drawn_from?: string }[];
}

const drawn = (row: Row) => row['drawn_from'] as string | null;

export function createReservations(database: Database, clock: Clock): Reservations {
  return {
    find(key) {
      const row = database.get('SELECT * FROM reservations WHERE key = ?', key);
      if (!row) return undefined;
      const from = drawn(row);
      return {
        key,
        state: row['state'] as Reservation['state'],
        chain: JSON.parse(row['chain'] as string) as string[],
        requested: amountsFromText(row['requested'] as string),
        amounts: amountsFromText(row['amounts'] as string),
        ...(from === null ? {} : { drawnFrom: from }),
      };
    },
    write({ key, state, chain, requested, amounts, drawnFrom }) {
      database.run(
        `INSERT OR REPLACE INTO reservations
         (key, thread, state, drawn_from, requested, amounts, chain, created)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        key,
        chain[0] ?? '',
        state,
        drawnFrom ?? null,
        amountsToText(requested),
        amountsToText(amounts),
        JSON.stringify(chain),
        clock.now(),
      );
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

// Writes rows of the one log. Only called inside a transaction that has checked the right to do so.
import { type Clock, fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { ThreadStatus } from '../thread-id.ts';
import type { Database } from './database.ts';

export interface NewEvent {
  type: string;
  data: JsonObject;
  /** 0 when left out: before the first turn. */
  turn?: number;
  /** The time of the append when left out. */
  ts?: number;
}

export interface EventLog {
  /** Numbers the events from `after` + 1 on. */
  events(thread: string, after: number, events: readonly NewEvent[]): Outcome<null>;
  status(thread: string, seq: number, status: ThreadStatus): void;
}

/** What is larger belongs into an artifact. */
const MAX_EVENT = 8 * 1024 * 1024;
const INSERT = 'INSERT INTO thread_events (thread, seq, ts, turn, type, data) VALUES ';
const COLUMNS = 6;
const ROW = '(?, ?, ?, ?, ?, ?)';
const INSERT_ONE = INSERT + ROW;
/** Long lists go in this many at a time: each call of the database costs as much as a row. */
const MANY = 10;
const INSERT_MANY = INSERT + Array.from({ length: MANY }, () => ROW).join(', ');

export function createEventLog(database: Database, clock: Clock): EventLog {
  function insertAll(values: readonly (string | number)[]): void {
    for (let at = 0; at < values.length; ) {
      const isMany = values.length - at >= MANY * COLUMNS;
      const end = at + (isMany ? MANY * COLUMNS : COLUMNS);
      database.run(isMany ? INSERT_MANY : INSERT_ONE, ...values.slice(at, end));
      at = end;
    }
  }

  function tooLarge(thread: string, type: string, length: number): Outcome<never> {
    const message = `a \`${type}\` event of ${length} characters is too large; store it as an artifact`;
    return fail('invalid_input', message, { thread, max: MAX_EVENT });
  }

  return {
    events(thread, after, events) {
      const values: (string | number)[] = [];
      const now = clock.now();
      let seq = after;
      for (const { type, data, turn = 0, ts = now } of events) {
        const text = JSON.stringify(data);
        if (text.length > MAX_EVENT) return tooLarge(thread, type, text.length);
        seq += 1;
        // Most appends are one event: nothing is collected for it.
        if (events.length === 1) database.run(INSERT_ONE, thread, seq, ts, turn, type, text);
        else values.push(thread, seq, ts, turn, type, text);
      }
      insertAll(values);
      return ok(null);
    },
    status(thread, seq, status) {
      database.run(INSERT_ONE, thread, seq, clock.now(), 0, status, null);
    },
  };
}

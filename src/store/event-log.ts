// Writes rows of the one log. Only called inside a transaction that has checked the right to do so.
import { type Clock, fail, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Database } from './database.ts';
import type { ThreadStatus } from './status.ts';

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
const INSERT =
  'INSERT INTO thread_events (thread, seq, ts, turn, type, data) VALUES (?, ?, ?, ?, ?, ?)';

export function createEventLog(database: Database, clock: Clock): EventLog {
  return {
    events(thread, after, events) {
      let seq = after;
      for (const { type, data, turn = 0, ts = clock.now() } of events) {
        const text = JSON.stringify(data);
        if (text.length > MAX_EVENT) {
          return fail(
            'invalid_input',
            `a \`${type}\` event of ${text.length} characters is too large; store it as an artifact`,
            { thread, max: MAX_EVENT },
          );
        }
        seq += 1;
        database.run(INSERT, thread, seq, ts, turn, type, text);
      }
      return ok(null);
    },
    status(thread, seq, status) {
      database.run(INSERT, thread, seq, clock.now(), 0, status, null);
    },
  };
}

// What people and other threads want of a thread: pause, resume, a message, the end. A signal waits
// in the registry until the thread reads it, so it may come from any process, at any time.
import { type Clock, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import type { Database } from '../database/database.ts';
import { isEnded, noThread, type ThreadStatus } from '../thread-id.ts';

export interface Signal {
  /** Grows with every signal of the registry; what was read is remembered as the last id. */
  id: number;
  thread: string;
  kind: string;
  payload: Json;
  key: string;
  /** Who sent it. */
  by: string;
  ts: number;
}

export interface Signals {
  /** The same key again is the same signal. `thread_ended` when nobody will read it any more. */
  signal(thread: string, kind: string, payload: Json, key: string, by: string): Outcome<null>;
  signals(thread: string, after?: number): Outcome<Signal[]>;
}

/** How many signals this connection has written: a look for new ones is made only after that. */
export interface Sent {
  count: number;
}

const MAX_PAYLOAD = 1024 * 1024;
const MAX_READ = 1000;

export function createSignals(
  database: Database,
  clock: Clock,
  sent: Sent = { count: 0 },
): Signals {
  return {
    signal(thread, kind, payload, key, by) {
      const text = JSON.stringify(payload);
      if (text.length > MAX_PAYLOAD) {
        const message = `a signal may carry 1 MB, this one has ${text.length} characters`;
        return fail('invalid_input', message, { thread, kind });
      }
      return database.write(() => {
        const row = database.get('SELECT status FROM threads WHERE id = ?', thread);
        if (!row) return noThread(thread);
        if (database.get('SELECT 1 FROM signals WHERE thread = ? AND key = ?', thread, key)) {
          return ok(null);
        }
        const status = row['status'] as ThreadStatus;
        if (isEnded(status)) {
          const message = `thread \`${thread}\` has ended (${status}) and takes no \`${kind}\``;
          return fail('thread_ended', message, { thread, status });
        }
        const sql =
          'INSERT INTO signals (thread, kind, payload, key, sender, ts) VALUES (?, ?, ?, ?, ?, ?)';
        database.run(sql, thread, kind, text, key, by, clock.now());
        sent.count += 1;
        return ok(null);
      });
    },
    signals: (thread, after = 0) =>
      database.read(() => {
        const sql = `SELECT id, thread, kind, payload, key, sender AS "by", ts FROM signals
          WHERE thread = ? AND id > ? ORDER BY id LIMIT ?`;
        const rows = database.all(sql, thread, after, MAX_READ);
        return ok(
          rows.map((row) => ({
            ...(row as unknown as Signal),
            payload: JSON.parse(row['payload'] as string) as Json,
          })),
        );
      }),
  };
}

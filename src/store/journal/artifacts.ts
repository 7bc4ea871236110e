// Results that are too large for the journal, by the hash of their bytes: equal ones are kept once.
import { createHash } from 'node:crypto';
import { type Clock, fail, type Outcome, ok } from '../../base/index.ts';
import type { Database } from '../database/database.ts';

export interface Artifacts {
  /** Answers with the hash, `sha256:…`. Kept as long as the thread is. */
  put(thread: string, bytes: Uint8Array): Outcome<string>;
  /** Only what this thread put there itself. */
  get(thread: string, hash: string): Outcome<Uint8Array>;
}

const MAX_BYTES = 64 * 1024 * 1024;

const FIND =
  'SELECT bytes FROM artifacts JOIN artifact_uses USING (hash) WHERE thread = ? AND hash = ?';

export function createArtifacts(database: Database, clock: Clock): Artifacts {
  return {
    put(thread, bytes) {
      if (bytes.length > MAX_BYTES) {
        const message = `${bytes.length} bytes are too many for an artifact; at most ${MAX_BYTES}`;
        return fail('invalid_input', message, { thread, max: MAX_BYTES });
      }
      const hash = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
      return database.write(() => {
        if (!database.get('SELECT 1 FROM artifacts WHERE hash = ?', hash)) {
          const sql = 'INSERT INTO artifacts (hash, bytes, created) VALUES (?, ?, ?)';
          database.run(sql, hash, bytes, clock.now());
        }
        const use = 'INSERT OR IGNORE INTO artifact_uses (thread, hash) VALUES (?, ?)';
        database.run(use, thread, hash);
        return ok(hash);
      });
    },
    get: (thread, hash) =>
      database.read(() => {
        const row = database.get(FIND, thread, hash);
        if (!row) return fail('not_found', `there is no artifact \`${hash}\``, { hash });
        return ok(row['bytes'] as Uint8Array);
      }),
  };
}

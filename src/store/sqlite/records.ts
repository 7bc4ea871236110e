// What lies beside the journal: results that are too large for it (by the hash of their bytes, equal
// ones once), encrypted bytes of a thread by number, and the audit of what happens in threads.
import { createHash } from 'node:crypto';
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { AuditEntry, Sealed } from '../port.ts';
import { noThread } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';

export interface RecordRows {
  /** A number is given once; the same bytes again are the same secret. */
  checkSecrets(thread: string, secrets: readonly Sealed[]): Outcome<null>;
  keepSecrets(thread: string, secrets: readonly Sealed[]): void;
  secrets(thread: string): Sealed[];
  putArtifact(thread: string, hash: string, bytes: Uint8Array, now: number): Outcome<string>;
  artifact(thread: string, hash: string): Outcome<Uint8Array>;
  writeAudit(rows: readonly AuditEntry[], now: number): void;
  auditRows(limit: number, only?: AuditEntry['decision']): (AuditEntry & { time: string })[];
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_TEXT = 500;
const MAX_READ = 10_000;
const AUDIT = 'time, surface, caller, subject, operation, decision, reason';
const INSERT_AUDIT = `INSERT INTO audit (${AUDIT}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const KEEP = 'INSERT OR IGNORE INTO secrets (thread, number, sealed) VALUES (?, ?, ?)';
const FIND =
  'SELECT bytes FROM artifacts JOIN artifact_uses USING (hash) WHERE thread = ? AND hash = ?';

const short = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;

/** The name of these bytes, before they are queued: hashing is slow. */
export function hashArtifact(thread: string, bytes: Uint8Array): Outcome<string> {
  if (bytes.length <= MAX_BYTES) {
    return ok(`sha256:${createHash('sha256').update(bytes).digest('hex')}`);
  }
  const message = `${bytes.length} bytes are too many for an artifact; at most ${MAX_BYTES}`;
  return fail('invalid_input', message, { thread, max: MAX_BYTES });
}

export function createRecordRows(connection: Connection): RecordRows {
  return {
    checkSecrets(thread, secrets) {
      for (const { number, sealed } of secrets) {
        const sql = 'SELECT sealed FROM secrets WHERE thread = ? AND number = ?';
        const row = connection.get<Pick<Sealed, 'sealed'>>(sql, thread, number);
        if (!row || Buffer.compare(row.sealed, sealed) === 0) continue;
        const message = `secret ${number} of thread \`${thread}\` exists already: somebody else holds the thread`;
        return fail('conflict', message, { thread });
      }
      return ok(null);
    },
    keepSecrets(thread, secrets) {
      for (const { number, sealed } of secrets) connection.run(KEEP, thread, number, sealed);
    },
    secrets: (thread) =>
      connection
        .all<Sealed>('SELECT number, sealed FROM secrets WHERE thread = ? ORDER BY number', thread)
        .map((row) => ({ ...row })),
    putArtifact(thread, hash, bytes, now) {
      if (!connection.get('SELECT 1 FROM threads WHERE id = ?', thread)) return noThread(thread);
      if (!connection.get('SELECT 1 FROM artifacts WHERE hash = ?', hash)) {
        const sql = 'INSERT INTO artifacts (hash, bytes, created) VALUES (?, ?, ?)';
        connection.run(sql, hash, bytes, now);
      }
      const use = 'INSERT OR IGNORE INTO artifact_uses (thread, hash) VALUES (?, ?)';
      connection.run(use, thread, hash);
      return ok(hash);
    },
    artifact(thread, hash) {
      const row = connection.get<{ bytes: Uint8Array }>(FIND, thread, hash);
      if (!row) return fail('not_found', `there is no artifact \`${hash}\``, { hash });
      return ok(row.bytes);
    },
    writeAudit(rows, now) {
      const time = new Date(now).toISOString();
      for (const { surface, caller, subject, operation, decision, reason } of rows) {
        // biome-ignore format: in the order of the statement
        connection.run(
          INSERT_AUDIT, time, surface, caller, subject, short(operation), decision, short(reason),
        );
      }
    },
    auditRows(limit, only) {
      const count = Math.max(0, Math.min(limit, MAX_READ));
      const where = only === undefined ? '' : 'WHERE decision = ?';
      const sql = `SELECT ${AUDIT} FROM audit ${where} ORDER BY id DESC LIMIT ?`;
      const values = only === undefined ? [count] : [only, count];
      const rows = connection.all<AuditEntry & { time: string }>(sql, ...values);
      return rows.reverse().map((row) => ({ ...row }));
    },
  };
}

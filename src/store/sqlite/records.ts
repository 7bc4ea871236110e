// What lies beside the journal: results that are too large for it (by the hash of their bytes, equal
// ones once), encrypted bytes of a thread by number, and the audit of what happens in threads.
import { createHash } from 'node:crypto';
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { AuditEntry, Sealed } from '../port.ts';
import { noThread } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_TEXT = 500;
const MAX_READ = 10_000;
const AUDIT = 'time, surface, caller, subject, operation, decision, reason';
const INSERT_AUDIT = `INSERT INTO audit (${AUDIT}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const KEEP = 'INSERT OR IGNORE INTO secrets (thread, number, sealed) VALUES (?, ?, ?)';
const FIND =
  'SELECT bytes FROM artifacts JOIN artifact_uses USING (hash) WHERE thread = ? AND hash = ?';

interface PutArtifact {
  thread: string;
  hash: string;
  bytes: Uint8Array;
  secrets: readonly Sealed[];
}

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

/** A number is given once; the same bytes again are the same secret. */
export function checkSecrets(
  connection: Connection,
  thread: string,
  secrets: readonly Sealed[],
): Outcome<null> {
  for (const { number, sealed } of secrets) {
    const sql = 'SELECT sealed FROM secrets WHERE thread = ? AND number = ?';
    const row = connection.get<Pick<Sealed, 'sealed'>>(sql, thread, number);
    if (!row || Buffer.compare(row.sealed, sealed) === 0) continue;
    const message = `secret ${number} of thread \`${thread}\` exists already: somebody else holds the thread`;
    return fail('conflict', message, { thread });
  }
  return ok(null);
}

export function keepSecrets(
  connection: Connection,
  thread: string,
  secrets: readonly Sealed[] = [],
): void {
  for (const { number, sealed } of secrets) connection.run(KEEP, thread, number, sealed);
}

export const readSecrets = (connection: Connection, thread: string): Sealed[] =>
  connection
    .all<Sealed>('SELECT number, sealed FROM secrets WHERE thread = ? ORDER BY number', thread)
    .map((row) => ({ ...row }));

export function putArtifact(
  connection: Connection,
  { thread, hash, bytes, secrets }: PutArtifact,
  now: number,
): Outcome<string> {
  const free = checkSecrets(connection, thread, secrets);
  if (!free.ok) return free;
  if (!connection.get('SELECT 1 FROM threads WHERE id = ?', thread)) return noThread(thread);
  if (!connection.get('SELECT 1 FROM artifacts WHERE hash = ?', hash)) {
    const sql = 'INSERT INTO artifacts (hash, bytes, created) VALUES (?, ?, ?)';
    connection.run(sql, hash, bytes, now);
  }
  const use = 'INSERT OR IGNORE INTO artifact_uses (thread, hash) VALUES (?, ?)';
  connection.run(use, thread, hash);
  keepSecrets(connection, thread, secrets);
  return ok(hash);
}

export function findArtifact(
  connection: Connection,
  thread: string,
  hash: string,
): Outcome<Uint8Array> {
  const row = connection.get<{ bytes: Uint8Array }>(FIND, thread, hash);
  if (!row) return fail('not_found', `there is no artifact \`${hash}\``, { hash });
  return ok(row.bytes);
}

export function writeAudit(connection: Connection, rows: readonly AuditEntry[], now: number): void {
  const time = new Date(now).toISOString();
  for (const { surface, caller, subject, operation, decision, reason } of rows) {
    // biome-ignore format: in the order of the statement
    connection.run(
      INSERT_AUDIT, time, surface, caller, subject, short(operation), decision, short(reason),
    );
  }
}

export function readAudit(
  connection: Connection,
  limit: number,
  only?: AuditEntry['decision'],
): (AuditEntry & { time: string })[] {
  const count = Math.max(0, Math.min(limit, MAX_READ));
  const where = only === undefined ? '' : 'WHERE decision = ?';
  const sql = `SELECT ${AUDIT} FROM audit ${where} ORDER BY id DESC LIMIT ?`;
  const values = only === undefined ? [count] : [only, count];
  const rows = connection.all<AuditEntry & { time: string }>(sql, ...values);
  return rows.reverse().map((row) => ({ ...row }));
}

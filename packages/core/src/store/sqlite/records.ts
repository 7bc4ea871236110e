// Stores artifacts (results that are too large for an event, each hash once), encrypted secrets of a
// thread by number, and the audit log.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { AuditFilter, AuditRow } from '../../kernel/index.ts';
import type { Sealed } from '../port.ts';
import { noThread, secretExists } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';

const MAX_READ = 100_000;
export const AUDIT = 'time, surface, caller, subject, operation, target, decision, reason';
const KEEP = 'INSERT OR IGNORE INTO secrets (thread, number, sealed) VALUES (?, ?, ?)';
const FIND =
  'SELECT bytes FROM artifacts JOIN artifact_uses USING (hash) WHERE thread = ? AND hash = ?';

export interface PutArtifact {
  thread: string;
  hash: string;
  bytes: Uint8Array;
  secrets: readonly Sealed[];
}

/** Fails with `conflict` if a number is in use for other bytes. Equal bytes are the same secret. */
export function checkSecrets(
  connection: Connection,
  thread: string,
  secrets: readonly Sealed[],
): Outcome<null> {
  for (const { number, sealed } of secrets) {
    const sql = 'SELECT sealed FROM secrets WHERE thread = ? AND number = ?';
    const row = connection.get<Pick<Sealed, 'sealed'>>(sql, thread, number);
    if (!row || Buffer.compare(row.sealed, sealed) === 0) continue;
    return secretExists(thread, number);
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
  if (!row) return fail('not_found', `artifact \`${hash}\` not found`, { hash });
  return ok(row.bytes);
}

/** SQL condition of each filter. `at` is the placeholder of the value. */
const WHERE: Readonly<Record<Exclude<keyof AuditFilter, 'limit'>, (at: string) => string>> = {
  decision: (at) => `decision = ${at}`,
  surface: (at) => `surface = ${at}`,
  thread: (at) => `${at} IN (caller, target)`,
  // The value is the whole id, or the part after its last slash.
  tool: (at) =>
    `operation LIKE 'tool:%' AND substr(operation, -1 - length(${at})) IN (':' || ${at}, '/' || ${at})`,
  since: (at) => `time >= ${at}`,
};

/** Returns the latest rows, oldest first. */
export function readAudit(connection: Connection, { limit, ...filter }: AuditFilter): AuditRow[] {
  const [texts, values]: [string[], string[]] = [[], []];
  for (const [name, where] of Object.entries(WHERE)) {
    const value = filter[name as keyof typeof filter];
    if (value === undefined) continue;
    values.push(value);
    texts.push(where(`?${values.length}`));
  }
  // With this condition SQLite can use the index `audit_refused`.
  if (filter.decision && filter.decision !== 'allowed') texts.push("decision <> 'allowed'");
  const where = texts.length > 0 ? `WHERE ${texts.join(' AND ')}` : '';
  const count = Math.max(0, Math.min(limit, MAX_READ));
  const sql = `SELECT ${AUDIT} FROM audit ${where} ORDER BY id DESC LIMIT ${count}`;
  const rows = connection.all<AuditRow>(sql, ...values);
  return rows.reverse().map((row) => ({ ...row }));
}

// Reads and writes the records beside the journal: accounts, artifacts by the hash of their bytes (equal bytes once),
// encrypted bytes of a thread by number, and the audit.
import { fail, ok } from '@kernmantle/core/base';
import type { AuditFilter, AuditRow } from '@kernmantle/core/kernel';
import type { Answer, Records, Sealed } from '@kernmantle/core/store';
import { hashArtifact, noThread, secretExists, toBudgetState } from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import { auditRowsOf, sealedRows } from './rows.ts';

const MAX_READ = 100_000;

const BUDGETS = 'SELECT thread, account::text AS account FROM budgets WHERE thread = ANY ($1)';
const THREAD = 'SELECT id FROM threads WHERE id = $1 FOR KEY SHARE';
const SECRET = 'SELECT km_secret($1, $2) AS number';
const KEEP = 'SELECT km_keep($1, $2)';
const PUT = `INSERT INTO artifacts (hash, bytes, created) VALUES ($1, $2, km_now()) ON CONFLICT DO NOTHING`;
const USE = 'INSERT INTO artifact_uses (thread, hash) VALUES ($1, $2) ON CONFLICT DO NOTHING';
// A concurrent prune waits for this lock, and then finds that the artifact is used.
const STAYS = 'SELECT hash FROM artifacts WHERE hash = $1 FOR KEY SHARE';
const FIND =
  'SELECT bytes FROM artifacts JOIN artifact_uses USING (hash) WHERE thread = $1 AND hash = $2';
const SECRETS = 'SELECT number, sealed FROM secrets WHERE thread = $1 ORDER BY number';

async function budgets(
  database: Database,
  threads: readonly string[],
): ReturnType<Records['budgets']> {
  const result = await database.read((sql) =>
    sql.all<{ thread: string; account: string }>(BUDGETS, threads),
  );
  if (!result.ok) return result;
  const states = new Map(
    result.output.map(({ thread, account }) => [thread, toBudgetState(thread, account)]),
  );
  const missing = threads.find((thread) => !states.has(thread));
  if (missing !== undefined) return noThread(missing);
  return ok(threads.flatMap((thread) => states.get(thread) ?? []));
}

/** Stores an artifact of an existing thread. Throws the refusal of one that is too large. */
export async function writeArtifact(sql: Sql, thread: string, bytes: Uint8Array): Promise<string> {
  const hash = hashArtifact(thread, bytes);
  if (!hash.ok) throw new RefusedWrite(hash);
  const { output: name } = hash;
  if (!(await sql.get(STAYS, name))) await sql.all(PUT, name, bytes);
  await sql.all(USE, thread, name);
  return name;
}

/** SQL condition of each filter. `at` is the parameter to compare with. */
const WHERE: Readonly<Record<Exclude<keyof AuditFilter, 'limit'>, (at: string) => string>> = {
  decision: (at) => `decision = ${at}`,
  surface: (at) => `surface = ${at}`,
  thread: (at) => `${at} IN (caller, target)`,
  // The value is the whole id, or the part after its last slash.
  tool: (at) =>
    `operation LIKE 'tool:%' AND right(operation, length(${at}) + 1) IN (':' || ${at}, '/' || ${at})`,
  since: (at) => `time COLLATE "C" >= ${at}`,
};

/** Returns the latest rows, oldest first. */
async function auditRows(
  database: Database,
  { limit, ...filter }: AuditFilter,
): Answer<AuditRow[]> {
  const [texts, values]: [string[], string[]] = [[], []];
  for (const [name, where] of Object.entries(WHERE)) {
    const value = filter[name as keyof typeof filter];
    if (value === undefined) continue;
    values.push(value);
    texts.push(where(`$${values.length}::text`));
  }
  // This condition lets the server use the index of refusals.
  if (filter.decision && filter.decision !== 'allowed') texts.push("decision <> 'allowed'");
  const where = texts.length > 0 ? `WHERE ${texts.join(' AND ')}` : '';
  const count = Math.max(0, Math.min(limit, MAX_READ));
  const text = `SELECT time, surface, caller, subject, operation, target, decision, reason
    FROM audit ${where} ORDER BY id DESC LIMIT ${count}`;
  const rows = await database.read((sql) => sql.all<AuditRow>(text, ...values));
  return rows.ok ? ok(rows.output.reverse()) : rows;
}

export function serverRecords(database: Database): Records {
  return {
    budgets: (threads) => budgets(database, threads),
    putArtifact: (thread, bytes, secrets = []) =>
      database.write(async (sql) => {
        if (!(await sql.get(THREAD, thread))) throw new RefusedWrite(noThread(thread));
        if (secrets.length > 0) {
          const rows = JSON.stringify(sealedRows(secrets));
          const used = await sql.get<{ number: number | null }>(SECRET, thread, rows);
          const { number = null } = used ?? {};
          if (number !== null) throw new RefusedWrite(secretExists(thread, number));
          await sql.all(KEEP, thread, rows);
        }
        return await writeArtifact(sql, thread, bytes);
      }),
    async artifact(thread, hash) {
      const result = await database.read((sql) =>
        sql.get<{ bytes: Uint8Array }>(FIND, thread, hash),
      );
      if (!result.ok) return result;
      if (!result.output) return fail('not_found', `artifact \`${hash}\` not found`, { hash });
      return ok(result.output.bytes);
    },
    secrets: (thread) => database.read((sql) => sql.all<Sealed>(SECRETS, thread)),
    audit: (rows) =>
      database.write(
        async (sql) => {
          await sql.all('SELECT km_audit($1, km_now())', JSON.stringify(auditRowsOf(rows)));
          return null;
        },
        { plain: true },
      ),
    auditRows: (filter) => auditRows(database, filter),
  };
}

// Defines tables and functions of a registry on a server. A commit touches the row of its thread and the end of
// its journal. No index contains a column that changes with every commit or renewal, so most updates stay on
// their page. An account has its own row, because children change the accounts of their ancestors. JSON that
// the server does not read is text, because its JSON types refuse some characters.
import { readFileSync } from 'node:fs';
import { AT_WORK, ENDED, INTERRUPTED_REASONS, REVOKING } from '@kernmantle/core/store';

/** Journal formats, as in a file, that this program reads. It writes the last of them. */
export const JOURNAL_FORMATS: readonly number[] = [3];
/** Clocks that differ by less count as equal, because a request and its answer can take as long. */
export const AGREE_MS = 5000;

// The build replaces each of these calls with the text of the file.
const TABLES = readFileSync(new URL('../../sql/schema-1.sql', import.meta.url), 'utf8');
const TITLES = readFileSync(new URL('../../sql/schema-2.sql', import.meta.url), 'utf8');
const ACCOUNTS = readFileSync(new URL('../../sql/schema-3.sql', import.meta.url), 'utf8');
const LASTING = readFileSync(new URL('../../sql/schema-4.sql', import.meta.url), 'utf8');
const SIGNALS = readFileSync(new URL('../../sql/signals.sql', import.meta.url), 'utf8');
const LEASES = readFileSync(new URL('../../sql/leases.sql', import.meta.url), 'utf8');
const WRITE = readFileSync(new URL('../../sql/write.sql', import.meta.url), 'utf8');
const LIMITS = readFileSync(new URL('../../sql/limits.sql', import.meta.url), 'utf8');

/**
 * The first step creates version 1 in an empty schema, and each later one the next version. Workers of versions
 * from `OLDEST_SCHEMA` on continue during and after a migration, so:
 * - A new column has a default. A column is dropped when no such worker uses it.
 * - A function is replaced in place if old and new programs can call it in the same way. With other parameters it
 *   gets another name, and the migration that raises `OLDEST_SCHEMA` drops the old one.
 * - A changed function needs a new version, even an empty one: a program never migrates a schema that is newer
 *   than itself, so it cannot restore its old functions.
 */
export const MIGRATIONS: readonly string[] = [TABLES, TITLES, ACCOUNTS, LASTING];
/** Programs from this version on can use the newest one. */
export const OLDEST_SCHEMA = 3;

const listOf = (statuses: readonly string[]): string =>
  statuses.map((status) => `'${status}'`).join(', ');

/** Constants of `thread-id.ts`, for the other functions. */
const CONSTANTS = `
CREATE OR REPLACE FUNCTION km_ended(p_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN p_status IN (${ENDED});
CREATE OR REPLACE FUNCTION km_at_work(p_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN p_status IN (${listOf(AT_WORK)});
CREATE OR REPLACE FUNCTION km_revokes(p_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN p_status IN (${listOf(REVOKING)});
CREATE OR REPLACE FUNCTION km_reason(p_cause text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN '${JSON.stringify(INTERRUPTED_REASONS)}'::json ->> p_cause;
CREATE OR REPLACE FUNCTION km_agree_ms() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ${AGREE_MS};
`;

/** All functions. Every migration writes them again. */
export const FUNCTIONS = `${CONSTANTS}${SIGNALS}${LEASES}${WRITE}${LIMITS}`;

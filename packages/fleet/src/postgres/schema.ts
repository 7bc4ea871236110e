// Tables and functions of a registry on a server. A commit touches the row of its thread and the end of its
// journal. No index contains a column that changes with every commit or renewal, so most updates stay on
// their page. An account has a row of its own, because children change the accounts above them. JSON that
// the server does not read is text, because its own types refuse some characters.
import { readFileSync } from 'node:fs';
import { AT_WORK, ENDED, INTERRUPTED_REASONS, REVOKING } from '@kernmantle/core/store';

/** Journal formats, as in a file, that this program reads. It writes the last of them. */
export const JOURNAL_FORMATS: readonly number[] = [2];
/** Two clocks that differ by less count as equal, because a question and its answer can take as long. */
export const AGREE_MS = 5000;

// The build replaces each of these calls with the text of the file.
const TABLES = readFileSync(new URL('../../sql/schema-1.sql', import.meta.url), 'utf8');
const TITLES = readFileSync(new URL('../../sql/schema-2.sql', import.meta.url), 'utf8');
const ACCOUNTS = readFileSync(new URL('../../sql/schema-3.sql', import.meta.url), 'utf8');
const SIGNALS = readFileSync(new URL('../../sql/signals.sql', import.meta.url), 'utf8');
const LEASES = readFileSync(new URL('../../sql/leases.sql', import.meta.url), 'utf8');
const WRITE = readFileSync(new URL('../../sql/write.sql', import.meta.url), 'utf8');
const LIMITS = readFileSync(new URL('../../sql/limits.sql', import.meta.url), 'utf8');

/**
 * The first makes version 1 of an empty schema, each one after it the next version. Workers of versions
 * from `OLDEST_SCHEMA` on keep working during and after a migration, so:
 * - A new column has a default. A column is dropped when no such worker uses it.
 * - A function is replaced in place if old and new programs can call it alike. With other parameters it gets
 *   another name, and the migration that raises `OLDEST_SCHEMA` drops the old one.
 * - A change of a function makes a version, if only an empty one: a program migrates no schema that is
 *   newer than itself, so it cannot restore its old functions.
 */
export const MIGRATIONS: readonly string[] = [TABLES, TITLES, ACCOUNTS];
/** Programs that know this version can use the newest one. */
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

/** Every migration writes all of them again. */
export const FUNCTIONS = `${CONSTANTS}${SIGNALS}${LEASES}${WRITE}${LIMITS}`;

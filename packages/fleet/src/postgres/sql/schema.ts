// The tables of a registry on a server. What a commit always touches is the thread's row and the end of
// its log: nothing that changes with every commit or renewal is in an index, so most updates stay on
// their page. Accounts are rows of their own, because children change those of their ancestors while
// these write. JSON is text (the server's own kind refuses some characters), amounts are arrays in the
// order of `BUDGET_KINDS`; a limit that is null is none.
import { AT_WORK, ENDED } from '@kernmantle/core/store';
import { COMMIT_FUNCTIONS } from './commit-functions.ts';
import { FLEET_FUNCTIONS, FLEET_TABLES } from './fleet-schema.ts';
import { LEASE_FUNCTIONS } from './lease-functions.ts';

/** Forms of the events, as in a file, that this program reads; it writes the last of them. */
export const JOURNAL_FORMATS: readonly number[] = [2];

const listOf = (statuses: readonly string[]): string =>
  statuses.map((status) => `'${status}'`).join(', ');

const TABLES = `
CREATE TABLE threads (
  number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  id text COLLATE "C" PRIMARY KEY, parent text COLLATE "C", root text COLLATE "C" NOT NULL,
  chain text[] NOT NULL, depth int NOT NULL, kind text NOT NULL, directive text NOT NULL,
  version text NOT NULL, runner text NOT NULL, tenant text, project text NOT NULL, items text,
  detached boolean NOT NULL, status text NOT NULL, seq int NOT NULL, epoch int NOT NULL,
  attempt int NOT NULL, owner text, lease_until bigint,
  wakes int NOT NULL DEFAULT 0, heard int NOT NULL DEFAULT 0, killed boolean NOT NULL DEFAULT false,
  queued bigint, priority int NOT NULL DEFAULT 0, job uuid, work uuid, format int NOT NULL DEFAULT 2,
  created bigint NOT NULL, updated bigint NOT NULL, ended bigint, cost text NOT NULL DEFAULT '{}'
) WITH (fillfactor = 70);
CREATE INDEX threads_by_status ON threads(status, created, id);
CREATE INDEX threads_by_creation ON threads(created, id);
CREATE INDEX threads_by_parent ON threads(parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_root ON threads(root);
CREATE INDEX threads_queued ON threads(project, coalesce(tenant, ''), format, queued) WHERE queued IS NOT NULL;
CREATE INDEX threads_held ON threads(id) WHERE owner IS NOT NULL;
CREATE INDEX threads_dropped ON threads(id)
  WHERE owner IS NULL AND queued IS NULL AND status IN (${listOf(AT_WORK)});

CREATE TABLE thread_data (
  thread text COLLATE "C" PRIMARY KEY, limits text NOT NULL, inputs text NOT NULL, result text, birth text
);
CREATE TABLE thread_events (
  thread bigint NOT NULL, seq int NOT NULL, ts bigint NOT NULL, turn int NOT NULL, type text NOT NULL,
  data text NOT NULL, PRIMARY KEY (thread, seq)
);
CREATE TABLE signals (
  thread text COLLATE "C" NOT NULL, number int NOT NULL, kind text NOT NULL, payload text NOT NULL,
  key text NOT NULL, sender text NOT NULL, ts bigint NOT NULL,
  PRIMARY KEY (thread, number), UNIQUE (thread, key)
);
CREATE TABLE budgets (
  thread text COLLATE "C" PRIMARY KEY, limits numeric[] NOT NULL,
  used numeric[] NOT NULL DEFAULT '{0,0,0,0,0}', reserved numeric[] NOT NULL DEFAULT '{0,0,0,0,0}'
) WITH (fillfactor = 70);
CREATE TABLE reservations (
  thread text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, amounts numeric[] NOT NULL,
  source text, standing boolean NOT NULL, PRIMARY KEY (thread, key)
);
CREATE TABLE approvals (
  id text COLLATE "C" PRIMARY KEY, thread text COLLATE "C", kind text NOT NULL, binding text NOT NULL,
  shown text NOT NULL, state text NOT NULL, uses_left bigint NOT NULL, expires bigint,
  asked bigint NOT NULL, decided bigint, who text, channel text, why text, answer text
);
CREATE INDEX approvals_by_binding ON approvals(md5(binding));
CREATE INDEX approvals_by_thread ON approvals(thread, asked, id);
CREATE INDEX approvals_by_state ON approvals(state, asked, id);
CREATE TABLE approval_uses (
  approval text COLLATE "C" NOT NULL, thread text COLLATE "C" NOT NULL, taken bigint NOT NULL,
  PRIMARY KEY (approval, thread)
);
CREATE TABLE artifacts (hash text COLLATE "C" PRIMARY KEY, bytes bytea NOT NULL, created bigint NOT NULL);
CREATE TABLE artifact_uses (
  thread text COLLATE "C" NOT NULL, hash text COLLATE "C" NOT NULL, PRIMARY KEY (thread, hash)
);
CREATE INDEX artifact_uses_by_hash ON artifact_uses(hash);
CREATE TABLE secrets (
  thread text COLLATE "C" NOT NULL, number int NOT NULL, sealed bytea NOT NULL,
  PRIMARY KEY (thread, number)
);
CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, time text NOT NULL, surface text NOT NULL,
  caller text NOT NULL, subject text NOT NULL, operation text NOT NULL, decision text NOT NULL,
  reason text NOT NULL, target text NOT NULL
);
CREATE INDEX audit_refused ON audit(decision, id) WHERE decision <> 'allowed';
${FLEET_TABLES}`;

/** Beside `thread_data`, so that a search reads no inputs and no results. */
const TITLES = `
ALTER TABLE threads ADD COLUMN IF NOT EXISTS title text;
CREATE TABLE IF NOT EXISTS search_texts (
  thread text COLLATE "C" PRIMARY KEY, first text NOT NULL, last text NOT NULL DEFAULT ''
);`;

/**
 * One after the other: the first makes version 1 out of nothing, each one after it the next version.
 * Workers of versions from `OLDEST_SCHEMA` on go on while and after a migration runs, so:
 * - Columns are added with a default, and go when no such worker is left that names them.
 * - A function is replaced in place when old and new programs can call it alike. With other parameters
 *   `CREATE OR REPLACE` leaves the old one beside it: the new one gets another name, and the old one is
 *   dropped, by its parameters, in the migration that raises `OLDEST_SCHEMA`.
 * - Whoever changes a function makes a version, if only an empty one: a program migrates nothing that is
 *   newer than itself, so it cannot put its old functions back.
 */
export const MIGRATIONS: readonly string[] = [TABLES, TITLES];
/** Programs that know this version still work with the newest one. */
export const OLDEST_SCHEMA = 1;

/** Whether a status is an end, and whether somebody must be at work, in the words of `thread-id.ts`. */
const WORDS = `
CREATE OR REPLACE FUNCTION km_ended(p_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN p_status IN (${ENDED});
CREATE OR REPLACE FUNCTION km_at_work(p_status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN p_status IN (${listOf(AT_WORK)});
`;

/** Written anew with every migration; those of an older version do the same for older workers. */
export const FUNCTIONS = `${WORDS}${LEASE_FUNCTIONS}${COMMIT_FUNCTIONS}${FLEET_FUNCTIONS}`;

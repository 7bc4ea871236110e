// Checks and migrates the schema of a registry. Opening a registry changes no table: the migration is a separate
// step in one transaction, before new programs start. The registry contains a proof of the key that created it.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { type Clock, fail, type Outcome, ok, type RandomBytes } from '@kernmantle/core/base';
import type { Answer } from '@kernmantle/core/store';
import {
  type Database,
  type DatabaseOptions,
  openDatabase,
  type Sql,
  sqlOf,
} from './connection.ts';
import { troubleOf } from './errors.ts';
import { migrateJobs } from './jobs.ts';
import { FUNCTIONS, JOURNAL_FORMATS, MIGRATIONS, OLDEST_SCHEMA } from './schema.ts';

const SERVER_SCHEMA_VERSION = MIGRATIONS.length;
const OLDEST_SERVER = 150_000;

export interface OwnedDatabase extends DatabaseOptions {
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Key of the user. A registry of another key fails with `store_foreign`. Absent: any registry opens. */
  readonly identity?: Uint8Array | undefined;
  /** Journal formats, with the meaning of `PostgresOptions`. */
  readonly formats?: readonly number[];
}

type About = Readonly<Partial<Record<'schema' | 'oldest' | 'journal' | 'id' | 'proof', string>>>;

/** Returns undefined if the schema has no registry. */
async function readAbout(sql: Sql): Promise<About | undefined> {
  const [there] = await sql.all<{ there: string | null }>(
    `SELECT to_regclass('about')::text AS there`,
  );
  if (!there || there.there === null) return undefined;
  const rows = await sql.all<{ name: string; value: string }>('SELECT name, value FROM about');
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

function newer(place: string, what: string, version: number, newest: number): Outcome<never> {
  const message = `the registry at ${place} was written by a newer kernmantle (${what} ${version}, this one reads ${newest}); update kernmantle`;
  return fail('store_newer', message, { place, [what]: version, known: newest });
}

/** Returns the versions of the registry and of this program. */
function versionsOf(about: About | undefined, { formats = JOURNAL_FORMATS }: OwnedDatabase) {
  const version = Number(about?.schema ?? 0);
  const oldest = Number(about?.oldest ?? version);
  return { version, oldest, journal: Number(about?.journal ?? 0), writes: formats.at(-1) ?? 0 };
}

/** Checks the schema. A newer journal format refuses no program. It only hides the threads of this format. */
function checkVersion(about: About | undefined, options: OwnedDatabase): Outcome<null> {
  const { shown: place } = options;
  const { version, oldest, journal, writes } = versionsOf(about, options);
  if (oldest > SERVER_SCHEMA_VERSION) return newer(place, 'schema', version, SERVER_SCHEMA_VERSION);
  if (version >= SERVER_SCHEMA_VERSION && journal >= writes) return ok(null);
  const [is, needed] =
    version === SERVER_SCHEMA_VERSION
      ? [`journal ${journal}`, writes]
      : [`schema ${version}`, SERVER_SCHEMA_VERSION];
  const what =
    version === 0
      ? `schema \`${options.place.schema}\` of ${place} has no registry`
      : `the registry at ${place} was written by an older kernmantle (${is}, this one needs ${needed})`;
  const detail = { place, schema: version, known: SERVER_SCHEMA_VERSION };
  return fail('store_failed', `${what}; run the migration first`, detail);
}

/** Refuses to migrate a registry that is newer than this program. */
function checkOlder(about: About | undefined, options: OwnedDatabase): Outcome<null> {
  const { shown: place } = options;
  const { version, journal, writes } = versionsOf(about, options);
  if (version > SERVER_SCHEMA_VERSION) {
    return newer(place, 'schema', version, SERVER_SCHEMA_VERSION);
  }
  return journal > writes ? newer(place, 'journal', journal, writes) : ok(null);
}

const proofOf = (identity: Uint8Array, id: string): string =>
  createHmac('sha256', identity).update(`kernmantle registry ${id}`).digest('hex');

function isMine(identity: Uint8Array, { id = '', proof = '' }: About): boolean {
  const [expected, actual] = [Buffer.from(proofOf(identity, id)), Buffer.from(proof)];
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}

const HOLDS_ANY = `SELECT EXISTS (SELECT 1 FROM budgets) OR EXISTS (SELECT 1 FROM approvals) AS "any"`;
const SIGN = 'INSERT INTO about (name, value) VALUES ($1, $2)';

/** Signs an empty registry. Fails with `store_foreign` if another key created it. */
async function checkOwner(sql: Sql, options: OwnedDatabase): Promise<Outcome<null>> {
  const { identity, random, shown } = options;
  if (!identity) return ok(null);
  let about = (await readAbout(sql)) ?? {};
  if (about.id === undefined && about.proof === undefined) {
    // The lock lets a second process find the proof of the first.
    await sql.all('LOCK TABLE about IN SHARE ROW EXCLUSIVE MODE');
    about = (await readAbout(sql)) ?? {};
    const holds = await sql.get<{ any: boolean }>(HOLDS_ANY);
    if (about.id === undefined && !holds?.any) {
      const newId = Buffer.from(random(16)).toString('hex');
      await sql.all(SIGN, 'id', newId);
      await sql.all(SIGN, 'proof', proofOf(identity, newId));
      return ok(null);
    }
  }
  if (isMine(identity, about)) return ok(null);
  const message = `the registry at ${shown} was created with another key, so its threads and approvals are ignored; use the key of the machine that created it, or another schema`;
  return fail('store_foreign', message, { place: shown });
}

interface ServerState {
  readonly server: number;
  readonly enters: boolean | null;
  readonly closed: string | null;
  readonly engine: boolean;
}

const STATE = `SELECT current_setting('server_version_num')::int AS server,
  (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1) AS enters,
  (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, 'SELECT')) AS closed,
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1 || '_jobs') AS engine`;

/** Checks the server and the rights of the user. Fails with `store_failed`. */
function checkServer({ schema, place }: Database, state: ServerState | undefined): Outcome<null> {
  const { server = 0, enters, closed } = state ?? {};
  const no = (what: string) => fail('store_failed', what, { place, server });
  if (server < OLDEST_SERVER) {
    return no(
      `the server at ${place} is PostgreSQL ${Math.floor(server / 10_000)}; 15 or newer is needed`,
    );
  }
  if (enters === false) return no(`this user cannot use schema \`${schema}\` of ${place}`);
  if (closed) return no(`this user cannot read ${closed} in schema \`${schema}\` of ${place}`);
  return ok(null);
}

/** Checks server, version and proof. Writes only to sign an empty registry. */
export async function checkForm(database: Database, options: OwnedDatabase): Answer<null> {
  const { schema, place } = database;
  const result = await database.read(async (sql) => {
    const state = await sql.get<ServerState>(STATE, schema);
    const usable = checkServer(database, state);
    return { usable, engine: state?.engine, about: usable.ok ? await readAbout(sql) : undefined };
    // The connection does not wait, so a wrong address is reported at once.
  }, 0);
  if (!result.ok) return result;
  const { usable, about, engine } = result.output;
  if (!usable.ok) return usable;
  const version = checkVersion(about, options);
  if (!version.ok) return version;
  if (!engine) {
    const message = `the registry at ${place} has no tables of the queue; run the migration first`;
    return fail('store_failed', message, { place });
  }
  const { identity } = options;
  if (!identity || isMine(identity, about ?? {})) return ok(null);
  const owned = await database.write((sql) => checkOwner(sql, options));
  return owned.ok ? owned.output : owned;
}

interface Migrated {
  readonly from: number;
  readonly to: number;
}

async function bringUp(sql: Sql, database: Database, options: OwnedDatabase): Answer<Migrated> {
  const { schema } = database;
  await sql.executeSql('SELECT pg_advisory_xact_lock(hashtext($1))', [`kernmantle ${schema}`]);
  await sql.executeSql(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  const about = await readAbout(sql);
  const check = checkOlder(about, options);
  if (!check.ok) return check;
  const { version: from, writes } = versionsOf(about, options);
  // The proof is checked first: the registry of another key is not changed.
  const before = about ? await checkOwner(sql, options) : ok(null);
  if (!before.ok) return before;
  if (!about) {
    await sql.executeSql('CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL)');
  }
  for (const step of MIGRATIONS.slice(from)) await sql.executeSql(step);
  await sql.executeSql(FUNCTIONS);
  const set = `INSERT INTO about (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
  await sql.executeSql(`INSERT INTO about (name, value)
    VALUES ('channel', replace(gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING`);
  await sql.executeSql(set, ['schema', String(SERVER_SCHEMA_VERSION)]);
  await sql.executeSql(set, ['oldest', String(OLDEST_SCHEMA)]);
  await sql.executeSql(set, ['journal', String(writes)]);
  const owned = await checkOwner(sql, options);
  return owned.ok ? ok({ from, to: SERVER_SCHEMA_VERSION }) : owned;
}

/** Migrates in one transaction. A second process waits and then finds the new version. */
export async function migrateStore(options: OwnedDatabase): Answer<Migrated> {
  const database = await openDatabase({ ...options, connections: 1 });
  if (!database.ok) return database;
  let client: Awaited<ReturnType<Database['connect']>> | undefined;
  try {
    // Another process can have the lock for a long time.
    client = await database.output.connect({ query_timeout: 0 });
    const [state] = await sqlOf(client).all<ServerState>(STATE, options.place.schema);
    const usable = checkServer(database.output, state);
    if (!usable.ok) return usable;
    await client.query('BEGIN');
    await client.query('SET LOCAL statement_timeout = 0');
    const result = await bringUp(sqlOf(client), database.output, options);
    await client.query(result.ok ? 'COMMIT' : 'ROLLBACK');
    // The queue migrates its own tables. After a stop in between, the next migration completes it.
    if (result.ok) await migrateJobs(options.place);
    return result;
  } catch (error) {
    return troubleOf(error, options.shown).failure;
  } finally {
    await client?.end().catch(() => {});
    await database.output.close();
  }
}

// Opens the file of the registry. It is inside a project, which can be untrusted, so the file is data and
// never code: links are not followed, triggers are refused, and functions in views or constraints cannot
// have effects. A registry decides which threads resume and which approvals count, so it contains a proof
// that the key of this user created it. A file of a newer or an older version is not changed.
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { type Clock, fail, type Outcome, ok, type RandomBytes } from '../../../base/index.ts';
import { type Connection, createConnection, pause, unreadable } from './connection.ts';
import { faultOf, isBusy } from './errors.ts';
import { APPLICATION_ID, CREATE_ALL, JOURNAL_VERSION, SCHEMA_VERSION } from './schema.ts';

/** A write with `commit` survives the end of the process. With `flush` it also survives a power loss. */
type Durability = 'commit' | 'flush';

export interface FileOptions {
  /** Path of the file, which is created if it does not exist. `:memory:`: the registry is never stored. */
  file: string;
  clock: Clock;
  random: RandomBytes;
  durability: Durability;
  /** Longest wait for other processes, in milliseconds. */
  patienceMs: number;
  /** Key of the user. A registry of another key fails with `store_foreign`. Absent: any registry opens. */
  identity?: Uint8Array;
  /** True: the file is only read. A file that cannot be written is opened in the same way. */
  readOnly?: boolean;
}

export interface OpenOptions extends FileOptions {
  /** Opens the database. Tests replace it to simulate failures. Absent: SQLite opens the file. */
  connect?: (file: string) => DatabaseSync;
}

/** Error codes of the system for a file that cannot be written. */
const MAY_NOT: ReadonlySet<string | undefined> = new Set(['EACCES', 'EPERM', 'EROFS']);

/** Creates the file if it does not exist. Returns `readOnly: true` if it cannot be written. */
function makeFile(file: string, readOnly: boolean): Outcome<{ readOnly: boolean }> {
  try {
    if (!readOnly) mkdirSync(dirname(file), { recursive: true });
    for (const beside of [`${file}-wal`, `${file}-shm`]) {
      const entry = lstatSync(beside, { throwIfNoEntry: false });
      if (entry && !entry.isFile()) return unreadable(beside, 'is not a regular file');
    }
    const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
    const access = readOnly ? O_RDONLY : O_RDWR | O_CREAT;
    const flags = access | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0);
    const handle = openSync(file, flags, 0o600);
    const isFile = fstatSync(handle).isFile();
    closeSync(handle);
    return isFile ? ok({ readOnly }) : unreadable(file, 'is not a regular file');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (MAY_NOT.has(code) && !readOnly && existsSync(file)) return makeFile(file, true);
    if (code === 'ENOSPC') return fail('disk_full', `the disk of \`${file}\` is full`, { file });
    const why = code === 'ELOOP' ? 'it is a link' : (code ?? message);
    return unreadable(file, `cannot be opened: ${why}`);
  }
}

const first = (connection: Connection, sql: string): unknown =>
  Object.values(connection.get(sql) ?? {})[0];

function newer(file: string, what: string, version: number, newest: number): Outcome<never> {
  return fail(
    'store_newer',
    `the registry \`${file}\` was written by a newer kernmantle (${what} ${version}, this one reads ${newest}); update kernmantle`,
    { file, [what]: version, known: newest },
  );
}

/** Returns the version of a registry, 0 for an empty file. Fails for other files and versions. */
function checkOrigin(connection: Connection, file: string): Outcome<number> {
  const version = Number(first(connection, 'PRAGMA user_version'));
  const application = Number(first(connection, 'PRAGMA application_id'));
  const tables = Number(first(connection, 'SELECT count(*) FROM sqlite_schema'));
  if (tables > 0 && application !== APPLICATION_ID) {
    return unreadable(file, 'is a database of another program; move it away');
  }
  if (version > SCHEMA_VERSION) return newer(file, 'schema', version, SCHEMA_VERSION);
  if (connection.get("SELECT name FROM sqlite_schema WHERE type = 'trigger'")) {
    return unreadable(file, 'contains triggers, which a registry never has; move it away');
  }
  if (version > 0 && version < SCHEMA_VERSION) {
    const older = `was written by an older kernmantle (schema ${version}, this one reads ${SCHEMA_VERSION})`;
    return unreadable(file, `${older}; move it away and start a new one`);
  }
  if (version === 0) return ok(version);
  const journal = Number(first(connection, "SELECT value FROM about WHERE name = 'journal'"));
  if (journal > JOURNAL_VERSION) return newer(file, 'journal', journal, JOURNAL_VERSION);
  return ok(version);
}

const proofOf = (identity: Uint8Array, id: string): string =>
  createHmac('sha256', identity).update(`kernmantle registry ${id}`).digest('hex');

function about(connection: Connection, name: 'id' | 'proof'): string {
  const value = first(connection, `SELECT value FROM about WHERE name = '${name}'`);
  return typeof value === 'string' ? value : '';
}

/** Returns true if the file has this version and the proof of the user, so it needs no write. */
const isReady = (connection: Connection, version: number, identity?: Uint8Array): boolean =>
  version === SCHEMA_VERSION &&
  (!identity || about(connection, 'proof') === proofOf(identity, about(connection, 'id')));

/** Signs an empty registry. Fails with `store_foreign` for a registry that another user created. */
function checkOwner(connection: Connection, options: FileOptions): Outcome<null> {
  const { file, identity, random } = options;
  if (!identity) return ok(null);
  const [id, proof] = [about(connection, 'id'), about(connection, 'proof')];
  const holdsAny = ['threads', 'approvals', 'pruned_budgets'].some((table) =>
    connection.get(`SELECT 1 FROM ${table}`),
  );
  if (id === '' && proof === '' && !holdsAny) {
    const newId = Buffer.from(random(16)).toString('hex');
    const sql = 'INSERT INTO about (name, value) VALUES (?, ?)';
    connection.run(sql, 'id', newId);
    connection.run(sql, 'proof', proofOf(identity, newId));
    return ok(null);
  }
  const [expected, actual] = [Buffer.from(proofOf(identity, id)), Buffer.from(proof)];
  if (actual.length === expected.length && timingSafeEqual(actual, expected)) return ok(null);
  return fail(
    'store_foreign',
    `the registry \`${file}\` was not created by you on this machine, so its threads and approvals are ignored; move it away and start a new one`,
    { file },
  );
}

/** Creates the tables in a transaction. It checks the file again, because another process may have done so. */
function bringUp(connection: Connection, options: FileOptions): Outcome<null> {
  const version = checkOrigin(connection, options.file);
  if (!version.ok) return version;
  if (version.output === 0) connection.exec(CREATE_ALL);
  // The owner is checked first, so that the file of another user is not changed.
  const owned = checkOwner(connection, options);
  if (!owned.ok) return owned;
  if (version.output === 0) {
    connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    connection.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  }
  return ok(null);
}

function prepare(connection: Connection, options: FileOptions): Outcome<null> {
  connection.exec('PRAGMA trusted_schema = OFF');
  // This check comes before any write, so that a file of another program is not changed.
  const origin = checkOrigin(connection, options.file);
  if (!origin.ok) return origin;
  const ready = isReady(connection, origin.output, options.identity);
  if (options.readOnly) {
    return ready
      ? ok(null)
      : unreadable(options.file, 'is read-only and not a registry of this version and user');
  }
  connection.exec('PRAGMA journal_mode = WAL');
  connection.exec(`PRAGMA synchronous = ${options.durability === 'flush' ? 'FULL' : 'NORMAL'}`);
  connection.exec('PRAGMA journal_size_limit = 67108864');
  // A reader must not wait for a long write of another process.
  if (ready) return ok(null);
  connection.exec('BEGIN IMMEDIATE');
  const result = bringUp(connection, options);
  if (result.ok) connection.commit();
  else connection.rollback();
  return result;
}

async function patiently(connection: Connection, options: FileOptions): Promise<Outcome<null>> {
  const deadline = options.clock.monotonic() + options.patienceMs;
  for (let tries = 0; ; tries++) {
    try {
      return prepare(connection, options);
    } catch (error) {
      connection.rollback();
      if (!isBusy(error) || options.clock.monotonic() >= deadline) return connection.fault(error);
    }
    await pause(options.random, tries);
  }
}

/**
 * Opens a file for reading. If its folder cannot be written, no log can be shared, so a file without a log
 * is read as it is.
 */
function lookAt(file: string): DatabaseSync {
  const { DatabaseSync: Database } = process.getBuiltinModule('node:sqlite');
  const plain = new Database(file, { readOnly: true, timeout: 0 });
  try {
    plain.prepare('SELECT count(*) FROM sqlite_schema').get();
    return plain;
  } catch (error) {
    plain.close();
    if ((lstatSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) throw error;
  }
  const still = pathToFileURL(file);
  still.searchParams.set('immutable', '1');
  return new Database(still, { readOnly: true, timeout: 0 });
}

export async function openFile(request: OpenOptions): Promise<Outcome<Connection>> {
  const { file } = request;
  const target =
    file === ':memory:' ? ok({ readOnly: false }) : makeFile(file, request.readOnly === true);
  if (!target.ok) return target;
  const { readOnly } = target.output;
  const options = { ...request, readOnly };
  // SQLite is loaded here, not at import, because most commands never open a registry.
  const connect =
    options.connect ??
    (readOnly
      ? lookAt
      : () => new (process.getBuiltinModule('node:sqlite').DatabaseSync)(file, { timeout: 0 }));
  let connection: Connection;
  try {
    connection = createConnection(connect(file), file);
  } catch (error) {
    return faultOf(error, file);
  }
  const ready = await patiently(connection, options);
  if (ready.ok) return ok(connection);
  connection.close();
  return ready;
}

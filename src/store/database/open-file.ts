// Opens the registry's file. It lies inside a project, and the project may be a stranger's, so the
// file is data, never code: links are not followed, triggers are refused, and functions in views or
// constraints may not have effects. A file of a newer version is left alone.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { fail, type Outcome, ok, type RandomBytes } from '../../base/index.ts';
import {
  createDatabase,
  type Database,
  type DatabasePorts,
  faultOf,
  unreadable,
} from './database.ts';
import { APPLICATION_ID, MIGRATIONS } from './schema.ts';

/** `commit` survives the end of the process, `flush` also the loss of power. */
export type Durability = 'commit' | 'flush';

function makeFile(file: string): Outcome<null> {
  try {
    mkdirSync(dirname(file), { recursive: true });
    for (const beside of [`${file}-wal`, `${file}-shm`]) {
      const there = lstatSync(beside, { throwIfNoEntry: false });
      if (there && !there.isFile()) return unreadable(beside, 'is not a regular file');
    }
    const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants;
    const flags = O_RDWR | O_CREAT | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0);
    const handle = openSync(file, flags, 0o600);
    const isFile = fstatSync(handle).isFile();
    closeSync(handle);
    return isFile ? ok(null) : unreadable(file, 'is not a regular file');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC') return fail('disk_full', `\`${file}\`: the disk is full`, { file });
    const why = code === 'ELOOP' ? 'it is a link' : (code ?? message);
    return unreadable(file, `cannot be opened: ${why}`);
  }
}

const integer = (database: Database, pragma: string): number =>
  Number(Object.values(database.get(`PRAGMA ${pragma}`) ?? {})[0] ?? 0);

function checkOrigin(database: Database, file: string): Outcome<number> {
  const [version, application] = [
    integer(database, 'user_version'),
    integer(database, 'application_id'),
  ];
  const tables = Number(database.get('SELECT count(*) AS n FROM sqlite_schema')?.['n']);
  if (tables > 0 && application !== APPLICATION_ID) {
    return unreadable(file, 'is a database of another program; move it away');
  }
  if (version > MIGRATIONS.length) {
    return fail(
      'store_newer',
      `the registry \`${file}\` was written by a newer kernmantle (schema ${version}, this one knows ${MIGRATIONS.length}); update kernmantle`,
      { file, schema: version, known: MIGRATIONS.length },
    );
  }
  if (database.get("SELECT name FROM sqlite_schema WHERE type = 'trigger'")) {
    return unreadable(file, 'holds triggers, which are not ours; move it away');
  }
  return ok(version);
}

function migrate(connection: DatabaseSync, database: Database, file: string): Outcome<null> {
  const before = database.read(() => checkOrigin(database, file));
  if (!before.ok) return before;
  if (before.output === MIGRATIONS.length) return ok(null);
  return database.write(() => {
    // Looked at again: another process may have done it while we waited.
    const version = checkOrigin(database, file);
    if (!version.ok) return version;
    for (const step of MIGRATIONS.slice(version.output)) connection.exec(step);
    connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    connection.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    return ok(null);
  });
}

export function openDatabase(
  file: string,
  ports: DatabasePorts,
  durability: Durability,
): Outcome<Database> {
  const made = makeFile(file);
  if (!made.ok) return made;
  // Loaded here, not at import: most commands never open a registry.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  let connection: DatabaseSync;
  try {
    connection = new DatabaseSync(file, { timeout: 0 });
  } catch (error) {
    return faultOf(error, file);
  }
  const database = createDatabase(connection, file, ports);
  const ready = database.read(() => {
    connection.exec('PRAGMA trusted_schema = OFF');
    // Before anything is written: a file that is not ours stays as it is.
    const origin = checkOrigin(database, file);
    if (!origin.ok) return origin;
    connection.exec('PRAGMA journal_mode = WAL');
    connection.exec(`PRAGMA synchronous = ${durability === 'flush' ? 'FULL' : 'NORMAL'}`);
    connection.exec('PRAGMA journal_size_limit = 67108864');
    return ok(null);
  });
  const current = ready.ok ? migrate(connection, database, file) : ready;
  if (current.ok) return ok(database);
  database.close();
  return current;
}

// A registry steers: it says which threads to resume and what people approved. One that came with a
// stranger's project must not. So the file carries a proof that it was made with this user's key.

const proofOf = (identity: Uint8Array, id: string): string =>
  createHmac('sha256', identity).update(`kernmantle registry ${id}`).digest('hex');

function read(database: Database, name: string): string {
  const row = database.get('SELECT value FROM about WHERE name = ?', name);
  return typeof row?.['value'] === 'string' ? row['value'] : '';
}

function sign(database: Database, identity: Uint8Array, random: RandomBytes): Outcome<null> {
  const id = Buffer.from(random(16)).toString('hex');
  const sql = 'INSERT INTO about (name, value) VALUES (?, ?)';
  database.run(sql, 'id', id);
  database.run(sql, 'proof', proofOf(identity, id));
  return ok(null);
}

/** Signs a registry that is still empty; `store_foreign` for one that somebody else made. */
export function checkOwner(
  database: Database,
  file: string,
  identity: Uint8Array,
  random: RandomBytes,
): Outcome<null> {
  return database.write(() => {
    const isEmpty =
      !database.get('SELECT 1 FROM about') &&
      !database.get('SELECT 1 FROM budgets') &&
      !database.get('SELECT 1 FROM threads') &&
      !database.get('SELECT 1 FROM approvals');
    if (isEmpty) return sign(database, identity, random);
    const wanted = Buffer.from(proofOf(identity, read(database, 'id')));
    const found = Buffer.from(read(database, 'proof'));
    if (found.length === wanted.length && timingSafeEqual(found, wanted)) return ok(null);
    return fail(
      'store_foreign',
      `the registry \`${file}\` was not made by you on this machine, so its threads and approvals count for nothing; move it away and start a new one`,
      { file },
    );
  });
}

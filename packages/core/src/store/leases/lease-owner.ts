// Who holds a lease, by a name that tells whether that process can still be there. A pid alone is
// given out again; with the boot, the pid namespace and the time it started it names one process.
// INVARIANT: gone means proved gone. A frozen process is still there; one of another machine, boot
// or namespace, or one that cannot be looked at, is not known to be gone, and its lease is waited out.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

interface LeaseOwner {
  pid: number;
  /** One kernel from start to halt, and the pids that are counted together in it. */
  world: string;
  /** Clock ticks since the boot. */
  started: string;
}

/** What can be seen of processes; a test puts another one in its place. */
interface ProcessTable {
  /** Undefined where this cannot be found out. */
  world(): string | undefined;
  /** `absent` is a fact, undefined is not knowing. */
  look(pid: number): { started: string; isDead: boolean } | 'absent' | undefined;
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const BOOT = '/proc/sys/kernel/random/boot_id';

function readWorld(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const boot = attempt(() => readFileSync(BOOT, 'utf8').trim().replaceAll('-', ''));
  const pids = attempt(() => /\[(\d+)\]/.exec(readlinkSync('/proc/self/ns/pid'))?.[1]);
  return boot && pids && /^[0-9a-f]{32}$/.test(boot) ? `${boot}.${pids}` : undefined;
}

/** State and start time: fields 3 and 22, after a name that may hold anything. */
function readStat(pid: number): { state: string; started: string } | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, started] = [fields?.[0], fields?.[19]];
  return state !== undefined && /^\d+$/.test(started ?? '')
    ? { state, started: started as string }
    : undefined;
}

/** Killed and not yet collected by its parent: nothing of it runs any more. */
const isCorpse = (pid: number, state: string): boolean =>
  'ZX'.includes(state) && (attempt(() => readdirSync(`/proc/${pid}/task`))?.length ?? 2) <= 1;

function signalError(pid: number): string | undefined {
  try {
    process.kill(pid, 0);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
}

const systemProcesses: ProcessTable = {
  world: readWorld,
  look(pid) {
    // The kernel's own word: a folder under /proc may only be hidden from us.
    if (signalError(pid) === 'ESRCH') return 'absent';
    const stat = readStat(pid);
    return stat && { started: stat.started, isDead: isCorpse(pid, stat.state) };
  },
};

const FORM = /:(\d+)@([0-9a-f]{32}\.\d+)\.(\d+)$/;

/** Returns the name of a process. If processes cannot be told apart for certain, the name proves nothing. */
export function nameOwner(processes: ProcessTable = systemProcesses, pid = process.pid): string {
  const name = `${hostname()}:${pid}`;
  const [world, self] = [processes.world(), processes.look(pid)];
  return world === undefined || self === undefined || self === 'absent'
    ? name
    : `${name}@${world}.${self.started}`;
}

function readOwner(name: string): LeaseOwner | undefined {
  const [, pid = '', world = '', started = ''] = FORM.exec(name) ?? [];
  return pid === '' ? undefined : { pid: Number(pid), world, started };
}

/** Is the process behind this name certainly not there any more? */
export function isOwnerGone(name: string, processes: ProcessTable = systemProcesses): boolean {
  const owner = readOwner(name);
  if (!owner || owner.world !== processes.world()) return false;
  const found = processes.look(owner.pid);
  if (found === undefined) return false;
  return found === 'absent' || found.isDead || found.started !== owner.started;
}

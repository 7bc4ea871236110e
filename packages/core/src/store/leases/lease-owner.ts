// Names the owner of a lease so that another process can check if the owner still exists. The system reuses
// a pid, so the name also has the boot, the pid namespace and the start time.
// INVARIANT: a process is never called gone without proof. A frozen process exists. A process of another
// machine, boot or namespace cannot be checked, so its lease must expire.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

interface LeaseOwner {
  pid: number;
  /** Identifies one boot of the machine and one pid namespace. */
  world: string;
  /** Start time of the process in clock ticks since the boot. */
  started: string;
}

/** Facts about the processes of this machine. Tests replace it. */
interface ProcessTable {
  /** Returns `undefined` if the system does not show it. */
  world(): string | undefined;
  /** `absent`: the process does not exist. `undefined`: the state is unknown. */
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

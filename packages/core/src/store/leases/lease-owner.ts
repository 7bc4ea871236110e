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

/** Reads fields 3 and 22 of a process. The name before them can contain any character, so `)` ends it. */
function readStat(pid: number): { state: string; started: string } | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, started] = [fields?.[0], fields?.[19]];
  return state !== undefined && /^\d+$/.test(started ?? '')
    ? { state, started: started as string }
    : undefined;
}

/** Returns true for a killed process that its parent has not collected. No task of it runs. */
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
    // Only the kernel is certain, because a folder under /proc can be hidden from this process.
    if (signalError(pid) === 'ESRCH') return 'absent';
    const stat = readStat(pid);
    return stat && { started: stat.started, isDead: isCorpse(pid, stat.state) };
  },
};

const FORM = /:(\d+)@([0-9a-f]{32}\.\d+)\.(\d+)$/;

/** Returns the name of a process. Without boot or start time, the name is not a proof of identity. */
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

/** Returns true only if the process with this name certainly does not exist. */
export function isOwnerGone(name: string, processes: ProcessTable = systemProcesses): boolean {
  const owner = readOwner(name);
  if (!owner || owner.world !== processes.world()) return false;
  const entry = processes.look(owner.pid);
  if (entry === undefined) return false;
  return entry === 'absent' || entry.isDead || entry.started !== owner.started;
}

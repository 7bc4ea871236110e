// Ending a process with everything it started. A child runs in a group of its own; what left the
// group is found by its parents. Inside bubblewrap the pid namespace takes everything with it.
import { readFileSync } from 'node:fs';

const childrenOf = (pid: number): number[] => {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  } catch {
    return []; // gone already, or a system without /proc
  }
};

/** Every living descendant, parents before children. */
export function descendants(pid: number): number[] {
  const found: number[] = [];
  for (let level = [pid]; level.length > 0; ) {
    level = level.flatMap(childrenOf);
    found.push(...level);
  }
  return found;
}

/** False when there is nothing to signal any more. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/**
 * Asks politely. Under bubblewrap only what runs inside is asked: a signal to bubblewrap itself
 * would take the namespace down at once and leave no time to clean up.
 */
export function terminate(pid: number, isSandboxed: boolean): void {
  const inside = isSandboxed ? childrenOf(pid).flatMap(descendants) : descendants(pid);
  const asked = inside.map((child) => send(child, 'SIGTERM'));
  if (!isSandboxed || !asked.includes(true)) send(-pid, 'SIGTERM');
}

/** Ends the group and every descendant, also those that started a group of their own. */
export function killTree(pid: number): void {
  const all = descendants(pid);
  send(-pid, 'SIGKILL');
  for (const child of all) send(child, 'SIGKILL');
}

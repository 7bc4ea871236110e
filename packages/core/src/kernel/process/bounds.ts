// Bounds the resources of one child. The system bounds memory and open files for each of its processes,
// and the number of processes of the sandbox.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SANDBOX_PATH } from '../sandbox/plan.ts';
import { isExecutable } from '../sandbox/visible.ts';

export interface ProcessBounds {
  memoryMb: number;
  processes: number;
  openFiles: number;
}

const MB = 1024 * 1024;

const attempt = <T>(act: () => T): T | undefined => {
  try {
    return act();
  } catch {
    return undefined;
  }
};

/**
 * Returns the requested bound, or the bound of this process if that is lower. A child cannot get more than
 * its parent.
 */
function atMost(name: string, requested: number): number {
  const limits = attempt(() => readFileSync('/proc/self/limits', 'utf8')) ?? '';
  const [, hard] = new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, 'm').exec(limits) ?? [];
  return hard === undefined ? requested : Math.min(requested, Number(hard));
}

/**
 * Returns a command line that sets the bounds and then becomes the command. The number of processes is
 * bounded only in a namespace.
 */
export function withBounds(
  command: readonly string[],
  bounds: ProcessBounds,
  isOwnNamespace: boolean,
): readonly string[] {
  const memory = atMost('Max data size', bounds.memoryMb * MB);
  const openFiles = atMost('Max open files', bounds.openFiles);
  const processes = atMost('Max processes', bounds.processes);
  const prlimit = SANDBOX_PATH.split(':')
    .map((folder) => join(folder, 'prlimit'))
    .find(isExecutable);
  if (prlimit === undefined) {
    const script = `ulimit -n ${openFiles}; ulimit -d ${Math.floor(memory / 1024)}; exec "$@"`;
    return ['/bin/sh', '-c', script.replaceAll(';', ' 2>/dev/null;'), 'sh', ...command];
  }
  return [
    prlimit,
    `--data=${memory}`,
    `--nofile=${openFiles}`,
    ...(isOwnNamespace ? [`--nproc=${processes}`] : []),
    '--core=0',
    '--',
    ...command,
  ];
}

const POLL_MS = 100;

/** The bound that a child exceeded. */
export type Overrun = 'processes' | 'memory';

const kilobytes = (text: string, fields: RegExp): number =>
  [...text.matchAll(fields)].reduce((sum, [, figure]) => sum + Number(figure), 0);

/**
 * Returns the memory of a process in kB, without mapped files of the disk. `isExact` counts a shared
 * page in parts, which takes longer to read.
 */
function memoryOf(pid: number, isExact: boolean): number {
  const read = (file: string) =>
    attempt(() => readFileSync(`/proc/${pid}/${file}`, 'latin1')) ?? '';
  const exact = isExact ? read('smaps_rollup') : '';
  return exact === ''
    ? kilobytes(read('status'), /^(?:RssAnon|RssShmem|VmSwap):\s*(\d+)/gm)
    : kilobytes(exact, /^(?:Pss_Anon|Pss_Shmem|SwapPss):\s*(\d+)/gm);
}

/**
 * Ends a child that exceeds its bounds. Returns a function that stops the watch and returns the exceeded
 * bound. The system bounds the memory of each process, but not their sum and not shared memory, and it
 * does not count processes of root.
 */
export function watchBounds(
  { processes, memoryMb }: ProcessBounds,
  family: () => readonly number[],
  end: () => void,
): () => Overrun | undefined {
  let overrun: Overrun | undefined;
  const isRoot = process.getuid?.() === 0;
  const isOver = (pids: readonly number[], isExact: boolean): boolean =>
    pids.reduce((sum, pid) => sum + memoryOf(pid, isExact), 0) > memoryMb * 1024;
  const timer = setInterval(() => {
    const pids = family();
    if (isRoot && pids.length > processes) overrun ??= 'processes';
    else if (isOver(pids, false) && isOver(pids, true)) overrun ??= 'memory';
    if (overrun) end();
  }, POLL_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    return overrun;
  };
}

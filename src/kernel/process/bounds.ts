// How much of the machine one child may take. The system counts memory and open files for each of its
// processes, and the processes of the sandbox.
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

/** What we ourselves may not go beyond cannot be given to a child. */
function atMost(name: string, wanted: number): number {
  const limits = attempt(() => readFileSync('/proc/self/limits', 'utf8')) ?? '';
  const [, hard] = new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, 'm').exec(limits) ?? [];
  return hard === undefined ? wanted : Math.min(wanted, Number(hard));
}

/** A command line that sets the bounds and becomes the command. Processes: of a namespace alone. */
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

const LOOK_MS = 100;

/**
 * The system does not count processes of root, so they are counted here, every now and then. Too many
 * are ended together. The answer stops the counting and says whether it came to that.
 */
export function watchCount(
  { processes }: ProcessBounds,
  count: () => number,
  end: () => void,
): () => boolean {
  let isOver = false;
  if (process.getuid?.() !== 0) return () => isOver;
  const timer = setInterval(() => {
    if (count() <= processes) return;
    isOver = true;
    end();
  }, LOOK_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    return isOver;
  };
}

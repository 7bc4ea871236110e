// Starts the processes of a benchmark, waits until they are ready, and ends them.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Started {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly lines: readonly string[];
  /** Resolves with the first line with this start, which can be an earlier one. */
  said(start: string): Promise<string>;
  /** Ends the process and waits for its exit. */
  end(): Promise<void>;
}

/** Starts a program. `file` is a path, or a name in this folder. */
export function start(
  file: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Started {
  const script = fileURLToPath(new URL(file, import.meta.url));
  const child = spawn(process.execPath, ['--no-warnings', script, ...args], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  const tell = (): void => {
    for (const look of waiting) look();
  };
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    tell();
  });
  const over = once(child, 'exit').then(tell);
  return {
    pid: child.pid ?? 0,
    child,
    lines,
    said: (begin) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = lines.find((line) => line.startsWith(begin));
          if (found === undefined && child.exitCode === null && child.signalCode === null) return;
          waiting.delete(look);
          if (found === undefined) reject(new Error(`${file} ended without saying \`${begin}\``));
          else resolve(found);
        };
        waiting.add(look);
        look();
      }),
    async end() {
      child.kill('SIGTERM');
      await over;
    },
  };
}

/** Returns the smallest value that is at least as large as `part` of the values. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN;
}

// Processes of a benchmark: started, waited for until they say they are up, ended.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Started {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly lines: readonly string[];
  /** The next line that begins so, also one that was said already. */
  said(start: string): Promise<string>;
  /** Asks it to end, and waits. */
  end(): Promise<void>;
}

/** `file` beside this one, or a whole path. */
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

/** At least as many as `part` of them are at most this. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN;
}

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const REPORT = fileURLToPath(new URL('./report-cpu.mjs', import.meta.url));

export interface Measured {
  cpuMillis: number;
  peakMegabytes: number;
}

/** Returns the CPU of a whole Node process. */
export function measureProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Measured {
  const done = spawnSync(process.execPath, ['--import', REPORT, ...args], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1', ...env },
  });
  const [, micros, kilobytes] = /cpu-micros (\d+) peak-kilobytes (\d+)/.exec(done.stderr) ?? [];
  if (done.status !== 0 || micros === undefined) throw new Error(done.stderr);
  return { cpuMillis: Number(micros) / 1000, peakMegabytes: Number(kilobytes) / 1024 };
}

export const cpuMillis = (args: readonly string[]): number => measureProcess(args).cpuMillis;

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const REPORT = fileURLToPath(new URL('./report-cpu.mjs', import.meta.url));

/** CPU of a whole Node process, from its start to its end. */
export function cpuMillis(args: readonly string[]): number {
  const done = spawnSync(process.execPath, ['--import', REPORT, ...args], {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  const micros = /cpu-micros (\d+)/.exec(done.stderr)?.[1];
  if (done.status !== 0 || micros === undefined) throw new Error(done.stderr);
  return Number(micros) / 1000;
}

// Measures the start of `km --help` in CPU of the whole process, compared with a Node that does nothing.
import { fileURLToPath } from 'node:url';
import { cpuMillis } from './process-cpu.ts';
import type { BenchRow } from './row.ts';

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const ROUNDS = 9;

export async function bench(): Promise<BenchRow[]> {
  const launcher = path('../bin/km.js');
  const bare: number[] = [];
  const commands = ['--help', '--version'].map((flag) => ({ flag, millis: [] as number[] }));
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(cpuMillis(['-e', '0']));
    for (const { flag, millis } of commands) millis.push(cpuMillis([launcher, flag]));
  }
  const base = Math.min(...bare);
  return commands.map(({ flag, millis }) => {
    const ours = Math.min(...millis);
    return {
      name: `start-up of \`km ${flag}\``,
      ours,
      base,
      ratio: ours / base,
      unit: 'ms CPU',
      target: 'under 80 ms over bare node',
      ok: ours - base < 80,
    };
  });
}

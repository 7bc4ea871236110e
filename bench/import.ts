// Measures the cost of the published library for a program, compared with a Node that does nothing: for the import, and
// for an opened project.
import { fileURLToPath } from 'node:url';
import { buildPackage } from '@kernmantle/test-support/built-package';
import { cpuMillis } from './process-cpu.ts';
import type { BenchRow } from './row.ts';

const ROUNDS = 9;
const LIMIT = 100;
const PROJECT = fileURLToPath(new URL('../bundle/demo', import.meta.url));

const programs = (library: string): Readonly<Record<string, string>> => ({
  'import of the library': `await import(${library})`,
  'import, and a project opened': `
    const { createRuntime } = await import(${library});
    const opened = await createRuntime({ project: ${JSON.stringify(PROJECT)} });
    if (!opened.ok || opened.output.instructions() === '') throw new Error('nothing was opened');
    await opened.output.close();`,
});

export async function bench(): Promise<BenchRow[]> {
  const built = buildPackage();
  try {
    const library = JSON.stringify(`${built.dir}/dist/index.js`);
    const subjects = Object.entries({ bare: '0', ...programs(library) });
    const best = new Map<string, number>();
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, code] of subjects) {
        const millis = cpuMillis(['--input-type=module', '-e', code]);
        best.set(name, Math.min(best.get(name) ?? Number.POSITIVE_INFINITY, millis));
      }
    }
    const base = best.get('bare') ?? 0;
    return subjects.slice(1).map(([name]) => {
      const ours = best.get(name) ?? Number.POSITIVE_INFINITY;
      return {
        name,
        ours,
        base,
        ratio: ours / base,
        unit: 'ms CPU',
        target: `under ${LIMIT} ms over bare node`,
        ok: ours - base < LIMIT,
      };
    });
  } finally {
    built.remove();
  }
}

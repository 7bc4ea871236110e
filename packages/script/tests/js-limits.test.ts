// A js block cannot affect other work in its process.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { expect, test } from 'vitest';

const engine = new URL('../src/js/engine.ts', import.meta.url).href;
const flow = new URL('../../core/src/flow/index.ts', import.meta.url).href;

/** Runs blocks in a separate process. Returns their results and its peak memory. */
function runBlocks(sources: readonly string[], limitMs: number) {
  const program = `
    import { createJsEngine } from ${JSON.stringify(engine)};
    import { EMPTY } from ${JSON.stringify(flow)};
    const run = createJsEngine();
    const ends = [];
    for (const source of ${JSON.stringify(sources)}) {
      const call = { source, parameters: [], mx: () => null, helpers: [], descriptor: EMPTY };
      const { error, output } = await run.run({ ...call, timeoutMs: ${limitMs} });
      ends.push(error?.detail.error ?? error?.code ?? output.value);
    }
    run.close();
    console.log(JSON.stringify({ ends, peakMB: process.resourceUsage().maxRSS / 1024 }));
  `;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return JSON.parse(stdout) as { ends: unknown[]; peakMB: number };
}

const FLOOD = 'const all = []; for (;;) all.push("x".repeat(2 ** 20) + all.length)';

test(
  'blocks that ask for all memory end one after the other, and the process stays small',
  () => {
    const small = runBlocks(['1 + 1'], 60_000);
    const { ends, peakMB } = runBlocks([...Array<string>(6).fill(FLOOD), '1 + 1'], 60_000);
    expect(ends).toEqual([...Array<string>(6).fill('out_of_memory'), 2]);
    // One memory of 64 MB, and one that is not yet collected.
    expect(peakMB - small.peakMB).toBeLessThan(200);
  },
  timeoutMs(120_000),
);

test('a block that never ends takes its time and no more', () => {
  const { ends } = runBlocks(['for (;;);', '1 + 1'], 300);
  expect(ends).toEqual(['timeout', 2]);
});

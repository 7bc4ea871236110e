// A process that has run many threads holds no more than one that has run few, and is no slower: counted in
// what is still there after a collection, and in time of the processor, never in that of a clock.
import { queryObjects, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createRuntime } from '@kernmantle/kernmantle';
import { isSoak, runs } from '@kernmantle/test-support/soak';
import {
  directive,
  directiveText,
  openStage,
  READ,
  read,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import type { ProgramRuntime as Runtime } from '../../../kernmantle/src/program.ts';
import { ok } from '../../src/base/index.ts';
import type { RuntimeOptions } from '../../src/runtime/index.ts';
import { openSqliteStore } from '../../src/store/index.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Functions close over everything else; array buffers are what no heap shows. */
async function held(): Promise<{ functions: number; buffers: number; bytes: number }> {
  for (let round = 0; round < 3; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  const { heapUsed, external, arrayBuffers: buffers } = process.memoryUsage();
  const functions = queryObjects(Function, { format: 'count' });
  return { functions, buffers, bytes: heapUsed + external };
}

const SCRIPT = directiveText('script').replace(
  '<step name="go">Do it</step>',
  '<script>var @sum = 1 + 1\nreturn { "sum": @sum }</script>',
);

/** As a program has it. */
async function open(options: RuntimeOptions = {}): Promise<Runtime> {
  const { fixture } = await openStage(
    { ...directive('talk', { permissions: READ }), '.ai/directives/script.md': SCRIPT },
    { talk: [read('notes/a.txt'), { text: 'done' }] },
  );
  const opened = await createRuntime({ project: fixture.root, env: fixture.env, ...options });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  onTestFinished(() => opened.output.close());
  return opened.output;
}

async function repeat(runtime: Runtime, name: string, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) {
    const done = await runtime.run({ directive: name });
    if (!done.ok || done.output.status !== 'completed') throw new Error(JSON.stringify(done));
  }
}

/** What bounded memories keep of the last thousands of threads: a few functions of keys and tokens each. */
const REMEMBERED = { functions: 25, threads: 2000 };

test.each([
  ['talk', 20_000],
  ['script', 5000],
])('threads that ran leave nothing in memory: %s', async (name, soaked) => {
  const runtime = await open();
  await repeat(runtime, name, 10);
  const before = await held();
  const count = runs(4, soaked);
  const used: number[] = [];
  for (let quarter = 0; quarter < 4; quarter += 1) {
    const began = process.cpuUsage();
    await repeat(runtime, name, count / 4);
    const { user, system } = process.cpuUsage(began);
    used.push(user + system);
  }
  const after = await held();
  expect(after.functions - before.functions).toBeLessThan(
    REMEMBERED.functions * Math.min(count, REMEMBERED.threads),
  );
  expect(after.buffers - before.buffers).toBeLessThan(10 * 1024 * Math.min(count, 500));
  if (!isSoak) return;
  expect(after.bytes - before.bytes).toBeLessThan(50 * 1024 * 1024);
  // Nor does a thread cost more than one before it.
  const [, second = 0, , last = 0] = used;
  expect(last / second).toBeLessThan(1.3);
});

test('a run does not search the registry for what others left behind each time', async () => {
  let sweeps = 0;
  const runtime = await open({
    async openStore(options) {
      const store = await openSqliteStore(options);
      if (!store.ok) return store;
      const sweep = () => {
        sweeps += 1;
        return store.output.sweep();
      };
      return ok({ ...store.output, sweep });
    },
  });
  await repeat(runtime, 'talk', 5);
  expect(sweeps).toBe(1);
});

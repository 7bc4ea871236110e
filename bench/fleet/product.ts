// Starts the whole product for a benchmark: a project with all features, a provider in its own process, and workers of
// the published package, started as a person starts them.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRuntime, type Runtime } from '@kernmantle/core/runtime';
import { buildPackage } from '@kernmantle/test-support/built-package';
import { EXTENSIONS } from '../../packages/kernmantle/src/extensions.ts';
import { stageDirective, startProvider, writeProject } from '../thread-stage.ts';
import { must } from './holder.ts';

export interface Product {
  readonly root: string;
  readonly runtime: Runtime;
  /** Starts a worker like `km worker`. Returns the id of its process. */
  startWorker(slots: number): Promise<number>;
  /** Ends the workers with SIGTERM and waits for them. */
  stopWorkers(): Promise<void>;
  /** Queues a thread and returns its id without waiting for it. */
  enqueue(directive: string): Promise<string>;
  ended(ids: readonly string[], withinMs: number): Promise<void>;
  close(): Promise<void>;
}

type Threads = Extract<Awaited<ReturnType<Runtime['threads']>>, { ok: true }>['output'];

/** Opens the product. `store` is an address. Empty: the registry in the folder of the project. */
export async function openProduct(store: string, directives: readonly string[]): Promise<Product> {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'km-product-')));
  const root = join(base, 'project');
  const home = join(base, 'home');
  mkdirSync(home, { recursive: true });
  mkdirSync(root);
  const built = buildPackage();
  const command = join(built.dir, 'bin', 'km.js');
  const provider = await startProvider('./provider.ts');
  const env: Record<string, string | undefined> = {
    ...process.env,
    KERNMANTLE_HOME: home,
    KERNMANTLE_SRC: undefined,
    KERNMANTLE_STORE: store,
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: 'key',
    NO_COLOR: '1',
    // This is the setting of examples/fleet.
    MALLOC_ARENA_MAX: '1',
    MALLOC_TRIM_THRESHOLD_: '65536',
    MALLOC_MMAP_THRESHOLD_: '65536',
  };
  const km = (...args: string[]): string =>
    execFileSync(process.execPath, ['--no-warnings', command, ...args], {
      cwd: root,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  km('init');
  const files = directives.map((name) => [
    `project/.ai/directives/${name}.md`,
    stageDirective(name),
  ]);
  writeProject(base, Object.fromEntries(files));
  writeFileSync(join(home, 'policy.yaml'), 'unsigned: allow\n', { mode: 0o600 });
  if (store !== '') km('store', 'migrate');
  const runtime = must(await createRuntime({ project: root, env, store, extensions: EXTENSIONS }));
  const threads: Threads = must(await runtime.threads({}));
  const workers: ReturnType<typeof spawn>[] = [];
  return {
    root,
    runtime,
    async startWorker(slots) {
      const args = [
        '--no-warnings',
        command,
        'worker',
        '--project',
        root,
        '--slots',
        String(slots),
      ];
      const child = spawn(process.execPath, args, {
        cwd: root,
        env,
        stdio: 'ignore',
      });
      workers.push(child);
      for (let tries = 0; tries < 300; tries++) {
        const heard = await threads.store.fleet?.workers();
        if (!heard?.ok || heard.output.length >= workers.length) break;
        await sleep(50);
      }
      return child.pid ?? 0;
    },
    async stopWorkers() {
      const over = workers.map((child) => new Promise((resolve) => child.once('exit', resolve)));
      for (const child of workers) child.kill('SIGTERM');
      await Promise.all(over);
      workers.length = 0;
    },
    async enqueue(directive) {
      return must(await threads.enqueue({ directive })).thread;
    },
    async ended(ids, withinMs) {
      const until = performance.now() + withinMs;
      for (const id of ids) {
        for (;;) {
          const { status } = must(await threads.store.thread(id));
          if (status === 'completed') break;
          if (['failed', 'limit', 'denied', 'aborted'].includes(status)) {
            throw new Error(`${id} ended ${status}`);
          }
          if (performance.now() > until) throw new Error(`${id} is ${status} after ${withinMs} ms`);
          await sleep(50);
        }
      }
    },
    async close() {
      for (const child of workers) child.kill('SIGKILL');
      await runtime.close();
      await provider.stop();
      built.remove();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

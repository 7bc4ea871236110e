// A project over a schema of its own on the server of the tests, a scripted provider, and real worker
// processes that say what they do.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { JsonObject } from '@kernmantle/core/base';
import { startScriptedProvider } from '@kernmantle/core/llm';
import type { Runtime, Threads } from '@kernmantle/core/runtime';
import { programWords } from '@kernmantle/test-support/built';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { directive } from '@kernmantle/test-support/thread-project';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';

const KM = join(import.meta.dirname, '../../../../bin/km.js');
export const PROJECT_ID = 'prj_0123456789abcdef';

/** Something that a worker said: a line of JSON. */
export type Said = JsonObject & { kind?: string; thread?: string };

export interface WorkerProcess {
  readonly child: ChildProcess;
  readonly said: Said[];
  /** Everything on its standard error. */
  errors(): string;
  hears(kind: string, count?: number): Promise<void>;
  /** With which exit code, or by which signal. */
  readonly ended: Promise<number | string>;
}

export interface WorkerStage {
  readonly fixture: Fixture;
  readonly store: string;
  readonly runtime: Runtime;
  readonly threads: Threads;
  /** How often the model was asked. */
  asked(): number;
  work(more?: readonly string[], env?: Fixture['env']): WorkerProcess;
  /** One of a program that knows these forms of the journal, with a clock that is so far off. */
  workAs(formats: readonly number[], clockOffMs?: number, address?: string): WorkerProcess;
}

/** Only words that a script says: no model is asked. */
const GREET = `
<directive name="greet" version="1.0.0">
  <metadata><description>x</description><category>test</category><limits/><permissions/></metadata>
  <outputs><said type="string">x</said></outputs>
  <process><script>/return {"said": "hello"}</script></process>
</directive>
`;

export const startWorkerProcess = (
  words: readonly string[],
  cwd: string,
  env: Fixture['env'],
): WorkerProcess => startSpeaking(['--no-warnings', KM, 'worker', '--json', ...words], cwd, env);

function startSpeaking(words: readonly string[], cwd: string, env: Fixture['env']): WorkerProcess {
  const child = spawn(process.execPath, words, {
    cwd,
    env: { ...env, KERNMANTLE_SRC: '1', NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: Said[] = [];
  let errors = '';
  child.stderr.on('data', (text) => {
    errors += String(text);
  });
  createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line)));
  const ended = once(child, 'close').then(([code, signal]): number | string => code ?? signal);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    child,
    said,
    errors: () => errors,
    ended,
    async hears(kind, count = 1) {
      const heard = () => said.filter((one) => one.kind === kind).length;
      // As a text, so that a failure shows what was said instead.
      const told = () => (heard() >= count ? kind : `${JSON.stringify(said.slice(-5))} ${errors}`);
      await expect.poll(told, { timeout: timeoutMs(60_000) }).toBe(kind);
    },
  };
}

let stages = 0;

export async function openWorkerStage(
  url: string,
  answer: Parameters<typeof startScriptedProvider>[0] = () => ({ text: 'done' }),
  files: Readonly<Record<string, string>> = {},
): Promise<WorkerStage> {
  stages += 1;
  const schema = `t_worker_${process.pid}_${stages}`;
  const store = `${url}?schema=${schema}`;
  let asked = 0;
  const provider = must(
    await startScriptedProvider(async (request) => {
      asked += 1;
      return typeof answer === 'function' ? await answer(request) : undefined;
    }),
  );
  const fixture = makeFixture({
    '../home/policy.yaml': TRUSTING,
    '.ai/config/project.yaml': `id: ${PROJECT_ID}\n`,
    '.ai/directives/greet.md': GREET,
    ...directive('talk'),
    ...files,
  });
  Object.assign(fixture.env, {
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: 'key',
  });
  const runtime = await fixture.open({ store });
  onTestFinished(async () => {
    await runtime.close();
    await provider.close();
    fixture.remove();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    for (const name of [schema, `${schema}_jobs`]) {
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
    }
    await client.end();
  });
  must(await runtime.registry.migrate());
  const threads = must(await runtime.threads());
  return {
    fixture,
    store,
    runtime,
    threads,
    asked: () => asked,
    work: (more = [], env = {}) =>
      startWorkerProcess(['--store', store, ...more], fixture.root, { ...fixture.env, ...env }),
    workAs: (formats, clockOffMs = 0, address = store) =>
      startSpeaking(
        programWords(
          'next-worker',
          address,
          fixture.root,
          PROJECT_ID,
          formats.join(),
          String(clockOffMs),
        ),
        fixture.root,
        fixture.env,
      ),
  };
}

// A project with an id, a scripted provider, a schema of its own on the test server, and workers when a
// test wants some: commands are typed as a person would.
import { randomBytes } from 'node:crypto';
import { type Outcome, ok } from '@kernmantle/core/base';
import { startScriptedProvider } from '@kernmantle/core/llm';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import type { Client } from 'pg';
import { onTestFinished } from 'vitest';
import { startWorker, type WorkerNews } from '../../src/index.ts';

type Script = Parameters<typeof startScriptedProvider>[0];

export interface CliStage {
  fixture: Fixture;
  /** Address of the schema of this test. */
  address: string;
  km(...words: string[]): Promise<Ran>;
  /** A worker in this process, until the test is over or it is told to end. */
  work(own?: Partial<RuntimeOptions>): Promise<() => Promise<void>>;
  /** What workers said. */
  readonly news: WorkerNews[];
  /** Asks the server itself, in the schema of this test; how many rows there were. */
  sql(text: string): Promise<number>;
}

export const got = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
};

const PROJECT = 'prj_0123456789abcdefghijklmn';

async function withClient<T>(server: string, work: (client: Client) => Promise<T>): Promise<T> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(server);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const dropSchema = (server: string, schema: string): Promise<void> =>
  withClient(server, async (client) => {
    for (const name of [schema, `${schema}_jobs`]) {
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
    }
  });

export async function openCliStage(
  server: string,
  files: Record<string, string>,
  script: Script,
): Promise<CliStage> {
  const provider = got(await startScriptedProvider(script));
  const fixture = makeFixture({
    '.ai/config/project.yaml': `id: ${PROJECT}\n`,
    'notes/a.txt': 'hello\n',
    '../home/policy.yaml': `${TRUSTING}surfaces: { web: { directives: all } }\n`,
    ...files,
  });
  const schema = `t_cli_${randomBytes(5).toString('hex')}`;
  const address = `${server}?schema=${schema}`;
  Object.assign(fixture.env, {
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: 'key',
    KERNMANTLE_STORE: address,
    USER: 'ann',
  });
  const over = new AbortController();
  const working: Promise<unknown>[] = [];
  const news: WorkerNews[] = [];
  onTestFinished(async () => {
    over.abort();
    await Promise.allSettled(working);
    await provider.close();
    await dropSchema(server, schema);
    fixture.remove();
  });
  return {
    fixture,
    address,
    news,
    km: (...words) => runCommand(words, fixture.root, fixture.env),
    async sql(text) {
      return await withClient(server, async (client) => {
        await client.query(`SET search_path = ${schema}`);
        return (await client.query(text)).rowCount ?? 0;
      });
    },
    async work(own = {}) {
      const place = { openStore: undefined as never, store: address };
      const runtime = await fixture.open({ ...place, ...own });
      const threads = got(await runtime.threads());
      const store = got(await runtime.registry.open());
      const items = async () => {
        const now = runtime.served();
        return now.ok ? ok(now.output.items) : now;
      };
      const project = { id: PROJECT, items, threads, close: () => Promise.resolve() };
      const id = `worker-${working.length + 1}`;
      const options = { id, version: '0', store, projects: [project], slots: 4 };
      const onNews = (one: WorkerNews): void => void news.push(one);
      const stop = new AbortController();
      const signal = AbortSignal.any([over.signal, stop.signal]);
      const done = startWorker({ ...options, signal, graceMs: 1000, onNews }).then(() =>
        runtime.close(),
      );
      working.push(done);
      return async () => {
        stop.abort();
        await done;
      };
    },
  };
}

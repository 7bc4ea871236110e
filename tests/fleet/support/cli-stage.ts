// A project with an id, a scripted provider, a schema of its own on the test server, and workers when a
// test wants some: commands are typed as a person would.
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import { type Outcome, ok } from '../../../src/base/index.ts';
import { startWorker } from '../../../src/fleet/index.ts';
import { startScriptedProvider } from '../../../src/llm/index.ts';
import { type Ran, runCommand } from '../../support/command-line.ts';
import { type Fixture, makeFixture, TRUSTING } from '../../support/project.ts';

type Script = Parameters<typeof startScriptedProvider>[0];

export interface CliStage {
  fixture: Fixture;
  /** Address of the schema of this test. */
  address: string;
  km(...words: string[]): Promise<Ran>;
  /** A worker in this process, until the test is over. */
  work(): Promise<void>;
}

export const got = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
};

const PROJECT = 'prj_0123456789abcdefghijklmn';

async function dropSchema(server: string, schema: string): Promise<void> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(server);
  await client.connect();
  for (const name of [schema, `${schema}_jobs`]) {
    await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
  }
  await client.end();
}

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
    km: (...words) => runCommand(words, fixture.root, fixture.env),
    async work() {
      const runtime = await fixture.open({ openStore: undefined as never, store: address });
      const threads = got(await runtime.threads());
      const store = got(await runtime.registry.open());
      const items = async () => {
        const now = runtime.served();
        return now.ok ? ok(now.output.items) : now;
      };
      const project = { id: PROJECT, items, threads, close: () => Promise.resolve() };
      const id = `worker-${working.length + 1}`;
      const options = { id, version: '0', store, projects: [project], slots: 4 };
      const done = startWorker({ ...options, signal: over.signal, graceMs: 1000 });
      working.push(done.then(() => runtime.close()));
    },
  };
}

// Tests a program that runs threads before it serves clients. Values that a guard has read are
// frozen then.
import { FOUR_TOOLS } from '@kernmantle/core/llm';
import { createRuntime, startServer } from '@kernmantle/kernmantle';
import { READ } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { connect } from './support/http.ts';
import { serve } from './support/threads.ts';

function freezeDeep(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  Object.freeze(value);
  for (const inside of Object.values(value)) freezeDeep(inside);
}

test.each(['modern', 'legacy'] as const)(
  'clients are served after a thread has run, %s',
  async (era) => {
    const { fixture } = await serve({ tidy: { permissions: READ } }, () => ({ text: 'All tidy.' }));
    const made = await createRuntime({ project: fixture.root, env: fixture.env });
    if (!made.ok) throw new Error(made.error.detail.message);
    const runtime = made.output;
    onTestFinished(() => runtime.close());
    const ran = await runtime.run({ directive: 'tidy' });
    expect(ran).toMatchObject({ ok: true, output: { status: 'completed' } });
    freezeDeep(FOUR_TOOLS);
    const started = await startServer(runtime);
    if (!started.ok) throw new Error(started.error.detail.message);
    onTestFinished(() => started.output.close());
    const client = await connect(started.output.url, era);
    onTestFinished(() => client.close());
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toEqual(['search', 'load', 'execute', 'help']);
  },
);

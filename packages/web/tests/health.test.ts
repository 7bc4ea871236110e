// `GET health`.
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';
import { addHealthRoutes } from '../src/server/routes/health.ts';
import { bareApi } from './support/bare-api.ts';

test('health is what doctor finds, with the figures of the server', async () => {
  const fixture = makeFixture();
  const runtime = await fixture.open();
  let now = 0;
  const clock = { now: () => now, monotonic: () => now };
  const api = bareApi(runtime, addHealthRoutes, 'view', clock);
  const { output } = await api.get('/health');
  expect(output).toMatchObject({
    healthy: true,
    server: { version: '1.2.3', started: 1, streams: 2, sockets: 1, running: 2, lag_ms: 4 },
  });
  const about = (output.findings as { about: string; state: string }[]).map((one) => one.about);
  expect(about).toEqual(expect.arrayContaining(['node', 'keys', 'policy', 'surface web', 'store']));
  fixture.write('.ai/policy.yaml', 'nonsense: [');
  const { findings } = (await api.get('/health')).output;
  // Asked again at once it is told the same: looking through everything is not free.
  expect(findings).toEqual(output.findings);
  now = 3001;
  expect((await api.get('/health')).output.healthy).toBe(false);
  await runtime.close();
  fixture.remove();
});

test('what is broken makes the whole unhealthy', async () => {
  const fixture = makeFixture({ '.ai/policy.yaml': 'nonsense: [' });
  const runtime = await fixture.open();
  const { output } = await bareApi(runtime, addHealthRoutes, 'view').get('/health');
  expect(output.healthy).toBe(false);
  expect(output.findings).toContainEqual(
    expect.objectContaining({ about: 'policy', state: 'bad' }),
  );
  await runtime.close();
  fixture.remove();
});

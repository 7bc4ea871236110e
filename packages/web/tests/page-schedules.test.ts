// Schedules in a real browser: what is next, what came of the last tick, and acts of a person with the role for it.
import { join } from 'node:path';
import { openSchedules, signFiles } from '@kernmantle/core/runtime';
import { must } from '@kernmantle/test-support/registry';
import { directive, READ, read, rows } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, LOOKS, openPage } from './support/browser.ts';
import { bearerOf, openServed } from './support/serve.ts';

const ADA = { who: 'ada', channel: 'cli' } as const;
const PLAY = { look: [read('notes/a.txt'), { text: 'done' }] };

browserTest('schedules are listed, paused, resumed and run; a viewer only looks', async () => {
  const served = await openServed(directive('look', { permissions: READ }), PLAY);
  must(signFiles(served.runtime, [join(served.fixture.root, '.ai/directives/look.md')], ADA));
  const schedules = await openSchedules(served.runtime);
  const nightly = { directive: 'look', tz: 'Europe/Berlin' };
  const request = { ...nightly, name: 'nightly', cron: '15 3 * * *', spend_per_day: '0.50' };
  must(await schedules.add(request, ADA));
  must(await schedules.add({ ...nightly, name: 'quarterly', cron: '*/15 8-18 * * 1-5' }, ADA));
  const { page, errors, reports } = await openPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(served.link());
  await page.getByRole('link', { name: 'Schedules', exact: true }).click();
  const row = page.getByRole('row', { name: /^nightly/ });
  await row.getByText('active').waitFor();
  await page.getByText('No server fires them').waitFor();
  await row.getByRole('button', { name: 'Run now' }).click();
  await row.getByText('manual').waitFor();
  expect(await rows(served)).toHaveLength(1);
  await row.getByRole('button', { name: 'Pause' }).click();
  await row.getByText('paused').waitFor();
  await page.screenshot({ path: join(LOOKS, 'schedules-desktop.png') });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: join(LOOKS, 'schedules-phone.png'), fullPage: true });
  const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  expect(await page.evaluate(overflow)).toBe(0);
  await row.getByRole('button', { name: 'Resume' }).click();
  await row.getByText('active').waitFor();
  const audit = must(await served.threads.store.auditRows({ limit: 50 }));
  const acts = audit.filter(({ surface }) => surface === 'web').map(({ operation }) => operation);
  expect(acts).toEqual(
    expect.arrayContaining(['schedule run', 'schedule pause', 'schedule resume']),
  );
  expect([errors, reports]).toEqual([[], []]);
  const viewer = { ...bearerOf(served.fixture, 'view'), 'content-type': 'application/json' };
  const denied = await fetch(`${served.url}/api/schedules/nightly/run`, {
    method: 'POST',
    headers: viewer,
    body: '{}',
  });
  expect(denied.status).toBe(403);
  const listed = await fetch(`${served.url}/api/schedules`, { headers: viewer });
  expect(await listed.json()).toMatchObject({
    output: { rows: [{ name: 'nightly', state: 'active', outcome: 'manual' }, {}], servers: 0 },
  });
});

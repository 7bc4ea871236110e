// Memory on the page: texts with their standing, and the acts of a person with the role for it.
import { join } from 'node:path';
import type { Runtime } from '@kernmantle/core/runtime';
import { makeFixture } from '@kernmantle/test-support/project';
import { must } from '@kernmantle/test-support/registry';
import { directive } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { addMemoryRoutes } from '../src/server/routes/memory.ts';
import { bareApi } from './support/bare-api.ts';
import { browserTest, LOOKS, openPage } from './support/browser.ts';
import { bearerOf, openServed } from './support/serve.ts';

/** Keeps one text for each label, as a thread does. */
async function keep(runtime: Runtime, labels: readonly string[]): Promise<void> {
  const { store } = must(await runtime.threads());
  const row = { tenant: '', project: runtime.project, scope: 'project', owner: '' } as const;
  const own = { subject: '', thread: 't', seq: 1, expires: null, endorsed_by: null };
  for (const label of labels) {
    const marks = { labels: [label], taint: [label], sources: ['tool:x'] };
    must(await store.changeMemory({ kind: 'write', row: { ...row, ...own, text: label, marks } }));
  }
}

test('the page lists the texts with their standing, and nothing before the first thread', async () => {
  const fixture = makeFixture();
  const runtime = await fixture.open();
  const api = bareApi(runtime, addMemoryRoutes, 'view');
  expect((await api.get('/memory')).output).toEqual({ memories: [], total: 0 });
  await keep(runtime, ['untrusted', 'plain']);
  const { memories, total } = (await api.get('/memory')).output;
  expect(total).toBe(2);
  expect(memories).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ text: 'untrusted', standing: 'stranger' }),
      expect.objectContaining({ text: 'plain', standing: 'note' }),
    ]),
  );
  await runtime.close();
  fixture.remove();
});

browserTest('a person endorses the text that they read, or removes it', async () => {
  const served = await openServed(directive('look', {}), {});
  await keep(served.runtime, ['untrusted', 'plain']);
  const { page, errors, reports } = await openPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(served.link());
  await page.getByRole('link', { name: 'Memory', exact: true }).click();
  const cards = page.locator('section.card');
  const stranger = cards.filter({ hasText: 'from strangers' });
  await stranger.waitFor();
  await page.screenshot({ path: join(LOOKS, 'memory-desktop.png') });
  await stranger.getByRole('button', { name: 'Endorse this text' }).click();
  await cards.filter({ hasText: 'confirmed by a person' }).waitFor();
  await cards
    .filter({ hasText: 'note of a model' })
    .getByRole('button', { name: 'Forget' })
    .click();
  await expect.poll(() => cards.count()).toBe(1);
  expect([errors, reports]).toEqual([[], []]);

  const post = async (role: 'approve' | 'steer' | 'view', path: string, body: object) => {
    const headers = { ...bearerOf(served.fixture, role), 'content-type': 'application/json' };
    const address = `${served.url}/api/memory/${path}`;
    const answer = await fetch(address, { method: 'POST', headers, body: JSON.stringify(body) });
    return answer.status;
  };
  const [row] = must(
    await served.threads.store.memories({ tenant: '', project: served.runtime.project }),
  );
  const id = row?.id ?? '';
  expect(await post('approve', `${id}/endorse`, { hash: '0'.repeat(64) })).toBe(409);
  expect(await post('approve', `${id}/endorse`, {})).toBe(400);
  expect(await post('approve', 'p_none/forget', {})).toBe(404);
  expect(await post('steer', `${id}/endorse`, { hash: '0'.repeat(64) })).toBe(403);
  expect(await post('view', `${id}/forget`, {})).toBe(403);
  const audit = must(await served.runtime.audit.read({ limit: 50 }));
  const acts = audit.filter(({ operation }) => operation.startsWith('memory:'));
  expect(acts.map(({ operation, surface }) => [surface, operation])).toEqual(
    expect.arrayContaining([
      ['web', 'memory:endorse'],
      ['web', 'memory:forget'],
    ]),
  );
});

// `GET memory`.
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';
import { addMemoryRoutes } from '../src/server/routes/memory.ts';
import { bareApi } from './support/bare-api.ts';

test('the page lists the texts with their standing, and nothing before the first thread', async () => {
  const fixture = makeFixture();
  const runtime = await fixture.open();
  const api = bareApi(runtime, addMemoryRoutes, 'view');
  expect((await api.get('/memory')).output).toEqual({ memories: [], total: 0 });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const { store } = threads.output;
  const row = { tenant: '', project: runtime.project, scope: 'project', owner: '' } as const;
  const own = { subject: '', thread: 't', seq: 1, expires: null, endorsed_by: null };
  for (const label of ['untrusted', 'plain']) {
    const marks = { labels: [label], taint: [label], sources: ['tool:x'] };
    await store.changeMemory({ kind: 'write', row: { ...row, ...own, text: label, marks } });
  }
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

// `GET items` and `items/KIND/ID`.
import { plainText } from '@kernmantle/core/base';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { directive, execute, openStage, READ, run } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { addItemsRoutes } from '../src/server/routes/items.ts';
import { bareApi } from './support/bare-api.ts';

test('items are found as search finds them, a page at a time', async () => {
  const notes = Array.from({ length: 110 }, (_, at) => [`.ai/knowledge/note${at}.md`, '# A note']);
  const fixture = makeFixture({
    ...directive('look', { permissions: READ }),
    ...Object.fromEntries(notes),
  });
  const runtime = await fixture.open();
  const api = bareApi(runtime, addItemsRoutes, 'view');
  const { output } = await api.get('/items?q=look&kind=directive');
  expect((output.items as unknown[])[0]).toMatchObject({ item_id: 'look', signature: 'unsigned' });
  const all = (await api.get('/items?kind=tool')).output;
  const listed = all.items as { signature: string }[];
  expect(listed.length).toBeGreaterThan(10);
  expect(listed.every(({ signature }) => signature === 'bundle')).toBe(true);
  expect(await api.get('/items?kind=thing')).toMatchObject({ status: 400 });
  expect(await api.get(`/items?q=${'a'.repeat(501)}`)).toMatchObject({ status: 400 });
  const page = (await api.get('/items')).output;
  const next = (await api.get(`/items?cursor=${plainText(page.next_cursor)}`)).output;
  expect([page.has_more, next.total]).toEqual([true, page.total]);
  expect((next.items as unknown[]).length).toBe(Number(page.total) - 100);
  await runtime.close();
  fixture.remove();
});

test('a directive is shown with what it may do, what it asks for and what came of it', async () => {
  const made = await openStage(
    {
      '../home/policy.yaml': TRUSTING,
      ...directive('look', {
        permissions: READ,
        limits: '<turns>3</turns><duration>60</duration>',
        inputs: '<input name="topic" type="string" required="true">What about</input>',
      }),
    },
    {
      look: [
        { tool_calls: [execute('fs/write_file', { path: 'x', content: 'y' })] },
        { text: 'done' },
      ],
    },
  );
  await run(made, 'look', { inputs: { topic: 'a' } });
  const { output } = await bareApi(made.runtime, addItemsRoutes).get('/items/directive/look');
  expect(output).toMatchObject({
    item: { item_id: 'look', version: '1.0.0' },
    signature: { state: 'unsigned' },
    file: '.ai/directives/look.md',
    inputs: [{ name: 'topic', type: 'string', required: true, description: 'What about' }],
    steps: ['go'],
    runs: 1,
    denied: 1,
  });
  expect(output.explained).toMatchObject({ permissions: { granted: expect.any(Array) } });
  expect(output.limits).toContainEqual({
    name: 'turns',
    used: 0,
    reserved: 0,
    max: 3,
    from: 'directive',
  });
  expect(output.limits).toContainEqual(
    expect.objectContaining({ name: 'duration_seconds', max: 60 }),
  );
  expect(output.body).toMatchObject({ offset: 0, text: expect.stringContaining('<directive') });
  // The policy lets the page start what is signed.
  expect(output).toMatchObject({ can_run: false, missing: [expect.stringContaining('km sign')] });
});

test('a directive with errors is shown with them; tools and knowledge are shown too', async () => {
  const fixture = makeFixture({
    '.ai/directives/broken.md': '<directive name="broken" version="1.0.0"><metadata></directive>',
    '.ai/knowledge/long.md': `# Long\n\n${'ä'.repeat(50_000)}`,
  });
  const runtime = await fixture.open();
  const api = bareApi(runtime, addItemsRoutes, 'view');
  const { output } = await api.get('/items/directive/broken');
  expect(output).toMatchObject({ can_run: false, inputs: [], limits: [], runs: 0 });
  expect((output.missing as string[])[0]).toMatch(/^line \d+: /);
  const tool = (await api.get('/items/tool/fs%2Fread_file')).output;
  expect(tool).toMatchObject({ item: { item_id: 'fs/read_file' }, can_run: false });
  expect(tool.explained).toMatchObject({ surfaces: { web: 'may call it' } });
  expect(tool.inputs).toContainEqual(expect.objectContaining({ name: 'path', required: true }));
  const long = (await api.get('/items/knowledge/long')).output.body as Record<string, number>;
  expect(long.next).toBeLessThanOrEqual(65_536);
  const rest = (await api.get(`/items/knowledge/long?offset=${long.next}`)).output.body;
  expect(`${long.text}${(rest as { text: string }).text}`).toContain('ä'.repeat(50_000));
  expect(await api.get('/items/directive/none')).toMatchObject({ status: 404 });
  expect(await api.get('/items/thing/none')).toMatchObject({ status: 400 });
  expect(await api.get('/items/tool/x?offset=a')).toMatchObject({ status: 400 });
  await runtime.close();
  fixture.remove();
});

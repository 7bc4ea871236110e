// What docs/mcp.md shows besides the four tools: its commands, a thread followed by its handle, and the
// items of native mode, each with a real client.
import { plainText } from '@kernmantle/core/base';
import { blocksOf, followPage, readPage } from '@kernmantle/test-support/docs-page';
import type { Fixture } from '@kernmantle/test-support/project';
import { READ } from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { connect } from '../../../mcp/tests/support/http.ts';
import { type Answered, serve } from '../../../mcp/tests/support/threads.ts';
import { startServer } from '../../src/index.ts';

const PAGE = 'docs/mcp.md';
let close: () => Promise<void> = async () => {};
afterEach(async () => {
  await close();
  close = async () => {};
});

async function open({ root, env }: Fixture, native = false) {
  const started = await startServer({ project: root, env, native });
  if (!started.ok) throw new Error(started.error.detail.message);
  close = started.output.close;
  const { url, token } = started.output;
  const client = await connect(url, 'modern', { authorization: `Bearer ${token}` });
  close = async () => {
    await client.close();
    await started.output.close();
  };
  return client;
}

test('a thread is followed as shown', async () => {
  const held = Promise.withResolvers<void>();
  const { fixture } = await serve({ tidy: { permissions: READ } }, async () => {
    await held.promise;
    return { text: 'All is tidy.' };
  });
  const client = await open(fixture);
  const text = blocksOf(readPage(PAGE)).find(({ kind }) => kind === 'thread')?.text ?? '';
  const calls = [...text.matchAll(/^(\w+) (\{.*\})\n=> (\{.*\})$/gm)];
  expect(calls).toHaveLength(4);
  let handle = 'HANDLE';
  for (const [, name = '', given = '', shown = ''] of calls) {
    if (given.includes('"wait"')) held.resolve();
    const filled = (part: string) => JSON.parse(part.replaceAll('HANDLE', handle)) as object;
    const result = await client.callTool({ name, arguments: { ...filled(given) } });
    const answer = result.structuredContent as Answered;
    if (handle === 'HANDLE') handle = plainText(answer.output.handle);
    expect(answer).toMatchObject(filled(shown));
  }
});

test('the commands do what is said beside them, and native mode offers what the files say', async () => {
  const fixture = await followPage(PAGE);
  try {
    fixture.write('notes.txt', 'one\ntwo\n');
    const runtime = await fixture.open();
    expect(runtime.library.check()).toEqual([]);
    await runtime.close();
    const client = await open(fixture, true);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['count_lines']);
    const called = await client.callTool({ name: 'count_lines', arguments: { path: 'notes.txt' } });
    expect(called).toMatchObject({ structuredContent: { lines: 2 } });
    expect((await client.listResources()).resources).toMatchObject([
      { uri: 'knowledge://style', description: 'How we write' },
    ]);
    const read = await client.readResource({ uri: 'knowledge://style' });
    expect(JSON.stringify(read.contents)).toContain('Short sentences.');
  } finally {
    await close();
    close = async () => {};
    fixture.remove();
  }
});

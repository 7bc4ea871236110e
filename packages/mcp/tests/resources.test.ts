// Tests resources: threads of the client, directives and knowledge, with real clients of both
// revisions and a scripted model.
import type { Runtime } from '@kernmantle/core/runtime';
import { directiveText, READ, read, stage } from '@kernmantle/test-support/thread-project';
import type { Client } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { connectPeer, ERAS, type PeerOptions } from './support/peer.ts';

const OPEN = `unsigned: allow
surfaces: { mcp: { effects: [read, idempotent, write], directives: all } }
`;

/** Starts a thread that reads twice and ends on demand. */
async function staged() {
  const gate = Promise.withResolvers<void>();
  onTestFinished(() => gate.resolve());
  const files = {
    'notes/a.txt': 'hello\n',
    '.ai/directives/look.md': directiveText('look', {
      permissions: READ,
      limits: '<turns>9</turns>',
    }),
    '.ai/knowledge/style.md': '---\ntitle: Style\n---\n# Style\n\nShort.\n',
  };
  const { fixture, runtime } = await stage(files, async ({ assistant_messages }) => {
    if (assistant_messages <= 2) return read('notes/a.txt');
    await gate.promise;
    return { text: 'all read' };
  });
  fixture.write(`${fixture.home}/policy.yaml`, OPEN);
  return { runtime, fixture, letGo: () => gate.resolve() };
}

async function peer(runtime: Runtime, options: PeerOptions = {}): Promise<Client> {
  const { client, close } = await connectPeer(runtime, options);
  onTestFinished(close);
  return client;
}

async function startThread(client: Client): Promise<string> {
  const started = await client.callTool({
    name: 'execute',
    arguments: {
      item_type: 'tool',
      item_id: 'threads/thread_directive',
      parameters: { directive_name: 'look', wait_ms: 0 },
    },
  });
  const { output } = started.structuredContent as { output: { handle: string } };
  expect(output, JSON.stringify(started)).toHaveProperty('handle');
  return output.handle;
}

const textOf = async (client: Client, uri: string) => {
  const [content] = (await client.readResource({ uri })).contents;
  if (!content || !('text' in content)) throw new Error('no text');
  return { ...content, meta: (content._meta ?? {}) as Record<string, unknown> };
};

test.each(ERAS)('threads are read by their handle, page by page (%s)', async (era) => {
  const { runtime, letGo } = await staged();
  const client = await peer(runtime, { era });
  const handle = await startThread(client);
  letGo();
  const status = async () =>
    (JSON.parse((await textOf(client, `thread://${handle}/status`)).text) as { status: string })
      .status;
  await expect.poll(status).toBe('completed');

  const seen: number[] = [];
  let uri: string | undefined = `thread://${handle}/transcript?after=0&limit=2`;
  while (uri) {
    const { text, meta, mimeType } = await textOf(client, uri);
    expect(mimeType).toBe('application/jsonl');
    const lines =
      text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as { seq: number });
    expect(lines.length).toBeLessThanOrEqual(2);
    seen.push(...lines.map(({ seq }) => seq));
    uri = meta['kernmantle/next'] as string | undefined;
  }
  expect(seen.length).toBeGreaterThan(4);
  expect(seen).toEqual(seen.map((_, at) => at + 1));
  const whole = await textOf(client, `thread://${handle}/transcript`);
  expect(whole.text.split('\n')).toHaveLength(seen.length);
  // A client sees the id only inside of handles.
  const [id = ''] = handle.split('.');
  expect(whole.text.replaceAll(handle, '')).not.toContain(id);

  const { resources } = await client.listResources();
  expect(resources.map((one) => one.uri)).toContain(`thread://${handle}/status`);

  const stranger = await peer(runtime, { era, caller: { id: 'stranger' } });
  for (const part of ['status', 'transcript']) {
    for (const name of [handle, id]) {
      const refused = stranger.readResource({ uri: `thread://${name}/${part}` });
      await expect(refused).rejects.toThrow(/handed|permission_denied|not found/);
    }
  }
  const listed = await stranger.listResources();
  expect(JSON.stringify(listed)).not.toContain(id);
});

test.each(ERAS)('whoever asked for it hears when a thread moves (%s)', async (era) => {
  const { runtime, letGo } = await staged();
  const heard: string[] = [];
  const told = Promise.withResolvers<void>();
  const client = await peer(runtime, {
    era,
    prepare: (one) =>
      one.setNotificationHandler('notifications/resources/updated', ({ params }) => {
        heard.push(params.uri);
        told.resolve();
      }),
  });
  const other = await startThread(client);
  const handle = await startThread(client);
  expect(other).not.toBe(handle);
  const uri = `thread://${handle}/status`;
  if (era === '2025-11-25') await client.subscribeResource({ uri });
  else await client.listen({ resourceSubscriptions: [uri] });
  letGo();
  await told.promise;
  expect(new Set(heard)).toEqual(new Set([uri]));
  if (era === '2025-11-25') {
    const stranger = await peer(runtime, { era, caller: { id: 'stranger' } });
    await expect(stranger.subscribeResource({ uri })).rejects.toMatchObject({ code: -32602 });
  }
});

test.each(ERAS)('directives and knowledge are listed in pages and read (%s)', async (era) => {
  const { runtime, fixture } = await staged();
  for (let n = 0; n < 60; n++) fixture.write(`.ai/knowledge/many/k${n}.md`, `# K${n}\n`);
  const client = await peer(runtime, { era });
  const uris: string[] = [];
  let pages = 0;
  let cursor: string | undefined;
  do {
    const params = cursor === undefined ? {} : { cursor };
    const page = await client.request({ method: 'resources/list', params });
    uris.push(...page.resources.map((one) => one.uri));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor !== undefined);
  expect(pages).toBeGreaterThan(2);
  const odd = client.request({ method: 'resources/list', params: { cursor: 'x' } });
  await expect(odd).rejects.toMatchObject({ code: -32602 });
  expect(new Set(uris).size).toBe(uris.length);
  expect(uris).toContain('directive://look');
  expect(uris).toContain('knowledge://many/k59');
  const { resourceTemplates } = await client.listResourceTemplates();
  expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(
    expect.arrayContaining([
      'thread://{handle}/status',
      'thread://{handle}/transcript',
      'thread://{handle}/transcript{?after,limit}',
      'directive://{+id}',
      'knowledge://{+id}',
    ]),
  );
  const style = await textOf(client, 'knowledge://style');
  expect(style).toMatchObject({ mimeType: 'text/markdown' });
  expect(style.text).toContain('Short.');
  expect(style.meta).toMatchObject({
    'kernmantle/signature': 'unsigned',
    'kernmantle/source': 'project',
  });
  expect((await textOf(client, 'directive://look')).text).toContain('<directive name="look"');
  const missing = await client.readResource({ uri: 'knowledge://no/such' }).catch((error) => error);
  expect(missing).toMatchObject({ code: -32602, data: { uri: 'knowledge://no/such' } });
});

test.each(ERAS)(
  'a long answer is a beginning and a link of this client alone (%s)',
  async (era) => {
    const { runtime } = await staged();
    const client = await peer(runtime, { era, maxAnswer: 3000 });
    const request = { query: '', limit: 50, detail: 'schema' };
    const short = await client.callTool({ name: 'search', arguments: { query: '', limit: 1 } });
    expect(short.content).toHaveLength(1);
    const long = await client.callTool({ name: 'search', arguments: request });
    const [twin, link] = long.content as { type: string; text?: string; uri: string }[];
    expect(JSON.parse(twin?.text ?? '')).toEqual(long.structuredContent);
    expect(long.structuredContent).toMatchObject({
      ok: true,
      output: { truncated: true, resource: link?.uri },
    });
    expect(link).toMatchObject({ type: 'resource_link', mimeType: 'application/json' });
    let [text, uri] = ['', link?.uri];
    while (uri !== undefined) {
      const page = await textOf(client, uri);
      text += page.text;
      uri = page.meta['kernmantle/next'] as string | undefined;
    }
    const whole = await peer(runtime, { era });
    const { structuredContent } = await whole.callTool({ name: 'search', arguments: request });
    expect(JSON.parse(text)).toEqual(structuredContent);
    const stranger = await peer(runtime, { era, caller: { id: 'stranger' } });
    const refused = await stranger.readResource({ uri: link?.uri ?? '' }).catch((error) => error);
    expect(refused).toMatchObject({ code: -32602, data: { uri: link?.uri } });
  },
);

test.each(ERAS)('whoever asked for it hears when the file of an item changes (%s)', async (era) => {
  const { runtime, fixture } = await staged();
  const heard: string[] = [];
  const told = Promise.withResolvers<void>();
  const client = await peer(runtime, {
    era,
    prepare: (one) =>
      one.setNotificationHandler('notifications/resources/updated', ({ params }) => {
        heard.push(params.uri);
        told.resolve();
      }),
  });
  const uri = 'knowledge://style';
  const stop =
    era === '2025-11-25'
      ? (await client.subscribeResource({ uri }), () => client.unsubscribeResource({ uri }))
      : await client.listen({ resourceSubscriptions: [uri] }).then((one) => () => one.close());
  fixture.write('.ai/knowledge/other.md', '# Other\n');
  fixture.write('.ai/knowledge/style.md', '# Longer\n');
  await told.promise;
  await stop();
  expect(heard).toEqual([uri]);
});

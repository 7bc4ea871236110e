// Threads over HTTP: who starts one, who may speak of it, and who is told when it moves. A real server,
// real clients in both revisions, tokens with roles, a scripted model.
import type { Client } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { type JsonObject, plainText } from '../../src/base/index.ts';
import { openTokens } from '../../src/web/index.ts';
import { connect, type Era, serve as serveHttp } from '../mcp/support/http.ts';
import { type Answered, onThread, serve, startDirective } from '../mcp/support/threads.ts';
import { READ, read } from '../support/thread-project.ts';

const ERAS: Era[] = ['modern', 'legacy'];

/** A project whose one directive reads, waits to be let go, and answers; and its server. */
async function staged() {
  const held = Promise.withResolvers<void>();
  const { fixture } = await serve(
    { look: { permissions: READ, limits: '<turns>9</turns>' } },
    async ({ assistant_messages }) => {
      if (assistant_messages === 1) return read('notes/a.txt');
      await held.promise;
      return { text: 'all read' };
    },
  );
  const served = await serveHttp(fixture);
  onTestFinished(async () => {
    held.resolve();
    await served.stop();
  });
  const as = async (era: Era, role?: string): Promise<Client> => {
    const tokens = openTokens({ home: fixture.home, project: fixture.root });
    const made = role === undefined ? undefined : tokens.add({ name: '', role, days: 1 });
    if (made && !made.ok) throw new Error(made.error.detail.message);
    const headers: Record<string, string> = made
      ? { authorization: `Bearer ${made.output.token}` }
      : {};
    const client = await connect(served.url, era, headers);
    onTestFinished(() => client.close());
    return client;
  };
  return { as, letGo: held.resolve, served, fixture };
}

const call = async (client: Client, given: JsonObject): Promise<Answered> =>
  (await client.callTool({ name: 'execute', arguments: given })).structuredContent as Answered;

test.each(ERAS)('a full run over HTTP (%s)', async (era) => {
  const { as, letGo } = await staged();
  const client = await as(era);
  const started = await call(client, startDirective('look', { wait_ms: 100 }));
  expect(started).toMatchObject({ ok: true, output: { status: 'running' } });
  const { handle } = started.output;
  letGo();
  expect(await call(client, onThread(handle, 'wait'))).toMatchObject({
    ok: true,
    output: { status: 'completed', text: 'all read' },
  });
});

test('a view token starts and steers nothing; a handle is of no use to another token', async () => {
  const { as } = await staged();
  const [viewer, ann, bob, nobody] = await Promise.all([
    as('modern', 'view'),
    as('modern', 'steer'),
    as('legacy', 'approve'),
    as('legacy'),
  ]);
  expect(await call(viewer, startDirective('look'))).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
  const reading = {
    item_type: 'tool',
    item_id: 'fs/read_file',
    parameters: { path: 'notes/a.txt' },
  };
  expect(await call(viewer, reading)).toMatchObject({ ok: true });
  const { handle } = (await call(ann, startDirective('look', { wait_ms: 0 }))).output;
  expect(await call(ann, onThread(handle, 'status'))).toMatchObject({ ok: true });
  for (const other of [viewer, bob, nobody]) {
    expect(await call(other, onThread(handle, 'status'))).toMatchObject({ ok: false });
    expect(await call(other, onThread(handle, 'cancel'))).toMatchObject({ ok: false });
  }
  expect(await call(ann, onThread(handle, 'cancel'))).toMatchObject({ ok: true });
});

test.each(ERAS)('whoever listens is told when a thread moves (%s)', async (era) => {
  const { as, letGo } = await staged();
  const client = await as(era, 'steer');
  const { handle } = (await call(client, startDirective('look', { wait_ms: 0 }))).output;
  const uri = `thread://${plainText(handle)}/status`;
  const told = Promise.withResolvers<string>();
  client.setNotificationHandler('notifications/resources/updated', ({ params }) =>
    told.resolve(params.uri),
  );
  if (era === 'modern') await client.listen({ resourceSubscriptions: [uri] });
  else await client.subscribeResource({ uri });
  letGo();
  expect(await told.promise).toBe(uri);
  await call(client, onThread(handle, 'wait'));
  expect(JSON.stringify(await client.readResource({ uri }))).toContain('completed');
});

test('the end of a server leaves its threads to be resumed', async () => {
  const { as, served, fixture } = await staged();
  const client = await as('modern', 'steer');
  const started = await call(client, startDirective('look', { wait_ms: 0 }));
  expect(started).toMatchObject({ ok: true, output: { status: 'running' } });
  expect(await served.stop()).toBe(0);
  const runtime = await fixture.open();
  const threads = await runtime.threads();
  const page = threads.ok ? await threads.output.store.query({}) : threads;
  await runtime.close();
  expect(page).toMatchObject({ ok: true, output: { rows: [{ status: 'interrupted' }] } });
});

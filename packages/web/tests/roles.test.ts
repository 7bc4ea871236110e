// Threads over HTTP: who starts one, who may speak of it, and who is told when it moves. A real server,
// real clients in both revisions, tokens with roles, a scripted model.
import { type JsonObject, plainText } from '@kernmantle/core/base';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { directiveText, READ, read } from '@kernmantle/test-support/thread-project';
import type { Client } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { connect, type Era, serve as serveHttp } from '../../mcp/tests/support/http.ts';
import { type Answered, onThread, serve, startDirective } from '../../mcp/tests/support/threads.ts';
import { openTokens } from '../src/index.ts';

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
  /** `printed`: with the token that the server printed; absent: without one. */
  const as = async (era: Era, role?: string): Promise<Client> => {
    const tokens = openTokens({ home: fixture.home, project: fixture.root });
    const isStored = role !== undefined && role !== 'printed';
    const made = isStored ? tokens.add({ name: '', role, days: 1 }) : undefined;
    if (made && !made.ok) throw new Error(made.error.detail.message);
    const own = role === undefined ? {} : served.steering;
    const client = await connect(served.url, era, {
      ...(made ? { authorization: `Bearer ${made.output.token}` } : own),
    });
    onTestFinished(() => client.close());
    return client;
  };
  return { as, letGo: held.resolve, served, fixture };
}

const call = async (client: Client, given: JsonObject): Promise<Answered> =>
  (await client.callTool({ name: 'execute', arguments: given })).structuredContent as Answered;

test.each(ERAS)('a full run over HTTP (%s)', async (era) => {
  const { as, letGo } = await staged();
  const client = await as(era, 'printed');
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

const START = startDirective('look', { wait_ms: 0 });
const REFUSED = {
  ok: false,
  error: {
    code: 'permission_denied',
    detail: { message: expect.stringContaining('km web token add') },
  },
};

test.each(ERAS)('over loopback a client without a token only looks, %s', async (era) => {
  const { as, served } = await staged();
  const [nobody, owner] = await Promise.all([as(era), as(era, 'printed')]);
  const { handle } = (await call(owner, START)).output;
  const reading = { item_id: 'fs/read_file', parameters: { path: 'notes/a.txt' } };
  expect(await call(nobody, { item_type: 'tool', ...reading })).toMatchObject({ ok: true });
  const ready = await call(nobody, { item_type: 'directive', item_id: 'look' });
  expect(ready).toMatchObject({ ok: true, output: { can_spawn_thread: false } });
  const content = '# x';
  for (const request of [
    START,
    { item_type: 'knowledge', item_id: 'x', action: 'create', content },
    { item_type: 'directive', item_id: 'look', action: 'update', content },
  ]) {
    expect(await call(nobody, request), JSON.stringify(request)).toMatchObject(REFUSED);
  }
  for (const action of ['status', 'wait', 'inject', 'pause', 'resume', 'cancel']) {
    expect(await call(nobody, onThread(handle, action, { message: 'x' }))).toMatchObject({
      ok: false,
    });
  }
  for (const about of ['status', 'transcript']) {
    const uri = `thread://${plainText(handle)}/${about}`;
    await expect(nobody.readResource({ uri })).rejects.toThrow();
    if (era === 'legacy') await expect(nobody.subscribeResource({ uri })).rejects.toThrow();
  }
  const { resources } = await nobody.listResources();
  expect(resources.filter(({ uri }) => uri.startsWith('thread:'))).toEqual([]);
  // A token in the address is no token.
  const token = served.steering.authorization.replace('Bearer ', '');
  for (const name of ['token', 'access_token', 'authorization']) {
    const client = await connect(`${served.url}?${name}=${token}`, era);
    expect(await call(client, START)).toMatchObject(REFUSED);
    await client.close();
  }
  // The token is told to the terminal, and is in no record.
  expect(served.said()).toContain(`Bearer ${token}`);
  expect(served.said()).toContain('can only read');
  expect(await call(owner, onThread(handle, 'cancel'))).toMatchObject({ ok: true });
});

test.each(['::1', 'localhost', '127.0.0.2'])('nor by another name: --host %s', async (host) => {
  const { fixture } = await staged();
  const served = await serveHttp(fixture, '--host', host);
  onTestFinished(async () => void (await served.stop()));
  const nobody = await connect(served.url, 'modern');
  expect(await call(nobody, START)).toMatchObject(REFUSED);
  const owner = await connect(served.url, 'modern', served.steering);
  expect(await call(owner, START)).toMatchObject({ ok: true });
  await Promise.all([nobody.close(), owner.close()]);
});

test('nor in native mode, where a directive is a tool', async () => {
  const { fixture } = await staged();
  const file = '.ai/directives/shown.md';
  const text = directiveText('shown', { permissions: READ });
  fixture.write(file, text.replace('<permissions', '<expose mcp="tool"/>\n<permissions'));
  signAsUser(fixture, file);
  const served = await serveHttp(fixture, '--native');
  onTestFinished(async () => void (await served.stop()));
  const nobody = await connect(served.url, 'modern');
  const names = (await nobody.listTools()).tools.map(({ name }) => name);
  expect(names).toEqual(['shown']);
  const refused = await nobody.callTool({ name: 'shown', arguments: {} });
  expect(refused.isError).toBe(true);
  expect(JSON.stringify(refused)).toContain('km web token add');
  await nobody.close();
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

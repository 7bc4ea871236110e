// Tests the server with real clients over real HTTP: the current SDK in both revisions, the older
// SDK, and the Inspector.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { runs } from '@kernmantle/test-support/soak';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ACCEPT, connect, type Era, HELLO, type Served, serve } from './support/http.ts';

let fixture: Fixture;
let served: Served;
beforeAll(async () => {
  fixture = makeFixture({ 'hello.txt': 'hello there\n' });
  served = await serve(fixture);
});
afterAll(async () => {
  await served.stop();
  fixture.remove();
});

const FOUR = ['search', 'load', 'execute', 'help'];
const READ = {
  name: 'execute',
  arguments: { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'hello.txt' } },
};
const ANSWER = { structuredContent: { ok: true, output: { content: 'hello there\n' } } };

test.each<[Era, string]>([
  ['legacy', '2025-11-25'],
  ['modern', '2026-07-28'],
])('the four tools over HTTP, %s (%s)', async (era, revision) => {
  const client = await connect(served.url, era);
  expect(client.getNegotiatedProtocolVersion()).toBe(revision);
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(FOUR);
  expect(await client.callTool(READ)).toMatchObject(ANSWER);
  await client.close();
});

test.each([
  [200, (own: string) => own],
  [421, () => 'http://evil.example/mcp'],
  [421, (own: string) => own.replace('//', '//evil.example@').replace('127.0.0.1', 'localhost')],
])('%i for a whole address in the first line, whatever `Host` says', async (status, target) => {
  const { hostname, port } = new URL(served.url);
  const headers = { ...ACCEPT, host: `${hostname}:${port}` };
  const path = target(served.url);
  const asked = request({ hostname, port, path, method: 'POST', headers, agent: false });
  asked.end(JSON.stringify(HELLO));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(status);
});

test('a request holds a few messages and not thousands', async () => {
  const post = async (body: unknown, session = {}) => {
    const headers = { ...ACCEPT, ...session };
    const answer = await fetch(served.url, { method: 'POST', headers, body: JSON.stringify(body) });
    return { answer, text: await answer.text() };
  };
  const hello = await post(HELLO);
  const session = { 'mcp-session-id': hello.answer.headers.get('mcp-session-id') ?? '' };
  const pings = (count: number) =>
    Array.from({ length: count }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
  expect((await post(pings(3), session)).answer.status).toBe(200);
  const refused = await post(pings(5000), session);
  expect(refused.answer.status).toBe(400);
  expect(refused.text).toContain('more than 20 messages');
});

test('a client of the older SDK', async () => {
  const client = new OldClient({ name: 'old', version: '1.0.0' });
  const transport = new OldTransport(new URL(served.url));
  await client.connect(transport);
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(FOUR);
  expect(await client.callTool(READ)).toMatchObject(ANSWER);
  // A client can end its session, which is unknown afterwards.
  const session = transport.sessionId ?? '';
  await transport.terminateSession();
  await client.close();
  const after = await fetch(served.url, {
    method: 'POST',
    headers: { ...ACCEPT, 'mcp-session-id': session },
    body: JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' }),
  });
  expect(after.status).toBe(404);
});

test('the Inspector lists and calls over HTTP', async () => {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('@modelcontextprotocol/inspector/package.json');
  const { bin } = require(manifest) as { bin: Record<string, string> };
  const entry = join(dirname(manifest), Object.values(bin)[0] ?? '');
  const inspect = async (...args: string[]): Promise<unknown> => {
    const given = [entry, '--cli', served.url, '--transport', 'http', ...args];
    return JSON.parse((await promisify(execFile)(process.execPath, given)).stdout);
  };
  expect(await inspect('--method', 'tools/list')).toMatchObject({
    tools: FOUR.map((name) => ({ name })),
  });
  const call = ['--method', 'tools/call', '--tool-name', 'search', '--tool-arg', 'query=read'];
  expect(await inspect(...call)).toMatchObject({ structuredContent: { ok: true } });
});

const post = (body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(served.url, {
    method: 'POST',
    headers: { ...ACCEPT, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

test('what is no request is refused with a reason that clients read', async () => {
  expect((await post('{')).status).toBe(400);
  expect((await post('')).status).toBe(400);
  expect((await post(JSON.stringify(HELLO).replace('"id":1', '"id":1e999'))).status).toBe(400);
  expect((await post(`${'['.repeat(5000)}${']'.repeat(5000)}`)).status).toBe(400);
  expect((await post(HELLO, { 'content-type': 'text/plain' })).status).toBe(415);
  expect((await post({ jsonrpc: '2.0', id: 1, method: 'tools/list' })).status).toBe(400);
  const unknown = await post(
    { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    { 'mcp-session-id': 'nobody' },
  );
  expect(unknown.status).toBe(404);
  expect(await unknown.json()).toMatchObject({ jsonrpc: '2.0', error: { code: -32_001 } });
  expect((await fetch(served.url)).status).toBe(400);
  expect((await fetch(served.url.replace('/mcp', '/'))).status).toBe(404);
});

test('ten megabytes are refused, and the server goes on', async () => {
  const large = JSON.stringify({ ...HELLO, padding: 'x'.repeat(10 * 1024 * 1024) });
  const status = await post(large).then(
    (response) => response.status,
    // The server does not read a refused body to its end.
    (error: unknown) => (error instanceof TypeError ? 413 : error),
  );
  expect(status).toBe(413);
  expect((await post(HELLO)).status).toBe(200);
});

const SESSIONS = runs(100, 1000);

test(`${SESSIONS} sessions do not fill it: those that nobody uses make place`, async () => {
  const ids: string[] = [];
  for (let round = 0; round < SESSIONS / 50; round += 1) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(HELLO)));
    for (const answer of answers) {
      await answer.text();
      if (answer.ok) ids.push(answer.headers.get('mcp-session-id') ?? '');
      else expect(answer.status).toBe(503);
    }
  }
  const statusOf = async (id: string | undefined): Promise<number> => {
    const ping = { jsonrpc: '2.0', id: 9, method: 'ping' };
    const answer = await post(ping, { 'mcp-session-id': id ?? '' });
    await answer.text();
    return answer.status;
  };
  expect(await statusOf(ids.at(-1))).toBe(200);
  let alive = 0;
  for (let at = 0; at < ids.length; at += 50) {
    const states = await Promise.all(ids.slice(at, at + 50).map(statusOf));
    alive += states.filter((status) => status === 200).length;
  }
  expect(alive).toBeLessThanOrEqual(32);
  const client = await connect(served.url, 'legacy');
  expect(await client.callTool(READ)).toMatchObject(ANSWER);
  await client.close();
});

// Tests streams that a server keeps open, and clients that disconnect. Both ends run in one
// process, so that both are visible.
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { ok } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import type { ServerEvent } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listenForMcp } from '../../kernmantle/src/mcp-server/listen-mcp.ts';
import { openTokens } from '../../web/src/server/access/tokens.ts';
import { createMcpHost, type McpHost } from '../src/index.ts';
import { connect } from './support/http.ts';

type Listener = Parameters<NonNullable<Parameters<typeof listenForMcp>[1]['changes']>['follow']>[0];

let fixture: Fixture;
let runtime: Runtime;
let listeners: Set<Listener>;
let close: () => Promise<void>;
beforeEach(async () => {
  fixture = makeFixture();
  runtime = await fixture.open();
  listeners = new Set();
  close = async () => {};
});
afterEach(async () => {
  await close();
  await runtime.close();
  fixture.remove();
});

async function start(change: Partial<McpHost> = {}): Promise<string> {
  const host = { ...createMcpHost(runtime, '1.0.0', () => {}), ...change };
  const opened = await listenForMcp(host, {
    tokens: openTokens(runtime),
    onRefused() {},
    changes: {
      follow(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
  });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  close = opened.output.close;
  return opened.output.url;
}

const URI = 'knowledge://notes';
const CHANGED: ServerEvent = { kind: 'resource_updated', uri: URI };

test('a change reaches whoever listens, until they go', async () => {
  const client = await connect(await start(), 'modern');
  const told: string[] = [];
  const heard = new Promise<void>((resolve) => {
    client.setNotificationHandler('notifications/resources/updated', ({ method }) => {
      told.push(method);
      resolve();
    });
  });
  const stream = await client.listen({ resourceSubscriptions: [URI] });
  expect(listeners.size).toBe(1);
  for (const { tell, uris, client: who } of listeners) {
    expect(who.role).toBe('view');
    expect([...uris]).toEqual([URI]);
    tell(CHANGED);
    tell({ kind: 'resource_updated', uri: 'knowledge://not-asked-for' });
  }
  await heard;
  expect(told).toEqual(['notifications/resources/updated']);
  await stream.close();
  await expect.poll(() => listeners.size).toBe(0);
  await client.close();
});

test('the end of the server is told, and nothing hangs', async () => {
  const client = await connect(await start(), 'modern');
  const stream = await client.listen({ resourceSubscriptions: [URI] });
  await close();
  expect(await stream.closed).toBe('graceful');
  expect(listeners.size).toBe(0);
  await client.close();
});

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** Sends a request over its own socket, which reads only on demand. */
function send(url: string, method: string, params: object, headers: string[] = []) {
  const { hostname, port, host } = new URL(url);
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method,
    params: { ...params, _meta: META },
  });
  const socket = connectTcp(Number(port), hostname);
  socket.on('error', () => {});
  const lines = [
    'POST /mcp HTTP/1.1',
    `Host: ${host}`,
    'Accept: application/json, text/event-stream',
    'Content-Type: application/json',
    'MCP-Protocol-Version: 2026-07-28',
    `Mcp-Method: ${method}`,
    ...headers,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return socket;
}

test('a client that does not read what it asked for is cut off', async () => {
  const url = await start();
  const socket = send(url, 'subscriptions/listen', {
    notifications: { resourceSubscriptions: [URI] },
  });
  await expect.poll(() => listeners.size).toBe(1);
  const [listener] = listeners;
  const padding = 'x'.repeat(256 * 1024);
  // The amount exceeds every buffer on the way.
  for (let sent = 0; sent < 400 && listeners.size > 0; sent += 1) {
    listener?.tell({ ...CHANGED, params: { padding } });
    await new Promise(setImmediate);
  }
  expect(listeners.size).toBe(0);
  socket.destroy();
});

test('one client does not hold all streams there are', async () => {
  const url = await start();
  const params = { notifications: { resourceSubscriptions: [URI] } };
  const sockets = Array.from({ length: 300 }, () => send(url, 'subscriptions/listen', params));
  const firsts = await Promise.all(
    sockets.map(async (socket) => String((await once(socket, 'data'))[0])),
  );
  const statuses = firsts.map((first) => /^HTTP\/1.1 (\d+)/.exec(first)?.[1]);
  expect(Object.groupBy(statuses, (status) => status ?? '')).toMatchObject({
    200: { length: 256 },
    503: { length: 44 },
  });
  const made = openTokens(runtime).add({ name: '', role: 'view', days: 1 });
  const token = made.ok ? made.output.token : '';
  const other = await connect(url, 'modern', { authorization: `Bearer ${token}` });
  expect((await other.listTools()).tools).toHaveLength(4);
  await other.close();
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => listeners.size).toBe(0);
});

test('a call whose client is gone is told so', async () => {
  const started = Promise.withResolvers<AbortSignal>();
  const url = await start({
    async call(_verb, _request, { signal }) {
      started.resolve(signal);
      await once(signal, 'abort');
      return ok(null);
    },
  });
  const socket = send(url, 'tools/call', { name: 'search', arguments: { query: 'x' } }, [
    'Mcp-Name: search',
  ]);
  const signal = await started.promise;
  expect(signal.aborted).toBe(false);
  socket.destroy();
  await expect.poll(() => signal.aborted).toBe(true);
});

test('what is under way at the end is told to stop', async () => {
  const started = Promise.withResolvers<AbortSignal>();
  const url = await start({
    async call(_verb, _request, { signal }) {
      started.resolve(signal);
      await once(signal, 'abort');
      return ok(null);
    },
  });
  const [modern, legacy] = [await connect(url, 'modern'), await connect(url, 'legacy')];
  const call = { name: 'search', arguments: { query: 'x' } };
  const calls = [modern, legacy].map((client) => client.callTool(call).catch(() => 'failed'));
  const signal = await started.promise;
  await close();
  expect(signal.aborted).toBe(true);
  expect(await calls[0]).toBe('failed');
  await Promise.all([modern.close(), legacy.close()]);
});

// Tests the pool over HTTP: its addresses, its answers, and recovery from servers that drop
// sessions, break connections or never end.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { fail, type JsonObject, type Outcome } from '@kernmantle/core/base';
import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import { afterEach, beforeAll, expect, test } from 'vitest';
import type { HttpEndpoint, McpPool, ServerAnswer } from '../src/client/pool.ts';
import type { McpPoolPorts } from '../src/client/ports.ts';
import { callWith, poolOf } from './support/pool.ts';

interface Asked {
  readonly method: string;
  readonly id?: number;
  readonly params: JsonObject;
}

type Answer = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void;

let project: TestProject;
const closing: (() => unknown)[] = [];

beforeAll(() => {
  project = makeProject();
  return () => project.remove();
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const json = (response: ServerResponse, value: unknown, headers: Record<string, string> = {}) =>
  response
    .writeHead(200, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(value));

const result = ({ id }: Asked, value: object) => ({ jsonrpc: '2.0', id, result: value });

const GREETING = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'web', version: '1' },
};
const LIST = { tools: [{ name: 'act', inputSchema: { type: 'object' } }] };

/** Serves a normal start and list. The test defines the other answers. */
async function serve(act: Answer, more: Partial<Record<string, Answer>> = {}) {
  const seen: { method: string; url: string; headers: IncomingMessage['headers']; rpc?: string }[] =
    [];
  const server: Server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const asked = (text === '' ? { method: '' } : JSON.parse(text)) as Asked;
      const { method = '', url = '', headers } = request;
      seen.push({ method, url, headers, rpc: asked.method });
      const own = more[asked.method];
      if (own) return own(asked, response, request);
      if (asked.id === undefined) return response.writeHead(method === 'POST' ? 202 : 405).end();
      if (asked.method === 'initialize') return json(response, result(asked, GREETING));
      if (asked.method === 'tools/list') return json(response, result(asked, LIST));
      if (asked.method === 'tools/call') return act(asked, response, request);
      const error = { code: -32_601, message: 'no such method' };
      json(response, { jsonrpc: '2.0', id: asked.id, error });
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/mcp`, port, seen, server };
}

function clientOf(
  url: string,
  ports: Partial<McpPoolPorts> = {},
  headers: Record<string, string> = {},
) {
  const { pool }: { pool: McpPool } = poolOf(project, ports);
  closing.push(() => pool.close());
  const endpoint: HttpEndpoint = { kind: 'http', url, headers };
  return {
    pool,
    endpoint,
    act: (more: Parameters<typeof callWith>[0] = {}) =>
      pool.call(endpoint, { name: 'act', arguments: {} }, callWith(more)),
  };
}

const said = (answer: Outcome<ServerAnswer>): string => {
  if (!answer.ok) return `${answer.error.code}: ${answer.error.detail.message}`;
  const [first] = answer.output.result['content'] as { text: string }[];
  return first?.text ?? '';
};
const text = (words: string) => ({ content: [{ type: 'text', text: words }] });
const events = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });

test('an address on this machine or in the private network needs a grant of the operator', async () => {
  const { url, seen } = await serve((asked, response) => json(response, result(asked, text('in'))));
  const refused = await clientOf(url, { isHostAllowed: () => false }).act();
  expect(refused).toMatchObject({
    ok: false,
    error: { code: 'permission_denied', detail: { kind: 'loopback' } },
  });
  expect(seen).toEqual([]);
  expect(said(await clientOf(url).act())).toBe('in');
});

test('a policy that closes the network to a host closes it to servers there', async () => {
  const { url, seen } = await serve((asked, response) => json(response, result(asked, text('in'))));
  const verify = () => fail('permission_denied', '`net.http` is denied', { missing: 'net.http' });
  expect(await clientOf(url, { verify: () => verify }).act()).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
  expect(seen).toEqual([]);
});

test('a redirect to another origin is not followed, and headers go to their own origin alone', async () => {
  const other = await serve((asked, response) => json(response, result(asked, text('other'))));
  const { url } = await serve(
    (_asked, response) => response.writeHead(307, { location: other.url }).end(),
    {},
  );
  const { act } = clientOf(url, {}, { 'x-key': 'abc-secret' });
  expect(await act()).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  expect(other.seen).toEqual([]);
});

test('headers of the connector are sent with every request', async () => {
  const { url, seen } = await serve((asked, response) => json(response, result(asked, text('in'))));
  expect(said(await clientOf(url, {}, { 'X-Key': 'abc-secret' }).act())).toBe('in');
  expect(seen.length).toBeGreaterThan(2);
  expect(seen.every(({ headers }) => headers['x-key'] === 'abc-secret')).toBe(true);
});

const BIG = 'x'.repeat(300_000);
const SMALL = { limits: { maxBytes: 256 * 1024 } };

test.each<[string, Answer]>([
  ['as one answer', (asked, response) => json(response, result(asked, text(BIG)))],
  [
    'packed',
    (asked, response) => {
      const packed = gzipSync(JSON.stringify(result(asked, text('x'.repeat(50_000_000)))));
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(packed);
    },
  ],
  [
    'as an event',
    (asked, response) =>
      events(response).end(`data: ${JSON.stringify(result(asked, text(BIG)))}\n\n`),
  ],
  [
    'as an event without end',
    (_asked, response) => {
      events(response).write('data: ');
      const timer = setInterval(() => response.write('data: x'.repeat(10_000)), 1);
      response.on('close', () => clearInterval(timer));
    },
  ],
])('what is too large is refused: %s', async (_name, answer) => {
  let isLarge = true;
  const { url } = await serve((asked, response, request) =>
    isLarge ? answer(asked, response, request) : json(response, result(asked, text('small'))),
  );
  const { act } = clientOf(url, SMALL);
  expect(await act()).toMatchObject({ ok: false, error: { code: 'response_too_large' } });
  isLarge = false;
  expect(said(await act())).toBe('small');
});

test('a stream that ends without the answer fails its call at once', async () => {
  const { url } = await serve((_asked, response) => events(response).end(': nothing\n\n'));
  const answer = await clientOf(url).act();
  expect(answer).toMatchObject({
    ok: false,
    error: { code: 'mcp_connection_failed', detail: { sent: true, retryable: false } },
  });
});

test('a connection that breaks off is told of, and is no reason to ask twice', async () => {
  let count = 0;
  const { url } = await serve((asked, response) => {
    if (++count > 1) return json(response, result(asked, text('again')));
    response.socket?.destroy();
  });
  const { act } = clientOf(url);
  expect(await act()).toMatchObject({
    ok: false,
    error: { code: 'mcp_connection_failed', detail: { sent: true } },
  });
  expect(count).toBe(1);
  expect(said(await act())).toBe('again');
});

test('what is given up is closed at the server too, also in the older revision', async () => {
  const closed: string[] = [];
  const { url, seen } = await serve((_asked, response) => {
    response.on('close', () => closed.push('call'));
  });
  const { act } = clientOf(url);
  expect(await act({ timeoutMs: 1000 })).toMatchObject({ ok: false, error: { code: 'timeout' } });
  await expect.poll(() => closed).toEqual(['call']);
  await expect.poll(() => seen.map(({ rpc }) => rpc)).toContain('notifications/cancelled');
});

test('a session that the server has forgotten is begun anew, and the call is made again', async () => {
  let session = 0;
  const { url, seen } = await serve(
    (asked, response, request) => {
      if (request.headers['mcp-session-id'] !== String(session))
        return response.writeHead(404).end();
      json(response, result(asked, text(`session ${session}`)));
    },
    {
      initialize: (asked, response) => {
        session++;
        json(response, result(asked, GREETING), { 'mcp-session-id': String(session) });
      },
      'tools/list': (asked, response, request) => {
        const isKnown = request.headers['mcp-session-id'] === String(session);
        return isKnown ? json(response, result(asked, LIST)) : response.writeHead(404).end();
      },
    },
  );
  const { pool, endpoint, act } = clientOf(url);
  expect(said(await act())).toBe('session 1');
  session = 7;
  expect(said(await act())).toBe('session 8');
  session = 20;
  const listed = await pool.list(endpoint, { ...callWith(), fresh: true });
  expect(listed.ok).toBe(true);
  expect(session).toBe(21);
  await pool.close();
  expect(seen.filter(({ method }) => method === 'DELETE')).toHaveLength(1);
});

test('nobody is there: said at once, tried later and later', async () => {
  const { url, server } = await serve(() => undefined);
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  const { act } = clientOf(url);
  expect(await act()).toMatchObject({
    ok: false,
    error: {
      code: 'mcp_connection_failed',
      detail: { retryable: true, remediation: expect.any(String), endpoint: url },
    },
  });
  expect(await act()).toMatchObject({
    ok: false,
    error: { code: 'mcp_connection_failed', detail: { retry_after_ms: expect.any(Number) } },
  });
});

test('a hundred calls share few connections', async () => {
  const sockets = new Set<unknown>();
  const { url } = await serve((asked, response, request) => {
    sockets.add(request.socket);
    json(response, result(asked, text('in')));
  });
  const { act } = clientOf(url);
  for (let at = 0; at < 100; at++) expect(said(await act())).toBe('in');
  expect(sockets.size).toBeLessThanOrEqual(2);
});

test('a call is one span with the names of the conventions, and its context goes along', async () => {
  const { url, port } = await serve((asked, response) => {
    json(response, result(asked, text(JSON.stringify(asked.params['_meta']))));
  });
  const spans: unknown[] = [];
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const { act } = clientOf(url, {
    async span(name, attributes, work) {
      spans.push({ name, ...attributes });
      return await work({ traceparent });
    },
  });
  expect(said(await act())).toBe(JSON.stringify({ traceparent }));
  expect(spans).toContainEqual({
    name: 'tools/call act',
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'act',
    'mcp.protocol.version': '2025-11-25',
    'network.transport': 'tcp',
    'server.address': '127.0.0.1',
    'server.port': port,
  });
});

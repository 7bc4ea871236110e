import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { fail, type JsonObject, ok, systemClock } from '../../base/index.ts';
import type { PrimitiveCall, Verifier } from '../primitive.ts';
import { createHttpPrimitive } from './http-client.ts';

type HttpClientPorts = Parameters<typeof createHttpPrimitive>[0];

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;
const servers: Server[] = [];

async function serve(handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => handler(request, response, Buffer.concat(parts).toString()));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

const needs: Parameters<Verifier>[0][] = [];
function callOf(config: JsonObject, more: Partial<PrimitiveCall> = {}): PrimitiveCall {
  needs.length = 0;
  return {
    tool: {
      id: 't',
      dir: '/',
      source: 'bundle',
      requires: [],
      effect: 'read',
      sandbox: 'strict',
      env: [],
    },
    config,
    parameters: {},
    sinks: [],
    verify(need) {
      needs.push(need);
      return ok(null);
    },
    signal: new AbortController().signal,
    projectRoot: '/',
    timeoutMs: 20_000,
    secrets: [],
    ...more,
  };
}

const open: HttpClientPorts = { clock: systemClock, isHostAllowed: () => true };
const run = (config: JsonObject, more?: Partial<PrimitiveCall>, ports = open) =>
  createHttpPrimitive(ports).run(callOf(config, more));

async function output(config: JsonObject, more?: Partial<PrimitiveCall>): Promise<JsonObject> {
  const result = await run(config, more);
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return result.output.output as JsonObject;
}

const echo: Handler = (request, response, body) => {
  response.setHeader('content-type', 'application/json');
  const { method, url, headers } = request;
  response.end(JSON.stringify({ method, url, headers, body }));
};

test('a JSON answer comes back parsed, with where it came from', async () => {
  const base = await serve(echo);
  const result = await run({
    method: 'post',
    url: `${base}/x`,
    body: { a: 'ü' },
    query: { q: [1, 2] },
  });
  expect(result).toMatchObject({
    ok: true,
    output: {
      labels: ['src:network', 'untrusted'],
      sources: [`url:${base}/x`],
      output: {
        status: 200,
        truncated: false,
        redirects: 0,
        body: { method: 'POST', url: '/x?q=1&q=2', body: '{"a":"ü"}' },
      },
    },
  });
  expect(needs).toEqual([{ capability: 'net.http', scope: { host: '127.0.0.1', method: 'POST' } }]);
});

test.each([
  [{ body: 'hi' }, 'hi', 'text/plain; charset=utf-8'],
  [{ body: [1] }, '[1]', 'application/json'],
  [{ body: 'hi', body_type: 'json' }, '"hi"', 'application/json'],
  [
    { body: { a: '1 2', b: [3, 4] }, body_type: 'form' },
    'a=1+2&b=3&b=4',
    'application/x-www-form-urlencoded',
  ],
  [
    { body: { a: 'x' }, headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
    'a=x',
    'application/x-www-form-urlencoded',
  ],
  [{ body: '{}', headers: { 'Content-Type': 'application/json' } }, '{}', 'application/json'],
])('body %j is sent as %s', async (config, text, type) => {
  const base = await serve(echo);
  const { body } = await output({ method: 'POST', url: base, ...config });
  expect(body).toMatchObject({ body: text, headers: { 'content-type': type } });
});

test.each([
  [{ type: 'bearer', token: 'tok' }, { authorization: 'Bearer tok' }, '/'],
  [{ type: 'api_key', key: 'k' }, { 'x-api-key': 'k' }, '/'],
  [{ type: 'api_key', header: 'X-Goog-Key', key: 'k' }, { 'x-goog-key': 'k' }, '/'],
  [{ type: 'api_key', query: 'key', key: 'k' }, {}, '/?key=k'],
  [{ type: 'basic', username: 'u', password: 'p' }, { authorization: 'Basic dTpw' }, '/'],
])('auth %j is sent', async (auth, headers, path) => {
  const seen: unknown[] = [];
  const base = await serve((request, response) => {
    seen.push({ url: request.url, headers: request.headers });
    response.end();
  });
  await output({ url: base, auth });
  expect(seen).toMatchObject([{ url: path, headers }]);
});

test('a name that is never resolved runs into the connect timeout', async () => {
  const lookup = () => new Promise<string[]>(() => {});
  const config = { url: 'http://a.example/', timeouts: { connect: 0.02 } };
  expect(await run(config, {}, { ...open, lookup })).toMatchObject({
    error: { code: 'timeout', detail: { phase: 'connect', sent: false } },
  });
});

test.each([
  [{ url: 'ftp://x/' }, 'invalid_input'],
  [{ url: 'file:///etc/passwd' }, 'invalid_input'],
  [{ url: 'http://user:pw@x/' }, 'invalid_input'],
  [{ url: 'nonsense' }, 'invalid_input'],
  [{}, 'config_invalid'],
  [{ url: 'http://x/', method: 'TRACE' }, 'invalid_input'],
  [{ url: 'http://x/', method: 'GET\r\nX: y' }, 'invalid_input'],
  [{ url: 'http://x/', headers: { a: 'b\r\nc: d' } }, 'invalid_input'],
  [{ url: 'http://x/', headers: { 'a\nb': 'c' } }, 'invalid_input'],
  [{ url: 'http://x/', headers: { a: '\u0000' } }, 'invalid_input'],
  [{ url: 'http://x/', headers: { a: '日本' } }, 'invalid_input'],
  [{ url: 'http://x/', headers: { Host: 'other' } }, 'invalid_input'],
  [{ url: 'http://x/', headers: { 'Transfer-Encoding': 'chunked' } }, 'invalid_input'],
  [{ url: 'http://x/', auth: { type: 'bearer', token: 'a\r\nb' } }, 'invalid_input'],
  [{ url: 'http://x/', auth: { type: 'api_key', header: 'host', key: 'a' } }, 'invalid_input'],
  [{ url: 'http://x/', auth: { type: 'magic' } }, 'config_invalid'],
  [{ url: 'http://x/', auth: { type: 'constructor' } }, 'config_invalid'],
  [{ url: 'http://x/', auth: { type: 'bearer' } }, 'config_invalid'],
  [{ url: 'http://x/', timeouts: { conect: 1 } }, 'config_invalid'],
  [{ url: 'http://x/', timeouts: { idle: -1 } }, 'config_invalid'],
  [{ url: 'http://x/', max_bytes: 0 }, 'config_invalid'],
  [{ url: 'http://x/', mode: 'push' }, 'config_invalid'],
  [{ url: 'http://x/', body: {}, body_type: 'xml' }, 'config_invalid'],
])('config %j is refused before anything is sent', async (config, code) => {
  const result = await run(config);
  expect(result).toMatchObject({ ok: false, error: { code } });
  expect(needs).toEqual([]);
});

test('a refusal does not repeat a header value, which may be a secret', async () => {
  const result = await run({ url: 'http://x/', headers: { a: 'hunter2\n' } });
  expect(JSON.stringify(result)).not.toContain('hunter2');
});

test('without the right nothing is connected', async () => {
  let hits = 0;
  const base = await serve((_, response) => response.end(String(hits++)));
  const verify = () => fail('permission_denied', 'no', { missing: 'net.http' });
  expect(await run({ url: base }, { verify })).toMatchObject({
    error: { code: 'permission_denied' },
  });
  expect(hits).toBe(0);
});

test('loopback is refused unless granted', async () => {
  let hits = 0;
  const base = await serve((_, response) => response.end(String(hits++)));
  const closed = { clock: systemClock, isHostAllowed: () => false };
  expect(await run({ url: base }, {}, closed)).toMatchObject({
    error: { code: 'permission_denied', detail: { kind: 'loopback', missing: '', rule: 'hosts' } },
  });
  expect(hits).toBe(0);
});

test('the address that was checked is the one connected to, asked for once', async () => {
  const base = await serve(echo);
  let lookups = 0;
  const lookup = async () => {
    lookups++;
    // A rebinding resolver: public for the check, loopback for the connection.
    return lookups === 1 ? ['127.0.0.1'] : ['203.0.113.1'];
  };
  const { port } = new URL(base);
  const result = await run({ url: `http://rebind.test:${port}/` }, {}, { ...open, lookup });
  expect(result).toMatchObject({
    output: { output: { body: { headers: { host: `rebind.test:${port}` } } } },
  });
  expect(lookups).toBe(1);
});

test('a redirect to a private host is refused', async () => {
  const base = await serve((_, response) => {
    response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' }).end();
  });
  const isHostAllowed = (host: string) => host === '127.0.0.1';
  expect(await run({ url: base }, {}, { clock: systemClock, isHostAllowed })).toMatchObject({
    error: { code: 'permission_denied', detail: { kind: 'metadata' } },
  });
});

test('every redirect is checked against the rights, with its own host and method', async () => {
  const base = await serve((request, response) => {
    if (request.url === '/end') response.end('done');
    else response.writeHead(303, { location: '/end' }).end();
  });
  expect(await output({ method: 'POST', url: base, body: 'x' })).toMatchObject({
    body: 'done',
    redirects: 1,
    url: `${base}/end`,
  });
  expect(needs.map(({ scope }) => scope?.method)).toEqual(['POST', 'GET']);
  const verify = (need: Parameters<Verifier>[0]) =>
    need.scope?.method === 'POST' ? ok(null) : fail('permission_denied', 'no');
  expect(await run({ method: 'POST', url: base }, { verify })).toMatchObject({
    error: { code: 'permission_denied' },
  });
});

test('credentials and secrets do not follow a redirect to another origin', async () => {
  const other = await serve(echo);
  const base = await serve((_, response) => {
    response.writeHead(307, { location: `${other}/there` }).end();
  });
  const { body } = await output(
    {
      method: 'POST',
      url: base,
      auth: { type: 'api_key', header: 'x-key', key: 'kkkk' },
      headers: { Cookie: 'c=1', 'X-Other': 'pre-s3cret-post', 'X-Plain': 'yes' },
      body: { a: 1 },
    },
    { secrets: ['s3cret'] },
  );
  const { headers, method, body: sent } = body as JsonObject;
  expect({ method, sent }).toEqual({ method: 'POST', sent: '{"a":1}' });
  expect(headers).toMatchObject({ 'x-plain': 'yes' });
  for (const name of ['x-key', 'cookie', 'x-other', 'authorization']) {
    expect(headers).not.toHaveProperty(name);
  }
  expect(
    await run({ method: 'POST', url: base, body: 'my s3cret' }, { secrets: ['s3cret'] }),
  ).toMatchObject({ error: { code: 'permission_denied' } });
});

test('credentials follow a redirect within the origin', async () => {
  const base = await serve((request, response, body) => {
    if (request.url === '/end') echo(request, response, body);
    else response.writeHead(302, { location: '/end' }).end();
  });
  const { body } = await output({ url: base, auth: { type: 'bearer', token: 'tok' } });
  expect(body).toMatchObject({ headers: { authorization: 'Bearer tok' } });
});

test.each(['file:///etc/passwd', 'ws://127.0.0.1/', 'http://u:p@127.0.0.1/'])(
  'a redirect to %s is refused',
  async (location) => {
    const base = await serve((_, response) => response.writeHead(302, { location }).end());
    expect(await run({ url: base })).toMatchObject({ error: { code: 'permission_denied' } });
  },
);

test('redirects end: too many are a fault, none are followed when asked so', async () => {
  const base = await serve((_, response) => response.writeHead(302, { location: '/' }).end());
  expect(await run({ url: base })).toMatchObject({ error: { code: 'http_error' } });
  expect(await output({ url: base, max_redirects: 0 })).toMatchObject({
    status: 302,
    headers: { location: '/' },
  });
});

test.each([
  [401, 'http_error'],
  [403, 'http_error'],
  [404, 'http_error'],
  [408, 'timeout'],
  [429, 'rate_limit'],
  [500, 'http_error'],
  [503, 'http_error'],
  [504, 'timeout'],
])('status %i is %s, with an excerpt and without secrets', async (status, code) => {
  const base = await serve((request, response) => {
    response.writeHead(status, {
      'retry-after': '2',
      'set-cookie': 'a=b',
      'content-type': 'text/x',
    });
    response.end(`you sent ${request.headers.authorization}`);
  });
  const result = await run({ url: base, auth: { type: 'bearer', token: 'tok-en' } });
  expect(result).toMatchObject({
    error: {
      code,
      detail: {
        status,
        retry_after_ms: 2000,
        body_excerpt: 'you sent Bearer [secret]',
        sent: true,
      },
    },
  });
  expect(JSON.stringify(result)).not.toMatch(/tok-en|set-cookie/);
});

test('a secret that an answer echoes is hidden, in every form it may take', async () => {
  const base = await serve(echo);
  const secret = 'p"w d/1';
  const result = await run(
    {
      url: base,
      method: 'POST',
      auth: { type: 'basic', username: 'u', password: secret },
      query: { k: secret },
      body: { secret },
    },
    { secrets: [secret] },
  );
  const text = JSON.stringify(result);
  expect(text).toContain('[secret]');
  for (const form of [secret, encodeURIComponent(secret), 'p\\"w', 'cCJ3', 'p%22w']) {
    expect(text).not.toContain(form);
  }
});

test.each([
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
])('a body in %s is decoded', async (encoding, compress) => {
  const base = await serve((_, response) => {
    response.writeHead(200, { 'content-encoding': encoding, 'content-type': 'text/plain' });
    response.end(compress('plain text'));
  });
  expect(await output({ url: base })).toMatchObject({ body: 'plain text' });
});

test('a bomb is cut at the size limit of what it expands to', async () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  const base = await serve((_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/plain' }).end(bomb);
  });
  expect(await output({ url: base, max_bytes: 1000 })).toMatchObject({
    bytes: 1000,
    truncated: true,
  });
});

test.each(['zstd, gzip', 'constructor'])('encoding %s is refused', async (encoding) => {
  const base = await serve((_, response) => {
    response.writeHead(200, { 'content-encoding': encoding }).end('x');
  });
  expect(await run({ url: base })).toMatchObject({ error: { code: 'http_error' } });
});

test('a broken compressed body is a fault', async () => {
  const base = await serve((_, response) => {
    response
      .writeHead(200, { 'content-encoding': 'gzip' })
      .end(gzipSync('x'.repeat(999)).subarray(0, 15));
  });
  expect(await run({ url: base })).toMatchObject({ error: { code: 'network_error' } });
});

test('a text that is too long is cut and says so, JSON is a fault', async () => {
  const base = await serve((request, response) => {
    response.setHeader('content-type', request.url === '/j' ? 'application/json' : 'text/html');
    response.end(`"${'x'.repeat(5000)}"`);
  });
  expect(await output({ url: base, max_bytes: 100 })).toMatchObject({
    truncated: true,
    bytes: 100,
  });
  expect(await run({ url: `${base}/j`, max_bytes: 100 })).toMatchObject({
    error: { code: 'response_too_large', detail: { max_bytes: 100 } },
  });
});

test('bytes that are no text come back as base64, JSON that is none as text', async () => {
  const base = await serve((request, response) => {
    const isImage = request.url === '/i';
    response.setHeader('content-type', isImage ? 'image/png' : 'application/json');
    response.end(isImage ? Buffer.from([0, 255]) : '{"a":');
  });
  expect(await output({ url: `${base}/i` })).toMatchObject({ body: 'AP8=', encoding: 'base64' });
  expect(await output({ url: base })).toMatchObject({
    body: '{"a":',
    body_error: expect.stringContaining('not valid JSON'),
  });
});

test('other character sets are read, unknown ones as UTF-8', async () => {
  const base = await serve((request, response) => {
    response.setHeader('content-type', `text/plain; charset=${request.url?.slice(1)}`);
    response.end(Buffer.from('é', 'latin1'));
  });
  expect(await output({ url: `${base}/iso-8859-1` })).toMatchObject({ body: 'é' });
  expect(await output({ url: `${base}/klingon` })).toMatchObject({ body: '\uFFFD' });
});

test('no listener: a network error that was not sent', async () => {
  const base = await serve(echo);
  await new Promise((resolve) => servers.pop()?.close(resolve));
  expect(await run({ url: base })).toMatchObject({
    error: { code: 'network_error', detail: { sent: false, reason: 'ECONNREFUSED' } },
  });
});

test('an answer that breaks off, or is no HTTP, is a network error that was sent', async () => {
  const base = await serve((request, response) => {
    if (request.url === '/cut') response.writeHead(200, { 'content-length': '100' }).write('x');
    else response.socket?.write('garbage\r\n\r\n');
    setImmediate(() => response.socket?.destroy());
  });
  for (const path of ['/cut', '/garbage']) {
    expect(await run({ url: `${base}${path}` })).toMatchObject({
      error: { code: 'network_error', detail: { sent: true } },
    });
  }
});

test.each([
  ['first_byte', '/silent'],
  ['idle', '/stall'],
  ['total', '/silent'],
])('a server that stalls runs into the %s timeout', async (phase, path) => {
  const base = await serve((request, response) => {
    if (request.url === '/stall') response.writeHead(200).write('x');
  });
  const result = await run({ url: `${base}${path}`, timeouts: { [phase]: 0.05 } });
  expect(result).toMatchObject({ error: { code: 'timeout', detail: { phase, sent: true } } });
});

test('an abort ends the call at once, before and during it', async () => {
  const before = AbortSignal.abort();
  const base = await serve((_, response) => {
    response.writeHead(200).write('x');
    controller.abort();
  });
  const controller = new AbortController();
  for (const signal of [before, controller.signal]) {
    expect(await run({ url: base }, { signal })).toMatchObject({ error: { code: 'cancelled' } });
  }
});

test('a plan shows what would be sent, without secrets and without sending', () => {
  const primitive = createHttpPrimitive(open);
  const plan = primitive.plan?.(
    callOf(
      {
        method: 'POST',
        url: 'https://a.example/x?k=s3cret',
        auth: { type: 'bearer', token: 'tokk' },
      },
      { secrets: ['s3cret'] },
    ),
  );
  expect(plan).toMatchObject({
    request: 'POST https://a.example/x?k=[secret]',
    headers: { authorization: 'Bearer [secret]' },
    needs: [{ capability: 'net.http', scope: { host: 'a.example', method: 'POST' } }],
  });
});

import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { type JsonObject, ok, systemClock } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { createHttpPrimitive } from './http-client.ts';

// For `tls.test` alone and of no use anywhere else; valid for a hundred years.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8Lph5Par4bHj62Q2
eZQ1dIc8GoNEygyEDBJGmUnOV8ehRANCAARXGckVVwWf7Mott+eKqfNrtptyib+x
ep+5piQuEYrkBRzSQXZkR78xX9Mkox1uxQsE3/MbUlYVUX+XQNFJ+MM3
-----END PRIVATE KEY-----
`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBkjCCATigAwIBAgIUBxrfOBgOZ1nBOEOQtJpZuwQEV04wCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIdGxzLnRlc3QwIBcNMjYxMTE1MDI0NjE1WhgPMjEyNjEwMjIw
MjQ2MTVaMBMxETAPBgNVBAMMCHRscy50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEVxnJFVcFn+zKLbfniqnza7abcom/sXqfuaYkLhGK5AUc0kF2ZEe/MV/T
JKMdbsULBN/zG1JWFVF/l0DRSfjDN6NoMGYwHQYDVR0OBBYEFFqU+2vathNcI4BE
z9Go8FBlKiwRMB8GA1UdIwQYMBaAFFqU+2vathNcI4BEz9Go8FBlKiwRMA8GA1Ud
EwEB/wQFMAMBAf8wEwYDVR0RBAwwCoIIdGxzLnRlc3QwCgYIKoZIzj0EAwIDSAAw
RQIhAM/BEtFCaHwdByrB8E0coIo2yAf2NAp2ajkKAO3may2sAiBJ6klFDxVK1mUj
8lSntj4WebgKDWMiv1YZ0nskVW+umw==
-----END CERTIFICATE-----
`;

const usual = getCACertificates('default');
const server = createServer({ key, cert }, (request, response) => {
  if (request.url === '/sse') {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: 1\n\n');
  } else if (request.url === '/down') {
    response.writeHead(302, { location: 'http://tls.test/' }).end();
  } else response.end('plain');
});
const sockets = new WebSocketServer({ server });
sockets.on('connection', (socket) => socket.send('hello', () => socket.close(1000)));
let port = 0;

beforeAll(async () => {
  setDefaultCACertificates([...usual, cert]);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  setDefaultCACertificates(usual);
  sockets.close();
  await new Promise((resolve) => server.close(resolve));
});

function run(host: string, scheme: string, path: string, config: JsonObject) {
  const call: PrimitiveCall = {
    tool: {
      id: 't',
      dir: '/',
      source: 'bundle',
      requires: [],
      effect: 'read',
      sandbox: 'strict',
      env: [],
    },
    config: { url: `${scheme}://${host}:${port}${path}`, ...config },
    parameters: {},
    sinks: [],
    verify: () => ok(null),
    signal: new AbortController().signal,
    projectRoot: '/',
    timeoutMs: 20_000,
    secrets: [],
  };
  const lookup = async () => ['127.0.0.1'];
  return createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true, lookup }).run(call);
}

const WAYS = [
  ['a request', 'https', '/', {}],
  ['a stream', 'https', '/sse', { mode: 'stream' }],
  ['a websocket', 'wss', '/', { mode: 'stream', stream: { transport: 'websocket' } }],
] as const;

test.each(WAYS)(
  '%s is made over TLS, to the name that was asked for',
  async (_, scheme, path, config) => {
    expect(await run('tls.test', scheme, path, config)).toMatchObject({ ok: true });
  },
);

test.each(WAYS)(
  '%s is refused when the certificate is for another name',
  async (_, scheme, path, config) => {
    expect(await run('other.test', scheme, path, config)).toMatchObject({
      error: {
        code: 'network_error',
        detail: { reason: 'ERR_TLS_CERT_ALTNAME_INVALID', sent: false },
      },
    });
  },
);

test.each(WAYS)(
  '%s is refused when nobody vouches for the certificate',
  async (_, scheme, path, config) => {
    setDefaultCACertificates(usual);
    try {
      expect(await run('tls.test', scheme, path, config)).toMatchObject({
        error: { code: 'network_error', detail: { sent: false } },
      });
    } finally {
      setDefaultCACertificates([...usual, cert]);
    }
  },
);

test('a redirect from https to http is refused', async () => {
  expect(await run('tls.test', 'https', '/down', {})).toMatchObject({
    error: { code: 'permission_denied' },
  });
});

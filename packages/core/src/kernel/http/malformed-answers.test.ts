import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ok, systemClock } from '../../base/index.ts';
import { createHttpPrimitive } from './http-client.ts';

// Malformed responses, byte for byte. Each one is a fault in both modes, and none is waited for longer
// than the time limit.
const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

type Answer = string | ((socket: Socket) => void);

async function serve(answer: Answer): Promise<string> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => {
      if (typeof answer === 'string') socket.write(answer);
      else answer(socket);
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function run(answer: Answer, mode: 'sync' | 'stream', seconds = 20) {
  const http = createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true });
  const tool = { id: 't', dir: '/', requires: [], env: [] };
  const outcome = await http.run({
    tool: { ...tool, source: 'bundle', effect: 'read', sandbox: 'strict' },
    config: { url: await serve(answer), mode, timeouts: { total: seconds } },
    parameters: {},
    sinks: [],
    verify: () => ok(null),
    signal: new AbortController().signal,
    projectRoot: '/',
    timeoutMs: 20_000,
    secrets: [],
  });
  http.close?.();
  return outcome;
}

/** Goes on until the other side has enough. */
const endless = (begin: string, more: string) => (socket: Socket) => {
  const go = (): void => void (socket.destroyed || socket.write(more, () => setImmediate(go)));
  socket.write(begin, go);
};

const OK = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n';
const EVENT = 'data: 1\n\n';
const LENGTH = `Content-Length: ${EVENT.length}\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const CHUNK = `9\r\n${EVENT}\r\n`;
const END = '0\r\n\r\n';
const FILLER = `X: ${'a'.repeat(1000)}\r\n`;

test.each<[string, Answer]>([
  ['an endless head', endless(OK, FILLER)],
  ['an endless header', endless(`${OK}X: `, 'a'.repeat(10_000))],
  ['chunks and a length', `${OK}${CHUNKED}${LENGTH}\r\n${CHUNK}${END}`],
  ['chunks in chunks', `${OK}${CHUNKED}${CHUNKED}\r\n${CHUNK}${END}`],
  ['chunks of something packed', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n${CHUNK}${END}`],
  ['an encoding without an end', `${OK}Transfer-Encoding: gzip\r\n\r\n${EVENT}`],
  ['two lengths', `${OK}${LENGTH}Content-Length: 8\r\n\r\n${EVENT}`],
  ['a list of lengths', `${OK}Content-Length: 9, 9\r\n\r\n${EVENT}`],
  ['a negative length', `${OK}Content-Length: -1\r\n\r\n${EVENT}`],
  ['a length with a sign', `${OK}Content-Length: +9\r\n\r\n${EVENT}`],
  ['lines that end in LF', OK.replaceAll('\r', '') + `\n${EVENT}`],
  ['a folded header', `${OK}X: a\r\n b\r\n${LENGTH}\r\n${EVENT}`],
  ['a NUL in a value', `${OK}X: a\0b\r\n${LENGTH}\r\n${EVENT}`],
  ['a NUL in a name', `${OK}X\0: a\r\n${LENGTH}\r\n${EVENT}`],
  ['a blank before the colon', `${OK}X : a\r\n${LENGTH}\r\n${EVENT}`],
  ['a header without a colon', `${OK}nothing\r\n${LENGTH}\r\n${EVENT}`],
  ['no head at all', EVENT],
  ['a status of two digits', `${OK.replace('200', '99')}${LENGTH}\r\n${EVENT}`],
  ['an upgrade', 'HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'],
  ['an upgrade to nothing', `${OK.replace('200', '101')}\r\n${EVENT}`],
])('%s is not HTTP', async (_, answer) => {
  for (const mode of ['sync', 'stream'] as const) {
    expect(await run(answer, mode)).toMatchObject({
      error: {
        code: 'network_error',
        detail: { message: expect.stringContaining('is not valid HTTP') as string, sent: true },
      },
    });
  }
});

test.each<[string, Answer]>([
  ['a size with too many digits', `${OK}${CHUNKED}\r\n${'f'.repeat(17)}\r\n`],
  ['a negative size', `${OK}${CHUNKED}\r\n-1\r\n`],
  ['no size', `${OK}${CHUNKED}\r\n\r\n`],
  ['a chunk that is longer than its size', `${OK}${CHUNKED}\r\n2\r\nabc\r\n${END}`],
  ['endless trailers', endless(`${OK}${CHUNKED}\r\n${CHUNK}0\r\n`, FILLER)],
  ['bytes that are not packed as said', `${OK}Content-Encoding: gzip\r\n${LENGTH}\r\n${EVENT}`],
  ['less than announced', (socket) => socket.end(`${OK}Content-Length: 20\r\n\r\n${EVENT}`)],
  ['a last chunk that is missing', (socket) => socket.end(`${OK}${CHUNKED}\r\n${CHUNK}`)],
  [
    'a last chunk that is missing, as agreed',
    (socket) => socket.end(`${OK}Connection: close\r\n${CHUNKED}\r\n${CHUNK}`),
  ],
])('%s is an answer that broke off', async (_, answer) => {
  expect(await run(answer, 'sync')).toMatchObject({ error: { code: 'network_error' } });
  expect(await run(answer, 'stream')).toMatchObject({ error: { code: 'stream_incomplete' } });
});

test.each<[string, Answer]>([
  ['nothing', () => {}],
  ['interim answers and no other', endless('', 'HTTP/1.1 102 Processing\r\n\r\n')],
  ['an endless status line', endless('HTTP/1.1 200 ', 'a'.repeat(10_000))],
  ['an endless chunk extension', endless(`${OK}${CHUNKED}\r\n1;`, 'a'.repeat(10_000))],
])('%s is waited for only so long', async (_, answer) => {
  for (const mode of ['sync', 'stream'] as const) {
    expect(await run(answer, mode, 0.2)).toMatchObject({ error: { code: 'timeout' } });
  }
});

test('an interim answer is passed over, a header that names a prototype is a header', async () => {
  const answer = `HTTP/1.1 103 Early\r\n\r\n${OK}__proto__: x\r\n${LENGTH}\r\n${EVENT}`;
  const outcome = await run(answer, 'sync');
  expect(outcome).toMatchObject({ output: { output: { status: 200, body: EVENT } } });
  expect(JSON.stringify(outcome)).toContain('"__proto__":"x"');
});

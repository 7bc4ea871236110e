import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { fail, type JsonObject, type Outcome, ok, systemClock } from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult, Verifier } from '../primitive.ts';
import type { Sink } from '../sink.ts';
import { createReturnSink } from '../sinks/return.ts';
import { createHttpPrimitive } from './http-client.ts';

const textOf = (data: RawData): string => (data as Buffer).toString();

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serve(onSocket: (socket: WebSocket, path: string) => void): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connection', (socket, request) => onSocket(socket, request.url ?? ''));
  closers.push(async () => {
    for (const client of server.clients) client.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const needs: Parameters<Verifier>[0][] = [];
async function run(
  url: string,
  config: JsonObject = {},
  more: Partial<PrimitiveCall> = {},
): Promise<Outcome<PrimitiveResult>> {
  needs.length = 0;
  const made = await createReturnSink({}, {} as never);
  if (!made.ok) throw new Error('no sink');
  const sinks: readonly Sink[] = [made.output];
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
    config: { url, mode: 'stream', stream: { transport: 'websocket' }, ...config },
    parameters: {},
    sinks,
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
  return createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true }).run(call);
}

test('the body is the first message, each text message an event', async () => {
  const base = await serve((socket) => {
    socket.on('message', (data) => {
      socket.send(`got ${textOf(data)}`);
      socket.send(Buffer.from([1, 2]));
      socket.ping('are you there');
      socket.send('x'.repeat(100_000));
    });
    socket.on('pong', () => socket.close(1000));
  });
  const result = await run(base, { body: { hello: 'ü' } });
  expect(result).toMatchObject({
    ok: true,
    output: {
      output: {
        status: 101,
        body: [{ data: 'got {"hello":"ü"}' }, { data: 'x'.repeat(100_000) }],
        stream_events_count: 2,
        binary_ignored: 1,
        close_code: 1000,
        ended_cleanly: true,
      },
    },
  });
  expect(needs).toEqual([{ capability: 'net.websocket', scope: { host: '127.0.0.1' } }]);
});

test('credentials and headers go with the handshake', async () => {
  let seen: unknown;
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connection', (socket, request) => {
    seen = request.headers.authorization;
    socket.close();
  });
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const result = await run(url, { auth: { type: 'bearer', token: 'tok' } });
  expect(result).toMatchObject({ output: { output: { ended_cleanly: true } } });
  expect(seen).toBe('Bearer tok');
});

test.each([
  ['a code that means trouble', (socket: WebSocket) => socket.close(1011, 'oops'), 1011],
  ['a lost connection', (socket: WebSocket) => socket.terminate(), 1006],
])('%s is an incomplete stream', async (_, end, close_code) => {
  const base = await serve((socket) => socket.send('one', () => end(socket)));
  expect(await run(base)).toMatchObject({
    error: {
      code: 'stream_incomplete',
      detail: { close_code, stream_events_count: 1, body: [{ data: 'one' }], ended_cleanly: false },
    },
  });
});

test('a message that is too long is refused', async () => {
  const base = await serve((socket) => socket.send('x'.repeat(5000)));
  const config = { stream: { transport: 'websocket', max_event: 1000 } };
  expect(await run(base, config)).toMatchObject({ error: { code: 'response_too_large' } });
});

test('a silent server runs into the idle timeout', async () => {
  const base = await serve(() => {});
  expect(await run(base, { timeouts: { idle: 0.05 } })).toMatchObject({
    error: { code: 'timeout', detail: { phase: 'idle' } },
  });
});

test('without the right, or for another scheme, nothing is connected', async () => {
  let hits = 0;
  const base = await serve(() => hits++);
  const verify = () => fail('permission_denied', 'no', { missing: 'net.websocket' });
  expect(await run(base, {}, { verify })).toMatchObject({ error: { code: 'permission_denied' } });
  expect(await run(base.replace('ws:', 'http:'))).toMatchObject({
    error: { code: 'invalid_input' },
  });
  expect(hits).toBe(0);
});

test('a server that is no WebSocket is a fault with its status', async () => {
  const server = createServer((_, response) => response.writeHead(401).end('who are you'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  expect(await run(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)).toMatchObject({
    error: { code: 'http_error', detail: { status: 401, body_excerpt: 'who are you' } },
  });
});

test('a handshake with the wrong answer is refused', async () => {
  const server = createServer();
  server.on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n');
    socket.end('Sec-WebSocket-Accept: nonsense\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  expect(await run(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)).toMatchObject({
    error: { code: 'network_error', detail: { reason: 'bad_handshake' } },
  });
});

test('an abort closes the connection', async () => {
  const controller = new AbortController();
  let closed: Promise<unknown> = Promise.resolve();
  const base = await serve((socket) => {
    closed = new Promise((resolve) => socket.once('close', resolve));
    controller.abort();
  });
  const { signal } = controller;
  expect(await run(base, {}, { signal })).toMatchObject({ error: { code: 'cancelled' } });
  await closed;
});

/** Writes bytes past the server's own framing. */
const raw = (socket: WebSocket, bytes: readonly number[]): void => {
  const { _socket: wire } = socket as unknown as { _socket: { write(bytes: Buffer): void } };
  wire.write(Buffer.from(bytes));
};

test.each([
  ['an unknown opcode', [0x83, 0x00]],
  ['a masked frame', [0x81, 0x81, 1, 2, 3, 4, 5]],
  ['a reserved bit', [0xa1, 0x00]],
  ['a continuation of nothing', [0x80, 0x01, 0x61]],
  ['a ping in pieces', [0x09, 0x00]],
  ['text that is no UTF-8', [0x81, 0x02, 0xc3, 0x28]],
  ['a close frame of one byte', [0x88, 0x01, 0x03]],
])('%s ends the stream with a fault', async (_, bytes) => {
  const base = await serve((socket) => socket.send('one', () => raw(socket, bytes)));
  expect(await run(base)).toMatchObject({
    error: {
      code: 'network_error',
      detail: {
        message: expect.stringMatching(/^websocket: /) as string,
        stream_events_count: 1,
        ended_cleanly: false,
      },
    },
  });
});

test('a length that nobody could hold is refused before anything of it is', async () => {
  const base = await serve((socket) => raw(socket, [0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0]));
  expect(await run(base)).toMatchObject({ error: { code: 'response_too_large' } });
});

test('a message in pieces is one event, also with a ping between them', async () => {
  const base = await serve((socket) => {
    raw(socket, [0x01, 1, 0x61, 0x89, 1, 0x21, 0x00, 1, 0x62, 0x80, 1, 0x63]);
    socket.once('pong', () => socket.close(1000));
  });
  expect(await run(base)).toMatchObject({ output: { output: { body: [{ data: 'abc' }] } } });
});

test('messages may be compressed, and are bounded by what they expand to', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: true });
  await new Promise((resolve) => server.once('listening', resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  server.on('connection', (socket) => {
    socket.send('x'.repeat(50_000));
    socket.close(1000);
  });
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await run(url)).toMatchObject({ output: { output: { stream_events_count: 1 } } });
  const small = { stream: { transport: 'websocket', max_event: 1000 } };
  expect(await run(url, small)).toMatchObject({ error: { code: 'response_too_large' } });
  expect(await run(url, { max_bytes: 1000 })).toMatchObject({
    error: { code: 'response_too_large', detail: { max_bytes: 1000 } },
  });
});

test('a server that closes in words only is not waited for', async () => {
  const base = await serve((socket) => {
    raw(socket, [0x81, 1, 0x61, 0x88, 2, 0x03, 0xe8]);
    socket.pause();
  });
  expect(await run(base)).toMatchObject({ output: { output: { close_code: 1000 } } });
});

test('a sink that needs time is waited for, and gets everything in order', async () => {
  const [count, size] = [1000, 40_000];
  let sent = 0;
  const base = await serve((socket) => {
    const go = (): void => {
      if (sent === count) return socket.close(1000);
      socket.send(`${sent++} `.padEnd(size, 'x'), go);
    };
    go();
  });
  const seen: number[] = [];
  /** Until the server can send no more: 40 MB are more than the system holds between the two. */
  const standstill = async (): Promise<number> => {
    for (let before = -1; before !== sent; ) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return sent;
  };
  let sentMeanwhile = 0;
  const sink: Sink = {
    type: 's',
    async write(events) {
      if (seen.length === 0) sentMeanwhile = await standstill();
      seen.push(...events.map(({ data }) => Number.parseInt(data, 10)));
    },
    close: async () => ({ type: 's', delivered: seen.length, dropped: 0 }),
  };
  expect(await run(base, {}, { sinks: [sink] })).toMatchObject({
    output: { output: { stream_events_count: count, ended_cleanly: true } },
  });
  expect(seen).toEqual(Array.from({ length: count }, (_, index) => index));
  expect(sentMeanwhile).toBeLessThan(count / 2);
});

test('a secret that comes back is hidden', async () => {
  const base = await serve((socket) => socket.send('it is s3cret-word', () => socket.close()));
  const result = await run(base, {}, { secrets: ['s3cret-word'] });
  expect(JSON.stringify(result)).toContain('it is [secret]');
});

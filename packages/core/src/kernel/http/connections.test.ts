import { createServer as createWebServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type JsonObject, ok, systemClock } from '../../base/index.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';
import { Connections } from './connections.ts';
import { createHttpPrimitive, type HttpPrimitive } from './http-client.ts';

type KeepLimits = ConstructorParameters<typeof Connections>[0];

// A raw server that counts its connections and keeps them open: what a test sees is ours.
interface Side {
  url: string;
  port: number;
  connections: Socket[];
  /** Settles when the connection with this number is closed. */
  closed(index: number): Promise<void>;
}
type Answer = (socket: Socket, count: number, head: string) => void;

const servers: Server[] = [];
const primitives: Primitive[] = [];

async function serve(answer: Answer): Promise<Side> {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    let count = 0;
    socket.on('error', () => {});
    socket.on('data', (head) => answer(socket, count++, head.toString()));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const closed = (index: number) =>
    new Promise<void>((resolve) => {
      const socket = connections[index];
      if (!socket || socket.destroyed) resolve();
      else socket.once('close', () => resolve());
    });
  return { url: `http://127.0.0.1:${port}`, port, connections, closed };
}

afterEach(async () => {
  for (const primitive of primitives.splice(0)) primitive.close?.();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

function client(
  limits?: KeepLimits,
  ports: Partial<Parameters<typeof createHttpPrimitive>[0]> = {},
): HttpPrimitive {
  const primitive = createHttpPrimitive({
    clock: systemClock,
    isHostAllowed: () => true,
    connections: new Connections(limits),
    ...ports,
  });
  primitives.push(primitive);
  return primitive;
}

const callOf = (
  url: string,
  effect: 'read' | 'idempotent' | 'write' = 'read',
  config: JsonObject = {},
): PrimitiveCall => ({
  tool: {
    id: 't',
    dir: '/',
    source: 'bundle',
    requires: [],
    effect,
    sandbox: 'strict',
    env: [],
  },
  config: { url, mode: 'stream', ...config },
  parameters: {},
  sinks: [],
  verify: () => ok(null),
  signal: new AbortController().signal,
  projectRoot: '/',
  timeoutMs: 20_000,
  secrets: [],
});

const TYPE = 'Content-Type: text/event-stream';
const EVENT = 'data: 1\n\n';
const BODY = `${EVENT.length.toString(16)}\r\n${EVENT}\r\n0\r\n\r\n`;
const CHUNKED = `HTTP/1.1 200 OK\r\n${TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n${BODY}`;
const LENGTH = `HTTP/1.1 200 OK\r\n${TYPE}\r\nContent-Length: ${EVENT.length}\r\n\r\n${EVENT}`;
const GOODBYE = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';
const GOOD = { ok: true, output: { output: { stream_events_count: 1, ended_cleanly: true } } };

test.each([
  ['chunks', CHUNKED],
  ['a length', LENGTH],
])('a connection is used again after an answer in %s', async (_, text) => {
  const side = await serve((socket) => socket.write(text));
  const http = client();
  for (let count = 0; count < 3; count++) {
    expect(await http.run(callOf(`${side.url}/${count}`))).toMatchObject(GOOD);
  }
  expect(side.connections.length).toBe(1);
});

test.each([
  ['that says close', CHUNKED.replace(TYPE, `${TYPE}\r\nConnection: close`)],
  ['of HTTP/1.0', LENGTH.replace('HTTP/1.1', 'HTTP/1.0')],
  ['with bytes behind it', `${CHUNKED}x`],
  ['with a second answer behind it', CHUNKED + CHUNKED],
  ['of another type that is longer than what is read', `${LENGTH.replace(TYPE, 'X: y')}!`],
  [
    'that is kept for no longer than a moment',
    CHUNKED.replace(TYPE, `${TYPE}\r\nKeep-Alive: timeout=1`),
  ],
])('a connection is not used again after an answer %s', async (_, text) => {
  const side = await serve((socket) => socket.write(text));
  const http = client();
  await http.run(callOf(side.url));
  await side.closed(0);
  await http.run(callOf(side.url));
  expect(side.connections.length).toBe(2);
});

// Bytes behind an answer without a body: the next request would read them as its own answer.
const SMUGGLED = LENGTH.replace(EVENT, 'data: 9\n\n');
const EMPTY = LENGTH.slice(0, -EVENT.length).replace(`${EVENT.length}`, '0');
test.each([
  ['of length 0', EMPTY, {}],
  ['204', EMPTY.replace('200 OK', '204 No Content'), {}],
  ['304', EMPTY.replace('200 OK', '304 Not Modified'), {}],
  ['to HEAD', LENGTH.slice(0, -EVENT.length), { method: 'HEAD' }],
])('bytes behind an empty answer %s are not the next answer', async (_, head, config) => {
  for (const [first, second] of [
    [`${head}X`, SMUGGLED],
    [`${head}HTT`, SMUGGLED.slice(3)],
    [`${head}${SMUGGLED}`, ''],
  ] as const) {
    const later: (() => void)[] = [];
    const side = await serve((socket, _count, text) => {
      if (!text.includes(' /bad ')) return socket.write(LENGTH);
      later.push(() => socket.write(second));
      socket.write(first);
    });
    const http = client();
    const heard: unknown[] = [];
    const sink = {
      type: 's',
      write: (events: readonly { data: string }[]) =>
        void heard.push(...events.map(({ data }) => data)),
      close: async () => ({ type: 's', delivered: 0, dropped: 0 }),
    };
    await http.run(callOf(`${side.url}/bad`, 'read', config));
    for (const write of later) write();
    expect(await http.run({ ...callOf(`${side.url}/ok`), sinks: [sink] })).toMatchObject(GOOD);
    expect(heard).toEqual(['1']);
    expect(side.connections.length).toBe(2);
  }
});

test('a connection whose stream was cancelled, or stopped for its size, is closed', async () => {
  const side = await serve((socket) => socket.write(CHUNKED.replace(BODY, `5\r\n${EVENT}`)));
  const http = client();
  const stop = new AbortController();
  const sink = {
    type: 's',
    write: () => stop.abort(),
    close: async () => ({ type: 's', delivered: 0, dropped: 0 }),
  };
  const endless = `HTTP/1.1 200 OK\r\n${TYPE}\r\n\r\n${EVENT}`;
  const open = await serve((socket) => socket.write(endless));
  await http.run({ ...callOf(open.url), signal: stop.signal, sinks: [sink] });
  await open.closed(0);
  await http.run(callOf(side.url, 'read', { max_bytes: 2 }));
  await side.closed(0);
  expect([open.connections.length, side.connections.length]).toEqual([1, 1]);
});

test('what a server says unasked closes a connection that waits', async () => {
  const side = await serve((socket) => socket.write(CHUNKED));
  const http = client();
  await http.run(callOf(side.url));
  side.connections[0]?.write(CHUNKED);
  await side.closed(0);
  expect(await http.run(callOf(side.url))).toMatchObject(GOOD);
  expect(side.connections.length).toBe(2);
});

test('a request lost on an old connection is sent again once, on a new one', async () => {
  const seen: number[] = [];
  const side = await serve((socket, count) => {
    seen.push(count);
    // Takes the second request and closes without a word about it.
    if (count === 0) socket.write(CHUNKED);
    else socket.destroy();
  });
  const http = client();
  for (const effect of ['read', 'idempotent'] as const) {
    expect(await http.run(callOf(side.url, effect))).toMatchObject(GOOD);
  }
  expect(seen).toEqual([0, 1, 0]);
});

test('a farewell to an idle connection is not taken for an answer', async () => {
  const side = await serve((socket, count) => {
    if (count === 0) socket.write(CHUNKED);
    else socket.end(GOODBYE);
  });
  const http = client();
  expect(await http.run(callOf(side.url))).toMatchObject(GOOD);
  expect(await http.run(callOf(side.url))).toMatchObject(GOOD);
  expect(side.connections.length).toBe(2);
  const fresh = await serve((socket) => socket.end(GOODBYE));
  expect(await http.run(callOf(fresh.url))).toMatchObject({ error: { code: 'timeout' } });
});

test.each([
  ['reset', (socket: Socket): void => void socket.resetAndDestroy(), 'network_error'],
  ['closed', (socket: Socket): void => void socket.destroy(), 'network_error'],
  ['408', (socket: Socket): void => void socket.end(GOODBYE), 'timeout'],
] as const)(
  'a request that is paid for is sent once, also on an old connection: %s',
  async (_, end, code) => {
    const seen: number[] = [];
    const side = await serve((socket, count) => {
      seen.push(count);
      if (count === 0) socket.write(CHUNKED);
      else end(socket);
    });
    const prepared = client().prepare(callOf(side.url, 'idempotent'));
    if (!prepared.ok) throw new Error(prepared.error.detail.message);
    const send = () =>
      prepared.output.send(undefined, {
        signal: new AbortController().signal,
        isOnce: true,
        verify: () => ok(null),
        onEvents: () => undefined,
      });
    expect(await send()).toMatchObject({ ok: true, output: { end: { endedCleanly: true } } });
    expect(await send()).toMatchObject({ ok: false, error: { code } });
    expect(seen).toEqual([0, 1]);
  },
);

test('a call that is cancelled when its old connection is lost sends nothing more', async () => {
  const stop = new AbortController();
  const side = await serve((socket, count) => {
    if (count === 0) socket.write(CHUNKED);
    else {
      stop.abort();
      socket.destroy();
    }
  });
  const http = client();
  await http.run(callOf(side.url));
  expect(await http.run({ ...callOf(side.url), signal: stop.signal })).toMatchObject({
    error: { code: 'cancelled' },
  });
  expect(side.connections.length).toBe(1);
});

test('a request that changes things never goes out on an old connection', async () => {
  const side = await serve((socket, count) => {
    if (count === 0) socket.write(CHUNKED);
    else socket.destroy();
  });
  const http = client();
  for (let count = 0; count < 3; count++) {
    expect(await http.run(callOf(side.url, 'write', { method: 'POST' }))).toMatchObject(GOOD);
  }
  expect(side.connections.length).toBe(3);
});

test('a request on a new connection is not sent again', async () => {
  const side = await serve((socket) => socket.destroy());
  expect(await client().run(callOf(side.url))).toMatchObject({
    error: { code: 'network_error', detail: { sent: true } },
  });
  expect(side.connections.length).toBe(1);
});

test('a request is not sent again once a byte of its answer has come', async () => {
  const side = await serve((socket, count) => {
    if (count === 0) socket.write(CHUNKED);
    else socket.write('H', () => socket.destroy());
  });
  const http = client();
  await http.run(callOf(side.url));
  expect(await http.run(callOf(side.url))).toMatchObject({ error: { code: 'network_error' } });
  expect(side.connections.length).toBe(1);
});

test('the address is judged for every request, and an open connection changes nothing', async () => {
  const side = await serve((socket) => socket.write(CHUNKED));
  let [isAllowed, address] = [true, '127.0.0.1'];
  const asked: string[] = [];
  const http = client(undefined, {
    lookup: async () => [address],
    isHostAllowed: (_host, at) => {
      asked.push(at);
      return isAllowed;
    },
  });
  const url = `http://name.test:${side.port}/`;
  expect(await http.run(callOf(url))).toMatchObject(GOOD);
  isAllowed = false;
  expect(await http.run(callOf(url))).toMatchObject({ error: { code: 'permission_denied' } });
  isAllowed = true;
  // The name has moved: the old connection leads to where it was.
  address = '127.0.0.2';
  await http.run(callOf(url));
  expect(asked).toEqual(['127.0.0.1', '127.0.0.1', '127.0.0.2']);
  expect(side.connections.filter(({ localAddress }) => localAddress === '127.0.0.1').length).toBe(
    1,
  );
});

test('a connection serves the place it was made for: the same name and port', async () => {
  const side = await serve((socket) => socket.write(CHUNKED));
  const http = client(undefined, { lookup: async () => ['127.0.0.1'] });
  for (const name of ['a.test', 'b.test', 'a.test']) {
    expect(await http.run(callOf(`http://${name}:${side.port}/`))).toMatchObject(GOOD);
  }
  expect(side.connections.length).toBe(2);
});

test('exchanges at the same time have a connection each; so many are kept, the oldest go', async () => {
  const side = await serve((socket) => socket.write(CHUNKED));
  const http = client({ maxKept: 2 });
  const all = Array.from({ length: 5 }, () => http.run(callOf(side.url)));
  for (const result of await Promise.all(all)) expect(result).toMatchObject(GOOD);
  expect(side.connections.length).toBe(5);
  await Promise.race([0, 1, 2, 3, 4].map((index) => side.closed(index)));
  expect(await http.run(callOf(side.url))).toMatchObject(GOOD);
  expect(side.connections.length).toBe(5);
});

test('a connection that nobody uses is closed after a while, and all of them at the end', async () => {
  const side = await serve((socket) => socket.write(CHUNKED));
  await client({ idleMs: 1 }).run(callOf(side.url));
  await side.closed(0);
  const http = client();
  await http.run(callOf(side.url));
  http.close?.();
  await side.closed(1);
  // Afterwards nothing is kept any more.
  await http.run(callOf(side.url));
  await side.closed(2);
});

test('what one answer left in the buffer is no part of the next, however they are cut', async () => {
  const side = await serve((socket, count) => {
    const words = `data: answer ${count} ${'é'.repeat(50)}\n\n`;
    const size = Buffer.byteLength(words).toString(16);
    const bytes = Buffer.from(CHUNKED.replace(BODY, `${size}\r\n${words}\r\n0\r\n\r\n`));
    const send = (at: number): void => {
      socket.write(bytes.subarray(at, at + 37));
      if (at + 37 < bytes.length) setImmediate(send, at + 37);
    };
    send(0);
  });
  const http = client();
  const run = async (): Promise<string[]> => {
    const heard: string[] = [];
    const sink = {
      type: 's',
      write: (events: readonly { data: string }[]) =>
        void heard.push(...events.map(({ data }) => data)),
      close: async () => ({ type: 's', delivered: 0, dropped: 0 }),
    };
    expect(await http.run({ ...callOf(side.url), sinks: [sink] })).toMatchObject({ ok: true });
    return heard;
  };
  const expected = (count: number) => [`answer ${count} ${'é'.repeat(50)}`];
  // All connections share what they read into.
  const both = await Promise.all([run(), run(), run()]);
  expect(both).toEqual([expected(0), expected(0), expected(0)]);
  expect(await run()).toEqual(expected(1));
});

test('a server that closes in order loses no request', async () => {
  const server = createWebServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(EVENT);
  });
  server.keepAliveTimeout = 1;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  const http = client();
  const { port } = server.address() as AddressInfo;
  for (let count = 0; count < 20; count++) {
    expect(await http.run(callOf(`http://127.0.0.1:${port}/`))).toMatchObject(GOOD);
  }
});

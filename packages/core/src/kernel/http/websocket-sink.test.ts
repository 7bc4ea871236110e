import { type AddressInfo, createServer } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { fail, type JsonObject, ok } from '../../base/index.ts';
import type { Sink, SinkContext } from '../sink.ts';
import { createWebSocketSinkFactory } from './websocket-sink.ts';

const textOf = (data: RawData): string => (data as Buffer).toString();

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serve(onSocket: (socket: WebSocket) => void, port = 0): Promise<number> {
  const server = new WebSocketServer({ port, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connection', onSocket);
  closers.push(async () => {
    for (const client of server.clients) client.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** Returns a port without a listener. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const contextOf = (more: Partial<SinkContext> = {}): SinkContext => ({
  projectRoot: '/',
  threadId: undefined,
  verify: () => ok(null),
  signal: new AbortController().signal,
  ...more,
});

interface Timed {
  ms: number;
  fire: () => void;
}

/** Timers that fire when the test says so. */
function manualTimer() {
  const timers: Timed[] = [];
  const waiters: { ms: number; resolve: (timed: Timed) => void }[] = [];
  return {
    timer(ms: number, callback: () => void) {
      const timed = { ms, fire: callback };
      timers.push(timed);
      waiters.find((waiter) => waiter.ms === ms)?.resolve(timed);
      return () => void timers.splice(timers.indexOf(timed), 1);
    },
    /** The next timer of this length, also one that is still to come. */
    async fire(ms: number): Promise<void> {
      const found =
        timers.find((timed) => timed.ms === ms) ??
        (await new Promise<Timed>((resolve) => waiters.push({ ms, resolve })));
      timers.splice(timers.indexOf(found), 1);
      waiters.length = 0;
      found.fire();
    },
    timers,
  };
}

async function make(
  destination: JsonObject,
  timer?: ReturnType<typeof manualTimer>,
  more = {},
): Promise<Sink> {
  const factory = createWebSocketSinkFactory({
    isHostAllowed: () => true,
    ...(timer && { timer: (ms, callback) => timer.timer(ms, callback) }),
  });
  const made = await factory(destination, contextOf(more));
  if (!made.ok) throw new Error(made.error.detail.message);
  return made.output;
}

test('events arrive in order, and the end is confirmed', async () => {
  const seen: string[] = [];
  const port = await serve((socket) => socket.on('message', (data) => seen.push(textOf(data))));
  const sink = await make({ url: `ws://127.0.0.1:${port}/live` });
  const expected = Array.from({ length: 500 }, (_, index) => String(index));
  for (const data of expected) await sink.write([{ data }]);
  expect(await sink.close()).toEqual({
    type: 'websocket_sink',
    delivered: 500,
    dropped: 0,
    connections: 1,
    url: `ws://127.0.0.1:${port}/live`,
  });
  expect(seen).toEqual(expected);
});

test('jsonl sends the whole event', async () => {
  const seen: string[] = [];
  const port = await serve((socket) => socket.on('message', (data) => seen.push(textOf(data))));
  const sink = await make({ url: `ws://127.0.0.1:${port}`, format: 'jsonl' });
  await sink.write([{ event: 'e', data: 'd' }]);
  await sink.close();
  expect(seen).toEqual(['{"event":"e","data":"d"}']);
});

test('while nobody listens events wait, and go out in order once somebody does', async () => {
  const port = await freePort();
  const clock = manualTimer();
  const sink = await make({ url: `ws://127.0.0.1:${port}`, backoff_ms: 7 }, clock);
  for (const data of ['1', '2']) void sink.write([{ data }]);
  await clock.fire(7);
  void sink.write([{ data: '3' }]);
  const seen: string[] = [];
  const second = clock.fire(14);
  await new Promise((resolve) => setImmediate(resolve));
  await serve((socket) => socket.on('message', (data) => seen.push(textOf(data))), port);
  await second;
  expect(await sink.close()).toMatchObject({ delivered: 3, dropped: 0, connections: 1 });
  expect(seen).toEqual(['1', '2', '3']);
});

test('after all attempts the sink gives up and counts what it drops', async () => {
  const clock = manualTimer();
  const port = await freePort();
  const destination = { url: `ws://127.0.0.1:${port}`, backoff_ms: 7, reconnect_attempts: 2 };
  const sink = await make(destination, clock);
  void sink.write([{ data: '1' }]);
  await clock.fire(7);
  await clock.fire(14);
  const report = await sink.close();
  expect(report).toMatchObject({ delivered: 0, dropped: 1, connections: 0 });
  expect(report.error).toContain('ECONNREFUSED');
  expect(clock.timers).toEqual([]);
});

test('what does not fit while disconnected is dropped and counted', async () => {
  const clock = manualTimer();
  const port = await freePort();
  const destination = { url: `ws://127.0.0.1:${port}`, buffer_max_size: 2, reconnect_attempts: 0 };
  const sink = await make(destination, clock);
  for (const data of ['1', '2', '3', '4', '5']) void sink.write([{ data }]);
  expect(await sink.close()).toMatchObject({ delivered: 0, dropped: 5 });
});

test('a connection that is lost is made again', async () => {
  const seen: string[] = [];
  let lost: () => void = () => {};
  const port = await serve((socket) => {
    socket.on('message', (data) => {
      seen.push(textOf(data));
      if (textOf(data) !== 'first') return;
      socket.once('close', () => setImmediate(lost));
      socket.close(1012);
    });
  });
  const sink = await make({ url: `ws://127.0.0.1:${port}` });
  const gone = new Promise<void>((resolve) => {
    lost = resolve;
  });
  await sink.write([{ data: 'first' }]);
  await gone;
  await sink.write([{ data: 'second' }]);
  expect(await sink.close()).toMatchObject({ delivered: 2, dropped: 0, connections: 2 });
  expect(seen).toEqual(['first', 'second']);
});

test('a server that does not confirm the end is waited for only so long', async () => {
  const clock = manualTimer();
  const port = await serve((socket) => socket.pause());
  const sink = await make({ url: `ws://127.0.0.1:${port}` }, clock);
  await sink.write([{ data: 'x' }]);
  const closing = sink.close();
  await clock.fire(3000);
  expect(await closing).toMatchObject({ error: 'some events were not sent in time' });
});

test('an abort stops waiting at once', async () => {
  const controller = new AbortController();
  const port = await freePort();
  const sink = await make({ url: `ws://127.0.0.1:${port}` }, manualTimer(), {
    signal: controller.signal,
  });
  void sink.write([{ data: '1' }]);
  controller.abort();
  expect(await sink.close()).toMatchObject({ delivered: 0, dropped: 1 });
});

test('a stream without events connects to nobody', async () => {
  const sink = await make({ url: 'ws://127.0.0.1:1' });
  expect(await sink.close()).toMatchObject({ delivered: 0, dropped: 0, connections: 0 });
});

test('without the right, or with a wrong address, there is no sink', async () => {
  const factory = createWebSocketSinkFactory({ isHostAllowed: () => false });
  const verify = () => fail('permission_denied', 'no', { missing: 'net.websocket' });
  expect(await factory({ url: 'ws://a.example/' }, contextOf({ verify }))).toMatchObject({
    error: { code: 'permission_denied' },
  });
  expect(await factory({ url: 'http://a.example/' }, contextOf())).toMatchObject({
    error: { code: 'invalid_input' },
  });
  expect(await factory({}, contextOf())).toMatchObject({ error: { code: 'config_invalid' } });
});

test('a private address that is not granted is never connected to', async () => {
  let hits = 0;
  const port = await serve(() => hits++);
  const factory = createWebSocketSinkFactory({ isHostAllowed: () => false });
  const destination = { url: `ws://127.0.0.1:${port}`, reconnect_attempts: 0 };
  const made = await factory(destination, contextOf());
  if (!made.ok) throw new Error('no sink');
  void made.output.write([{ data: 'x' }]);
  const report = await made.output.close();
  expect(report).toMatchObject({ dropped: 1 });
  expect(report.error).toContain('loopback');
  expect(hits).toBe(0);
});

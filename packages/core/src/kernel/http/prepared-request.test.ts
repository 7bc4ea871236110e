import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { fail, type JsonObject, ok, systemClock } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import type { StreamEvent } from '../sink.ts';
import { Connections, type HttpPorts } from './connections.ts';
import { prepareRequest } from './prepared-request.ts';
import { systemTimer } from './time-limits.ts';

const servers: Server[] = [];
const connections = new Connections();
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

interface Seen {
  body: string;
  headers: Readonly<Record<string, unknown>>;
  port: number | undefined;
}

/** Answers with one event that repeats the body. */
async function echo(seen: Seen[]): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (bytes: Buffer) => (body += bytes.toString()));
    request.on('end', () => {
      seen.push({ body, headers: request.headers, port: request.socket.remotePort });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`data: ${body}\n\n`);
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const ports: HttpPorts = {
  clock: systemClock,
  timer: systemTimer,
  isHostAllowed: () => true,
  connections,
};

const callOf = (config: JsonObject) => {
  const tool = { id: 't', dir: '/', requires: [], env: [], source: 'bundle' } as const;
  return {
    tool: { ...tool, effect: 'read', sandbox: 'strict' },
    config: { mode: 'stream', method: 'POST', body: {}, ...config },
    parameters: {},
    secrets: ['sk-canary-1'],
    timeoutMs: 20_000,
  } as const;
};

test('what was prepared once is sent many times, each with its own body', async () => {
  const seen: Seen[] = [];
  const needs: Parameters<Verifier>[0][] = [];
  const url = await echo(seen);
  const auth = { type: 'bearer', token: 'sk-canary-1' };
  const verify = (need: Parameters<Verifier>[0]) => {
    needs.push(need);
    return ok(null);
  };
  const prepared = prepareRequest(callOf({ url, auth }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const events: StreamEvent[] = [];
  for (const text of ['"first"', '"second sk-canary-1"']) {
    const sent = await prepared.output.send(text, {
      signal: new AbortController().signal,
      verify,
      onEvents: (batch) => void events.push(...batch),
    });
    expect(sent).toMatchObject({
      output: { kind: 'stream', end: { count: 1, endedCleanly: true } },
    });
  }
  expect(seen.map(({ body }) => body)).toEqual(['"first"', '"second sk-canary-1"']);
  expect(seen[1]?.headers).toMatchObject({
    authorization: 'Bearer sk-canary-1',
    'content-type': 'application/json',
    'content-length': '20',
  });
  expect(events).toEqual([{ data: '"first"' }, { data: '"second [secret]"' }]);
  // The same connection, and the right was asked for both times.
  expect(seen[0]?.port).toBe(seen[1]?.port);
  expect(needs.length).toBe(2);
});

test('a right that was taken back holds for what was prepared before', async () => {
  const seen: Seen[] = [];
  let isHeld = true;
  const url = await echo(seen);
  const prepared = prepareRequest(callOf({ url }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const send = () =>
    prepared.output.send('1', {
      signal: new AbortController().signal,
      verify: () => (isHeld ? ok(null) : fail('permission_denied', 'no')),
      onEvents: () => undefined,
    });
  expect(await send()).toMatchObject({ ok: true });
  isHeld = false;
  expect(await send()).toMatchObject({ error: { code: 'permission_denied' } });
  expect(seen.length).toBe(1);
});

test('whoever takes the events may need time, and may stop it all', async () => {
  const stop = new AbortController();
  const url = await echo([]);
  const prepared = prepareRequest(callOf({ url }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  let isDone = false;
  const slow = async (): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    isDone = true;
  };
  const verify = () => ok(null);
  const { signal } = new AbortController();
  const sent = await prepared.output.send('1', { signal, verify, onEvents: slow });
  expect([sent.ok, isDone]).toEqual([true, true]);
  const stopped = await prepared.output.send('1', {
    signal: stop.signal,
    verify,
    onEvents() {
      stop.abort();
      return undefined;
    },
  });
  expect(stopped).toMatchObject({ output: { end: { failure: { error: { code: 'cancelled' } } } } });
});

test('whoever takes the events may even throw', async () => {
  const prepared = prepareRequest(callOf({ url: await echo([]) }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const sent = await prepared.output.send('1', {
    signal: new AbortController().signal,
    verify: () => ok(null),
    onEvents() {
      throw new Error('not like this');
    },
  });
  expect(sent).toMatchObject({ error: { code: 'internal_error' } });
});

test('a mistake in the config is told when it is prepared', () => {
  expect(prepareRequest(callOf({ url: 'ftp://a.example/' }), ports)).toMatchObject({
    error: { code: 'invalid_input' },
  });
});

test('what may not be sent any more reaches nobody, over an open connection and a new one', async () => {
  const seen: Seen[] = [];
  const url = await echo(seen);
  const prepared = prepareRequest(callOf({ url }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const send = (sendBy: number) =>
    prepared.output.send('1', {
      signal: new AbortController().signal,
      sendBy,
      verify: () => ok(null),
      onEvents: () => undefined,
    });
  const late = { error: { code: 'timeout', detail: { sent: false, late: true } } };
  expect(await send(-1)).toMatchObject(late);
  expect(await send(Number.MAX_VALUE)).toMatchObject({ ok: true });
  expect(await send(-1)).toMatchObject(late);
  expect(await send(Number.MAX_VALUE)).toMatchObject({ ok: true });
  expect(seen.length).toBe(2);
});

/** A body of these pieces. `fails`: the last piece cannot be made. */
const streamed = (
  pieces: readonly string[],
  { bytes = pieces.join('').length, fails = false } = {},
) => ({
  bytes,
  text: pieces.join(''),
  async *[Symbol.asyncIterator]() {
    yield* pieces;
    await Promise.resolve();
    if (fails) throw new Error('the file is gone');
  },
});

test('a streamed body is made for each sending, also for the one after a redirect', async () => {
  const seen: Seen[] = [];
  const target = await echo(seen);
  const moving = createServer((request, response) => {
    request.resume();
    request.on('end', () => response.writeHead(307, { location: target }).end());
  });
  servers.push(moving);
  await new Promise<void>((resolve) => moving.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(moving.address() as AddressInfo).port}/`;
  const prepared = prepareRequest(callOf({ url }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const send = (body: ReturnType<typeof streamed>) =>
    prepared.output.send(body, {
      signal: new AbortController().signal,
      verify: () => ok(null),
      onEvents: () => undefined,
    });
  const body = streamed(['"one ', 'two"']);
  for (const _ of [1, 2]) expect(await send(body)).toMatchObject({ ok: true });
  expect(seen.map((one) => one.body)).toEqual(['"one two"', '"one two"']);
  expect(seen[0]?.headers).toMatchObject({ 'content-length': '9' });
  const stopped = await send(streamed(['"sk-canary-1"']));
  expect(stopped).toMatchObject({ error: { code: 'permission_denied' } });
});

test('a streamed body that breaks off, or has another length, is a network error', async () => {
  const seen: Seen[] = [];
  const prepared = prepareRequest(callOf({ url: await echo(seen) }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  for (const body of [
    streamed(['"one'], { bytes: 90, fails: true }),
    streamed(['"one"'], { bytes: 90 }),
    streamed(['"one"'], { bytes: 2 }),
  ]) {
    const sent = await prepared.output.send(body, {
      signal: new AbortController().signal,
      verify: () => ok(null),
      onEvents: () => undefined,
    });
    expect(sent).toMatchObject({ ok: false, error: { code: 'network_error' } });
  }
  expect(seen).toEqual([]);
});

test('an answer that comes before the whole body was sent is read', async () => {
  const server = createServer((_, response) => response.writeHead(429).end('later'));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const prepared = prepareRequest(callOf({ url }), ports);
  if (!prepared.ok) throw new Error(prepared.error.detail.message);
  const pieces = Array.from({ length: 200 }, () => 'x'.repeat(60_000));
  for (const _ of [1, 2]) {
    const sent = await prepared.output.send(streamed(pieces), {
      signal: new AbortController().signal,
      verify: () => ok(null),
      onEvents: () => undefined,
    });
    expect(sent).toMatchObject({ ok: false, error: { detail: { status: 429 } } });
  }
});

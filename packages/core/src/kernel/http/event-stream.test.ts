import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { type JsonObject, type Outcome, ok, systemClock } from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import type { Sink, StreamEvent } from '../sink.ts';
import { createFileSinkFactory } from '../sinks/file.ts';
import { createReturnSink } from '../sinks/return.ts';
import { createHttpPrimitive } from './http-client.ts';

// A raw server: what goes over the wire, and where it stops, is exactly what a test says.
const servers: Server[] = [];
const sockets = new Set<Socket>();

async function serve(answer: (socket: Socket, path: string) => void): Promise<string> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', (head) => answer(socket, head.toString().split(' ')[1] ?? ''));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

const TYPE = 'Content-Type: text/event-stream';
const HEAD = `HTTP/1.1 200 OK\r\n${TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n`;
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const END = '0\r\n\r\n';

async function returnSink(destination: JsonObject = {}): Promise<Sink> {
  const made = await createReturnSink(destination, {} as never);
  if (!made.ok) throw new Error('no sink');
  return made.output;
}

interface Options {
  sinks?: readonly Sink[];
  config?: JsonObject;
  /** Leaves `mode` out of the config. */
  noMode?: boolean;
  parameters?: JsonObject;
  secrets?: string[];
  signal?: AbortSignal;
}

function run(url: string, options: Options = {}): Promise<Outcome<PrimitiveResult>> {
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
    config: { url, ...(!options.noMode && { mode: 'stream' }), ...options.config },
    parameters: options.parameters ?? {},
    sinks: options.sinks ?? [],
    verify: () => ok(null),
    signal: options.signal ?? new AbortController().signal,
    projectRoot: '/',
    timeoutMs: 20_000,
    secrets: options.secrets ?? [],
  };
  return createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true }).run(call);
}

test('events reach the sinks, and the result tells how many and how it ended', async () => {
  const base = await serve((socket) => {
    socket.end(HEAD + chunk('event: a\ndata: 1\n\nda') + chunk('ta: 2\n\nretry: 5\n') + END);
  });
  const result = await run(base, { sinks: [await returnSink()] });
  expect(result).toMatchObject({
    ok: true,
    output: {
      labels: ['src:network', 'untrusted'],
      output: {
        status: 200,
        body: [{ event: 'a', data: '1' }, { data: '2' }],
        stream_events_count: 2,
        stream_destinations: [{ type: 'return', delivered: 2, dropped: 0 }],
        dropped: 0,
        ended_cleanly: true,
        retry_ms: 5,
      },
    },
  });
});

test('without a return sink the body is null', async () => {
  const base = await serve((socket) => socket.end(HEAD + chunk('data: 1\n\n') + END));
  expect(await run(base)).toMatchObject({
    output: { output: { body: null, stream_events_count: 1, stream_destinations: [] } },
  });
});

test('`stream: true` streams when the tool knows how to, and not otherwise', async () => {
  const base = await serve((socket) => socket.end(HEAD + chunk('data: 1\n\n') + END));
  const stream = { destinations: [] };
  const asked: Options[] = [
    { config: { mode: 'stream' } },
    { config: { stream }, parameters: { stream: true } },
    { config: { stream, method: 'POST', body: { stream: true } } },
  ];
  for (const options of asked) {
    const result = await run(base, { ...options, noMode: true });
    expect(result).toMatchObject({ output: { output: { stream_events_count: 1 } } });
  }
  const sync: Options[] = [
    { config: { stream, mode: 'sync' }, parameters: { stream: true } },
    { config: { stream } },
    { config: {}, parameters: { stream: true } },
  ];
  for (const options of sync) {
    const result = await run(base, { ...options, noMode: true });
    expect(result).toMatchObject({ output: { output: { body: 'data: 1\n\n' } } });
  }
});

const SAMPLE = [
  'event: start\nid: 1\ndata: {"a":1}\n\n',
  ': ping\n\ndata: één\ndata: two\r\n\r\n',
  'data: [DONE]\n\n',
];
const SAMPLE_EVENTS: StreamEvent[] = [
  { event: 'start', id: '1', data: '{"a":1}' },
  { data: 'één\ntwo' },
  { data: '[DONE]' },
];

test('cut at every byte, a stream gives a typed outcome with what was received', async () => {
  const wire = Buffer.from(HEAD + SAMPLE.map(chunk).join('') + END);
  const base = await serve((socket, path) => {
    const cut = Number(path.slice(1));
    socket.write(wire.subarray(0, cut), () => socket.destroySoon());
  });
  const codes = new Set<string>();
  for (let at = 1; at <= wire.length; at++) {
    const result = await run(`${base}/${at}`, { sinks: [await returnSink()] });
    if (result.ok) {
      expect(at).toBeGreaterThanOrEqual(wire.length);
      expect(result.output.output).toMatchObject({ body: SAMPLE_EVENTS, ended_cleanly: true });
      continue;
    }
    const { code, detail } = result.error;
    codes.add(code);
    expect(code).toBe(at < HEAD.length ? 'network_error' : 'stream_incomplete');
    if (code !== 'stream_incomplete') continue;
    const count = detail.stream_events_count as number;
    expect(detail.body).toEqual(SAMPLE_EVENTS.slice(0, count));
    expect(detail).toMatchObject({ ended_cleanly: false, status: 200 });
  }
  expect([...codes].sort()).toEqual(['network_error', 'stream_incomplete']);
});

test('where only closing ends a body, an unfinished event is not a clean end', async () => {
  const base = await serve((socket, path) => {
    const text = SAMPLE.join('').slice(0, Number(path.slice(1)));
    socket.end(`HTTP/1.1 200 OK\r\n${TYPE}\r\n\r\n${text}`);
  });
  const whole = SAMPLE.join('').length;
  const clean: number[] = [];
  for (let at = 0; at <= whole; at++) {
    const result = await run(`${base}/${at}`);
    if (!result.ok) throw new Error(JSON.stringify(result.error));
    if ((result.output.output as JsonObject).ended_cleanly) clean.push(at);
  }
  const [first = '', second = ''] = SAMPLE;
  const ping = first.length + ': ping\n'.length;
  const middle = first.length + second.length;
  expect(clean).toEqual(
    [0, first.length, ping, ping + 1, middle - 1, middle, whole - 1 + 1].sort((a, b) => a - b),
  );
});

test('a stream that stalls runs into the idle timeout, with what was received', async () => {
  const base = await serve((socket) => socket.write(HEAD + chunk('data: 1\n\ndata: par')));
  const sinks = [await returnSink()];
  const result = await run(base, { sinks, config: { timeouts: { idle: 0.05 } } });
  expect(result).toMatchObject({
    error: {
      code: 'timeout',
      detail: { phase: 'idle', body: [{ data: '1' }], ended_cleanly: false },
    },
  });
});

test('an answer of another type is a fault that shows it', async () => {
  const base = await serve((socket) => {
    const text = '{"error":"no streaming"}';
    socket.end(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
  });
  expect(await run(base)).toMatchObject({
    error: {
      code: 'http_error',
      detail: {
        reason: 'wrong_content_type',
        body_excerpt: '{"error":"no streaming"}',
        status: 200,
      },
    },
  });
});

test('a status that refuses is a fault, and the sinks are closed once all the same', async () => {
  const base = await serve((socket) => {
    socket.end('HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n');
  });
  let closed = 0;
  const sink: Sink = {
    type: 's',
    write() {},
    async close() {
      closed++;
      return { type: 's', delivered: 0, dropped: 0 };
    },
  };
  const error = { code: 'rate_limit', detail: { retry_after_ms: 1000 } };
  expect(await run(base, { sinks: [sink] })).toMatchObject({ error });
  expect(await run('nonsense', { sinks: [sink] })).toMatchObject({
    error: { code: 'invalid_input' },
  });
  expect(closed).toBe(2);
});

test('garbage in the stream is no event and no crash', async () => {
  const base = await serve((socket) => {
    socket.end(HEAD + chunk('\u0000\u0001 what\n\n<html>\nda\nta: x\n\ndata: ok\n\n') + END);
  });
  const result = await run(base, { sinks: [await returnSink()] });
  expect(result).toMatchObject({ output: { output: { body: [{ data: 'ok' }] } } });
});

test('an endless event is refused while little is held, and the socket is closed', async () => {
  let written = 0;
  const closed = new Promise<void>((resolve) => {
    void serve((socket) => {
      socket.write(HEAD + chunk('data: first\n\ndata: '));
      const piece = chunk('x'.repeat(50_000));
      const more = () => {
        while (!socket.destroyed && written < 100_000_000) {
          written += 50_000;
          if (!socket.write(piece)) {
            socket.once('drain', more);
            return;
          }
        }
      };
      socket.once('close', () => resolve());
      more();
    }).then((base) => {
      started = run(base, { config: { stream: { max_event: 1_000_000 } } });
    });
  });
  let started: Promise<Outcome<PrimitiveResult>> | undefined;
  await closed;
  expect(await started).toMatchObject({
    error: { code: 'response_too_large', detail: { stream_events_count: 1, max_event: 1_000_000 } },
  });
  expect(written).toBeLessThan(50_000_000);
});

test('a stream is bounded as a whole, comments included', async () => {
  const base = await serve((socket) => {
    const piece = chunk(`: ${'c'.repeat(10_000)}\n`);
    socket.write(HEAD);
    const more = () => {
      while (!socket.destroyed) if (!socket.write(piece)) return void socket.once('drain', more);
    };
    more();
  });
  expect(await run(base, { config: { max_bytes: 500_000 } })).toMatchObject({
    error: { code: 'response_too_large', detail: { max_bytes: 500_000 } },
  });
});

test('a compressed stream is read, and bounded by what it expands to', async () => {
  const base = await serve((socket, path) => {
    const text = path === '/bomb' ? `data: ${'x'.repeat(20_000_000)}\n\n` : 'data: 1\n\n';
    const body = gzipSync(text);
    socket.write(
      `HTTP/1.1 200 OK\r\n${TYPE}\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.end(body);
  });
  expect(await run(base, { sinks: [await returnSink()] })).toMatchObject({
    output: { output: { body: [{ data: '1' }] } },
  });
  expect(await run(`${base}/bomb`)).toMatchObject({ error: { code: 'response_too_large' } });
});

test('a slow sink holds the reader back, and events stay in order', async () => {
  const base = await serve((socket) => {
    const events = Array.from({ length: 200 }, (_, index) => `data: ${index}\n\n`);
    socket.end(HEAD + events.map(chunk).join('') + END);
  });
  const seen: string[] = [];
  let [open, most] = [0, 0];
  const slow: Sink = {
    type: 'slow',
    async write(events) {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(...events.map(({ data }) => data));
      open--;
    },
    close: async () => ({ type: 'slow', delivered: seen.length, dropped: 0 }),
  };
  const result = await run(base, { sinks: [slow, await returnSink()] });
  expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => String(index)));
  expect(most).toBe(1);
  expect(result).toMatchObject({ output: { output: { stream_events_count: 200 } } });
});

test('a sink that never answers is given up at the total timeout', async () => {
  const base = await serve((socket) => socket.write(HEAD + chunk('data: 1\n\ndata: 2\n\n')));
  const stuck: Sink = {
    type: 'stuck',
    write: () => new Promise(() => {}),
    close: async () => ({ type: 'stuck', delivered: 0, dropped: 0 }),
  };
  const config = { timeouts: { total: 0.1, idle: 0.02 } };
  expect(await run(base, { sinks: [stuck], config })).toMatchObject({
    error: { code: 'timeout', detail: { phase: 'total' } },
  });
});

test('a failing sink breaks nothing for the others', async () => {
  const base = await serve((socket) => socket.end(HEAD + SAMPLE.map(chunk).join('') + END));
  const broken: Sink = {
    type: 'broken',
    write() {
      throw new Error('no');
    },
    close: async () => ({ type: 'broken', delivered: 0, dropped: 0 }),
  };
  expect(await run(base, { sinks: [broken, await returnSink()] })).toMatchObject({
    output: {
      output: {
        body: SAMPLE_EVENTS,
        dropped: 3,
        stream_destinations: [{ type: 'broken', dropped: 3, error: 'no' }, { delivered: 3 }],
      },
    },
  });
});

test('a secret echoed in an event does not reach a sink', async () => {
  const base = await serve((socket) => socket.end(HEAD + chunk('data: key s3cret!\n\n') + END));
  const result = await run(base, { sinks: [await returnSink()], secrets: ['s3cret'] });
  expect(result).toMatchObject({ output: { output: { body: [{ data: 'key [secret]!' }] } } });
});

test.each([
  ['in one line', ['data: key s3cret!\n\n']],
  ['cut by a chunk', ['data: key s3c', 'ret!\n\n']],
  ['after a clean text', ['data: 1\n\n', 'event: e\ndata: key s3cret!\n\ndata: 2\n\n']],
  [
    'in the name and the id',
    ['event: s3cret\nid: s3cret\ndata: x\n\n', 'event: s3cret\ndata:\n\n'],
  ],
])('a secret %s reaches no sink', async (_, parts) => {
  const base = await serve((socket) => {
    socket.write(HEAD);
    const send = (at: number): void => {
      const part = parts[at];
      if (part === undefined) return void socket.end(END);
      socket.write(chunk(part));
      setImmediate(send, at + 1);
    };
    send(0);
  });
  const result = await run(base, { sinks: [await returnSink()], secrets: ['s3cret'] });
  const text = JSON.stringify(result);
  expect(text).toContain('[secret]');
  expect(text).not.toContain('s3cret');
});

test('of a secret that goes on over events no part is shown, and no event is lost', async () => {
  const parts = ['data: key S3c\n\n', 'data: -reT_\n\ndata: Canary!\n\n', 'data: s3c\n\n'];
  const base = await serve((socket) => {
    socket.write(HEAD);
    for (const part of parts) socket.write(chunk(part));
    socket.end(END);
  });
  const secrets = ['S3c-reT_Canary'];
  const result = await run(base, { sinks: [await returnSink()], secrets });
  const body = [{ data: 'key [secret]' }, { data: '' }, { data: '!' }, { data: 's3c' }];
  expect(result).toMatchObject({ output: { output: { body, stream_events_count: 4 } } });
});

test('a secret of two lines is found in data of two lines', async () => {
  const base = await serve((socket) => socket.end(HEAD + chunk('data: a\ndata: b-key\n\n') + END));
  const result = await run(base, { sinks: [await returnSink()], secrets: ['a\nb-key'] });
  expect(result).toMatchObject({ output: { output: { body: [{ data: '[secret]' }] } } });
});

test('an abort in the middle ends the call with what was received', async () => {
  const controller = new AbortController();
  const base = await serve((socket) => socket.write(HEAD + chunk('data: 1\n\n')));
  const sink: Sink = {
    type: 's',
    write: () => controller.abort(),
    close: async () => ({ type: 's', delivered: 1, dropped: 0 }),
  };
  expect(await run(base, { sinks: [sink], signal: controller.signal })).toMatchObject({
    error: { code: 'cancelled', detail: { stream_events_count: 1 } },
  });
});

test('what reached a file before a stream broke is there, and is told', async () => {
  const base = await serve((socket, path) => {
    const text = HEAD + chunk('data: {"a":1}\n\n') + (path === '/cut' ? '' : END);
    socket.write(text, () => socket.destroySoon());
  });
  const projectRoot = realpathSync(mkdtempSync(join(tmpdir(), 'km-sse-')));
  try {
    const context = { projectRoot, threadId: undefined, verify: () => ok(null) };
    const { signal } = new AbortController();
    for (const path of ['/whole', '/cut']) {
      const made = await createFileSinkFactory()({ path: 'out.jsonl' }, { ...context, signal });
      if (!made.ok) throw new Error('no sink');
      const result = await run(`${base}${path}`, { sinks: [made.output] });
      expect(readFileSync(join(projectRoot, 'out.jsonl'), 'utf8')).toBe('{"a":1}\n');
      rmSync(join(projectRoot, 'out.jsonl'));
      const sha256 = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
      const absolute = join(projectRoot, 'out.jsonl');
      expect(result).toMatchObject(
        path === '/cut'
          ? { error: { detail: { files: [{ path: 'out.jsonl', sha256 }] } } }
          : { output: { files: [{ access: 'written', relative: 'out.jsonl', absolute, sha256 }] } },
      );
    }
  } finally {
    rmSync(projectRoot, { recursive: true, force: true });
  }
});

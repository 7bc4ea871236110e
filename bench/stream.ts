// Measures 20,000 server-sent events through `http_client` into three sinks, against a bare loop that fetches, decodes
// and splits. The server is another process, so its work does not count. It sends every event as its own chunk, like
// a server that writes each event at once, or the same bytes in blocks with any borders, like a proxy.
import { fork } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type JsonObject, ok, systemClock } from '@kernmantle/core/base';
import { createHttpPrimitive } from '../packages/core/src/kernel/http/http-client.ts';
import type { Primitive, PrimitiveCall } from '../packages/core/src/kernel/primitive.ts';
import { shippedSinks } from '../packages/core/src/kernel/primitives/shipped.ts';
import { type BenchRow, race } from './row.ts';

const EVENTS = 20_000;
/** Number of rounds, enough to compile both sides and to reach a quiet moment of the machine. */
const ROUNDS = 30;
const BLOCK = 16 * 1024;
const isServer = process.argv[2] === 'serve' && process.argv[1] === fileURLToPath(import.meta.url);

const eventText = (index: number): string =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word ${index}"}}\n\n`;

function blocksOf(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const blocks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += BLOCK) blocks.push(bytes.subarray(at, at + BLOCK));
  return blocks;
}

function serveEvents(): void {
  const events = Array.from({ length: EVENTS }, (_, index) => eventText(index));
  const blocks = blocksOf(events.join(''));
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const part of request.url === '/blocks' ? blocks : events) response.write(part);
    response.end();
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('disconnect', () => process.exit());
}

/** The lower bound: no limits, no checks and no sinks. It collects the events. */
async function bareLoop(url: string): Promise<number> {
  const response = await fetch(url);
  const decoder = new TextDecoder();
  const found: string[] = [];
  let rest = '';
  for await (const chunk of response.body ?? []) {
    const parts = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) found.push(part.slice(part.indexOf('data: ') + 6));
  }
  return found.length;
}

async function throughSinks(url: string, projectRoot: string, http: Primitive): Promise<number> {
  const verify = () => ok(null);
  const { signal } = new AbortController();
  const context = { projectRoot, threadId: undefined, verify, signal };
  const sinks = [];
  const factories = shippedSinks({ clock: systemClock, isHostAllowed: () => false });
  for (const destination of [
    { type: 'return', max_size: EVENTS },
    { type: 'file_sink', path: 'events.jsonl' },
    { type: 'null_sink' },
  ] as const) {
    const made = await factories[destination.type](destination, context);
    if (!made.ok) throw new Error(made.error.detail.message);
    sinks.push(made.output);
  }
  const tool = { id: 'bench', dir: projectRoot, requires: [], env: [] };
  const call: PrimitiveCall = {
    tool: { ...tool, source: 'program', effect: 'read', sandbox: 'strict' },
    config: { url, mode: 'stream' },
    parameters: {},
    sinks,
    verify,
    signal,
    projectRoot,
    timeoutMs: 60_000,
    secrets: ['sk-not-in-the-stream'],
  };
  const result = await http.run(call);
  rmSync(join(projectRoot, 'events.jsonl'));
  if (!result.ok) throw new Error(result.error.detail.message);
  const output = result.output.output as JsonObject;
  if (output.dropped !== 0) throw new Error('a sink dropped events');
  return output.stream_events_count as number;
}

const mustCount = async (work: Promise<number>): Promise<void> => {
  const count = await work;
  if (count !== EVENTS) throw new Error(`${count} events instead of ${EVENTS}`);
};

const SHAPES = { events: 'one chunk each', blocks: `blocks of ${BLOCK / 1024} KB` };

async function rowFor(
  url: string,
  shape: string,
  folder: string,
  http: Primitive,
): Promise<BenchRow> {
  const subjects = {
    ours: () => mustCount(throughSinks(url, folder, http)),
    base: () => mustCount(bareLoop(url)),
  };
  const { ours = 0, base = 0 } = await race(subjects, ROUNDS);
  return {
    name: `stream of ${EVENTS} events, ${shape}, to three sinks`,
    ours: ours / 1000,
    base: base / 1000,
    ratio: ours / base,
    unit: 'ms CPU',
    target: 'at most 2x a bare fetch-and-split loop',
    ok: ours <= 2 * base,
  };
}

export async function bench(): Promise<BenchRow[]> {
  const server = fork(fileURLToPath(import.meta.url), ['serve']);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'km-bench-stream-')));
  // Both sides keep their connections open, like a thread between its requests.
  const http = createHttpPrimitive({ clock: systemClock, isHostAllowed: () => true });
  try {
    const port = await new Promise((resolve) => server.once('message', resolve));
    const rows: BenchRow[] = [];
    for (const [path, shape] of Object.entries(SHAPES)) {
      rows.push(await rowFor(`http://127.0.0.1:${String(port)}/${path}`, shape, folder, http));
    }
    return rows;
  } finally {
    http.close?.();
    server.disconnect();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (isServer) serveEvents();

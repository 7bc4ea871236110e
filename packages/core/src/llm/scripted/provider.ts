// Serves a scripted model over HTTP on loopback, or in this process. Tests, the demo and tests of users need no key
// and use the same code as with a real provider.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  asJson,
  fail,
  isObject,
  type Json,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import type { ModelReply, Protocol, ProviderRequest } from '../message.ts';
import { createReader, type ReaderOptions, replyOf } from '../reader.ts';
import { requestParameters } from '../request.ts';
import { answerOf } from './answer.ts';
import { describeRequest, matches, type ScriptedRequest } from './request.ts';
import { checkScript, parseScript, type ScriptedReply } from './script.ts';
import { errorWire, type Wire, wireOf } from './wire.ts';

/** YAML text, a list of replies, or a function that answers every request. */
type ProviderScript =
  | string
  | readonly ScriptedReply[]
  | ((request: ScriptedRequest) => ScriptedReply | undefined | Promise<ScriptedReply | undefined>);

interface ScriptedProviderOptions {
  /** TCP port of the server. Absent: any free one. */
  port?: number;
  /** Key that every request must send. Absent: any key is accepted. */
  key?: string;
  /** Maximum number of received requests in `requests`. Absent: 1,000. */
  keep?: number;
}

export interface ScriptedProvider {
  /** Address for both `ANTHROPIC_BASE_URL` and `OPENAI_BASE_URL`. */
  readonly url: string;
  /** Received requests, oldest first, at most `keep`. */
  readonly requests: readonly ScriptedRequest[];
  count(): number;
  /** Returns the number of listed replies that were never used. */
  unused(): number;
  /** Stops the server and aborts all running answers. */
  close(): Promise<void>;
}

const MAX_BODY = 64 * 1024 * 1024;
const PATHS: Readonly<Record<string, Protocol>> = {
  '/v1/messages': 'anthropic',
  '/messages': 'anthropic',
  '/v1/chat/completions': 'openai',
  '/chat/completions': 'openai',
  '/v1/responses': 'responses',
  '/responses': 'responses',
};

type Choose = Exclude<ProviderScript, string | readonly ScriptedReply[]>;

/** Chooses the first reply with uses left that matches the request. */
function fromList(replies: readonly ScriptedReply[]): { choose: Choose; unused: () => number } {
  const uses = replies.map(({ repeat = 1 }) =>
    repeat === true ? Number.POSITIVE_INFINITY : Number(repeat),
  );
  const isUsed = replies.map(() => false);
  return {
    choose(request) {
      const at = replies.findIndex(
        ({ match }, index) => (uses[index] ?? 0) > 0 && matches(request, match),
      );
      if (at === -1) return undefined;
      uses[at] = (uses[at] ?? 0) - 1;
      isUsed[at] = true;
      return replies[at];
    },
    unused: () => isUsed.filter((used) => !used).length,
  };
}

function readScript(script: ProviderScript): Outcome<{ choose: Choose; unused: () => number }> {
  if (typeof script === 'function') return ok({ choose: script, unused: () => 0 });
  const replies = typeof script === 'string' ? parseScript(script) : checkScript(asJson(script));
  return replies.ok ? ok(fromList(replies.output)) : replies;
}

/** Returns undefined if the body is too long or incomplete. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      if (size > MAX_BODY) return undefined;
      parts.push(part);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(parts);
}

function plainHeaders({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')]),
  );
}

const isKeyRight = ({ headers }: IncomingMessage, key: string | undefined): boolean =>
  key === undefined || headers['x-api-key'] === key || headers.authorization === `Bearer ${key}`;

const out = (response: ServerResponse, bytes: Buffer): Promise<void> =>
  new Promise((resolve) => response.write(bytes, () => resolve()));

/** Sends the pieces, together or one by one, and then ends, breaks or stalls. */
async function send(
  response: ServerResponse,
  { status, headers, pieces, end }: Wire,
  paceMs: number,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(status, headers);
  // The client gets the status even if no body follows.
  response.flushHeaders();
  for (const bytes of paceMs > 0 ? pieces : [Buffer.concat(pieces)]) {
    if (bytes.length > 0) await out(response, bytes);
    if (paceMs > 0) await sleep(paceMs, undefined, { signal });
  }
  if (end === 'end') response.end();
  if (end === 'cut') response.destroy();
}

/** Starts a server on loopback. Fails with `invalid_input` if the script is invalid or the port in use. */
export async function startScriptedProvider(
  script: ProviderScript,
  options: ScriptedProviderOptions = {},
): Promise<Outcome<ScriptedProvider>> {
  const read = readScript(script);
  if (!read.ok) return read;
  const { choose, unused } = read.output;
  const { port = 0, key, keep = 1000 } = options;
  const requests: ScriptedRequest[] = [];
  const closing = new AbortController();
  let count = 0;

  function addRequest(protocol: Protocol, incoming: IncomingMessage, bytes: Buffer) {
    const body = parseJson(bytes.toString());
    if (!body.ok || !isObject(body.output)) return undefined;
    const headers = plainHeaders(incoming);
    const request = describeRequest(++count, protocol, headers, body.output, bytes.length);
    requests.push(request);
    if (requests.length > keep) requests.shift();
    return request;
  }

  async function reply(
    request: ScriptedRequest,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const chosen = await choose(request);
    if (!chosen) {
      const message = `the script has no reply for request ${request.number}`;
      return await send(
        response,
        errorWire(request.protocol, 400, { error: { message } }),
        0,
        signal,
      );
    }
    if (chosen.delay_ms) await sleep(chosen.delay_ms, undefined, { signal });
    if (chosen.fault?.reset === true) return void response.destroy();
    const wire = wireOf(answerOf(chosen, request), request, chosen.fault);
    await send(response, wire, chosen.pace_ms ?? 0, signal);
  }

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const disconnect = new AbortController();
    response.once('close', () => disconnect.abort());
    const signal = AbortSignal.any([disconnect.signal, closing.signal]);
    const path = (incoming.url ?? '').split('?')[0] ?? '';
    const protocol = Object.hasOwn(PATHS, path) ? PATHS[path] : undefined;
    const bytes = await readBody(incoming);
    const refuse = (status: number, message: string) =>
      send(response, errorWire(protocol ?? 'anthropic', status, { error: { message } }), 0, signal);
    if (!protocol || incoming.method !== 'POST') return await refuse(404, 'path not found');
    if (bytes === undefined) return await refuse(413, 'the request is too large');
    if (!isKeyRight(incoming, key)) return await refuse(401, 'invalid API key');
    const request = addRequest(protocol, incoming, bytes);
    if (!request) return await refuse(400, 'the request must be a JSON object');
    await reply(request, response, signal);
  }

  // The module is loaded here, because a program that only imports the library needs no server.
  const { createServer } = await import('node:http');
  const server = createServer((incoming, response) => {
    // The client disconnected, the server is closing, or the script's own program failed.
    serve(incoming, response).catch(() => response.destroy());
  });
  const failed = await new Promise<Error | undefined>((resolve) => {
    server.once('error', resolve);
    server.listen(port, '127.0.0.1', () => resolve(undefined));
  });
  if (failed) {
    return fail('invalid_input', `cannot listen on port ${port}: ${failed.message}`, { port });
  }
  return ok({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    count: () => count,
    unused,
    async close() {
      closing.abort();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}

const FRAME = /^event: (.*)\ndata: (.*)$/;

/** Returns the events of the complete frames. The rest after a cut is no event. */
const framesOf = ({ pieces }: Wire): { event: string; data: string }[] =>
  Buffer.concat(pieces)
    .toString()
    .split('\n\n')
    .slice(0, -1)
    .map((frame) => {
      const [, event = '', data = frame] = FRAME.exec(frame) ?? [];
      return { event, data };
    });

/** Returns the result as the tool of a provider would return it. */
function sentResult({ status, pieces, end }: Wire, count: number): Outcome<Json> {
  if (status >= 400) {
    const body_excerpt = Buffer.concat(pieces).toString();
    const message = `the scripted model answered ${status}`;
    return fail('http_error', message, { status, body_excerpt, sent: true });
  }
  if (end === 'end') return ok({ stream_events_count: count, ended_cleanly: true });
  const facts = { stream_events_count: count, reason: 'cut', sent: true };
  return fail('stream_incomplete', 'the stream of the scripted model broke off', facts);
}

/** Answers one request. Fails with `cancelled` if the signal aborts. */
export async function answerInProcess(
  reply: ScriptedReply,
  { number, ...request }: Omit<ProviderRequest, 'stream'> & { readonly number: number },
  signal: AbortSignal,
  options: ReaderOptions = {},
): Promise<Outcome<ModelReply>> {
  if (reply.delay_ms) {
    await sleep(reply.delay_ms, undefined, { signal }).catch(() => undefined);
  }
  if (signal.aborted) return fail('cancelled', 'the request was cancelled');
  const body = requestParameters('anthropic', { ...request, stream: true });
  const bytes = JSON.stringify(body).length;
  const described = describeRequest(number, 'anthropic', {}, body, bytes);
  const wire = wireOf(answerOf(reply, described), described, reply.fault);
  const reader = createReader('anthropic', options);
  const frames = wire.status >= 400 ? [] : framesOf(wire);
  for (const frame of frames) reader.push(frame);
  return replyOf('anthropic', sentResult(wire, frames.length), { ...options, reader });
}

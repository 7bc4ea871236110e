// The primitive `http_client`: one call from its merged config to one outcome. It closes every sink
// it was handed, exactly once, on every outcome, also when no request was made.
import {
  type Clock,
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../base/index.ts';
import { hostOf, type Lookup } from './http-address.ts';
import { bodyValue, decodedBody, isJsonType, readBounded } from './http-body.ts';
import { type HttpCall, type HttpPorts, type Settings, settingsOf } from './http-call.ts';
import { type StreamEnd, streamFault, streamFields } from './http-delivery.ts';
import { type Exchange, exchange, sendPlain } from './http-exchange.ts';
import { headersOf, statusFault } from './http-fault.ts';
import { createLinePool, type LinePool } from './http-pool.ts';
import { createRedactor } from './http-redact.ts';
import { buildRequest, type WireRequest } from './http-request.ts';
import { readEventStream } from './http-sse.ts';
import { createWatch, systemTimer, type Timer, timeoutsOf } from './http-watch.ts';
import { readWebSocket } from './http-websocket.ts';
import { wireSend } from './http-wire.ts';
import type { Primitive, PrimitiveCall, PrimitiveResult, TouchedFile } from './primitive.ts';
import type { SinkReport } from './sink.ts';
import { createFan } from './sinks/fan-out.ts';

export interface HttpClientPorts {
  clock: Clock;
  /** Resolves names; the system's resolver when absent. */
  lookup?: Lookup;
  /** Has the operator granted this address, which is not public? */
  isHostAllowed(host: string, address: string, port: number): boolean;
  timer?: Timer;
  /** Where connections of streams wait to be used again. */
  pool?: LinePool;
}

/** How long sinks may take to write out what they hold once the stream is over. */
const CLOSE_MS = 5000;
const ACCEPT: Readonly<Record<Settings['transport'], Readonly<Record<string, string>>>> = {
  none: { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'kernmantle' },
  sse: { accept: 'text/event-stream', 'accept-encoding': 'identity', 'user-agent': 'kernmantle' },
  websocket: { 'user-agent': 'kernmantle' },
};

const requestOf = (call: PrimitiveCall, { transport }: Settings): Outcome<WireRequest> =>
  buildRequest(
    call.config,
    ACCEPT[transport],
    transport === 'websocket' ? ['ws:', 'wss:'] : ['http:', 'https:'],
  );

/** The whole body as a value. A JSON body that had to be cut is worth nothing and is a fault. */
async function readAnswer(
  { answer, url, redirects }: Exchange,
  { watch, settings: { maxBytes } }: HttpCall,
): Promise<Outcome<JsonObject>> {
  const source = await decodedBody(answer);
  if (!source.ok) return source;
  const { bytes, truncated, end } = await readBounded(source.output, maxBytes, watch);
  const stopped = watch.failure();
  if (stopped !== undefined) return stopped;
  const { status, headers } = answer;
  if (end.kind === 'cut') {
    const { code, message } = end.error as NodeJS.ErrnoException;
    const reason = code ?? message;
    return fail('network_error', `the answer broke off after ${bytes.length} bytes: ${reason}`, {
      status,
      reason,
      host: hostOf(url),
      sent: true,
    });
  }
  const type = headers['content-type'];
  if (truncated && isJsonType(type)) {
    return fail('response_too_large', `the JSON answer is longer than ${maxBytes} bytes`, {
      status,
      max_bytes: maxBytes,
      sent: true,
    });
  }
  return ok({
    status,
    headers: headersOf(headers),
    ...bodyValue(bytes, type),
    bytes: bytes.length,
    truncated,
    url: `${url.origin}${url.pathname}`,
    redirects,
  });
}

/** A request on a connection that turns out to be closed is sent again: never one that changes things. */
const mayRepeat = ({ tool }: PrimitiveCall): boolean => tool.effect !== 'write';

type Ran = { kind: 'answer'; output: JsonObject } | { kind: 'stream'; end: StreamEnd };

async function runRequest(request: WireRequest, http: HttpCall): Promise<Outcome<Ran>> {
  const { call, watch, settings, ports, pool, redact } = http;
  if (settings.transport === 'websocket') {
    const end = await readWebSocket(request, http);
    return end.ok ? ok({ kind: 'stream', end: end.output }) : end;
  }
  const sent = await exchange(request, ports, {
    send: settings.transport === 'sse' ? wireSend(pool, mayRepeat(call)) : sendPlain,
    maxRedirects: settings.maxRedirects,
    verify: call.verify,
    watch,
    isSecret: (text) => redact.finds(text),
  });
  if (!sent.ok) return sent;
  const { answer, url } = sent.output;
  if (answer.status >= 400) return await statusFault(answer, url, ports.clock, watch);
  if (settings.transport === 'sse') {
    const end = await readEventStream(sent.output, http);
    return end.ok ? ok({ kind: 'stream', end: end.output }) : end;
  }
  const output = await readAnswer(sent.output, http);
  return output.ok ? ok({ kind: 'answer', output: output.output }) : output;
}

const writtenFiles = (reports: readonly SinkReport[]): TouchedFile[] =>
  reports.flatMap(({ file }) =>
    file ? [{ access: 'written', ...(file as Omit<TouchedFile, 'access'>) }] : [],
  );

/** The call's result once its sinks are closed and have reported. */
function resultOf(
  ran: Outcome<Ran>,
  reports: readonly SinkReport[],
  count: number,
  url: URL | undefined,
  redact: (value: Json) => Json,
): Outcome<PrimitiveResult> {
  if (!ran.ok) return ran;
  const files = writtenFiles(reports);
  let output: JsonObject;
  if (ran.output.kind === 'answer') output = ran.output.output;
  else {
    output = streamFields(ran.output.end, count, reports, redact);
    const { failure } = ran.output.end;
    if (failure) {
      // A file that was begun stays, so whoever keeps labels of files must hear of it.
      const written = files.map(({ relative: path, sha256 }) => ({ path, sha256 }));
      return streamFault(failure, written.length > 0 ? { ...output, files: written } : output);
    }
  }
  return ok({
    output,
    labels: ['src:network', 'untrusted'],
    sources: url ? [`url:${url.origin}${url.pathname}`] : [],
    ...(files.length > 0 && { files }),
  });
}

function patience(timer: Timer): { promise: Promise<void>; cancel: () => void } {
  let cancel = () => {};
  const promise = new Promise<void>((resolve) => {
    cancel = timer(CLOSE_MS, resolve);
  });
  return { promise, cancel };
}

const redactFault = ({ error }: Failure, redact: (value: Json) => Json): Failure => ({
  ok: false,
  error: { code: error.code, detail: redact(error.detail) as Failure['error']['detail'] },
});

export function createHttpPrimitive(clientPorts: HttpClientPorts): Primitive {
  const ports: HttpPorts = { timer: systemTimer, ...clientPorts };
  const pool = clientPorts.pool ?? createLinePool();

  async function attempt(call: PrimitiveCall, fan: HttpCall['fan']): Promise<[Outcome<Ran>, URL?]> {
    const settings = settingsOf(call);
    if (!settings.ok) return [settings];
    const timeouts = timeoutsOf(call.config, call.timeoutMs);
    if (!timeouts.ok) return [timeouts];
    const request = requestOf(call, settings.output);
    if (!request.ok) return [request];
    const redact = createRedactor([...call.secrets, ...request.output.hidden]);
    const watch = createWatch(timeouts.output, call.signal, ports);
    try {
      const http = { call, settings: settings.output, ports, pool, watch, fan, redact };
      const ran = await runRequest(request.output, http);
      return [
        ran.ok ? redactRan(ran.output, redact) : redactFault(ran, redact),
        request.output.url,
      ];
    } finally {
      watch.end();
    }
  }

  return {
    name: 'http_client',
    async run(call) {
      const fan = createFan(call.sinks);
      let ran: [Outcome<Ran>, URL?];
      try {
        ran = await attempt(call, fan);
      } catch (error) {
        ran = [fail('internal_error', `http_client: ${(error as Error).message}`)];
      }
      const wait = patience(ports.timer);
      const reports = await fan.close(wait.promise);
      wait.cancel();
      return resultOf(ran[0], reports, fan.count, ran[1], createRedactor(call.secrets));
    },
    plan(call) {
      const settings = settingsOf(call);
      if (!settings.ok) return { error: settings.error.detail.message };
      const request = requestOf(call, settings.output);
      if (!request.ok) return { error: request.error.detail.message };
      const { method, url, headers, body, hidden } = request.output;
      const capability = settings.output.transport === 'websocket' ? 'net.websocket' : 'net.http';
      return createRedactor([...call.secrets, ...hidden])({
        request: `${method} ${url.href}`,
        headers,
        body_bytes: body?.length ?? 0,
        transport: settings.output.transport,
        needs: [{ capability, scope: { host: hostOf(url), method } }],
      });
    },
    close: () => pool.close(),
  };
}

/** An answer may repeat what it was sent; events were seen to on their way. */
function redactRan(ran: Ran, redact: (value: Json) => Json): Outcome<Ran> {
  if (ran.kind === 'answer') return ok({ ...ran, output: redact(ran.output) as JsonObject });
  const { failure, facts } = ran.end;
  return ok({
    kind: 'stream',
    end: {
      ...ran.end,
      facts: redact(facts) as JsonObject,
      ...(failure && { failure: redactFault(failure, redact) }),
    },
  });
}

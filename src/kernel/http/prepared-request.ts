// The one way to send a request. Whatever does not change from one sending to the next is done when
// it is prepared: config read, URL and headers checked, time limits, redactor. Rights and addresses
// are judged when it is sent, every time.
import {
  createRedactor,
  type Failure,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { hostOf } from './address.ts';
import { bodyValue, decodedBody, isJsonType, readBounded } from './body.ts';
import {
  type Configured,
  type HttpPorts,
  type OnEvents,
  type Sending,
  type Settings,
  type StreamEnd,
  settingsOf,
} from './call.ts';
import { reasonOf } from './connect.ts';
import { readEventStream } from './event-stream.ts';
import { headersOf, statusFault } from './fault.ts';
import { type Exchange, exchange } from './redirects.ts';
import { buildRequest, type WireRequest } from './request.ts';
import { createWatch, timeoutsOf } from './time-limits.ts';

/** What came back, without secrets: a whole answer, or how a stream ended. */
export type Received = { kind: 'answer'; output: JsonObject } | { kind: 'stream'; end: StreamEnd };

export interface PreparedRequest {
  readonly request: WireRequest;
  readonly settings: Settings;
  readonly redact: Redactor;
  /**
   * Sends it with this body instead of the prepared one, which gave it its content type. The events of
   * a stream go to `onEvents`, without secrets.
   */
  send(
    body: Buffer | undefined,
    onEvents: OnEvents,
    signal: AbortSignal,
  ): Promise<Outcome<Received>>;
}

const ACCEPT: Readonly<Record<Settings['transport'], Readonly<Record<string, string>>>> = {
  none: { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'kernmantle' },
  sse: { accept: 'text/event-stream', 'accept-encoding': 'identity', 'user-agent': 'kernmantle' },
  websocket: { 'user-agent': 'kernmantle' },
};

/** What would be sent, checked; nothing is connected. */
export function describeRequest(
  call: Configured & Pick<PrimitiveCall, 'secrets'>,
): Outcome<Pick<PreparedRequest, 'request' | 'settings' | 'redact'>> {
  const settings = settingsOf(call);
  if (!settings.ok) return settings;
  const { transport } = settings.output;
  const schemes = transport === 'websocket' ? ['ws:', 'wss:'] : ['http:', 'https:'];
  const request = buildRequest(call.config, ACCEPT[transport], schemes);
  if (!request.ok) return request;
  const redact = createRedactor([...call.secrets, ...request.output.hidden]);
  return ok({ request: request.output, settings: settings.output, redact });
}

/** The whole body as a value. A JSON body that had to be cut is worth nothing and is a fault. */
async function readAnswer(
  { answer, url, redirects }: Exchange,
  { watch, settings: { maxBytes } }: Sending,
): Promise<Outcome<JsonObject>> {
  const source = await decodedBody(answer);
  if (!source.ok) return source;
  const { bytes, truncated, end } = await readBounded(source.output, maxBytes, watch);
  const stopped = watch.failure();
  if (stopped !== undefined) return stopped;
  const { status, headers } = answer;
  if (end.kind === 'cut') {
    const reason = reasonOf(end.error);
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

const streamed = (end: Outcome<StreamEnd>): Outcome<Received> =>
  end.ok ? ok({ kind: 'stream', end: end.output }) : end;

async function receive(
  request: WireRequest,
  sending: Sending,
  mayRepeat: boolean,
): Promise<Outcome<Received>> {
  const { settings, ports, verify, watch, redact } = sending;
  if (settings.transport === 'websocket') {
    const { readWebSocket } = await import('./websocket.ts');
    return streamed(await readWebSocket(request, sending));
  }
  const sent = await exchange(request, ports, {
    mayRepeat,
    maxRedirects: settings.maxRedirects,
    verify,
    watch,
    isSecret: (text) => !redact.isClean(text),
  });
  if (!sent.ok) return sent;
  const { answer, url } = sent.output;
  if (answer.status >= 400) return await statusFault(answer, url, ports.clock, watch);
  if (settings.transport === 'sse') return streamed(await readEventStream(sent.output, sending));
  const output = await readAnswer(sent.output, sending);
  return output.ok ? ok({ kind: 'answer', output: output.output }) : output;
}

const redactFault = ({ error }: Failure, redact: Redactor): Failure => ({
  ok: false,
  error: { code: error.code, detail: redact.json(error.detail) },
});

/** An answer may repeat what it was sent; events were seen to on their way. */
function withoutSecrets(received: Outcome<Received>, redact: Redactor): Outcome<Received> {
  if (redact.isIdle) return received;
  if (!received.ok) return redactFault(received, redact);
  if (received.output.kind === 'answer') {
    return ok({ kind: 'answer', output: redact.json(received.output.output) });
  }
  const { failure, ...end } = received.output.end;
  const facts = redact.json(end.facts);
  return ok({
    kind: 'stream',
    end: { ...end, facts, ...(failure && { failure: redactFault(failure, redact) }) },
  });
}

export function prepareRequest(
  call: Pick<PrimitiveCall, 'config' | 'parameters' | 'secrets' | 'timeoutMs' | 'verify' | 'tool'>,
  ports: HttpPorts,
): Outcome<PreparedRequest> {
  const described = describeRequest(call);
  if (!described.ok) return described;
  const timeouts = timeoutsOf(call.config, call.timeoutMs);
  if (!timeouts.ok) return timeouts;
  const { request, settings, redact } = described.output;
  const { body: _, ...bare } = request;
  // A request on a connection that turns out to be closed is sent again: never one that changes things.
  const mayRepeat = call.tool.effect !== 'write';
  return ok({
    ...described.output,
    async send(body, onEvents, signal) {
      const watch = createWatch(timeouts.output, signal, ports);
      const sending = { settings, ports, verify: call.verify, watch, redact, onEvents };
      try {
        const wire = body === undefined ? bare : { ...bare, body };
        return withoutSecrets(await receive(wire, sending, mayRepeat), redact);
      } finally {
        watch.end();
      }
    },
  });
}

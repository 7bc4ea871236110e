// Prepares and sends the requests of `http_client`. The preparation does everything that stays the same between
// sendings: config, URL and headers, time limits, redactor. Rights and addresses are judged at every sending and
// for every redirect. Each redirect is a new request, and credentials of the first origin never go to another.
import {
  type Failure,
  fail,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import type { PrimitiveCall, Verifier } from '../primitive.ts';
import { allowTarget, hostOf } from './address.ts';
import { bodyValue, decodedBody, isJsonType, readBounded, statusFault } from './answer.ts';
import type { HttpAnswer, HttpPorts } from './connections.ts';
import { type OnEvents, readEventStream, type Sending, type StreamEnd } from './event-stream.ts';
import { reasonOf } from './fault.ts';
import {
  type DescribedRequest,
  describeRequest,
  type StreamedBody,
  urlProblem,
  type WireRequest,
} from './request.ts';
import { TimeWatch, timeoutsOf } from './time-limits.ts';

/** A response without secrets: a whole answer, or the end of a stream. */
export type Received = { kind: 'answer'; output: JsonObject } | { kind: 'stream'; end: StreamEnd };

interface SendOptions {
  signal: AbortSignal;
  /** Time on the monotonic clock after which the request is not sent. */
  sendBy?: number;
  /** The caller pays for each sending, so a request that may have been received is not sent again. */
  isOnce?: boolean;
  /** Judges at this sending whether the caller may reach the host. */
  verify: Verifier;
  /** Receives the events of a stream, without secrets. */
  onEvents: OnEvents;
}

export interface PreparedRequest extends DescribedRequest {
  /**
   * Sends the request with this body instead of the prepared one, which determined the content type.
   * Never rejects, also if `onEvents` throws.
   */
  send(body: string | StreamedBody | undefined, options: SendOptions): Promise<Outcome<Received>>;
}

/** Returns the whole body as a value. A truncated JSON body is a fault. */
async function readAnswer(
  answer: HttpAnswer,
  url: URL,
  redirects: number,
  { watch, settings: { maxBytes } }: Sending,
): Promise<Outcome<JsonObject>> {
  const body = decodedBody(answer);
  if (!body.ok) return body;
  const { bytes, truncated, end } = await readBounded(body.output, maxBytes);
  if (watch.failure !== undefined) return watch.failure;
  const { status, headers } = answer;
  if (end instanceof Error) {
    const reason = reasonOf(end);
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
    headers: { ...headers },
    ...bodyValue(bytes, type),
    bytes: bytes.length,
    truncated,
    url: `${url.origin}${url.pathname}`,
    redirects,
  });
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Returns the request without its body and the headers that describe the body. */
function withoutBody(request: WireRequest): WireRequest {
  const { body: _, ...rest } = request;
  const headers = { ...rest.headers };
  for (const name of Object.keys(headers)) if (name.startsWith('content-')) delete headers[name];
  return { ...rest, headers };
}

const REDIRECT = { rule: 'redirect' } as const;

/** Returns the request for another origin: no credentials, and no value that contains a secret. */
function forOtherOrigin(request: WireRequest, redact: Redactor): Outcome<WireRequest> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (!request.credentials.has(name) && redact.isClean(value)) headers[name] = value;
  }
  const { body = '' } = request;
  return redact.isClean(typeof body === 'string' ? body : body.text)
    ? ok({ ...request, headers })
    : fail(
        'permission_denied',
        'a redirect would send a secret in the body to another origin',
        REDIRECT,
      );
}

function redirected(
  request: WireRequest,
  status: number,
  location: string,
  redact: Redactor,
): Outcome<WireRequest> {
  const url = URL.parse(location, request.url.href);
  if (url === null) {
    return fail('http_error', 'the target of the redirect is not a valid URL');
  }
  url.hash = '';
  const problem = urlProblem(url, ['http:', 'https:']);
  if (problem !== undefined)
    return fail('permission_denied', `redirect refused: ${problem}`, REDIRECT);
  if (request.url.protocol === 'https:' && url.protocol === 'http:') {
    return fail('permission_denied', 'redirect refused: it leads from https to http', REDIRECT);
  }
  const becomesGet =
    request.method !== 'HEAD' && (status === 303 || (status < 303 && request.method === 'POST'));
  const next = becomesGet ? { ...withoutBody(request), method: 'GET', url } : { ...request, url };
  return url.origin === request.url.origin ? ok(next) : forOtherOrigin(next, redact);
}

/** Follows redirects and returns the final answer. */
async function exchange(
  first: WireRequest,
  sending: Sending,
  mayRepeat: boolean | 'once',
): Promise<Outcome<Received>> {
  const { settings, ports, verify, watch, redact } = sending;
  let [request, redirects] = [first, 0];

  type Step = Received | { kind: 'redirect'; request: WireRequest };
  const receive = async (answer: HttpAnswer): Promise<Outcome<Step>> => {
    const { status } = answer;
    const { location } = answer.headers;
    if (location !== undefined && REDIRECTS.has(status) && settings.maxRedirects > 0) {
      answer.body.destroy();
      if (redirects >= settings.maxRedirects) {
        return fail('http_error', `more than ${settings.maxRedirects} redirects`, { status });
      }
      const next = redirected(request, status, location, redact);
      return next.ok ? ok({ kind: 'redirect', request: next.output }) : next;
    }
    if (status >= 400) return await statusFault(answer, request.url, ports.clock, watch);
    if (settings.transport === 'sse') {
      const end = await readEventStream(answer, sending);
      return end.ok ? ok({ kind: 'stream', end: end.output }) : end;
    }
    const output = await readAnswer(answer, request.url, redirects, sending);
    return output.ok ? ok({ kind: 'answer', output: output.output }) : output;
  };

  for (;;) {
    const addresses = await allowTarget(request, 'net.http', verify, ports, watch);
    if (!addresses.ok) return addresses;
    const { connections } = ports;
    const sent = await connections.send(request, addresses.output, watch, mayRepeat, receive);
    if (!sent.ok) return sent;
    if (sent.output.kind !== 'redirect') return ok(sent.output);
    ({ request } = sent.output);
    redirects++;
    watch.enter('connect');
  }
}

const redactFault = ({ error }: Failure, redact: Redactor): Failure => ({
  ok: false,
  error: { code: error.code, detail: redact.json(error.detail) },
});

/** Masks secrets that an answer repeats. Events were masked when they arrived. */
function withoutSecrets(received: Outcome<Received>, redact: Redactor): Outcome<Received> {
  if (redact.isIdle) return received;
  if (!received.ok) return redactFault(received, redact);
  if (received.output.kind === 'answer') {
    return ok({ kind: 'answer', output: redact.json(received.output.output) });
  }
  const { end } = received.output;
  end.facts = redact.json(end.facts);
  if (end.failure !== undefined) end.failure = redactFault(end.failure, redact);
  return received;
}

export function prepareRequest(
  call: Pick<PrimitiveCall, 'config' | 'parameters' | 'secrets' | 'timeoutMs' | 'tool'>,
  ports: HttpPorts,
): Outcome<PreparedRequest> {
  const described = describeRequest(call);
  if (!described.ok) return described;
  const timeouts = timeoutsOf(call.config, call.timeoutMs);
  if (!timeouts.ok) return timeouts;
  const { request, settings, redact } = described.output;
  const { body: _, ...bare } = request;
  // A request on a connection that turns out to be closed is sent again, unless the tool writes.
  const mayRepeat = call.tool.effect !== 'write';
  return ok({
    ...described.output,
    async send(body, { signal, sendBy, isOnce = false, verify, onEvents }) {
      const watch = new TimeWatch(timeouts.output, signal, ports, sendBy);
      const sending = { settings, ports, verify, watch, redact, onEvents };
      const wire = body === undefined ? bare : { ...bare, body };
      try {
        if (settings.transport !== 'websocket') {
          const received = await exchange(wire, sending, mayRepeat && isOnce ? 'once' : mayRepeat);
          return withoutSecrets(received, redact);
        }
        const { readWebSocket } = await import('./websocket.ts');
        const end = await readWebSocket(wire, sending);
        const received: Outcome<Received> = end.ok ? ok({ kind: 'stream', end: end.output }) : end;
        return withoutSecrets(received, redact);
      } catch (error) {
        return redactFault(fail('internal_error', `http_client: ${messageOf(error)}`), redact);
      } finally {
        watch.end();
      }
    },
  });
}

// Provides `fetch` for libraries that implement a protocol over HTTP. Every request goes to an address that
// was checked for it. Redirects are not followed: the library receives them and sends a new request.
// Responses are bounded: an answer as a whole, a stream by its events.
import { type Clock, type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import { type AddressPorts, allowTarget } from './address.ts';
import { decodedBody, readBounded } from './answer.ts';
import { type Body, Connections, type HttpAnswer } from './connections.ts';
import { createEventGuard } from './event-stream.ts';
import { reasonOf } from './fault.ts';
import { urlProblem, type WireRequest } from './request.ts';
import { type Timer, TimeWatch } from './time-limits.ts';

export interface CheckedFetchPorts extends AddressPorts {
  clock: Clock;
  timer?: Timer;
  /** Judges the right `net.http` at every request. */
  verify: Verifier;
  /** Maximum size of one answer, or of one event of a stream. */
  maxBytes: number;
  /** Receives the reason why a stream broke. The library that reads the stream may hide it. */
  onBroken?(failure: Failure): void;
}

export interface CheckedFetch {
  /** Rejects with a `FetchFault`, or with the signal's reason. */
  fetch(url: string | URL, init?: RequestInit): Promise<Response>;
  /** Returns the failure of a rejected request. Undefined: another error. */
  failureIn(error: unknown): Failure | undefined;
  close(): void;
}

/** Error of a request without an answer. Its message is the one that every other request would report. */
class FetchFault extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.error.detail.message);
    this.name = 'FetchFault';
    this.failure = failure;
  }
}

const CONNECT_MS = 10_000;
/** No limit, because the calling library has its own time limits and a signal. */
const UNLIMITED_MS = 2 ** 31 - 1;
const TIMEOUTS = {
  connect: CONNECT_MS,
  first_byte: UNLIMITED_MS,
  idle: UNLIMITED_MS,
  total: UNLIMITED_MS,
};
const MAX_REFUSAL = 64 * 1024;
const BODILESS = new Set([101, 204, 205, 304]);
const NEVER = new AbortController().signal;

const tooLarge = (maxBytes: number): Failure =>
  fail('response_too_large', `the answer is longer than ${maxBytes} bytes`, {
    max_bytes: maxBytes,
    sent: true,
  });

const brokenOff = (error: Error): Failure => {
  const reason = reasonOf(error);
  return fail('network_error', `the answer broke off: ${reason}`, { reason, sent: true });
};

/** A timer that does not keep the process from ending. */
const quietTimer: Timer = (ms, callback) => {
  const handle = setTimeout(callback, ms).unref();
  return () => clearTimeout(handle);
};

/** Returns the body as a stream that reads more only after its content was consumed. */
function eventStream(
  body: Body,
  { maxBytes, onBroken }: CheckedFetchPorts,
  watch: TimeWatch,
): ReadableStream<Uint8Array> {
  let resume: ((isWanted: boolean) => void) | undefined;
  const isShort = createEventGuard(maxBytes);
  return new ReadableStream<Uint8Array>({
    async start(controller) {
      const read = body.read((bytes) => {
        if (!isShort(bytes)) throw new FetchFault(tooLarge(maxBytes));
        controller.enqueue(bytes);
        if ((controller.desiredSize ?? 0) > 0) return true;
        return new Promise((resolve) => {
          resume = resolve;
        });
      });
      const settle = (end: unknown): void => {
        watch.end();
        if (end === 'end' || end === 'stopped') controller.close();
        else {
          const fault = end instanceof FetchFault ? end : new FetchFault(brokenOff(end as Error));
          onBroken?.(fault.failure);
          controller.error(fault);
        }
      };
      // The promise is not awaited, because a stream is read after it was returned.
      void read.then(settle, settle).catch(() => undefined);
    },
    pull() {
      resume?.(true);
      resume = undefined;
    },
    cancel() {
      resume?.(false);
      body.destroy();
      watch.end();
    },
  });
}

async function wholeBody(body: Body, max: number, isRefusal: boolean): Promise<Outcome<Buffer>> {
  const { bytes, truncated, end } = await readBounded(body, max);
  if (truncated && !isRefusal) return tooLarge(max);
  return end instanceof Error ? brokenOff(end) : ok(bytes);
}

const isEvents = ({ headers }: HttpAnswer): boolean =>
  /^(?:text\/event-stream|application\/vnd\.amazon\.eventstream)\b/i.test(
    headers['content-type'] ?? '',
  );

async function responseOf(
  answer: HttpAnswer,
  ports: CheckedFetchPorts,
  watch: TimeWatch,
): Promise<Outcome<Response>> {
  const { status, statusText } = answer;
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    // The body is decoded already.
    if (!/^(content-encoding|content-length|transfer-encoding)$/.test(name)) {
      headers.set(name, value);
    }
  }
  const head = { status, statusText, headers };
  const body = decodedBody(answer);
  if (!body.ok) return body;
  const isRefusal = status >= 300;
  if (isEvents(answer) && !isRefusal) {
    return ok(new Response(eventStream(body.output, ports, watch), head));
  }
  const max = isRefusal ? Math.min(MAX_REFUSAL, ports.maxBytes) : ports.maxBytes;
  const bytes = await wholeBody(body.output, max, isRefusal);
  if (watch.failure) return watch.failure;
  watch.end();
  if (!bytes.ok) return bytes;
  return ok(new Response(BODILESS.has(status) ? null : new Uint8Array(bytes.output), head));
}

function wireRequest(url: string | URL, init: RequestInit): Outcome<WireRequest> {
  const target = URL.parse(String(url));
  if (target === null) return fail('invalid_input', '`url` is not a valid URL');
  target.hash = '';
  const problem = urlProblem(target, ['http:', 'https:']);
  if (problem !== undefined) return fail('invalid_input', problem);
  const requestHeaders = new Headers(init.headers);
  const { body } = init;
  if (body instanceof URLSearchParams && !requestHeaders.has('content-type')) {
    requestHeaders.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8');
  }
  const headers: Record<string, string> = {
    'user-agent': 'kernmantle',
    'accept-encoding': 'gzip, deflate, br',
    ...Object.fromEntries(requestHeaders),
  };
  if (body !== undefined && body !== null && typeof body !== 'string') {
    if (!(body instanceof URLSearchParams)) return fail('invalid_input', 'the body must be a text');
  }
  const text = body === undefined || body === null ? undefined : String(body);
  return ok({
    method: (init.method ?? 'GET').toUpperCase(),
    url: target,
    headers,
    credentials: new Set(),
    hidden: [],
    ...(text !== undefined && { body: text }),
  });
}

export function createCheckedFetch(ports: CheckedFetchPorts): CheckedFetch {
  const connections = new Connections();
  const timing = { clock: ports.clock, timer: ports.timer ?? quietTimer };

  async function send(request: WireRequest, watch: TimeWatch): Promise<Outcome<Response>> {
    const addresses = await allowTarget(request, 'net.http', ports.verify, ports, watch);
    if (!addresses.ok) return addresses;
    // A request that only reads is repeated on a stale connection. Any other request is sent once.
    const mayRepeat = request.method === 'GET' || request.method === 'HEAD' ? true : 'once';
    return await connections.send(request, addresses.output, watch, mayRepeat, (answer) =>
      responseOf(answer, ports, watch),
    );
  }

  return {
    async fetch(url, init = {}) {
      const request = wireRequest(url, init);
      if (!request.ok) throw new FetchFault(request);
      const signal = init.signal ?? NEVER;
      const watch = new TimeWatch(TIMEOUTS, signal, timing);
      const sent = await send(request.output, watch);
      if (sent.ok) return sent.output;
      watch.end();
      if (signal.aborted) throw signal.reason;
      throw new FetchFault(sent);
    },
    failureIn: (error) => (error instanceof FetchFault ? error.failure : undefined),
    close: () => connections.close(),
  };
}

// Implements the primitive `http_client`, which turns a merged config into one outcome. It closes every sink
// exactly once, on every outcome, also if no request was made.
import type { Clock, Failure, Json, JsonObject, Outcome } from '../../base/index.ts';
import { createRedactor, ok, withDetail } from '../../base/index.ts';
import { describe, markFailure } from '../../flow/index.ts';
import type { Primitive, PrimitiveResult, TouchedFile, Verifier } from '../primitive.ts';
import type { SinkReport } from '../sink.ts';
import { createFan, type Fan, publicReport } from '../sinks/fan-out.ts';
import { type AddressPorts, hostOf, refusedTarget } from './address.ts';
import { Connections, type HttpPorts } from './connections.ts';
import type { StreamEnd } from './event-stream.ts';
import { type PreparedRequest, prepareRequest, type Received } from './prepared-request.ts';
import { describeRequest } from './request.ts';
import { systemTimer, type Timer } from './time-limits.ts';

interface HttpClientPorts extends AddressPorts {
  clock: Clock;
  timer?: Timer;
  connections?: Connections;
}

/**
 * Time for which the call waits for its sinks after the stream. Every sink gives up earlier by itself: a
 * module is ended after 5 s. This bound is for a sink that exceeds its own.
 */
const CLOSE_MS = 10_000;

async function closeSinks(fan: Fan, timer: Timer): Promise<SinkReport[]> {
  const { promise: patience, resolve } = Promise.withResolvers<void>();
  const cancel = timer(CLOSE_MS, resolve);
  const reports = await fan.close(patience);
  cancel();
  return reports;
}

/** Returns the fields of a stream's result. The detail of a fault contains the same fields. */
function streamFields(
  { facts, count, endedCleanly }: StreamEnd,
  reports: readonly SinkReport[],
  redact: (value: Json) => Json,
): JsonObject {
  const events = reports.find(({ type }) => type === 'return')?.events;
  return {
    ...facts,
    body: Array.isArray(events) ? (events as Json[]) : null,
    stream_events_count: count,
    stream_destinations: redact(reports.map(publicReport)),
    dropped: reports.reduce((sum, { dropped }) => sum + dropped, 0),
    ended_cleanly: endedCleanly,
  };
}

/** Returns the call's result after its sinks have closed and reported. */
function resultOf(
  received: Outcome<Received>,
  reports: readonly SinkReport[],
  url: URL | undefined,
  secrets: readonly string[],
): Outcome<PrimitiveResult> {
  if (!received.ok) return received;
  const files = reports.flatMap(({ file }): TouchedFile[] =>
    file ? [{ access: 'written', ...(file as Omit<TouchedFile, 'access'>) }] : [],
  );
  let output: JsonObject;
  if (received.output.kind === 'answer') output = received.output.output;
  else {
    const { end } = received.output;
    output = streamFields(end, reports, createRedactor(secrets).json);
    if (end.failure) {
      // A fault tells what was received before it. A file that was begun stays, so its labels must be recorded.
      const written = files.map(({ relative: path, sha256 }) => ({ path, sha256 }));
      const startedFiles = written.length > 0 && { files: written };
      return withDetail(end.failure, { ...output, ...startedFiles });
    }
  }
  return ok({
    output,
    labels: ['src:network', 'untrusted'],
    sources: url ? [`url:${url.origin}${url.pathname}`] : [],
    ...(files.length > 0 && { files }),
  });
}

/** True if no server has answered: a missing right or connection before the first redirect. */
const isUnsent = ({ error: { detail, code } }: Failure, hops: number): boolean =>
  hops === 0 ||
  (hops === 1 && (detail.missing !== undefined || detail.sent === false || code === 'cancelled'));

/** A refusal can quote untrusted text: words of a page, the target of a redirect. */
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });

const capabilityOf = ({ transport }: { transport: string }) =>
  transport === 'websocket' ? 'net.websocket' : 'net.http';

export interface HttpPrimitive extends Primitive {
  /**
   * Prepares a request for a program that sends it many times and reads the events itself, such as the
   * harness. The constant parts are checked once, then `send` is called for each body. It shares the
   * connections of `run`.
   */
  prepare(call: Parameters<typeof prepareRequest>[0]): Outcome<PreparedRequest>;
}

export function createHttpPrimitive(clientPorts: HttpClientPorts): HttpPrimitive {
  const connections = clientPorts.connections ?? new Connections();
  const ports: HttpPorts = { timer: systemTimer, ...clientPorts, connections };

  return {
    name: 'http_client',
    async run(call) {
      const { sinks, signal, verify, secrets } = call;
      const fan = createFan(sinks);
      const prepared = prepareRequest(call, ports);
      const request = prepared.ok ? prepared.output.request : undefined;
      let hops = 0;
      const counted: Verifier = (need) => {
        hops++;
        return verify(need);
      };
      const received = prepared.ok
        ? await prepared.output.send(request?.body, {
            signal,
            verify: counted,
            onEvents: fan.write,
          })
        : prepared;
      const reports = sinks.length === 0 ? [] : await closeSinks(fan, ports.timer);
      const result = resultOf(received, reports, request?.url, secrets);
      return result.ok || isUnsent(result, hops) ? result : markFailure(result, NETWORK);
    },
    refuses(call) {
      const described = describeRequest(call);
      if (!described.ok) return undefined;
      const { request, settings } = described.output;
      return refusedTarget(request, capabilityOf(settings), call.verify, ports);
    },
    plan(call) {
      const described = describeRequest(call);
      if (!described.ok) return { error: described.error.detail.message };
      const { request, settings, redact } = described.output;
      const { method, url, headers, body } = request;
      return redact.json<JsonObject>({
        request: `${method} ${url.href}`,
        headers,
        body_bytes: Buffer.byteLength(body ?? ''),
        transport: settings.transport,
        needs: [{ capability: capabilityOf(settings), scope: { host: hostOf(url), method } }],
      });
    },
    prepare: (call) => prepareRequest(call, ports),
    close: () => connections.close(),
  };
}

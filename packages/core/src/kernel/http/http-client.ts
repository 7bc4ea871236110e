// The primitive `http_client`: one call from its merged config to one outcome. It closes every sink
// it was handed, exactly once, on every outcome, also when no request was made.
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
 * How long the call waits for its sinks once the stream is over. Every sink gives up earlier by itself: a
 * module is ended after 5 s. This bound is for a sink that does not keep its own.
 */
const CLOSE_MS = 10_000;

async function closeSinks(fan: Fan, timer: Timer): Promise<SinkReport[]> {
  const { promise: patience, resolve } = Promise.withResolvers<void>();
  const cancel = timer(CLOSE_MS, resolve);
  const reports = await fan.close(patience);
  cancel();
  return reports;
}

/** The fields of a stream's result; a fault's detail holds the same ones. */
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

/** The call's result once its sinks are closed and have reported. */
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
      // What was received before the fault is told with it. A file that was begun stays, so whoever
      // keeps labels of files must hear of it.
      const written = files.map(({ relative: path, sha256 }) => ({ path, sha256 }));
      const begun = written.length > 0 && { files: written };
      return withDetail(end.failure, { ...output, ...begun });
    }
  }
  return ok({
    output,
    labels: ['src:network', 'untrusted'],
    sources: url ? [`url:${url.origin}${url.pathname}`] : [],
    ...(files.length > 0 && { files }),
  });
}

/** Nobody has answered: before the first redirect, for want of a right or of a connection. */
const isUnsent = ({ error: { detail, code } }: Failure, hops: number): boolean =>
  hops === 0 ||
  (hops === 1 && (detail.missing !== undefined || detail.sent === false || code === 'cancelled'));

/** What a refusal says is as much a stranger's as an answer: words of a page, the place of a redirect. */
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });

const capabilityOf = ({ transport }: { transport: string }) =>
  transport === 'websocket' ? 'net.websocket' : 'net.http';

export interface HttpPrimitive extends Primitive {
  /**
   * For whoever sends the same request many times and reads the events himself, such as the harness:
   * once for what stays the same, then `send` for each body. It shares the connections of `run`.
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

// Implements the `sse` transport: reads an event stream to its end and passes on every event.
import {
  type Failure,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import type { StreamEvent } from '../sink.ts';
import { decodedBody, excerptOf } from './answer.ts';
import type { HttpAnswer, HttpPorts } from './connections.ts';
import { createEventParser } from './event-parser.ts';
import { reasonOf } from './fault.ts';
import type { Settings } from './request.ts';
import type { TimeWatch } from './time-limits.ts';

/**
 * Receives the events that arrived together. If it returns a promise, nothing more is read until the
 * promise settles. The promise never rejects.
 */
export type OnEvents = (events: readonly StreamEvent[]) => undefined | Promise<void>;

export interface Sending {
  settings: Settings;
  ports: HttpPorts;
  verify: Verifier;
  watch: TimeWatch;
  redact: Redactor;
  onEvents: OnEvents;
}

export interface StreamEnd {
  /** `status`, `headers` and other facts of the transport. */
  facts: JsonObject;
  /** Number of events that were passed on. */
  count: number;
  /** True if the server ended the stream and no event was incomplete. */
  endedCleanly: boolean;
  failure?: Failure;
}

const EVENT_STREAM = /^\s*text\/event-stream\s*(?:;|$)/i;

async function wrongType(answer: HttpAnswer, { watch }: Sending): Promise<Failure> {
  const { status, headers } = answer;
  const type = headers['content-type'] ?? '';
  const body_excerpt = await excerptOf(answer);
  if (watch.failure !== undefined) return watch.failure;
  return fail(
    'http_error',
    `expected an event stream (\`text/event-stream\`), but the content type is \`${type || 'missing'}\``,
    { status, content_type: type, body_excerpt, reason: 'wrong_content_type', sent: true },
  );
}

/** Reads a stream to its end. A failure before the first byte is a fault instead of an end. */
export async function readEventStream(
  answer: HttpAnswer,
  sending: Sending,
): Promise<Outcome<StreamEnd>> {
  const { status, headers } = answer;
  const { watch, settings, redact, onEvents } = sending;
  if (!EVENT_STREAM.test(headers['content-type'] ?? '')) return await wrongType(answer, sending);
  const body = headers['content-encoding'] === undefined ? ok(answer.body) : decodedBody(answer);
  if (!body.ok) return body;

  let batch: StreamEvent[] = [];
  let [received, count] = [0, 0];
  let failure: Failure | undefined;
  const parser = createEventParser((event) => batch.push(event), settings.maxEvent, redact);
  const mayContinue = (): boolean => failure === undefined && watch.failure === undefined;
  const end = await body.output.read((bytes) => {
    received += bytes.length;
    const parsed = parser.push(bytes);
    if (!parsed.ok) failure = parsed;
    else if (received > settings.maxBytes) {
      failure = fail('response_too_large', `the stream is longer than ${settings.maxBytes} bytes`, {
        max_bytes: settings.maxBytes,
      });
    }
    const events = batch;
    batch = [];
    count += events.length;
    const wait = events.length > 0 ? onEvents(events) : undefined;
    if (wait !== undefined) return wait.then(mayContinue);
    return failure === undefined && watch.failure === undefined;
  });
  const { unfinished } = parser.end();
  count += batch.length;
  if (batch.length > 0) await onEvents(batch);
  failure = watch.failure ?? failure;
  if (end instanceof Error && failure === undefined) {
    const reason = reasonOf(end);
    const words = `the stream broke off after ${count} events: ${reason}`;
    failure = fail('stream_incomplete', words, { reason, sent: true });
  }
  const facts: JsonObject = { status, headers: { ...headers }, bytes: received };
  if (parser.retryMs !== undefined) facts['retry_ms'] = parser.retryMs;
  const endedCleanly = failure === undefined && !unfinished;
  return ok({ facts, count, endedCleanly, ...(failure && { failure }) });
}

const FEED = 0x0a;
const RETURN = 0x0d;

/**
 * Returns a check of the length of events, for a stream that a library reads. The check returns false if
 * an event is longer than `maxBytes`. A library buffers an event until its end, so an endless event
 * would fill the memory. An empty line ends an event.
 */
export function createEventGuard(maxBytes: number): (bytes: Uint8Array) => boolean {
  let [size, isLineEmpty, wasReturn] = [0, true, false];
  return (bytes) => {
    let from = 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte !== FEED && byte !== RETURN) {
        [isLineEmpty, wasReturn] = [false, false];
        // Only the end of the line matters, so it is searched natively.
        const feed = bytes.indexOf(FEED, at);
        const rest = bytes.subarray(at, feed === -1 ? bytes.length : feed);
        const back = rest.indexOf(RETURN);
        at += (back === -1 ? rest.length : back) - 1;
        continue;
      }
      // Return and line feed together are one line end, also if they arrive separately.
      if (byte === RETURN || !wasReturn) {
        if (isLineEmpty) {
          if (size + at - from > maxBytes) return false;
          [size, from] = [0, at];
        }
        isLineEmpty = true;
      }
      wasReturn = byte === RETURN;
    }
    size += bytes.length - from;
    return size <= maxBytes;
  };
}

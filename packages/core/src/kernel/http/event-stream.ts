// The `sse` transport: reads an event stream to its end and hands over every event.
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
 * Takes the events that came together. A promise means that it needs time: nothing more is read until
 * it settles, and it never rejects.
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
  /** `status`, `headers` and what else the transport has to say. */
  facts: JsonObject;
  /** How many events were handed over. */
  count: number;
  /** Did the other side end it, with nothing left unfinished? */
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
    `expected an event stream (\`text/event-stream\`), the answer is \`${type || 'without type'}\``,
    { status, content_type: type, body_excerpt, reason: 'wrong_content_type', sent: true },
  );
}

/** Reads to the end. A failure before the first byte of the stream is an outcome without an end. */
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
  const goesOn = (): boolean => failure === undefined && watch.failure === undefined;
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
    if (wait !== undefined) return wait.then(goesOn);
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
 * For a stream that somebody else reads: is no event of it longer than that? Whoever reads keeps an event
 * until its end is there, and one that never ends would be kept for ever. An event ends with an empty line.
 */
export function createEventGuard(maxBytes: number): (bytes: Uint8Array) => boolean {
  let [size, isLineEmpty, wasReturn] = [0, true, false];
  return (bytes) => {
    let from = 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte !== FEED && byte !== RETURN) {
        [isLineEmpty, wasReturn] = [false, false];
        // Nothing but the end of the line matters: it is looked for at full speed.
        const feed = bytes.indexOf(FEED, at);
        const rest = bytes.subarray(at, feed === -1 ? bytes.length : feed);
        const back = rest.indexOf(RETURN);
        at += (back === -1 ? rest.length : back) - 1;
        continue;
      }
      // Both together are one end of a line, also when they come apart.
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

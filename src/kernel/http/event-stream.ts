// The `sse` transport: reads an event stream to its end and hands over every event. The framing is
// `eventsource-parser`'s; this file decodes UTF-8 across chunk borders, keeps what is buffered bounded,
// whatever the other side sends, and hides secrets.
import { isAscii } from 'node:buffer';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import {
  createRedactor,
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
import { reasonOf } from './fault.ts';
import type { Settings } from './request.ts';
import type { TimeWatch } from './time-limits.ts';

/**
 * Takes the events that came together. A promise means that it needs time: nothing more is read until
 * it settles, and it never rejects.
 */
export type OnEvents = (events: readonly StreamEvent[]) => undefined | Promise<void>;

/** A request on its way. */
export interface Sending {
  settings: Settings;
  ports: HttpPorts;
  verify: Verifier;
  watch: TimeWatch;
  redact: Redactor;
  onEvents: OnEvents;
}

/** How a stream ended. */
export interface StreamEnd {
  /** `status`, `headers` and what else the transport has to say. */
  facts: JsonObject;
  /** How many events were handed over. */
  count: number;
  /** Did the other side end it, with nothing left unfinished? */
  endedCleanly: boolean;
  failure?: Failure;
}

/**
 * Takes secrets out of the events of one stream, and hands over those that are certain by now: one at
 * whose end a secret may have begun waits for the next.
 */
export function createEventMask({ text, follow }: Redactor, onEvent: (event: StreamEvent) => void) {
  const texts = follow();
  const waiting: StreamEvent[] = [];
  function give(list: readonly string[]): void {
    for (const data of list) {
      const event = waiting.shift();
      if (event) onEvent({ ...event, data });
    }
  }
  return {
    /** `isCleared`: this one alone is known to hold none. */
    push(event: StreamEvent, isCleared = false): void {
      if (isCleared && texts.passes(event.data, true)) return onEvent(event);
      const masked: StreamEvent = { ...event };
      if (!isCleared && event.event !== undefined) masked.event = text(event.event);
      if (!isCleared && event.id !== undefined) masked.id = text(event.id);
      waiting.push(masked);
      give(texts.push(event.data));
    },
    end: () => give(texts.end()),
  };
}

interface EventParser {
  /** Parses more bytes; the same outcome whatever the chunking. Does nothing after a failure. */
  push(bytes: Uint8Array): Outcome<null>;
  /** Ends the stream, with the events that waited: an event whose final blank line never came is not delivered, but counted. */
  end(): { unfinished: boolean };
  /** Reconnection time the server asked for, in milliseconds. */
  retryMs?: number;
}

const MAX_EVENT = 8 * 1024 * 1024;
/** Larger chunks are fed in pieces, so that the bound is met between them. */
const PIECE = 64 * 1024;
/** A field name, its colon and its blank are buffered too. */
const SLACK = 64;

/** `maxEvent`: the longest text of one event, in UTF-16 units. Events are handed over without secrets. */
export function createEventParser(
  onEvent: (event: StreamEvent) => void,
  maxEvent = MAX_EVENT,
  redact = createRedactor([]),
): EventParser {
  let decoder: InstanceType<typeof TextDecoder> | undefined;
  const mask = redact.isIdle ? undefined : createEventMask(redact, onEvent);
  let isOver = false;
  let lastByte: number | undefined;
  // INVARIANT: a cleared event holds no secret by itself. Its fields are parts of one text without any;
  // one that was put together of several texts is never cleared, nor one of several lines, because the
  // redactor sees through line ends.
  let isClear = false;
  /** What came so far does not surely end with an event: the next one may have begun in it. */
  let isOpen = false;
  let probed: EventSourceMessage | undefined;
  let isEnding = false;

  const parser = createParser({
    maxBufferSize: maxEvent + SLACK,
    onEvent(message) {
      const { data, event, id } = message;
      isOver ||= data.length > maxEvent;
      isOver ||= (event?.length ?? 0) > maxEvent || (id?.length ?? 0) > maxEvent;
      if (isEnding) probed ??= message;
      if (isOver || isEnding) return;
      // Without absent fields: an event is JSON.
      const own: StreamEvent = event === undefined ? { data } : { event, data };
      if (id !== undefined) own.id = id;
      if (mask) mask.push(own, isClear && !isOpen && !data.includes('\n'));
      else onEvent(own);
      isOpen = false;
    },
    onRetry(ms) {
      if (Number.isSafeInteger(ms)) result.retryMs = ms;
    },
    onError(error) {
      // Unknown fields and odd `retry` values are ignored, as the format asks.
      if (error.type === 'max-buffer-size-exceeded') isOver = true;
    },
  });

  const result: EventParser = {
    push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length; at += PIECE) {
        if (isOver) break;
        const piece = bytes.length <= PIECE ? bytes : bytes.subarray(at, at + PIECE);
        // After a byte of a longer character the decoder may be waiting for the others.
        const isPlain = (lastByte ?? 0) < 0x80 && isAscii(piece);
        if (!isPlain) decoder ??= new TextDecoder('utf-8', { ignoreBOM: true });
        const text =
          isPlain || !decoder ? piece.toString('latin1') : decoder.decode(piece, { stream: true });
        lastByte = piece[piece.length - 1];
        isClear = redact.hasCleanLines(text);
        parser.feed(text);
        isOpen = !text.endsWith('\n\n');
      }
      if (!isOver) return ok(null);
      return fail('response_too_large', `an event is longer than ${maxEvent} characters`, {
        max_event: maxEvent,
      });
    },
    end() {
      mask?.end();
      if (isOver) return { unfinished: true };
      if (lastByte === 10 && !isOpen) return { unfinished: false };
      const isLineOpen = lastByte !== undefined && lastByte !== 10 && lastByte !== 13;
      isEnding = true;
      // A probe event: it comes out bare only when nothing was waiting for its blank line.
      parser.feed(`${decoder?.decode() ?? ''}${isLineOpen ? '\n' : ''}data:.\n\n`);
      const isBare = probed?.data === '.' && (probed.event ?? probed.id) === undefined;
      return { unfinished: isLineOpen || !isBare };
    },
  };
  return result;
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

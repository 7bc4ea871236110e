// The `sse` transport: reads an event stream to its end and hands over every event. The framing is
// `eventsource-parser`'s; this file decodes UTF-8 across chunk borders, keeps what is buffered bounded,
// whatever the other side sends, and hides secrets.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { type Failure, fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { StreamEvent } from '../sink.ts';
import { decodedBody, mediaType, type PumpEnd, pump } from './body.ts';
import { maskEvent, type Sending, type StreamEnd } from './call.ts';
import { reasonOf } from './connect.ts';
import { excerptOf, headersOf } from './fault.ts';
import type { Exchange } from './redirects.ts';

export interface EventOptions {
  /** Longest text of one event, in UTF-16 units. */
  maxEvent?: number;
  /** Looks at a whole text at once. Events that came out of one that it suspects are not cleared. */
  isSuspect?(text: string): boolean;
}

/**
 * INVARIANT: a cleared event's fields are parts of one text that is not suspect. An event that was
 * put together, of several texts or lines, is never cleared; so a cleared one's data is one line.
 */
export type OnEvent = (event: StreamEvent, isCleared: boolean) => void;

export interface EventParser {
  /** Parses more bytes; the same outcome whatever the chunking. Does nothing after a failure. */
  push(chunk: Uint8Array): Outcome<null>;
  /** Ends the stream: an event whose final blank line never came is not delivered, but counted. */
  end(): { unfinished: boolean };
  /** Reconnection time the server asked for, in milliseconds. */
  readonly retryMs: number | undefined;
}

export const MAX_EVENT = 8 * 1024 * 1024;
/** Larger chunks are fed in pieces, so that the bound is met between them. */
const PIECE = 64 * 1024;
/** A field name, its colon and its blank are buffered too. */
const SLACK = 64;

/** How many bytes at the end may be the beginning of a character. Cutting before a lead byte is
 * always safe: a decoder that meets one is at the start of a character, also after garbage. */
function openBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? back : 0;
  }
  return 0;
}

/** Without absent fields: an event is JSON. */
function eventOf({ data, event, id }: EventSourceMessage): StreamEvent {
  if (event === undefined) return id === undefined ? { data } : { data, id };
  return id === undefined ? { event, data } : { event, data, id };
}

/** After such an end nothing is waiting in a parser, not even half a line break. */
const endsEvent = (text: string): boolean => text.endsWith('\n\n') || text.endsWith('\n\r\n');

export function createEventParser(
  onEvent: OnEvent,
  { maxEvent = MAX_EVENT, isSuspect = () => false }: EventOptions = {},
): EventParser {
  let carry: Buffer | undefined;
  let isOver = false;
  let lastByte = 10;
  /** The next event may have begun in an earlier text. */
  let isOpen = false;
  let isClear = false;
  let retryMs: number | undefined;
  let deliver = onEvent;
  const fits = (text: string | undefined) => text === undefined || text.length <= maxEvent;

  const parser = createParser({
    maxBufferSize: maxEvent + SLACK,
    onEvent(message) {
      if (isOver) return;
      const { data } = message;
      if (!fits(data) || !fits(message.event) || !fits(message.id)) {
        isOver = true;
        return;
      }
      deliver(eventOf(message), isClear && !isOpen && !data.includes('\n'));
      isOpen = false;
    },
    onRetry(ms) {
      if (Number.isSafeInteger(ms)) retryMs = ms;
    },
    onError(error) {
      // Unknown fields and odd `retry` values are ignored, as the format asks.
      if (error.type === 'max-buffer-size-exceeded') isOver = true;
    },
  });

  function feed(piece: Buffer): void {
    const bytes = carry === undefined ? piece : Buffer.concat([carry, piece]);
    const open = openBytes(bytes);
    carry = open === 0 ? undefined : Buffer.from(bytes.subarray(bytes.length - open));
    const text = bytes.toString('utf8', 0, bytes.length - open);
    isClear = !isSuspect(text);
    parser.feed(text);
    isOpen ||= !endsEvent(text);
  }

  return {
    push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length; at += PIECE) {
        if (isOver) break;
        feed(bytes.length <= PIECE ? bytes : bytes.subarray(at, at + PIECE));
      }
      if (bytes.length > 0) lastByte = bytes[bytes.length - 1] ?? 0;
      if (!isOver) return ok(null);
      return fail('response_too_large', `an event is longer than ${maxEvent} characters`, {
        max_event: maxEvent,
      });
    },
    end() {
      if (isOver) return { unfinished: true };
      // A probe event: it comes out bare only when nothing was waiting for its blank line.
      const isLineOpen = lastByte !== 10 && lastByte !== 13;
      const rest: StreamEvent[] = [];
      deliver = (event) => rest.push(event);
      parser.feed(`${isLineOpen ? '\n' : ''}data:.\n\n`);
      const [first] = rest;
      const isBare = first?.data === '.' && first.event === undefined && first.id === undefined;
      return { unfinished: carry !== undefined || isLineOpen || !isBare };
    },
    get retryMs() {
      return retryMs;
    },
  };
}

const EVENT_STREAM = 'text/event-stream';

async function wrongType({ answer }: Exchange, { watch }: Sending): Promise<Failure> {
  const { status, headers } = answer;
  const type = headers['content-type'] ?? '';
  const body_excerpt = await excerptOf(answer, watch);
  const stopped = watch.failure();
  if (stopped !== undefined) return stopped;
  return fail(
    'http_error',
    `expected an event stream (\`${EVENT_STREAM}\`), the answer is \`${type || 'without type'}\``,
    { status, content_type: type, body_excerpt, reason: 'wrong_content_type', sent: true },
  );
}

/** Why a stream that was not stopped by us is not whole. */
function cutFault(end: PumpEnd, count: number): Failure | undefined {
  if (end.kind !== 'cut') return undefined;
  const reason = reasonOf(end.error);
  return fail('stream_incomplete', `the stream broke off after ${count} events: ${reason}`, {
    reason,
    sent: true,
  });
}

/** Reads to the end. A failure before the first byte of the stream is an outcome without an end. */
export async function readEventStream(
  exchange: Exchange,
  sending: Sending,
): Promise<Outcome<StreamEnd>> {
  const { answer } = exchange;
  const { watch, settings, redact, onEvents } = sending;
  if (mediaType(answer.headers['content-type']) !== EVENT_STREAM) {
    return await wrongType(exchange, sending);
  }
  const source = await decodedBody(answer);
  if (!source.ok) return source;

  let batch: StreamEvent[] = [];
  let areLines = true;
  let [received, count] = [0, 0];
  let failure: Failure | undefined;
  const parser = createEventParser(
    (event, isCleared) => {
      batch.push(isCleared ? event : maskEvent(event, redact));
      areLines &&= isCleared || !event.data.includes('\n');
    },
    { maxEvent: settings.maxEvent, isSuspect: redact.finds },
  );
  const goesOn = (): boolean => failure === undefined && watch.failure() === undefined;
  const end = await pump(source.output, watch, (bytes) => {
    received += bytes.length;
    const parsed = parser.push(bytes);
    if (!parsed.ok) failure = parsed;
    else if (received > settings.maxBytes) {
      failure = fail('response_too_large', `the stream is longer than ${settings.maxBytes} bytes`, {
        max_bytes: settings.maxBytes,
      });
    }
    const [events, wereLines] = [batch, areLines];
    [batch, areLines] = [[], true];
    count += events.length;
    const wait = events.length > 0 ? onEvents(events, wereLines) : undefined;
    return wait === undefined ? goesOn() : wait.then(goesOn);
  });
  if (end.kind !== 'end') answer.body.destroy();

  failure = watch.failure() ?? failure ?? cutFault(end, count);
  const { unfinished } = parser.end();
  const facts: JsonObject = {
    status: answer.status,
    headers: headersOf(answer.headers),
    bytes: received,
    ...(parser.retryMs !== undefined && { retry_ms: parser.retryMs }),
  };
  const endedCleanly = failure === undefined && !unfinished;
  return ok({ facts, count, endedCleanly, ...(failure && { failure }) });
}

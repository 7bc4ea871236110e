// The `sse` transport: reads an event stream to its end and hands over every event. The framing is
// `eventsource-parser`'s; this file decodes UTF-8 across chunk borders, keeps what is buffered bounded,
// whatever the other side sends, and hides secrets.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
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

/** Takes secrets out of the events of one stream. `isCleared`: this one alone is known to hold none. */
export function createEventMask({ isIdle, text, follow }: Redactor) {
  const next = follow();
  return (event: StreamEvent, isCleared = false): StreamEvent => {
    if (isIdle) return event;
    const data = next(event.data, isCleared);
    if (isCleared) return data === event.data ? event : { ...event, data };
    const masked: StreamEvent = { ...event, data };
    if (event.event !== undefined) masked.event = text(event.event);
    if (event.id !== undefined) masked.id = text(event.id);
    return masked;
  };
}

export interface EventOptions {
  /** Longest text of one event, in UTF-16 units. */
  maxEvent?: number;
  /** Looks at a whole text at once. Events that came out of one that it suspects are not cleared. */
  isSuspect?(text: string): boolean;
  /** May what it looks for hold a line break? */
  spansLines?: boolean;
}

/**
 * INVARIANT: what `isSuspect` looks for is in no cleared event. Its fields are parts of one text that
 * is not suspect; one that was put together of several texts is never cleared, and one of several
 * lines only if that makes no difference.
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
const BLANK_LINE = '\n\n';
const [LF, CR] = [10, 13];

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

export function createEventParser(
  onEvent: OnEvent,
  { maxEvent = MAX_EVENT, isSuspect = () => false, spansLines = false }: EventOptions = {},
): EventParser {
  /** What follows the last blank line, or the beginning of a character. */
  let carry: Buffer | undefined;
  let isOver = false;
  let lastByte = LF;
  /** The next event may have begun in an earlier text. */
  let isOpen = false;
  let isClear = false;
  let retryMs: number | undefined;
  let deliver = onEvent;

  const parser = createParser({
    maxBufferSize: maxEvent + SLACK,
    onEvent(message) {
      const { data, event, id } = message;
      isOver ||= data.length > maxEvent;
      isOver ||= (event?.length ?? 0) > maxEvent || (id?.length ?? 0) > maxEvent;
      if (isOver) return;
      const isCleared = isClear && !isOpen && !(spansLines && data.includes('\n'));
      deliver(eventOf(message), isCleared);
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

  /** `isWhole`: it ends with a blank line, so the parser holds nothing afterwards. */
  function parse(bytes: Buffer, from: number, to: number, isWhole: boolean): void {
    if (isOver || from === to) return;
    const text = bytes.toString('utf8', from, to);
    isClear = !isSuspect(text);
    parser.feed(text);
    isOpen = !isWhole;
  }
  const held = (piece: Buffer): Buffer =>
    carry === undefined ? piece : Buffer.concat([carry, piece]);
  const carryOn = (bytes: Buffer, from: number): void => {
    carry = from === bytes.length ? undefined : Buffer.from(bytes.subarray(from));
  };

  /** Whole events where possible; then nothing is put together but the one at the border. */
  function feed(piece: Buffer): void {
    const first = piece.indexOf(BLANK_LINE);
    const whole = first < 0 ? 0 : piece.lastIndexOf(BLANK_LINE) + BLANK_LINE.length;
    // Lines may end in CR too: then the blank line of an event is not found here.
    if (whole === 0 || piece.includes(CR, whole)) {
      const bytes = held(piece);
      const end = bytes.length - openBytes(bytes);
      parse(bytes, 0, end, false);
      return carryOn(bytes, end);
    }
    let from = 0;
    if (carry !== undefined) {
      from = first + BLANK_LINE.length;
      const bytes = held(piece.subarray(0, from));
      parse(bytes, 0, bytes.length, true);
    }
    parse(piece, from, whole, true);
    carryOn(piece, whole);
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
      const isLineOpen = lastByte !== LF && lastByte !== CR;
      const rest: StreamEvent[] = [];
      deliver = (event) => rest.push(event);
      // A probe event: it comes out bare only when nothing was waiting for its blank line.
      parser.feed(`${carry?.toString() ?? ''}${isLineOpen ? '\n' : ''}data:.\n\n`);
      const [first] = rest;
      const isBare = first?.data === '.' && first.event === undefined && first.id === undefined;
      return { unfinished: isLineOpen || !isBare };
    },
    get retryMs() {
      return retryMs;
    },
  };
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
  const mask = createEventMask(redact);
  const parser = createEventParser((event, isCleared) => batch.push(mask(event, isCleared)), {
    maxEvent: settings.maxEvent,
    isSuspect: (text) => !redact.hasCleanLines(text),
    // The redactor sees through line ends.
    spansLines: !redact.isIdle,
  });
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
    return wait === undefined ? goesOn() : wait.then(goesOn);
  });
  failure = watch.failure ?? failure;
  if (end instanceof Error && failure === undefined) {
    const reason = reasonOf(end);
    const words = `the stream broke off after ${count} events: ${reason}`;
    failure = fail('stream_incomplete', words, { reason, sent: true });
  }
  const { unfinished } = parser.end();
  const facts: JsonObject = { status, headers: { ...headers }, bytes: received };
  if (parser.retryMs !== undefined) facts['retry_ms'] = parser.retryMs;
  const endedCleanly = failure === undefined && !unfinished;
  return ok({ facts, count, endedCleanly, ...(failure && { failure }) });
}

// Server-sent events from bytes. The framing is `eventsource-parser`'s, with a short way around it
// for plain events that arrive whole; this file decodes UTF-8 across chunk borders and keeps what is
// buffered bounded, whatever the other side sends.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { fail, type Outcome, ok } from '../base/index.ts';
import type { StreamEvent } from './sink.ts';
import { createPlainReader } from './sse-plain.ts';

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
  /** Most characters that were ever held back. For tests and the result. */
  readonly peak: number;
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
    const byte = bytes[bytes.length - back] as number;
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

/** Characters after the last blank line: what a parser must hold on to, comments aside. */
function tailLength(text: string, hasReturns: boolean): number | undefined {
  let end = text.lastIndexOf('\n\n');
  if (hasReturns) {
    end = Math.max(end, text.lastIndexOf('\r\r'), text.lastIndexOf('\n\r\n') + 1);
  }
  return end < 0 ? undefined : text.length - end - 2;
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
  let held = 0;
  let peak = 0;
  // False at first: a byte order mark is the library's to find.
  let isBetween = false;
  let retryMs: number | undefined;
  let deliver = onEvent;
  const fits = (text: string | undefined) => text === undefined || text.length <= maxEvent;

  const parser = createParser({
    maxBufferSize: maxEvent + SLACK,
    onEvent(message) {
      if (isOver) return;
      if (fits(message.data) && fits(message.event) && fits(message.id))
        deliver(eventOf(message), false);
      else isOver = true;
    },
    onRetry(ms) {
      if (Number.isSafeInteger(ms)) retryMs = ms;
    },
    onError(error) {
      // Unknown fields and odd `retry` values are ignored, as the format asks.
      if (error.type === 'max-buffer-size-exceeded') isOver = true;
    },
  });

  const readPlain = createPlainReader((event) => onEvent(event, true), maxEvent);

  // INVARIANT: plain events are read only while the library holds nothing, so the order is kept and
  // the state is in one place. What begins before a piece or goes on after it is the library's.
  function parse(text: string, hasReturns: boolean): void {
    let at = 0;
    if (!hasReturns) {
      if (!isBetween) {
        const blank = text.indexOf('\n\n');
        at = blank < 0 ? text.length : blank + 2;
        parser.feed(text.slice(0, at));
      }
      if (!isOver && !isSuspect(text)) at = readPlain(text, at);
    }
    if (!isOver && at < text.length) parser.feed(text.slice(at));
    isBetween = endsEvent(text);
  }

  function feed(piece: Buffer): void {
    const bytes = carry === undefined ? piece : Buffer.concat([carry, piece]);
    const open = openBytes(bytes);
    // A copy: the socket's buffer is reused.
    carry = open === 0 ? undefined : Buffer.from(bytes.subarray(bytes.length - open));
    const text = bytes.toString('utf8', 0, bytes.length - open);
    const hasReturns = text.includes('\r');
    parse(text, hasReturns);
    held = isOver ? 0 : (tailLength(text, hasReturns) ?? held + text.length);
    if (held > peak) peak = held;
  }

  return {
    push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length; at += PIECE) {
        if (isOver) break;
        feed(bytes.length <= PIECE ? bytes : bytes.subarray(at, at + PIECE));
      }
      if (bytes.length > 0) lastByte = bytes[bytes.length - 1] as number;
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
    get peak() {
      return peak;
    },
    get retryMs() {
      return retryMs;
    },
  };
}

// Parses the bytes of an event stream. The framing is `eventsource-parser`'s. This file decodes UTF-8 across
// chunk borders, bounds what is buffered, and hides secrets.
import { isAscii } from 'node:buffer';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { createRedactor, fail, type Outcome, ok, type Redactor } from '../../base/index.ts';
import type { StreamEvent } from '../sink.ts';

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

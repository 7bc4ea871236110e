// Parses the bytes of an event stream. `eventsource-parser` implements the framing. This file decodes
// UTF-8 across chunk borders, bounds the buffered text, and hides secrets.
import { isAscii } from 'node:buffer';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { createRedactor, fail, type Outcome, ok, type Redactor } from '../../base/index.ts';
import type { StreamEvent } from '../sink.ts';

/**
 * Masks secrets in the events of one stream. An event at whose end a secret may begin is held back until
 * the next one.
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
    /** `isCleared`: this event alone is known to contain no secret. */
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
  /** Parses more bytes. The events do not depend on the chunking. Does nothing after a failure. */
  push(bytes: Uint8Array): Outcome<null>;
  /**
   * Ends the stream and passes on the events that were held back. An event without its final blank line
   * is counted but not delivered.
   */
  end(): { unfinished: boolean };
  /** Reconnection time that the server requested, in milliseconds. */
  retryMs?: number;
}

const MAX_EVENT = 8 * 1024 * 1024;
/** Larger chunks are fed in pieces, so that the bound is checked between them. */
const PIECE = 64 * 1024;
/** The parser also buffers a field name, its colon and the space after it. */
const SLACK = 64;

/** Creates a parser. `maxEvent`: maximum text of an event in UTF-16 units. `onEvent` gets events without secrets. */
export function createEventParser(
  onEvent: (event: StreamEvent) => void,
  maxEvent = MAX_EVENT,
  redact = createRedactor([]),
): EventParser {
  let decoder: InstanceType<typeof TextDecoder> | undefined;
  const mask = redact.isIdle ? undefined : createEventMask(redact, onEvent);
  let isOver = false;
  let lastByte: number | undefined;
  // INVARIANT: a cleared event never contains a secret by itself. Its fields are parts of one text
  // without secrets. An event of several texts or several lines is never cleared, because the redactor
  // looks across line ends.
  let isClear = false;
  /** True if the next event may have begun in the bytes so far. */
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
      // Absent fields are left out, because an event is JSON.
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
      // Unknown fields and odd `retry` values are ignored, as the format requires.
      if (error.type === 'max-buffer-size-exceeded') isOver = true;
    },
  });

  const result: EventParser = {
    push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length; at += PIECE) {
        if (isOver) break;
        const piece = bytes.length <= PIECE ? bytes : bytes.subarray(at, at + PIECE);
        // After a byte of a longer character the decoder may wait for the others.
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
      // Feeds a probe event, which is reported alone only if no event was waiting for its blank line.
      parser.feed(`${decoder?.decode() ?? ''}${isLineOpen ? '\n' : ''}data:.\n\n`);
      const isBare = probed?.data === '.' && (probed.event ?? probed.id) === undefined;
      return { unfinished: isLineOpen || !isBare };
    },
  };
  return result;
}

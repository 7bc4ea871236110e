// Implements the `websocket` transport: the body is the first message, and each text message is an event.
import { text as wholeText } from 'node:stream/consumers';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { StreamEvent } from '../sink.ts';
import { statusFault } from './answer.ts';
import type { HttpAnswer } from './connections.ts';
import { createEventMask } from './event-parser.ts';
import type { Sending, StreamEnd } from './event-stream.ts';
import type { WireRequest } from './request.ts';
import {
  NO_CODE,
  openWebSocket,
  type WebSocketEnd,
  type WebSocketLine,
  type WebSocketUser,
} from './websocket-line.ts';

/** Close codes of a regular end: normal, going away, none. */
const CLEAN_CODES = [1000, 1001, NO_CODE];

function endFault({ code, reason, failure }: WebSocketEnd, count: number): Failure | undefined {
  if (failure !== undefined) return failure;
  if (CLEAN_CODES.includes(code)) return undefined;
  const words =
    code === 1006
      ? 'the connection was lost'
      : `the server closed with code ${code}${reason === '' ? '' : `: ${reason}`}`;
  return fail('stream_incomplete', `the stream broke off after ${count} events: ${words}`, {
    close_code: code,
    sent: true,
  });
}

/** Collects the texts and passes them on in order, at the pace of the consumer. */
class WebSocketReading implements WebSocketUser {
  readonly #url: URL;
  readonly #sending: Sending;
  readonly #mask: ReturnType<typeof createEventMask>;
  #waiting: StreamEvent[] = [];
  #line: WebSocketLine | undefined;
  #isBusy = false;
  #isPaused = false;
  #size = 0;
  #end: WebSocketEnd | undefined;
  readonly #over = Promise.withResolvers<WebSocketEnd>();
  failure: Failure | undefined;
  count = 0;
  bytes = 0;
  binaries = 0;

  constructor(url: URL, sending: Sending) {
    this.#url = url;
    this.#sending = sending;
    this.#mask = createEventMask(sending.redact, (event) => this.#waiting.push(event));
  }

  text(data: string): void {
    if (this.failure !== undefined || this.#sending.watch.failure !== undefined) return;
    this.#mask.push({ data });
    this.#grow(Buffer.byteLength(data));
    this.#handOver();
  }

  binary(bytes: number): void {
    this.binaries++;
    this.#grow(bytes);
  }

  received(more: number): void {
    this.#sending.watch.touch();
    this.bytes += more;
    this.#grow(0);
  }

  refused(answer: HttpAnswer): Promise<Failure> {
    const { ports, watch } = this.#sending;
    return statusFault(answer, this.#url, ports.clock, watch);
  }

  ended(end: WebSocketEnd): void {
    this.#end = end;
    this.#mask.end();
    this.#handOver();
  }

  /** Starts to pass on events. Settles after the end, when every event was passed on. */
  read(line: WebSocketLine): Promise<WebSocketEnd> {
    this.#line = line;
    this.#sending.watch.onStop(() =>
      this.#over.resolve(this.#end ?? { code: 1006, reason: '', isAnswered: false }),
    );
    this.#handOver();
    return this.#over.promise;
  }

  #grow(by: number): void {
    const { maxBytes } = this.#sending.settings;
    this.#size += by;
    if (Math.max(this.#size, this.bytes) <= maxBytes) return;
    this.failure ??= fail('response_too_large', `the stream is longer than ${maxBytes} bytes`, {
      max_bytes: maxBytes,
    });
    this.#line?.destroy();
  }

  #handOver(): void {
    const { watch, onEvents } = this.#sending;
    if (this.#line === undefined || this.#isBusy) return;
    while (this.#waiting.length > 0) {
      const events = this.#waiting;
      this.#waiting = [];
      this.count += events.length;
      const wait = onEvents(events);
      if (wait === undefined) continue;
      this.#isBusy = true;
      this.#isPaused = true;
      this.#line.pause();
      watch.hold();
      void wait.then(() => {
        this.#isBusy = false;
        this.#handOver();
      });
      return;
    }
    if (this.#end !== undefined) return this.#over.resolve(this.#end);
    if (!this.#isPaused) return;
    this.#isPaused = false;
    watch.enter('idle');
    this.#line.resume();
  }
}

/** Connects, sends the first message, and reads until the other side closes. */
export async function readWebSocket(
  { url, headers: allHeaders, body }: WireRequest,
  sending: Sending,
): Promise<Outcome<StreamEnd>> {
  // The content type describes a body, and this request has none.
  const { 'content-type': _, ...headers } = allHeaders;
  const reading = new WebSocketReading(url, sending);
  const { maxEvent } = sending.settings;
  const opened = await openWebSocket({ url, headers }, sending, maxEvent, reading);
  if (!opened.ok) return opened;
  const { line } = opened.output;
  if (body !== undefined) await line.send(typeof body === 'string' ? body : await wholeText(body));
  const end = await reading.read(line);
  const { count, bytes, binaries } = reading;
  const failure = sending.watch.failure ?? reading.failure ?? endFault(end, count);
  const facts = {
    status: 101,
    headers: { ...opened.output.headers },
    bytes,
    binary_ignored: binaries,
    ...(end.code !== 1006 && { close_code: end.code }),
  };
  return ok({ facts, count, endedCleanly: failure === undefined, ...(failure && { failure }) });
}

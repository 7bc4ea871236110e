// The `websocket` transport: the body is the first message, each text message an event.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { StreamEvent } from '../sink.ts';
import { allowTarget } from './address.ts';
import { statusFault } from './answer.ts';
import { createEventMask, type Sending, type StreamEnd } from './event-stream.ts';
import type { WireRequest } from './request.ts';
import {
  NO_CODE,
  openWebSocket,
  type WebSocketEnd,
  type WebSocketLine,
  type WebSocketUser,
} from './websocket-line.ts';

/** Codes with which a server says that it is done: normal, going away, none given. */
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

interface Reading extends WebSocketUser {
  /** Begins to hand over. Settles when it is over, with everything handed over. */
  read(line: WebSocketLine): Promise<WebSocketEnd>;
  readonly failure: Failure | undefined;
  readonly count: number;
  readonly bytes: number;
  readonly binaries: number;
}

/** Picks out the texts and hands them over, one after the other, at the pace of whoever takes them. */
function createReading(url: URL, sending: Sending): Reading {
  const { watch, settings, redact, onEvents, ports } = sending;
  const mask = createEventMask(redact);
  let waiting: StreamEvent[] = [];
  let line: WebSocketLine | undefined;
  let [isBusy, isPaused] = [false, false];
  let failure: Failure | undefined;
  let end: WebSocketEnd | undefined;
  let [count, bytes, size, binaries] = [0, 0, 0, 0];
  let over: (end: WebSocketEnd) => void = () => {};

  const stop = (reason: Failure): void => {
    failure ??= reason;
    line?.destroy();
  };
  const grown = (by: number): void => {
    size += by;
    if (Math.max(size, bytes) <= settings.maxBytes) return;
    const words = `the stream is longer than ${settings.maxBytes} bytes`;
    stop(fail('response_too_large', words, { max_bytes: settings.maxBytes }));
  };
  const handOver = (): void => {
    if (line === undefined || isBusy) return;
    while (waiting.length > 0) {
      const events = waiting;
      waiting = [];
      count += events.length;
      const wait = onEvents(events);
      if (wait === undefined) continue;
      isBusy = true;
      isPaused = true;
      line.pause();
      watch.hold();
      void wait.then(() => {
        isBusy = false;
        handOver();
      });
      return;
    }
    if (end !== undefined) return over(end);
    if (!isPaused) return;
    isPaused = false;
    watch.enter('idle');
    line.resume();
  };
  return {
    text(data) {
      if (failure !== undefined || watch.failure !== undefined) return;
      waiting.push(mask({ data }));
      grown(Buffer.byteLength(data));
      handOver();
    },
    binary(bytes) {
      binaries++;
      grown(bytes);
    },
    received(more) {
      watch.touch();
      bytes += more;
      grown(0);
    },
    refused: (answer) => statusFault(answer, url, ports.clock, watch),
    ended(how) {
      end = how;
      handOver();
    },
    read(given) {
      line = given;
      return new Promise((resolve) => {
        over = resolve;
        watch.onStop(() => resolve(end ?? { code: 1006, reason: '', isAnswered: false }));
        handOver();
      });
    },
    get failure() {
      return failure;
    },
    get count() {
      return count;
    },
    get bytes() {
      return bytes;
    },
    get binaries() {
      return binaries;
    },
  };
}

/** Connects, sends the first message, and reads until the other side closes. */
export async function readWebSocket(
  { url, headers: given, body }: WireRequest,
  sending: Sending,
): Promise<Outcome<StreamEnd>> {
  const { verify, ports, watch, settings } = sending;
  const addresses = await allowTarget({ url }, 'net.websocket', verify, ports, watch);
  if (!addresses.ok) return addresses;
  // The content type describes a body, and here there is none.
  const { 'content-type': _, ...headers } = given;
  const reading = createReading(url, sending);
  const request = { url, headers };
  const opened = await openWebSocket(request, addresses.output, watch, settings.maxEvent, reading);
  if (!opened.ok) return opened;
  const { line } = opened.output;
  if (body !== undefined) await line.send(body);
  const end = await reading.read(line);
  const { count, bytes, binaries } = reading;
  const failure = watch.failure ?? reading.failure ?? endFault(end, count);
  const facts = {
    status: 101,
    headers: { ...opened.output.headers },
    bytes,
    binary_ignored: binaries,
    ...(end.code !== 1006 && { close_code: end.code }),
  };
  return ok({ facts, count, endedCleanly: failure === undefined, ...(failure && { failure }) });
}

// The `websocket` transport: the body is the first message, each text message an event.
import { type Failure, fail, type Outcome, ok, systemRandom } from '../base/index.ts';
import { pump } from './http-body.ts';
import type { HttpCall } from './http-call.ts';
import { allowTarget } from './http-connect.ts';
import { deliver, maskEvent, type StreamEnd } from './http-delivery.ts';
import { headersOf, statusFault } from './http-fault.ts';
import type { WireRequest } from './http-request.ts';
import { streamSource } from './http-source.ts';
import type { StreamEvent } from './sink.ts';
import { openWebSocket, type WebSocketLine } from './websocket-client.ts';
import { createFrameReader, type Message, NO_CODE } from './websocket-frames.ts';

/** Codes with which a server says that it is done: normal, going away, none given. */
const CLEAN_CODES = [1000, 1001, NO_CODE];

interface Seen {
  binary: number;
  close?: { code: number; reason: string };
}

/** Answers pings and closes, and picks out the texts. */
function eventsOf(messages: readonly Message[], line: WebSocketLine, seen: Seen): StreamEvent[] {
  const events: StreamEvent[] = [];
  for (const message of messages) {
    if (message.kind === 'text') events.push({ data: message.text });
    else if (message.kind === 'ping') line.pong(message.payload);
    else if (message.kind === 'binary') seen.binary++;
    else if (message.kind === 'close') {
      seen.close = { code: message.code, reason: message.reason };
      line.close(message.code === NO_CODE ? 1000 : message.code);
      break;
    }
  }
  return events;
}

function endFault({ close }: Seen, count: number): Failure | undefined {
  if (close && CLEAN_CODES.includes(close.code)) return undefined;
  const words = close
    ? `the server closed with code ${close.code}${close.reason === '' ? '' : `: ${close.reason}`}`
    : 'the connection was lost';
  return fail('stream_incomplete', `the stream broke off after ${count} events: ${words}`, {
    close_code: close?.code ?? 1006,
    sent: true,
  });
}

async function readLine(line: WebSocketLine, http: HttpCall) {
  const { watch, settings, fan, redact } = http;
  const reader = createFrameReader(settings.maxEvent);
  const seen: Seen = { binary: 0 };
  let received = 0;
  let failure: Failure | undefined;
  await pump(streamSource(line.socket), watch, (bytes) => {
    received += bytes.length;
    const { messages, failure: broken } = reader.push(bytes);
    if (broken) failure = broken;
    else if (received > settings.maxBytes) {
      failure = fail('response_too_large', `the stream is longer than ${settings.maxBytes} bytes`, {
        max_bytes: settings.maxBytes,
      });
    }
    const isOver = () => failure !== undefined || seen.close !== undefined;
    const events = eventsOf(messages, line, seen).map((event) => maskEvent(event, redact));
    const answer = deliver(events, http);
    if (typeof answer === 'boolean') return answer && !isOver();
    return answer.then((goOn) => goOn && !isOver());
  });
  failure = watch.failure() ?? failure ?? endFault(seen, fan.count);
  return { failure, received, seen };
}

/** Connects, sends the first message, and reads until the other side closes. */
export async function readWebSocket(
  request: WireRequest,
  http: HttpCall,
): Promise<Outcome<StreamEnd>> {
  const { call, ports, watch } = http;
  watch.enter('connect');
  const target = { url: request.url };
  const addresses = await watch.race(allowTarget(target, 'net.websocket', call.verify, ports));
  if (!addresses.ok) return addresses;
  // The content type describes a body, and here there is none.
  const { 'content-type': _, ...headers } = request.headers;
  const opened = await openWebSocket(
    { url: request.url, headers },
    addresses.output,
    watch,
    systemRandom,
  );
  if (!opened.ok) return opened;
  if (opened.output.kind === 'answer') {
    return await statusFault(opened.output.answer, request.url, ports.clock, watch);
  }
  const { line } = opened.output;
  if (request.body !== undefined) await line.send(request.body.toString());
  const { failure, received, seen } = await readLine(line, http);
  // What was written last (the answer to a close) is sent before the socket goes.
  if (failure === undefined) line.socket.end(() => line.socket.destroy());
  else line.socket.destroy();
  const facts = {
    status: 101,
    headers: headersOf(opened.output.headers),
    bytes: received,
    binary_ignored: seen.binary,
    ...(seen.close && { close_code: seen.close.code }),
  };
  return ok({ facts, endedCleanly: failure === undefined, ...(failure && { failure }) });
}

// The `sse` transport: reads an event stream to its end and hands every event to the sinks.
import { type Failure, fail, type JsonObject, type Outcome, ok } from '../base/index.ts';
import { decodedBody, mediaType, type PumpEnd, pump } from './http-body.ts';
import type { HttpCall } from './http-call.ts';
import { deliver, maskEvent, type StreamEnd } from './http-delivery.ts';
import type { Exchange } from './http-exchange.ts';
import { excerptOf, headersOf } from './http-fault.ts';
import type { StreamEvent } from './sink.ts';
import { createEventParser } from './sse.ts';

const EVENT_STREAM = 'text/event-stream';

async function wrongType({ answer }: Exchange, { watch }: HttpCall): Promise<Failure> {
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
  const { code, message } = end.error as NodeJS.ErrnoException;
  const reason = code ?? message;
  return fail('stream_incomplete', `the stream broke off after ${count} events: ${reason}`, {
    reason,
    sent: true,
  });
}

/** Reads to the end. A failure before the first byte of the stream is an outcome without an end. */
export async function readEventStream(
  exchange: Exchange,
  http: HttpCall,
): Promise<Outcome<StreamEnd>> {
  const { answer } = exchange;
  const { watch, fan, settings, redact } = http;
  if (mediaType(answer.headers['content-type']) !== EVENT_STREAM) {
    return await wrongType(exchange, http);
  }
  const source = await decodedBody(answer);
  if (!source.ok) return source;

  let batch: StreamEvent[] = [];
  let areLines = true;
  let received = 0;
  let failure: Failure | undefined;
  const parser = createEventParser(
    (event, isCleared) => {
      if (isCleared) batch.push(event);
      else {
        batch.push(maskEvent(event, redact));
        areLines &&= !event.data.includes('\n');
      }
    },
    { maxEvent: settings.maxEvent, isSuspect: redact.finds },
  );
  const end = await pump(source.output, watch, (bytes) => {
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
    const answer = deliver(events, http, areLines);
    areLines = true;
    if (failure === undefined) return answer;
    return typeof answer === 'boolean' ? false : answer.then(() => false);
  });
  if (end.kind !== 'end') answer.body.destroy();

  failure = watch.failure() ?? failure ?? cutFault(end, fan.count);
  const { unfinished } = parser.end();
  const facts: JsonObject = {
    status: answer.status,
    headers: headersOf(answer.headers),
    bytes: received,
    ...(parser.retryMs !== undefined && { retry_ms: parser.retryMs }),
  };
  const endedCleanly = failure === undefined && !unfinished;
  return ok({ facts, endedCleanly, ...(failure && { failure }) });
}

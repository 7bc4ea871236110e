// From the outcome of a provider's tool chain to a reply: streamed or not, whole or broken off, or an
// answer that is an error. What was received before a failure is in its detail, and is not lost.
import {
  type Failure,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
} from '../base/index.ts';
import { listAt, textAt } from './fields.ts';
import type { ModelReply, Protocol } from './message.ts';
import { providerFault } from './provider-fault.ts';
import { readReply } from './read-reply.ts';
import { createReader, type ReaderOptions, type StreamReader } from './reader.ts';

export interface TurnOptions extends ReaderOptions {
  /** A reader that a sink has already fed; otherwise the events the chain returned are read. */
  reader?: StreamReader;
}

const isStream = (fields: Json): boolean =>
  typeof getOwn(fields, 'stream_events_count') === 'number';

function feed(protocol: Protocol, fields: JsonObject, options: TurnOptions): StreamReader {
  if (options.reader) return options.reader;
  const reader = createReader(protocol, options);
  for (const event of listAt(fields, 'body')) {
    reader.push({ event: textAt(event, 'event'), data: textAt(event, 'data') });
  }
  return reader;
}

/** Without the events themselves: they are in the reply, or worth nothing. */
function withoutBody({ error }: Failure): Failure {
  const { body: _, ...detail } = error.detail;
  return { ok: false, error: { code: error.code, detail } };
}

/**
 * INVARIANT: a call that was cancelled yields no calls, however many came whole: whoever cancelled it
 * does not want them run.
 */
function brokenTurn(protocol: Protocol, failure: Failure, options: TurnOptions) {
  const why = withoutBody(failure);
  const reply = feed(protocol, failure.error.detail, options).end(false, why);
  if (!reply.ok || failure.error.code !== 'cancelled') return reply;
  const { usage, model } = reply.output;
  const detail = { ...why.error.detail, usage: { ...usage }, model };
  return { ok: false as const, error: { code: why.error.code, detail } };
}

export function replyOf(
  protocol: Protocol,
  result: Outcome<Json>,
  options: TurnOptions = {},
): Outcome<ModelReply> {
  if (!result.ok) {
    if (isStream(result.error.detail)) return brokenTurn(protocol, result, options);
    return providerFault(result);
  }
  const { output } = result;
  if (!isObject(output) || !isStream(output)) {
    return readReply(protocol, getOwn(output, 'body') ?? null, options);
  }
  return feed(protocol, output, options).end(output.ended_cleanly === true);
}

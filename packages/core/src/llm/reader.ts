// Reads a provider's answer, event by event or as a whole, into a reply. It uses no clock and no network,
// so the same events give the same reply for any chunking.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  parseObject,
  textAt,
} from '../base/index.ts';
import { anthropicReply } from './anthropic.ts';
import type { ModelReply, Protocol } from './message.ts';
import { openAiReply } from './openai.ts';
import { errorFault, providerFault } from './provider-fault.ts';
import { finishReply } from './reply.ts';
import { ReplyDraft, type ReplyProtocol } from './reply-draft.ts';
import { responsesReply } from './responses.ts';
import { completeUsage } from './usage.ts';

export type StreamReader = ReturnType<typeof createReader>;

export interface ReaderOptions {
  /** Size of the request, for estimates if the provider reports no usage. Absent: 0. */
  requestBytes?: number;
  /** Tokens per byte of the last report (`tokenRatio`). Absent: 0. */
  ratio?: number;
  /** Receives every piece of text as it arrives. */
  onText?: (piece: string) => void;
  maxCharacters?: number;
  /** Provider and model, as `provider/model`, for the seals of the reply. Absent: seals are dropped. */
  sealedBy?: string;
}

const PROTOCOLS: Readonly<Record<Protocol, ReplyProtocol>> = {
  anthropic: anthropicReply,
  openai: openAiReply,
  responses: responsesReply,
};

const incomplete = (message: string, reason: string): Failure =>
  fail('stream_incomplete', message, { reason });

const cut = (clean: boolean): Failure =>
  clean
    ? incomplete('the stream ended without its end marker', 'no_end_marker')
    : incomplete('the connection broke before the end of the stream', 'cut');

const TAKEN = ok(null);

function replyFrom(
  reply: ReplyDraft,
  { requestBytes = 0, ratio = 0, sealedBy }: ReaderOptions,
  fault: Failure | undefined,
): Outcome<ModelReply> {
  const { reported, isFinal } = reply;
  const measure = { requestBytes, replyBytes: reply.bytes(), ratio, isFinal };
  return finishReply(reply, completeUsage(reported, measure), fault, sealedBy);
}

export function createReader(protocol: Protocol, options: ReaderOptions = {}) {
  const { takeText, take, finish } = PROTOCOLS[protocol];
  const reply = new ReplyDraft(options.maxCharacters, options.onText);
  return {
    /** Fails if the provider reports an error, or sends invalid events. Later events are then ignored. */
    push({ event: name, data }: { event?: string; data: string }): Outcome<null> {
      if (reply.fault) return reply.fault;
      if (reply.isDone || data === '' || takeText(reply, data)) return reply.fault ?? TAKEN;
      const event = parseObject(data);
      if (event) take(reply, event, name);
      else {
        const message = `the stream contains an event that is not JSON: \`${data.slice(0, 80)}\``;
        reply.fault = incomplete(message, 'garbage');
      }
      return reply.fault ?? TAKEN;
    },
    /** True if the provider has reported usage so far. */
    isReported: () => reply.reported.input_tokens !== undefined,
    /** True if the end marker has arrived. Later events are ignored. */
    isDone: () => reply.isDone,
    /**
     * Returns the reply. `clean`: the server closed the connection normally. `why`: the reason if something
     * else stopped the stream. A stream without its end marker is broken. With complete calls the result is
     * then a reply with `broken`. Without any it is a failure (`stream_incomplete`, `why`, or the provider's
     * error), with the usage in its detail.
     */
    end(clean: boolean, why?: Failure): Outcome<ModelReply> {
      finish?.(reply);
      const fault = reply.fault ?? (reply.isDone ? undefined : (why ?? cut(clean)));
      return replyFrom(reply, options, fault);
    },
  };
}

/** Reads an answer that was not streamed, by the same rules. */
export function readReply(
  protocol: Protocol,
  body: Json,
  options: Pick<ReaderOptions, 'requestBytes' | 'ratio' | 'maxCharacters' | 'sealedBy'> = {},
): Outcome<ModelReply> {
  const error = getOwn(body, 'error');
  if (error !== undefined && error !== null) return errorFault(error);
  const reply = new ReplyDraft(options.maxCharacters, undefined);
  const missing = PROTOCOLS[protocol].takeBody(reply, isObject(body) ? body : {});
  if (missing !== undefined) {
    const detail = { reason: 'unreadable', transient: false, sent: true };
    return fail('provider_error', `the reply of the provider has no ${missing}`, detail);
  }
  if (reply.fault) return reply.fault;
  reply.model = textAt(body, 'model').slice(0, 200);
  reply.isFinal = true;
  return replyFrom(reply, options, undefined);
}

/** Options of a turn. A failure has the content that arrived before it in its detail. */
interface TurnOptions extends ReaderOptions {
  /** Reader that has received the events already. Absent: the events of the result are read. */
  reader?: StreamReader;
  /** Name of the provider, for the message of a failed connection. */
  provider?: string;
}

function feed(protocol: Protocol, fields: JsonObject, options: TurnOptions): StreamReader {
  const reader = createReader(protocol, options);
  for (const event of listAt(fields, 'body')) {
    reader.push({ event: textAt(event, 'event'), data: textAt(event, 'data') });
  }
  return reader;
}

/**
 * INVARIANT: a cancelled request never yields calls, even if some were complete, because its caller does
 * not want them to run.
 */
function brokenTurn(protocol: Protocol, { error }: Failure, options: TurnOptions) {
  // The reply contains the events already, or they have no use.
  const { body: _, ...detail } = error.detail;
  const why: Failure = { ok: false, error: { code: error.code, detail } };
  const reader = options.reader ?? feed(protocol, error.detail, options);
  const reply = reader.end(false, why);
  if (!reply.ok || error.code !== 'cancelled') return reply;
  const { usage, model } = reply.output;
  return {
    ok: false as const,
    error: {
      code: error.code,
      detail: { ...detail, usage: { ...usage }, reported: reader.isReported(), model },
    },
  };
}

export function replyOf(
  protocol: Protocol,
  result: Outcome<Json>,
  options: TurnOptions = {},
): Outcome<ModelReply> {
  const fields = result.ok ? result.output : result.error.detail;
  const isStream = typeof getOwn(fields, 'stream_events_count') === 'number';
  if (!result.ok) {
    return isStream
      ? brokenTurn(protocol, result, options)
      : providerFault(result, options.provider);
  }
  if (!isStream) return readReply(protocol, getOwn(fields, 'body') ?? null, options);
  const reader = options.reader ?? feed(protocol, fields as JsonObject, options);
  return reader.end(getOwn(fields, 'ended_cleanly') === true);
}

// A reply that was not streamed, read by the same rules.
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
  textAt,
} from '../base/index.ts';
import { anthropicStop } from './anthropic.ts';
import type { ModelReply, Protocol, Stop } from './message.ts';
import { contentText, openAiStop, reasoningText } from './openai.ts';
import { errorFault, providerFault } from './provider-fault.ts';
import { createReader, type ReaderOptions, type StreamReader } from './reader.ts';
import { finishReply } from './reply.ts';
import { createDrafts, type Drafts } from './reply-draft.ts';
import { completeUsage, type Reported, readAnthropicUsage, readOpenAiUsage } from './usage.ts';

interface Read {
  stop: Stop | undefined;
  reported: Reported;
}

type Kind = 'text' | 'thinking' | 'tool_call';
type Fields = { text?: string; signature?: string; redacted?: string };
type First = NonNullable<Parameters<Drafts['begin']>[1]>;

/** One finished block. */
function addBlock(drafts: Drafts, kind: Kind, fields: Fields, first: First = {}): Outcome<null> {
  const begun = drafts.begin(kind, first);
  if (!begun.ok) return begun;
  for (const [field, piece] of Object.entries(fields) as [keyof Fields, string][]) {
    const added = drafts.append(begun.output, field, piece);
    if (!added.ok) return added;
  }
  begun.output.isClosed = true;
  return ok(null);
}

function addAnthropicBlock(drafts: Drafts, block: Json): Outcome<null> {
  switch (textAt(block, 'type')) {
    case 'text':
      return addBlock(drafts, 'text', { text: textAt(block, 'text') });
    case 'thinking':
      return addBlock(drafts, 'thinking', {
        text: textAt(block, 'thinking'),
        signature: textAt(block, 'signature'),
      });
    case 'redacted_thinking':
      return addBlock(drafts, 'thinking', { redacted: textAt(block, 'data') });
    case 'tool_use': {
      const input = getOwn(block, 'input');
      const call = { id: textAt(block, 'id'), name: textAt(block, 'name') };
      if (isObject(input)) return addBlock(drafts, 'tool_call', {}, { ...call, given: input });
      return addBlock(drafts, 'tool_call', { text: JSON.stringify(input ?? null) }, call);
    }
    default:
      return ok(null);
  }
}

function readAnthropic(body: Json, drafts: Drafts): Outcome<Read> {
  const content = getOwn(body, 'content');
  if (!Array.isArray(content)) return unreadable('`content`');
  for (const block of content) {
    const added = addAnthropicBlock(drafts, block);
    if (!added.ok) return added;
  }
  const reported = readAnthropicUsage(getOwn(body, 'usage'));
  return ok({ stop: anthropicStop(getOwn(body, 'stop_reason')), reported });
}

function addOpenAiCall(drafts: Drafts, call: Json): Outcome<null> {
  const wanted = getOwn(call, 'function');
  const about = { id: textAt(call, 'id'), name: textAt(wanted, 'name') };
  const given = getOwn(wanted, 'arguments');
  if (isObject(given)) return addBlock(drafts, 'tool_call', {}, { ...about, given });
  return addBlock(drafts, 'tool_call', { text: typeof given === 'string' ? given : '' }, about);
}

function readOpenAi(body: Json, drafts: Drafts): Outcome<Read> {
  const [choice] = listAt(body, 'choices');
  const message = getOwn(choice, 'message');
  if (!isObject(message)) return unreadable('`choices[0].message`');
  const refusal = textAt(message, 'refusal');
  const thought = addBlock(drafts, 'thinking', { text: reasoningText(message) });
  if (!thought.ok) return thought;
  const text = contentText(getOwn(message, 'content')) + refusal;
  const said = addBlock(drafts, 'text', { text });
  if (!said.ok) return said;
  for (const call of listAt(message, 'tool_calls')) {
    const added = addOpenAiCall(drafts, call);
    if (!added.ok) return added;
  }
  const stop = refusal === '' ? openAiStop(getOwn(choice, 'finish_reason')) : 'refusal';
  return ok({ stop, reported: readOpenAiUsage(getOwn(body, 'usage')) });
}

const unreadable = (what: string) =>
  fail('provider_error', `the reply of the provider has no ${what}`, {
    reason: 'unreadable',
    transient: false,
    sent: true,
  });

const READ: Readonly<Record<Protocol, typeof readAnthropic>> = {
  anthropic: readAnthropic,
  openai: readOpenAi,
};

export function readReply(
  protocol: Protocol,
  body: Json,
  options: Pick<ReaderOptions, 'requestBytes' | 'ratio' | 'maxCharacters'> = {},
): Outcome<ModelReply> {
  const error = getOwn(body, 'error');
  if (error !== undefined && error !== null) return errorFault(error);
  const drafts = createDrafts(options.maxCharacters);
  const read = READ[protocol](body, drafts);
  if (!read.ok) return read;
  const { stop, reported } = read.output;
  const usage = completeUsage(reported, {
    requestBytes: options.requestBytes ?? 0,
    replyBytes: drafts.bytes(),
    ratio: options.ratio ?? 0,
    isFinal: true,
  });
  const model = textAt(body, 'model').slice(0, 200);
  return finishReply(drafts.list, { isWhole: true, stop, usage, model });
}

// From the outcome of a provider's tool chain to a reply: streamed or not, whole or broken off, or an
// answer that is an error. What was received before a failure is in its detail, and is not lost.

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

// Reads a provider's stream, event by event, into a reply. Pure: no clock, no network; the same
// events give the same reply however they were chunked.
import { type Failure, fail, type Outcome, ok, parseObject } from '../base/index.ts';
import { createAnthropicStream } from './anthropic.ts';
import type { CreateState, ModelReply, Protocol } from './message.ts';
import { createOpenAiStream } from './openai.ts';
import { finishReply } from './reply.ts';
import { completeUsage } from './usage.ts';

export interface StreamReader {
  /** Fails when the provider reports an error, or sends what cannot be read; then nothing more counts. */
  push(event: { event?: string; data: string }): Outcome<null>;
  /** What the model said so far; thoughts and calls are not in it. */
  text(): string;
  /** Did the end marker arrive? What comes after it is ignored. */
  isDone(): boolean;
  /**
   * The reply. `clean` says whether the connection was ended by the other side, in order; `why` what
   * stopped it otherwise. Without the end marker the stream is broken either way: complete calls come
   * out as a reply with `broken`; with none it is a failure (`stream_incomplete`, `why`, or what the
   * provider said), with the usage in its detail.
   */
  end(clean: boolean, why?: Failure): Outcome<ModelReply>;
}

export interface ReaderOptions {
  /** Size of the request, for when the provider reports no usage. */
  requestBytes?: number;
  /** Tokens per byte as last reported (`tokenRatio`). */
  ratio?: number;
  /** Every piece of text as it comes. */
  onText?: (piece: string) => void;
  maxCharacters?: number;
}

const STATES: Readonly<Record<Protocol, CreateState>> = {
  anthropic: createAnthropicStream,
  openai: createOpenAiStream,
};

const garbage = (data: string): Failure =>
  fail(
    'stream_incomplete',
    `the stream holds an event that is not JSON: \`${data.slice(0, 80)}\``,
    {
      reason: 'garbage',
    },
  );

const cut = (clean: boolean): Failure =>
  clean
    ? fail('stream_incomplete', 'the stream ended without its end marker', {
        reason: 'no_end_marker',
      })
    : fail('stream_incomplete', 'the stream broke off', { reason: 'cut' });

export function createReader(protocol: Protocol, options: ReaderOptions = {}): StreamReader {
  const { requestBytes = 0, ratio = 0, onText, maxCharacters } = options;
  let said = '';
  let fault: Failure | undefined;
  const state = STATES[protocol]((piece) => {
    said += piece;
    onText?.(piece);
  }, maxCharacters);

  function take(data: string, name: string | undefined): Outcome<null> {
    const alike = state.takeAlike?.(data);
    if (alike !== undefined) return alike;
    if (state.isEndText(data)) return ok(null);
    const event = parseObject(data);
    return event ? state.take(event, name) : garbage(data);
  }

  return {
    push({ event, data }) {
      if (fault) return fault;
      if (state.isDone() || data === '') return ok(null);
      const taken = take(data, event);
      if (!taken.ok) fault = taken;
      return taken;
    },
    text: () => said,
    isDone: () => state.isDone(),
    end(clean, why) {
      const { stop, model, reported, isFinal } = state.end();
      const isWhole = state.isDone() && fault === undefined;
      const replyBytes = state.drafts.bytes();
      const usage = completeUsage(reported, { requestBytes, replyBytes, ratio, isFinal });
      const broken = fault ?? (isWhole ? undefined : (why ?? cut(clean)));
      const ending = { isWhole, stop, usage, model, ...(broken && { fault: broken }) };
      return finishReply(state.drafts.list, ending);
    },
  };
}

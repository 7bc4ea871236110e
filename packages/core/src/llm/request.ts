// Writes a conversation as the parameters of a provider's tool, and as the text of its body. A thread
// calls the same model many times, and only the messages of the body change. So the tool's config is
// evaluated once with a placeholder for the messages, and its text is put around the texts of the
// messages, each of which is written once. A turn writes only its new messages.
import { isDeeperThan, type JsonObject, listAt, type Outcome, ok } from '../base/index.ts';
import {
  anthropicParameters,
  markUsers,
  writeAnthropicMessage,
  writeAnthropicTool,
} from './anthropic.ts';
import type { Message, Protocol, ProviderRequest, Receiver } from './message.ts';
import { openAiParameters, writeOpenAiMessage, writeOpenAiTool } from './openai.ts';
import { responsesParameters, writeResponsesMessage, writeResponsesTool } from './responses.ts';

const PROTOCOLS = {
  anthropic: { message: writeAnthropicMessage, tool: writeAnthropicTool, all: anthropicParameters },
  openai: { message: writeOpenAiMessage, tool: writeOpenAiTool, all: openAiParameters },
  responses: {
    message: writeResponsesMessage,
    tool: writeResponsesTool,
    all: responsesParameters,
  },
} as const;

type Fixed = Omit<ProviderRequest, 'messages' | 'max_tokens'>;

/** Returns parameters for the tool of a protocol in `bundle/tools/llm` and the chains above it. */
export function requestParameters(protocol: Protocol, request: ProviderRequest): JsonObject {
  const { message, tool, all } = PROTOCOLS[protocol];
  const messages = request.messages.flatMap((one) => message(one, request));
  return all(request, messages, request.tools.map(tool));
}

interface Pages {
  /** Model that the text is for, because the text contains its seals. */
  readonly to: string;
  readonly sources: Message[];
  readonly written: (readonly JsonObject[])[];
  /** Number of settled sources, whose text is cached without the brackets of the list. */
  count: number;
  text: string;
  /** True if a message is nested deeper than `MAX_SLOT_DEPTH`. */
  isDeep: boolean;
}

export type WrittenMessages = { [protocol in Protocol]?: Pages };

export const createWrittenMessages = (): WrittenMessages => ({});

/** Deeper messages are not cached: the whole request is formed, so that the tool checks their depth. */
const MAX_SLOT_DEPTH = 50;

function joined(before: string, more: readonly JsonObject[]): string {
  let text = before;
  for (const message of more) text += `${text === '' ? '' : ','}${JSON.stringify(message)}`;
  return text;
}

/** Returns the index of the first message whose text can change: the last two of the user get cache marks. */
function openFrom({ sources, written }: Pages): number {
  let users = 0;
  for (let at = sources.length - 1; at >= 0; at--) {
    const hasText = sources[at]?.role === 'user' && written[at]?.length !== 0;
    if (hasText && ++users === 2) return at;
  }
  return 0;
}

/** Returns the pages of a continued conversation. A conversation with changed pages is written again. */
function turnPages(
  cached: Pages | undefined,
  protocol: Protocol,
  messages: readonly Message[],
  receiver: Receiver,
): Pages {
  const to = JSON.stringify([receiver.model, receiver.sealedBy ?? null]);
  const isSame = cached !== undefined && cached.to === to;
  const pages = isSame
    ? cached
    : { to, sources: [], written: [], count: 0, text: '', isDeep: false };
  const { sources, written } = pages;
  let common = 0;
  while (common < messages.length && sources[common] === messages[common]) common++;
  sources.length = written.length = common;
  for (const message of messages.slice(common)) {
    const entries = PROTOCOLS[protocol].message(message, receiver);
    sources.push(message);
    written.push(entries);
    pages.isDeep ||= isDeeperThan([...entries], MAX_SLOT_DEPTH);
  }
  const count = openFrom(pages);
  if (Math.min(common, count) < pages.count)
    return turnPages(undefined, protocol, messages, receiver);
  pages.text = joined(pages.text, written.slice(pages.count, count).flat());
  pages.count = count;
  return pages;
}

export type RequestWriter = ReturnType<typeof createRequestWriter>;

interface TurnRequest {
  messages: readonly Message[];
  maxTokens: number;
  written: WrittenMessages;
}

/** INVARIANT: a message never contains `SLOT_TEXT`, because quotes inside of a JSON string are escaped. */
const SLOT_WORD = 'all-messages-of-this-request';
const SLOT: JsonObject = { role: 'user', content: SLOT_WORD };
const SLOT_TEXT = JSON.stringify(SLOT);

/**
 * Creates the writer of one thread's requests. `form` turns parameters into the text of the body, with the
 * checks and the config of the provider's tool. It is called again if `maxTokens` changes, and for every
 * request if the config does not use the messages exactly once.
 */
export function createRequestWriter(
  protocol: Protocol,
  fixed: Fixed,
  form: (parameters: JsonObject) => Outcome<string>,
) {
  let cached: { maxTokens: number; parts: readonly string[] } | undefined;

  const parametersOf = (messages: readonly Message[], max_tokens: number) =>
    requestParameters(protocol, { ...fixed, messages, max_tokens });

  /**
   * Returns the texts before and after the messages. If there are not two texts, the messages do not
   * occur exactly once.
   */
  function partsFor(maxTokens: number): readonly string[] {
    if (cached?.maxTokens === maxTokens) return cached.parts;
    const parameters = parametersOf([], maxTokens);
    const formed = form({ ...parameters, messages: [...listAt(parameters, 'messages'), SLOT] });
    const split = formed.ok ? formed.output.split(SLOT_TEXT) : [];
    const parts = split.some((part) => part.includes(SLOT_WORD)) ? [] : split;
    cached = { maxTokens, parts };
    return parts;
  }

  return {
    /** Returns the text of one request's body. Fails as `form` does. */
    body({ messages, maxTokens, written }: TurnRequest): Outcome<string> {
      const parts = partsFor(maxTokens);
      const pages = (written[protocol] = turnPages(written[protocol], protocol, messages, fixed));
      const open = pages.written.slice(pages.count).flat();
      const isMarked = protocol === 'anthropic' && (fixed.cache ?? true);
      const text = joined(pages.text, isMarked ? markUsers(open) : open);
      if (parts.length !== 2 || pages.isDeep || text === '') {
        return form(parametersOf(messages, maxTokens));
      }
      return ok(`${parts[0]}${text}${parts[1]}`);
    },
  };
}

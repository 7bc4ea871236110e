// A conversation as the parameters of a provider's tool.
import {
  freezeJson,
  growJson,
  isDeeperThan,
  type Json,
  type JsonObject,
  jsonText,
  type Outcome,
  ok,
} from '../base/index.ts';
import {
  anthropicMessages,
  anthropicParameters,
  writeAnthropicMessage,
  writeAnthropicTool,
} from './anthropic.ts';
import type { Message, MessageList, Protocol, ProviderRequest } from './message.ts';
import {
  openAiParameters,
  writeOpenAiMessage,
  writeOpenAiSystem,
  writeOpenAiTool,
} from './openai.ts';

// What was written for earlier requests of one conversation. Messages do not change, and all but the
// last few are sent again as they are: they form one list that grows, frozen, so that each of them is
// looked at and made into text once. The cost of a turn is its new messages and the sending.

type Write<Thing> = (thing: Thing) => readonly JsonObject[];

export type WrittenMessages = ReturnType<typeof createWrittenMessages>;

/** The last message may still grow, and the last two of the user are marked for the cache. */
const OPEN = 4;

interface Pages {
  readonly sources: Message[];
  readonly texts: (readonly JsonObject[])[];
  settled: Json[];
  /** How many of the sources are settled. */
  count: number;
}

function commonLength(a: readonly unknown[], b: readonly unknown[]): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length++;
  return length;
}

/** For a conversation that goes on as it began; one that does not is written anew. */
function turnPages(pages: Pages, messages: readonly Message[], write: Write<Message>): MessageList {
  const { sources, texts } = pages;
  sources.length = texts.length = commonLength(sources, messages);
  if (sources.length < pages.count) [pages.settled, pages.count] = [[], 0];
  for (const message of messages.slice(sources.length)) {
    sources.push(message);
    texts.push(write(message).map(freezeJson));
  }
  const settled = Math.max(pages.count, messages.length - OPEN);
  if (settled > pages.count) {
    pages.settled = growJson(pages.settled, texts.slice(pages.count, settled).flat());
    pages.count = settled;
  }
  return { settled: pages.settled, last: texts.slice(settled).flat() };
}

export function createWrittenMessages() {
  const pages: Partial<Record<Protocol, Pages>> = {};
  const others = new WeakMap<object, Partial<Record<Protocol, readonly JsonObject[]>>>();
  return {
    messages(protocol: Protocol, messages: readonly Message[], write: Write<Message>): MessageList {
      const own = (pages[protocol] ??= { sources: [], texts: [], settled: [], count: 0 });
      return turnPages(own, messages, write);
    },
    /** Anything else that is the same object in every request. */
    once<Thing extends object>(
      protocol: Protocol,
      thing: Thing,
      write: Write<Thing>,
    ): readonly JsonObject[] {
      const before = others.get(thing);
      const known = before?.[protocol];
      if (known) return known;
      const made = write(thing).map(freezeJson);
      others.set(thing, { ...before, [protocol]: made });
      return made;
    },
  };
}

const PROTOCOLS = {
  anthropic: { message: writeAnthropicMessage, tool: writeAnthropicTool, all: anthropicParameters },
  openai: { message: writeOpenAiMessage, tool: writeOpenAiTool, all: openAiParameters },
} as const;

type Fixed = Omit<ProviderRequest, 'messages' | 'max_tokens'>;

/** The messages of a request, those before them included; `fixed` is the key of what repeats. */
function listOf(
  protocol: Protocol,
  fixed: Fixed,
  messages: readonly Message[],
  written: WrittenMessages,
): Json[] {
  const list = written.messages(protocol, messages, PROTOCOLS[protocol].message);
  if (protocol === 'anthropic') return anthropicMessages(list, fixed.cache ?? true);
  const said = growJson(list.settled, list.last);
  const before = written.once(protocol, fixed, writeOpenAiSystem);
  return before.length === 0 ? said : growJson(before as Json[], said);
}

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ProviderRequest,
  written: WrittenMessages = createWrittenMessages(),
): JsonObject {
  const { tool, all } = PROTOCOLS[protocol];
  const messages = listOf(protocol, request, request.messages, written);
  const tools = written.once(protocol, request.tools, (list) => list.map(tool));
  return all(request, messages, tools);
}

// A thread asks the same model again and again, and nothing of the body changes but its messages. The
// tool's config says what a body looks like, so it is asked once, with a message that stands for all of
// them, and from then on its text is put around the messages' own.

export type RequestWriter = ReturnType<typeof createRequestWriter>;

interface TurnRequest {
  messages: readonly Message[];
  maxTokens: number;
  written: WrittenMessages;
}

/** INVARIANT: quoted inside any string, its quotes are escaped, and the whole is not found there. */
const SLOT_WORD = 'all-messages-of-this-request';
const SLOT: JsonObject[] = [{ role: 'user', content: SLOT_WORD }];
const SLOT_TEXT = JSON.stringify(SLOT);

/** Nested deeper than this the messages are the tool's to judge, as it would any parameter. */
const MAX_SLOT_DEPTH = 50;

/**
 * `form` is the way from parameters to the text of the body: the checks and the config of the
 * provider's tool. It is asked anew where the longest answer changes, and for every request of a
 * config that does more with its messages than put them in one place.
 */
export function createRequestWriter(
  protocol: Protocol,
  fixed: Fixed,
  form: (parameters: JsonObject) => Outcome<string>,
) {
  const own = createWrittenMessages();
  let known: { maxTokens: number; parts: readonly string[] } | undefined;

  const parametersOf = ({ messages, maxTokens, written }: TurnRequest): JsonObject =>
    requestParameters(protocol, { ...fixed, messages, max_tokens: maxTokens }, written);

  /** The text before and behind the messages; other than two parts where it is not as simple. */
  function partsFor(maxTokens: number): readonly string[] {
    if (known?.maxTokens === maxTokens) return known.parts;
    const parameters = parametersOf({ messages: [], maxTokens, written: own });
    const formed = form({ ...parameters, messages: SLOT });
    const split = formed.ok ? formed.output.split(SLOT_TEXT) : [];
    const parts = split.some((part) => part.includes(SLOT_WORD)) ? [] : split;
    known = { maxTokens, parts };
    return parts;
  }

  return {
    /** The text of one request's body. Fails as `form` does. */
    body(turn: TurnRequest): Outcome<string> {
      const parts = partsFor(turn.maxTokens);
      const messages = listOf(protocol, fixed, turn.messages, turn.written);
      if (parts.length !== 2 || isDeeperThan(messages, MAX_SLOT_DEPTH)) {
        return form(parametersOf(turn));
      }
      return ok(`${parts[0]}${jsonText(messages)}${parts[1]}`);
    },
  };
}

// A conversation as the parameters of a provider's tool.
import { freezeJson, growJson, type Json, type JsonObject } from '../base/index.ts';
import { anthropicParameters, writeAnthropicMessage, writeAnthropicTool } from './anthropic.ts';
import type { Message, MessageList, Protocol, ProviderRequest } from './message.ts';
import { openAiParameters, writeOpenAiMessage, writeOpenAiTool } from './openai.ts';

// What was written for earlier requests of one conversation. Messages do not change, and all but the
// last few are sent again as they are: they form one list that grows, frozen, so that each of them is
// looked at and made into text once. The cost of a turn is its new messages and the sending.

type Write<Thing> = (thing: Thing) => readonly JsonObject[];

export interface WrittenMessages {
  messages(protocol: Protocol, messages: readonly Message[], write: Write<Message>): MessageList;
  /** Anything else that is the same object in every request. */
  once<Thing extends object>(
    protocol: Protocol,
    thing: Thing,
    write: Write<Thing>,
  ): readonly JsonObject[];
}

/** The last message may still grow, and the last two of the user are marked for the cache. */
const OPEN = 4;

interface Pages {
  readonly sources: Message[];
  readonly texts: (readonly JsonObject[])[];
  settled: Json[];
  /** How many of the sources are settled. */
  count: number;
}

const newPages = (): Pages => ({ sources: [], texts: [], settled: [], count: 0 });

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

export function createWrittenMessages(): WrittenMessages {
  const pages: Partial<Record<Protocol, Pages>> = {};
  const others = new WeakMap<object, Partial<Record<Protocol, readonly JsonObject[]>>>();
  return {
    messages(protocol, messages, write) {
      const own = (pages[protocol] ??= newPages());
      return turnPages(own, messages, write);
    },
    once(protocol, thing, write) {
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

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ProviderRequest,
  written: WrittenMessages = createWrittenMessages(),
): JsonObject {
  const { message, tool, all } = PROTOCOLS[protocol];
  const messages = written.messages(protocol, request.messages, message);
  const tools = written.once(protocol, request.tools, (list) => list.map(tool));
  return all(request, messages, tools);
}

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
  markedLast,
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

/** Nested deeper than this, messages are the tool's to judge, as it would any parameter. */
const MAX_SLOT_DEPTH = 50;

interface Pages {
  readonly sources: Message[];
  readonly written: (readonly JsonObject[])[];
  /** How many of the sources are settled, and their text. */
  count: number;
  text: string;
  isDeep: boolean;
  /** As one list, which is made when somebody asks for it. */
  list: { count: number; settled: Json[] };
}

const newPages = (): Pages => ({
  sources: [],
  written: [],
  count: 0,
  text: '',
  isDeep: false,
  list: { count: 0, settled: [] },
});

const joined = (texts: readonly string[]): string => texts.filter((text) => text !== '').join(',');

function commonLength(a: readonly unknown[], b: readonly unknown[]): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length++;
  return length;
}

/** For a conversation that goes on as it began; one that does not is written anew. */
function turnPages(pages: Pages, messages: readonly Message[], write: Write<Message>): MessageList {
  const { sources, written } = pages;
  const common = commonLength(sources, messages);
  if (common < pages.count) Object.assign(pages, { ...newPages(), sources, written });
  sources.length = written.length = common;
  for (let at = common; at < messages.length; at++) {
    const message = messages[at] as Message;
    const made = write(message).map(freezeJson);
    sources.push(message);
    written.push(made);
    pages.isDeep ||= isDeeperThan([...made], MAX_SLOT_DEPTH);
  }
  const count = Math.max(pages.count, messages.length - OPEN);
  if (count > pages.count) {
    const more = written.slice(pages.count, count).flat();
    pages.text = joined([pages.text, ...more.map((message) => jsonText(message))]);
    pages.count = count;
  }
  return {
    text: pages.text,
    last: written.slice(count).flat(),
    isDeep: pages.isDeep,
    settled() {
      const { list } = pages;
      const more = written.slice(list.count, pages.count).flat();
      if (more.length > 0) list.settled = growJson(list.settled, more);
      list.count = pages.count;
      return list.settled;
    },
  };
}

export function createWrittenMessages() {
  const pages: Partial<Record<Protocol, Pages>> = {};
  const others = new WeakMap<object, Partial<Record<Protocol, readonly JsonObject[]>>>();
  return {
    messages(protocol: Protocol, messages: readonly Message[], write: Write<Message>): MessageList {
      return turnPages((pages[protocol] ??= newPages()), messages, write);
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
  list: MessageList,
  written: WrittenMessages,
): Json[] {
  if (protocol === 'anthropic') return anthropicMessages(list, fixed.cache ?? true);
  const said = growJson(list.settled(), list.last);
  const before = written.once(protocol, fixed, writeOpenAiSystem);
  return before.length === 0 ? said : growJson(before as Json[], said);
}

/** The text of that list. Only what is not settled is looked at. */
function listText(
  protocol: Protocol,
  fixed: Fixed,
  list: MessageList,
  written: WrittenMessages,
): string {
  const isMarked = protocol === 'anthropic' && (fixed.cache ?? true);
  const last = isMarked ? markedLast(list.last) : list.last;
  // The marks reach back into what is settled: few words of the user, many of the model.
  if (!last) return jsonText(listOf(protocol, fixed, list, written));
  const before = protocol === 'openai' ? written.once(protocol, fixed, writeOpenAiSystem) : [];
  const texts = [...before, ...last].map((message) => jsonText(message));
  return `[${joined([...texts.slice(0, before.length), list.text, ...texts.slice(before.length)])}]`;
}

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ProviderRequest,
  written: WrittenMessages = createWrittenMessages(),
): JsonObject {
  const { message, tool, all } = PROTOCOLS[protocol];
  const list = written.messages(protocol, request.messages, message);
  const messages = listOf(protocol, request, list, written);
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
      const list = turn.written.messages(protocol, turn.messages, PROTOCOLS[protocol].message);
      if (parts.length !== 2 || list.isDeep) return form(parametersOf(turn));
      return ok(`${parts[0]}${listText(protocol, fixed, list, turn.written)}${parts[1]}`);
    },
  };
}

// A conversation as the parameters of a provider's tool. Messages do not change, so what was written
// for one is kept for the next request, frozen: it is looked at and made into text once. The cost of a
// turn is its new messages and the sending.
import { freezeJson, type Json, type JsonObject } from '../base/index.ts';
import {
  anthropicParameters,
  writeAnthropicMessage,
  writeAnthropicTool,
} from './anthropic-request.ts';
import type { Message, Protocol } from './message.ts';
import { openAiParameters, writeOpenAiMessage, writeOpenAiTool } from './openai-request.ts';

export interface ToolDefinition {
  name: string;
  description: string;
  /** JSON schema of the arguments. */
  input_schema: Json;
}

export interface ModelRequest {
  model: string;
  system: string;
  messages: readonly Message[];
  tools: readonly ToolDefinition[];
  max_tokens: number;
  stream: boolean;
  temperature?: number;
  /** OpenAI: the name of the parameter that caps the answer; `max_completion_tokens` when absent. */
  max_tokens_parameter?: string;
  /** Anthropic: mark what the next request will repeat; true when absent. */
  cache?: boolean;
}

type Written = readonly JsonObject[];

/** Messages (and lists of tools) as they were written, for one conversation. */
export type WrittenMessages = WeakMap<object, Partial<Record<Protocol, Written>>>;

const PROTOCOLS = {
  anthropic: { message: writeAnthropicMessage, tool: writeAnthropicTool, all: anthropicParameters },
  openai: { message: writeOpenAiMessage, tool: writeOpenAiTool, all: openAiParameters },
} as const;

/** What was written before, or what `write` makes now; a conversation may change its protocol. */
function writeOnce<Thing extends object>(
  thing: Thing,
  protocol: Protocol,
  written: WrittenMessages,
  write: (thing: Thing) => Written,
): Written {
  const before = written.get(thing);
  const known = before?.[protocol];
  if (known) return known;
  const made = write(thing).map(freezeJson);
  written.set(thing, { ...before, [protocol]: made });
  return made;
}

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ModelRequest,
  written: WrittenMessages = new WeakMap(),
): JsonObject {
  const { message: write, tool, all } = PROTOCOLS[protocol];
  const messages = request.messages.flatMap((message) =>
    writeOnce(message, protocol, written, write),
  );
  const tools = writeOnce(request.tools, protocol, written, (list) => list.map(tool));
  return all(request, messages, tools);
}

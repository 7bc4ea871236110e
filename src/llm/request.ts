// A conversation as the parameters of a provider's tool.
import type { Json, JsonObject } from '../base/index.ts';
import {
  anthropicParameters,
  writeAnthropicMessage,
  writeAnthropicTool,
} from './anthropic-request.ts';
import type { Message, Protocol } from './message.ts';
import { openAiParameters, writeOpenAiMessage, writeOpenAiTool } from './openai-request.ts';
import { createWrittenMessages, type WrittenMessages } from './written-messages.ts';

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

const PROTOCOLS = {
  anthropic: { message: writeAnthropicMessage, tool: writeAnthropicTool, all: anthropicParameters },
  openai: { message: writeOpenAiMessage, tool: writeOpenAiTool, all: openAiParameters },
} as const;

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ModelRequest,
  written: WrittenMessages = createWrittenMessages(),
): JsonObject {
  const { message, tool, all } = PROTOCOLS[protocol];
  const messages = written.messages(protocol, request.messages, message);
  const tools = written.once(protocol, request.tools, (list) => list.map(tool));
  return all(request, messages, tools);
}

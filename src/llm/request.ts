// A conversation as the parameters of a provider's tool. Messages do not change, so what was written
// for one is kept for the next request: the cost of a turn is its new messages and the sending.
import type { Json, JsonObject } from '../base/index.ts';
import { anthropicParameters, writeAnthropicMessage } from './anthropic-request.ts';
import type { Message, Protocol } from './message.ts';
import { openAiParameters, writeOpenAiMessage } from './openai-request.ts';

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

/** Messages as they were written, for one conversation and one protocol. */
export type WrittenMessages = WeakMap<Message, readonly JsonObject[]>;

/** Parameters for `llm/anthropic_messages` or `llm/openai_chat` and the chains above them. */
export function requestParameters(
  protocol: Protocol,
  request: ModelRequest,
  written: WrittenMessages = new WeakMap(),
): JsonObject {
  const write = protocol === 'anthropic' ? writeAnthropicMessage : writeOpenAiMessage;
  const messages = request.messages.flatMap((message) => {
    const known = written.get(message);
    if (known) return known;
    const made = write(message);
    written.set(message, made);
    return made;
  });
  return protocol === 'anthropic'
    ? anthropicParameters(request, messages)
    : openAiParameters(request, messages);
}

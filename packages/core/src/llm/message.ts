// What a conversation with a model is made of, whatever protocol carries it.
import type { Json, JsonObject } from '../base/index.ts';
import type { Usage } from './usage.ts';

export type Protocol = 'anthropic' | 'openai';

interface TextBlock {
  type: 'text';
  text: string;
}

/** INVARIANT: a call exists only when its arguments arrived whole and are a JSON object. */
export interface ToolCallBlock {
  type: 'tool_call';
  id: string;
  name: string;
  arguments: JsonObject;
}

/** Sent back as it came: a provider checks the signature of its own thoughts. */
interface ThinkingBlock {
  type: 'thinking';
  text: string;
  signature?: string;
  /** Thoughts the provider shows to nobody; then `text` is empty. */
  redacted?: string;
}

interface ToolResultBlock {
  type: 'tool_result';
  id: string;
  content: Json;
  is_error?: boolean;
}

export type Block = TextBlock | ToolCallBlock | ThinkingBlock | ToolResultBlock;

/** Never changed once made: what was written for a request is remembered by identity. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: readonly Block[];
}

export type Stop = 'end' | 'tool_use' | 'max_tokens' | 'refusal' | 'stop_sequence';

export interface BrokenReply {
  /** `max_tokens`, `refusal`, `no_end_marker`, `cut`, or the code of the fault in the stream. */
  reason: string;
  message: string;
  /** `name:id` of the calls that came whole. */
  completed_tools: string[];
  discarded_partial: { name?: string; bytes: number }[];
}

/** A call that was finished by the model but cannot be read: it gets an error, never a run. */
export interface BadArguments {
  id: string;
  name: string;
  text: string;
  message: string;
}

export interface ModelReply {
  /** Text, thoughts and calls that are complete, in the order they were begun. */
  content: (TextBlock | ToolCallBlock | ThinkingBlock)[];
  stop: Stop;
  usage: Usage;
  /** As the provider names it; empty when it does not. */
  model: string;
  broken?: BrokenReply;
  bad_arguments?: BadArguments[];
}

export interface ToolDefinition {
  name: string;
  description: string;
  /** JSON schema of the arguments. */
  input_schema: Json;
}

export interface ProviderRequest {
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

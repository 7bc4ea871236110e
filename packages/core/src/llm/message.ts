// The parts of a conversation with a model, independent of the protocol.
import type { Json, JsonObject } from '../base/index.ts';
import type { Usage } from './usage.ts';

export type Protocol = 'anthropic' | 'openai' | 'responses';

/**
 * Opaque data of a provider about one block of a reply: a signature, or an encrypted thought. The next request repeats
 * it unchanged, but only to the model that wrote it.
 */
interface Seal {
  /** Provider and model that wrote it, as `provider/model`. */
  by: string;
  data: string;
}

interface TextBlock {
  type: 'text';
  text: string;
  seal?: Seal;
}

/** INVARIANT: a call always has complete arguments that are a JSON object. */
export interface ToolCallBlock {
  type: 'tool_call';
  id: string;
  name: string;
  arguments: JsonObject;
  seal?: Seal;
}

interface ThinkingBlock {
  type: 'thinking';
  text: string;
  /** The provider does not show the thought. The seal contains it. */
  redacted?: true;
  seal?: Seal;
}

/** A file that is an artifact of the thread. A request has its bytes, and nothing else has them. */
export interface FileBlock {
  type: 'file';
  /** In hex. The id of the artifact is `sha256:` and this text. */
  sha256: string;
  mime: string;
  bytes: number;
  name?: string;
  width?: number;
  height?: number;
  pages?: number;
}

interface ToolResultBlock {
  type: 'tool_result';
  id: string;
  content: Json;
  is_error?: boolean;
  /** Files of the result, or texts in place of files that this request leaves out. */
  files?: readonly (FileBlock | TextBlock)[];
}

/** Returns the data of the seal if this model wrote it. `by`: the model of a request. Absent: no seal is sent. */
export const sealFor = ({ seal }: { seal?: Seal }, by: string | undefined): string | undefined =>
  seal?.by === by ? seal?.data : undefined;

export type Block = TextBlock | ToolCallBlock | ThinkingBlock | ToolResultBlock | FileBlock;

/** A message is immutable, because the cache of its text for requests uses its identity as the key. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: readonly Block[];
}

export type Stop = 'end' | 'tool_use' | 'max_tokens' | 'refusal' | 'stop_sequence';

export interface BrokenReply {
  /** `max_tokens`, `refusal`, `no_end_marker`, `cut`, or the code of the fault in the stream. */
  reason: string;
  message: string;
  /** All complete calls, each as `name:id`. */
  completed_tools: string[];
  discarded_partial: { name?: string; bytes: number }[];
}

/** A complete call with unreadable arguments. It gets an error and never runs. */
export interface BadArguments {
  id: string;
  name: string;
  text: string;
  message: string;
}

export interface ModelReply {
  /** Complete text, thoughts and calls, in the order of their start. */
  content: (TextBlock | ToolCallBlock | ThinkingBlock)[];
  stop: Stop;
  usage: Usage;
  /** Name of the model that the provider reported. Empty: it reported none. */
  model: string;
  broken?: BrokenReply;
  bad_arguments?: BadArguments[];
}

export interface ToolDefinition {
  name: string;
  description: string;
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
  /** OpenAI: name of the parameter that limits the answer. Absent: `max_completion_tokens`. */
  max_tokens_parameter?: string;
  /** Provider and model whose seals are sent, as `provider/model`. Absent: none are sent. */
  sealedBy?: string;
  /** Responses: 32 hex digits that the requests of one tree of threads share. */
  cache_key?: string;
  /** Responses: the effort of a reasoning model. `off`: the server does not know such models. */
  reasoning?: string;
  /** Anthropic: true marks the part that the next request repeats for the cache. Absent: true. */
  cache?: boolean;
}

/** The model that gets a request, and the name in its seals. */
export type Receiver = Pick<ProviderRequest, 'model' | 'sealedBy'>;

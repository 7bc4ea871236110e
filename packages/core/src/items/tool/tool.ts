import type { Json, JsonObject } from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import type { Exposed } from '../expose.ts';
import type { Risk, Role, Sandbox } from '../item-kinds.ts';

/** The declarations of a tool's YAML file, with defaults filled in. */
export interface Tool {
  tool_id: string;
  tool_type: string;
  version: string;
  description: string;
  category: string;
  /** Id of the next link of the chain. Absent: the file describes a primitive. */
  executor_id?: string;
  /** The config as the file contains it, in which `${ENV}` and `{param}` are not filled in. */
  config: JsonObject;
  parameters: ToolParameter[];
  input_schema?: JsonObject;
  output_schema?: JsonObject;
  requires: string[];
  /** The part of `requires` that applies to tools above this one. Absent: all of `requires`. */
  handsOn?: string[];
  retry?: Retry;
  /** Time limit of a call in seconds. Absent: the limit of the next link in the chain. */
  timeout?: number;
  /** Environment variables that `config` may use and the child process gets. */
  env: string[];
  dependencies: string[];
  actions: ToolAction[];
  background: boolean;
  effect: ToolEffect;
  risk: Risk[];
  /** Labels that every result of the tool gets. */
  labels: string[];
  /**
   * Names of fields at any depth of the result: `free_text` that other people can write, `identifiers` of
   * entries in a directory, and `kinds`. With `untrusted` the whole result is untrusted.
   */
  result?: {
    free_text: string[];
    identifiers?: string[];
    kinds?: Record<string, string>;
    untrusted?: boolean;
  };
  /** True if the results are the user's own directory, such as an address book. */
  directory?: boolean;
  /** Globs of the files that its process can read. Absent: all files that the caller may read. */
  sees?: string[];
  sandbox: Sandbox;
  /** How the tool is exposed to MCP clients. Absent: it is not exposed. */
  expose?: Exposed;
}

export interface ToolParameter {
  name: string;
  /** A JSON Schema type, or `any`. */
  type?: string;
  required: boolean;
  default?: Json;
  description: string;
  enum?: Json[];
  items?: JsonObject;
  role?: Role;
  /** Kind of the value. Only a result field of the same kind can be its trusted source. */
  kind?: string;
  /** True if loop detection ignores the parameter, such as a request id or a timestamp. */
  volatile?: boolean;
}

export interface Retry {
  max_attempts: number;
  /** Backoff in milliseconds before each further attempt. The last value repeats. */
  backoff_ms: number[];
  retryable_errors: string[];
}

/** An action that the parameter `action` selects. Its `requires` replace the `requires` of the tool. */
export interface ToolAction {
  name: string;
  description: string;
  parameters: ToolParameter[];
  requires?: string[];
  effect?: ToolEffect;
}

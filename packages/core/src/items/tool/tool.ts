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
  /** The next link of the chain. Absent if the file describes a primitive. */
  executor_id?: string;
  /** The config as written: `${ENV}` and `{param}` are not filled in. */
  config: JsonObject;
  parameters: ToolParameter[];
  input_schema?: JsonObject;
  output_schema?: JsonObject;
  requires: string[];
  /** The part of `requires` that applies to tools above this one. Absent: all of it. */
  handsOn?: string[];
  retry?: Retry;
  /** Time limit of a call in seconds. */
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
   * Names of fields, at any depth: fields that other people can write, names of entries in a directory,
   * and kinds. `untrusted`: all of the result is untrusted.
   */
  result?: {
    free_text: string[];
    identifiers?: string[];
    kinds?: Record<string, string>;
    untrusted?: boolean;
  };
  /** True if the results are the user's own directory, such as an address book. */
  directory?: boolean;
  /** Globs that narrow what its process can read. Absent: everything that the caller may read. */
  sees?: string[];
  sandbox: Sandbox;
  /** How MCP clients see it in native mode. */
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
  /** Kind of the value. Only fields of the same kind vouch for it. */
  kind?: string;
  /** True if loop detection ignores it: a request id, a timestamp. */
  volatile?: boolean;
}

export interface Retry {
  max_attempts: number;
  /** Pause before each further attempt. The last one repeats. */
  backoff_ms: number[];
  retryable_errors: string[];
}

/** An action, chosen by the parameter `action`. Its `requires` replace the tool's. */
export interface ToolAction {
  name: string;
  description: string;
  parameters: ToolParameter[];
  requires?: string[];
  effect?: ToolEffect;
}

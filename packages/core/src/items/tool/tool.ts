import type { Json, JsonObject } from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import type { Exposed } from '../expose.ts';
import type { Risk, Role, Sandbox } from '../item-kinds.ts';

/** What a tool's YAML file declares, defaults filled in. */
export interface Tool {
  tool_id: string;
  tool_type: string;
  version: string;
  description: string;
  category: string;
  /** The next link of the chain; absent when the file describes a primitive. */
  executor_id?: string;
  /** As written: `${ENV}` and `{param}` are not filled in. */
  config: JsonObject;
  parameters: ToolParameter[];
  input_schema?: JsonObject;
  output_schema?: JsonObject;
  requires: string[];
  /** What of it holds for tools that run on this one; absent: all of it. */
  handsOn?: string[];
  retry?: Retry;
  /** Seconds. */
  timeout?: number;
  /** Environment variables that `config` may use and the child process may see. */
  env: string[];
  dependencies: string[];
  actions: ToolAction[];
  background: boolean;
  effect: ToolEffect;
  risk: Risk[];
  /** Put on every result. */
  labels: string[];
  /**
   * Names of fields, at any depth: those that other people can write, those that name things in a directory,
   * those that are of a kind; or all of it is strangers'.
   */
  result?: {
    free_text: string[];
    identifiers?: string[];
    kinds?: Record<string, string>;
    untrusted?: boolean;
  };
  /** What it answers is the user's own address book. */
  directory?: boolean;
  /** Globs over what its process may look at; absent: all that its caller may read. */
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
  /** What it takes, where that is told apart: it is vouched for by fields of this kind alone. */
  kind?: string;
  /** Ignored by loop detection: a request id, a timestamp. */
  volatile?: boolean;
}

export interface Retry {
  max_attempts: number;
  /** Pause before each further attempt; the last one repeats. */
  backoff_ms: number[];
  retryable_errors: string[];
}

/** Chosen by the parameter `action`; `requires` replace the tool's. */
export interface ToolAction {
  name: string;
  description: string;
  parameters: ToolParameter[];
  requires?: string[];
  effect?: ToolEffect;
}

// Defines the types of a directive, and decides whether it can run as a thread.
import {
  type Diagnostic,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
} from '../../base/index.ts';
import type { CompactMode, GuardSource } from '../../flow/index.ts';
import type { CapabilityCatalog, Permissions } from '../../trust/index.ts';
import type { Exposed } from '../expose.ts';
import type { Source } from '../item-kinds.ts';
import type { Findings, LazyOffset } from './findings.ts';

/** Returns the parts that a thread needs and this directive lacks. A missing part is not an error. */
export function canSpawn(
  directive: Pick<Directive, 'limits' | 'permissions' | 'model' | 'process'>,
): { can_spawn_thread: boolean; missing: string[] } {
  const missing: string[] = [];
  if (!directive.limits) missing.push('limits');
  if (!directive.permissions) missing.push('permissions');
  if (!directive.model && !directive.process.script) missing.push('model');
  return { can_spawn_thread: missing.length === 0, missing };
}

const PLACEHOLDER =
  /\$\{(?:inputs\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}|(?<!\$)\{([A-Za-z_]\w*)\}/g;

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/**
 * Fills `${inputs.name}`, `${name}` and `{name}` in one pass, so that the content of an input is never
 * expanded. A placeholder of a missing or null input stays as written.
 */
export function fillDirectiveText(text: string, inputs: JsonObject): string {
  return text.replace(PLACEHOLDER, (written: string, path?: string, name?: string) => {
    let value: Json | undefined = inputs;
    for (const step of (path ?? name ?? '').split('.')) value = getOwn(value, step);
    return value === undefined || value === null ? written : textOf(value);
  });
}

export interface Directive {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly category: string;
  readonly author?: string;
  /** Title of a run, in which an input replaces `${inputs.…}`. Absent: the run has no title. */
  readonly title?: string;
  readonly model?: DirectiveModel;
  /** Limits of a thread. Absent: the directive cannot be a thread. Empty: every limit has its default. */
  readonly limits?: DirectiveLimits;
  /** Rights of a thread. Absent: the directive cannot be a thread. Without entries it has no rights. */
  readonly permissions?: Permissions;
  readonly hooks: readonly Hook[];
  readonly guards: readonly GuardSource[];
  readonly relationships: Relationships;
  readonly deviation_rules?: DeviationRules;
  readonly expose?: Exposed | undefined;
  readonly inputs: readonly DirectiveInput[];
  readonly process: DirectiveProcess;
  readonly outputs: readonly DirectiveOutput[];
  /** Text of a successful result without a text of its own. */
  readonly success?: string;
  readonly failure?: string;
  readonly context: JsonObject;
  readonly success_criteria: readonly string[];
  /** Criteria with a condition. A run completes only if all hold. */
  readonly goal?: Goal | undefined;
  /** Calls that a run must make to complete. */
  readonly expect: readonly ExpectedCall[];
  /** The `template`, `example` and `raw` elements directly below the directive, with unchanged text. */
  readonly opaque: readonly OpaqueText[];
  /** The text around the directive. A search finds it, but it is never sent to a model. */
  readonly around: string;
  /** Locations of the parts in the file. */
  readonly places: DirectivePlaces;
  /** Present for the agent of a program. No file has it. */
  readonly agent?: AgentView;
}

/** The texts that the model of a program's agent gets instead of a directive. */
export interface AgentView {
  readonly system: string;
  /** True if the model also gets the four kernel tools. */
  readonly hasKernelTools: boolean;
  /** Schema of the outputs. Absent: the agent answers with a text. */
  readonly output?: JsonObject;
}

interface Goal {
  /** `holds` is an expression over `outputs`, `text`, `cost` and `directive`. */
  readonly criteria: readonly { readonly text: string; readonly holds: string }[];
  /** Maximum number of rounds in which the run does not complete. Absent: 20. */
  readonly rounds?: number;
}

export interface DirectiveModel {
  readonly tier?: string;
  readonly model_id?: string;
  readonly fallback_id?: string;
  /** `native`: the model gets each permitted tool as a function besides the four verbs. Absent: only the verbs. */
  readonly tools?: 'native';
  readonly context: string;
}

/** Limits that are whole numbers, in the order in which they are printed. `duration` is in seconds. */
export const COUNTED_LIMITS = [
  ...(['turns', 'tokens', 'spawns', 'duration', 'input_tokens', 'output_tokens'] as const),
  ...(['context', 'depth', 'tool_calls'] as const),
];

export interface DirectiveLimits
  extends Readonly<Partial<Record<(typeof COUNTED_LIMITS)[number], number>>> {
  /** A decimal text without trailing zeros, because money is never a float. */
  readonly spend?: string;
  readonly spend_currency?: string;
  readonly context_warn?: number;
  /** How the harness makes room in a full context window. Absent: `off` with a number in `context`, else the default. */
  readonly context_compact?: CompactMode;
  /** Share of the usable window, from 0.3 to 0.95, at which the harness makes room. */
  readonly context_compact_at?: number;
  /** Number of last turns that stay word for word, from 1 to 50. */
  readonly context_keep?: number;
}

export interface Hook {
  readonly when: string;
  readonly directive: string;
  readonly inputs: JsonObject;
  readonly line: number;
  readonly column: number;
}

export interface Relationships {
  readonly requires: readonly string[];
  readonly suggests: readonly string[];
  readonly extends: readonly string[];
  readonly related: readonly string[];
}

export interface DeviationRules {
  readonly auto_fix?: boolean;
  readonly ask_first?: boolean;
  readonly escalate?: boolean;
  readonly text: string;
}

export interface DirectiveInput {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly default?: Json;
  readonly description: string;
}

export type OutputType = 'string' | 'number' | 'boolean' | 'object' | 'array';

export interface DirectiveOutput {
  readonly name: string;
  readonly type: OutputType;
  readonly required: boolean;
  readonly enum?: readonly string[];
  readonly description: string;
}

export interface DirectiveProcess {
  readonly mode: 'free' | 'plan';
  readonly steps: readonly Step[];
  readonly script?: DirectiveScript;
}

export interface ExpectedCall {
  readonly tool: string;
  /** `always`: no call of the tool may fail. `last`: the last call must exist and succeed. */
  readonly succeeds: 'always' | 'last';
}

export interface Step {
  readonly name: string;
  readonly description?: string;
  readonly action?: string;
  readonly condition?: string;
  readonly text?: string;
}

export interface DirectiveScript {
  readonly text: string;
  /** Line and column of the text's first character. Every line starts at that column. */
  readonly line: number;
  readonly column: number;
}

interface OpaqueText {
  readonly tag: string;
  readonly text: string;
}

/** Locations of the parts of a directive, which checks across items need. */
export interface DirectivePlaces {
  /**
   * Returns the location of a part by its key, such as `hooks.0.when`. For a key without a location it
   * returns the start of the directive.
   */
  at(key: string): LazyOffset;
  /** Returns a new collection for findings about this file. */
  findings(): Findings;
}

export interface ParsedDirective {
  /** The directive. Absent: the file has an error, and an invalid directive never runs. */
  readonly directive?: Directive;
  /** The readable parts of the directive, also with errors. Absent: the file contains no directive. */
  readonly draft?: Directive;
  readonly diagnostics: Diagnostic[];
}

/** The facts about a tool that checks of a directive need. */
export interface NamedTool {
  readonly id: string;
  /** Capabilities that its whole chain requires. */
  readonly requires: readonly string[];
  /** Target of the tool's requests. Absent: the config of the tool does not fix the target. */
  readonly endpoint?: { readonly host: string; readonly method?: string };
}

export interface DirectiveWorld {
  directive(name: string): Directive | undefined;
  /** Returns why a bare name matches several directives. Undefined if it matches one or none. */
  ambiguous?(name: string): string | undefined;
  tool(id: string): Outcome<NamedTool>;
  directiveNames(): Iterable<string>;
  toolIds(): Iterable<string>;
  readonly catalog: CapabilityCatalog;
  readonly source: Source;
  /** True for signed items of the bundle, which alone may have system-only capabilities. */
  readonly signedCore: boolean;
  readonly currencies: readonly string[];
  readonly tiers: readonly string[];
  /** Ids of models of tiers, prices and providers. Absent: ids of models are not checked. */
  readonly models?: readonly string[];
}

// Whether a directive can be a thread of its own.
import {
  type Diagnostic,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
} from '../../base/index.ts';
import type { GuardSource } from '../../flow/index.ts';
import type { CapabilityCatalog, Permissions } from '../../trust/index.ts';
import type { Exposed } from '../expose.ts';
import type { Source } from '../item-kinds.ts';
import type { Findings, Place } from './findings.ts';

/** What a thread needs and this directive lacks; lacking it is not a mistake. */
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
 * `${inputs.name}`, `${name}` and `{name}` of the given inputs, in one pass: what an input's value
 * contains is never looked at again. Everything else, missing and null inputs too, stays as written.
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
  /** Title of a run; `${inputs.…}` stands for an input. */
  readonly title?: string;
  readonly model?: DirectiveModel;
  /** Absent: the directive cannot be a thread. An empty object: every limit has its default. */
  readonly limits?: DirectiveLimits;
  /** Absent: the directive cannot be a thread. No entries: it may do nothing. */
  readonly permissions?: Permissions;
  readonly hooks: readonly Hook[];
  readonly guards: readonly GuardSource[];
  readonly relationships: Relationships;
  readonly deviation_rules?: DeviationRules;
  readonly expose?: Exposed | undefined;
  readonly inputs: readonly DirectiveInput[];
  readonly process: DirectiveProcess;
  readonly outputs: readonly DirectiveOutput[];
  /** The result's text when the run gave none. */
  readonly success?: string;
  readonly failure?: string;
  readonly context: JsonObject;
  readonly success_criteria: readonly string[];
  /** Calls without which a run has not completed. */
  readonly expect: readonly ExpectedCall[];
  /** `template`, `example` and `raw` elements directly below the directive, word for word. */
  readonly opaque: readonly OpaqueText[];
  /** The text around the directive: searched, never sent to a model. */
  readonly around: string;
  /** Where things stand in the file; no part of the value two forms have in common. */
  readonly places: DirectivePlaces;
}

export interface DirectiveModel {
  readonly tier?: string;
  readonly model_id?: string;
  readonly fallback_id?: string;
  /** The permitted tools are functions of their own, besides the four. */
  readonly tools?: 'native';
  readonly context: string;
}

/** Limits that are whole numbers, in the order in which they are printed; `duration` in seconds. */
export const COUNTED_LIMITS = [
  ...(['turns', 'tokens', 'spawns', 'duration', 'input_tokens', 'output_tokens'] as const),
  ...(['context', 'depth', 'tool_calls'] as const),
];

export interface DirectiveLimits
  extends Readonly<Partial<Record<(typeof COUNTED_LIMITS)[number], number>>> {
  /** A decimal without trailing zeros: money is never a float. */
  readonly spend?: string;
  readonly spend_currency?: string;
  readonly context_warn?: number;
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
  /** `always`: no call of it may fail. `last`: the last one must not, and there must be one. */
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
  /** Line and column of the text's first character; every line starts at that column. */
  readonly line: number;
  readonly column: number;
}

interface OpaqueText {
  readonly tag: string;
  readonly text: string;
}

/** Where parts stand in the file, for checks across items. */
export interface DirectivePlaces {
  /** The place of a part by its key, e.g. `hooks.0.when`; the directive's own start otherwise. */
  at(key: string): Place;
  /** An empty list for what is wrong with this file among the others. */
  findings(): Findings;
}

export interface ParsedDirective {
  /** Present only when nothing is wrong with it: what has errors is never run. */
  readonly directive?: Directive;
  /** What could be read in spite of errors, so that checks across items find the rest of them. */
  readonly draft?: Directive;
  readonly diagnostics: Diagnostic[];
}

/** What a directive is checked against: the library answers it, tests write it by hand. */
/** What a directive needs to know of a tool that it names. */
export interface NamedTool {
  readonly id: string;
  /** Of its whole chain. */
  readonly requires: readonly string[];
  /** Where its requests go, when its configuration says so once and for all. */
  readonly endpoint?: { readonly host: string; readonly method?: string };
}

export interface DirectiveWorld {
  directive(name: string): Directive | undefined;
  /** Why a bare name stands for no single directive; undefined when it does, or for none. */
  ambiguous?(name: string): string | undefined;
  tool(id: string): Outcome<NamedTool>;
  directiveNames(): Iterable<string>;
  toolIds(): Iterable<string>;
  readonly catalog: CapabilityCatalog;
  readonly source: Source;
  /** Signed core items alone may hold system-only capabilities. */
  readonly signedCore: boolean;
  readonly currencies: readonly string[];
  readonly tiers: readonly string[];
  /** Ids of models that tiers, prices and providers name, where these are known. */
  readonly models?: readonly string[];
}

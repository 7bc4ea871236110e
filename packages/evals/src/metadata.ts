// Reads metadata of the tools of a suite: effect, risk, roles and kinds of parameters, and the author
// of their results. The metadata describes the meaning of a tool. A missing entry counts as the worst
// case.
import {
  fail,
  flag,
  hasErrors,
  listOf,
  type Outcome,
  ok,
  oneOf,
  openYaml,
  record,
  tableOf,
  text,
} from '@kernmantle/core/base';
import type { Suite, SuiteTool } from './cases.ts';

const RISKS = ['exfil', 'destructive', 'privileged'] as const;
const ROLES = ['destination', 'command', 'path', 'content'] as const;
type Risk = (typeof RISKS)[number];
type Role = (typeof ROLES)[number];

interface ParameterFacts {
  readonly role?: Role;
  readonly kind?: string;
}

export interface ToolFacts {
  readonly effect: 'read' | 'write';
  readonly risk: readonly Risk[];
  readonly parameters: Readonly<Record<string, ParameterFacts>>;
  readonly result: {
    readonly free_text?: readonly string[];
    readonly identifiers?: readonly string[];
    readonly kinds?: Readonly<Record<string, string>>;
    readonly untrusted?: boolean;
  };
  readonly directory: boolean;
}

export type Metadata = Readonly<Record<string, Partial<ToolFacts>>>;

const result = record({
  free_text: listOf(text),
  identifiers: listOf(text),
  kinds: tableOf(text),
  untrusted: flag,
});
const tool = record({
  effect: oneOf(['read', 'write']),
  risk: listOf(oneOf(RISKS)),
  parameters: tableOf(record({ role: oneOf(ROLES), kind: text })),
  result,
  directory: flag,
});
const file = record({ tools: tableOf(tool) }, { required: ['tools'] });

/** Reads a metadata file. Fails with `config_invalid` and a line for every undefined field or value. */
export function readMetadata(yaml: string, name: string): Outcome<Metadata> {
  const opened = openYaml(yaml, name);
  const read = file(opened.value, opened.place);
  const [first] = opened.diagnostics.filter(({ severity }) => severity === 'error');
  if (!read?.tools || hasErrors(opened.diagnostics)) {
    const { line = 1, message = 'it cannot be read' } = first ?? {};
    return fail('config_invalid', `${name}:${line}: ${message}`, { file: name, line });
  }
  return ok(read.tools);
}

const WORST: Omit<ToolFacts, 'effect'> = {
  risk: RISKS,
  parameters: {},
  result: { untrusted: true },
  directory: false,
};

/** A tool without a description changes things, has every risk and returns untrusted text. */
function factsOf(metadata: Metadata, { name, effect: recorded }: SuiteTool): ToolFacts {
  const entry = Object.hasOwn(metadata, name) ? metadata[name] : undefined;
  if (!entry) return { effect: 'write', ...WORST };
  const {
    effect = recorded,
    risk = [],
    parameters = {},
    result: facts = {},
    directory = false,
  } = entry;
  return { effect, risk, parameters, result: facts, directory };
}

/** Returns the facts of a tool by its name. */
export type FactsBy = (tool: string) => ToolFacts;

/** Returns the facts of all tools of a suite. */
export function factsByOf(suite: Suite, metadata: Metadata): FactsBy {
  const facts = new Map(suite.tools.map((tool) => [tool.name, factsOf(metadata, tool)]));
  const unknown = { effect: 'write', ...WORST } as const;
  return (tool) => facts.get(tool) ?? unknown;
}

/** True if a call of the tool changes something or sends data out. */
export const isHarmful = ({ effect, risk }: ToolFacts): boolean =>
  effect === 'write' || risk.includes('exfil');

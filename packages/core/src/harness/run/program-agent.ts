// Adds agents of the user's own program. An agent is written as the text of a directive file, and the parser of such
// files checks it, so an agent can declare nothing that a file cannot.
import {
  asJson,
  canonicalJson,
  fail,
  formatYaml,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  type AgentView,
  type DirectiveItem,
  type Item,
  parseDirective,
} from '../../items/index.ts';
import { PROGRAM, type ProgramTool, readProgramTools } from '../../kernel/index.ts';

/** An agent as a program defines it. */
interface AgentSource {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  /** The other fields of its directive. */
  readonly fields: JsonObject;
  readonly view: AgentView;
  /** True if the model plans all steps first. It reads the directive itself, because it writes the steps from it. */
  readonly isPlanned: boolean;
  readonly tools: readonly ProgramTool[];
}

interface ProgramAgent {
  /** The directive, and after it the tools of the program. The hash of its body is that of the agent. */
  readonly items: readonly [DirectiveItem, ...Item[]];
  /** Text of a directive file with the same rights and limits. */
  readonly text: string;
}

/** Returns the items of an agent. Fails with `config_invalid` for an invalid tool, or with the problem of the text. */
export function readProgramAgent(source: AgentSource): Outcome<ProgramAgent> {
  const { name, version, description, view, isPlanned } = source;
  const tools = readProgramTools(source.tools);
  if (!tools.ok) return tools;
  const fields: JsonObject = { name, version, description, category: 'agents', ...source.fields };
  const text = `---\n${formatYaml(fields)}---\n`;
  const { directive, diagnostics } = parseDirective(text, `${PROGRAM}${name}`);
  const problem = diagnostics.find(({ severity }) => severity === 'error');
  if (!directive || problem) {
    const message = `agent \`${name}\`: ${problem?.message ?? 'cannot be read'}`;
    return fail('config_invalid', message);
  }
  const hashed = tools.output.map(({ id, tool }) => asJson({ id, tool: tool ?? null }));
  const item: DirectiveItem = {
    kind: 'directive',
    id: name,
    title: name,
    description,
    category: 'agents',
    tags: [],
    version,
    source: 'project',
    file: `${PROGRAM}${name}`,
    signature: { state: 'program' },
    diagnostics: [],
    shadows: [],
    body: canonicalJson({ fields, view: asJson(view), tools: hashed }),
    directive: isPlanned ? directive : { ...directive, agent: view },
  };
  return ok({ items: [item, ...tools.output], text });
}

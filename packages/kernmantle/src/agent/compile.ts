// Compiles an agent to a directive and its tools: checks its options, and writes them as fields of a directive.
import { type JsonObject, objectAt, textAt } from '@kernmantle/core/base';
import { readProgramAgent } from '@kernmantle/core/harness';
import type { StandardSchema } from '@kernmantle/core/kernel';
import { checkNames, invalidOption, KernmantleError } from './error.ts';
import { AgentTool, type ObjectSchema, objectSchema } from './tool.ts';

/** Limits of one run. `spend` is a decimal text such as `'0.05'`, and `duration` is in seconds. */
export interface AgentLimits {
  readonly turns?: number;
  readonly tokens?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly tool_calls?: number;
  readonly spawns?: number;
  readonly depth?: number;
  readonly duration?: number;
  readonly spend?: string;
  readonly spend_currency?: string;
}

/** The rights of an agent besides calls of its tools. */
export interface AgentPermissions {
  /** Globs of files in the project. */
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  /** Hosts that HTTP requests may go to. */
  readonly net?: readonly string[];
  /** Maximum number of calls in one run, by tool. */
  readonly uses?: Readonly<Record<string, number>>;
}

export type OutputSchema = StandardSchema | ObjectSchema;

export interface AgentOptions<S extends OutputSchema | undefined = undefined> {
  /** The name consists of small letters, digits and `_`. */
  readonly name: string;
  /** The system text that the model gets. */
  readonly instructions: string;
  /** Tools of the program, ids of tools of the project, or `kernel` for the four kernel tools. */
  readonly tools?: readonly (AgentTool | string)[];
  readonly permissions?: AgentPermissions;
  readonly limits?: AgentLimits;
  /** Context window: its limit in tokens, and how the harness makes room in it. */
  readonly context?: {
    readonly limit?: number;
    readonly compact?: 'auto' | 'results' | 'off';
    readonly at?: number;
    readonly keep?: number;
  };
  /** Schema of the result. Absent: the result has only a text. */
  readonly output?: S;
  /** A tier or the id of a model. Absent: the model of `kernmantle`. */
  readonly model?: string;
  /** How the model reads untrusted data. */
  readonly untrusted?: 'show' | 'reference' | 'plan';
  readonly version?: string;
}

type ReadAgent = Extract<ReturnType<typeof readProgramAgent>, { ok: true }>['output'];

export type CompiledAgent = ReadAgent & {
  readonly name: string;
  readonly output: OutputSchema | undefined;
};

const wordList = (text: string): readonly string[] => text.split(' ');
const OPTIONS = wordList(
  'name instructions tools permissions limits context output model untrusted version',
);
const COUNTS = wordList('turns tokens input_tokens output_tokens tool_calls spawns depth duration');
const MODES = ['show', 'reference', 'plan'];
const MAX_TOOLS = 40;
/** Tools that read untrusted text for an agent that gets it as references. */
const READERS = ['read/extract', 'read/pick', 'read/summarise'];

/** Returns the limits for the text of a directive. Throws for a value of another type. */
export function checkLimits(about: string, limits: AgentLimits): JsonObject {
  checkNames(about, limits, [...COUNTS, 'spend', 'spend_currency']);
  for (const [name, value] of Object.entries(limits)) {
    const isCount = COUNTS.includes(name);
    const fits = isCount ? Number.isSafeInteger(value) && value >= 0 : typeof value === 'string';
    const rule = isCount ? 'must be a whole number, 0 or more' : "must be a text such as '0.05'";
    if (!fits) throw invalidOption(about, `limits.${name}`, rule);
  }
  return { ...limits };
}

/** Returns the tools of the program, and the ids of all tools in their order. */
function listTools(
  about: string,
  tools: readonly (AgentTool | string)[],
  hasProject: boolean,
): { own: readonly AgentTool[]; ids: readonly string[] } {
  const own = tools.filter((one) => one instanceof AgentTool);
  const ids = tools.map((one) => (one instanceof AgentTool ? one.id : one));
  const isOwn = (id: string): boolean => id === 'kernel' || own.some((one) => one.id === id);
  const wrong = ids.findIndex((id) => typeof id !== 'string');
  if (wrong >= 0)
    throw invalidOption(about, `tools[${wrong}]`, 'must come from `tool`, or be an id');
  if (ids.length > MAX_TOOLS) {
    throw invalidOption(about, 'tools', `has ${ids.length} tools; list at most ${MAX_TOOLS}`);
  }
  const foreign = own.length === ids.length ? undefined : ids.find((id) => !isOwn(id));
  if (foreign !== undefined && !hasProject) {
    throw invalidOption(about, 'tools', `has \`${foreign}\`, which needs \`project\``);
  }
  const twice = ids.find((id, at) => ids.indexOf(id) !== at);
  if (twice !== undefined) throw invalidOption(about, 'tools', `has \`${twice}\` twice`);
  return { own, ids };
}

const linesFor = (resource: string, name: string, values: readonly string[] = []): JsonObject[] =>
  values.map((value) => ({ resource, [name]: value }));

/** Returns the permissions: the listed tools, and nothing else that the options do not name. */
function permissionsOf(
  about: string,
  ids: readonly string[],
  { permissions = {}, untrusted = 'show' }: Pick<AgentOptions, 'permissions' | 'untrusted'>,
): JsonObject {
  checkNames(`${about}: permissions`, permissions, ['read', 'write', 'net', 'uses']);
  for (const [name, list] of Object.entries({ ...permissions, uses: [] })) {
    const isList = Array.isArray(list) && list.every((value) => typeof value === 'string');
    if (!isList) throw invalidOption(about, `permissions.${name}`, 'must be a list of texts');
  }
  const { read, write, net = [], uses = {} } = permissions;
  checkNames(`${about}: permissions.uses`, uses, ids);
  const all = untrusted === 'show' ? ids : [...ids, ...READERS];
  const execute = all.map((id) =>
    id === 'kernel'
      ? { resource: 'kernmantle', action: '*' }
      : { resource: 'tool', id, ...(uses[id] !== undefined && { uses: String(uses[id]) }) },
  );
  const hosts = net.map((host) => ({ resource: 'net', action: 'http', host }));
  return {
    ...(untrusted !== 'show' && { untrusted: 'reference' }),
    read: linesFor('filesystem', 'path', read),
    write: linesFor('filesystem', 'path', write),
    execute: [...execute, ...hosts],
  };
}

const TYPES = ['string', 'number', 'boolean', 'object', 'array'];

/** Returns the outputs of a directive. A field without a single type is declared as a text. */
function outputFields(schema: JsonObject): JsonObject {
  const { required } = schema;
  const outputs: JsonObject = {};
  for (const [name, field] of Object.entries(objectAt(schema, 'properties'))) {
    const type = textAt(field, 'type').replace('integer', 'number');
    outputs[name] = {
      ...(TYPES.includes(type) && { type }),
      required: Array.isArray(required) && required.includes(name),
      text: textAt(field, 'description'),
    };
  }
  return outputs;
}

function contextFields(about: string, context: AgentOptions['context'] = {}): JsonObject {
  checkNames(`${about}: context`, context, ['limit', 'compact', 'at', 'keep']);
  const { limit, compact, at, keep } = context;
  return {
    ...(limit !== undefined && { context: limit }),
    ...(compact !== undefined && { context_compact: compact }),
    ...(at !== undefined && { context_compact_at: at }),
    ...(keep !== undefined && { context_keep: keep }),
  };
}

/** Throws for values that a program without types can get wrong. */
function checkAgent(about: string, options: AgentOptions<OutputSchema | undefined>): void {
  checkNames(about, options, OPTIONS);
  const { instructions, untrusted = 'show', model, tools = [] } = options;
  if (typeof instructions !== 'string' || instructions.trim() === '') {
    throw invalidOption(about, 'instructions', 'must be a text');
  }
  if (!MODES.includes(untrusted)) {
    throw invalidOption(about, 'untrusted', `must be one of: ${MODES.join(', ')}`);
  }
  if (!Array.isArray(tools)) throw invalidOption(about, 'tools', 'must be a list');
  if (typeof model === 'string' && model !== '') return;
  throw invalidOption(about, 'model', 'is missing; set it here or in `kernmantle`');
}

/** Compiles an agent. Throws `config_invalid` and names the option. */
export function compileAgent(
  options: AgentOptions<OutputSchema | undefined>,
  hasProject: boolean,
): CompiledAgent {
  const about = `agent \`${String(options.name)}\``;
  checkAgent(about, options);
  const { name, instructions, model = '', untrusted = 'show', version = '1.0.0' } = options;
  const { own, ids } = listTools(about, options.tools ?? [], hasProject);
  const limits = checkLimits(about, options.limits ?? {});
  const schema = options.output && objectSchema(about, 'output', options.output);
  const approved = own.filter(({ approval }) => approval === 'always');
  const [line = ''] = instructions.trim().split('\n', 1);
  const isPlanned = untrusted === 'plan';
  const compiled = readProgramAgent({
    name,
    version,
    description: line.slice(0, 200),
    fields: {
      model: { model_id: model, tools: 'native' },
      limits: { ...limits, ...contextFields(about, options.context) },
      permissions: permissionsOf(about, ids, options),
      guards: approved.map(({ id }) => ({ on: `op:tool:${id}`, ask: 'its program requires it' })),
      process: {
        ...(isPlanned && { mode: 'plan' }),
        step: [{ name: 'do', description: instructions }],
      },
      ...(schema && { outputs: outputFields(schema) }),
    },
    view: {
      system: instructions,
      hasKernelTools: ids.includes('kernel'),
      ...(schema && { output: schema }),
    },
    isPlanned,
    tools: own,
  });
  if (!compiled.ok) throw new KernmantleError(compiled.error);
  return { ...compiled.output, name, output: options.output };
}

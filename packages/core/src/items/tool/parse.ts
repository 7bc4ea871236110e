// Parses the YAML file of a tool. The codes in `retryable_errors` are an open set, so an unknown code is
// a warning and not an error.
import {
  anything,
  compact,
  type Diagnostic,
  didYouMean,
  flag,
  getOwn,
  globProblem,
  hasErrors,
  isObject,
  type Json,
  type JsonObject,
  jsonEqual,
  listOf,
  mapping,
  numberBetween,
  oneOf,
  openYaml,
  type Rule,
  type RulePlace,
  record,
  tableOf,
  text,
  textLike,
  uniqueBy,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';
import { TOOL_EFFECTS } from '../../flow/index.ts';
import { exposeRule } from '../expose.ts';
import { NO_VERSION, RISKS, ROLES, SANDBOXES, VERSION } from '../item-kinds.ts';
import { blankSignatureLine } from '../signature-line.ts';
import type { Retry, Tool, ToolAction, ToolParameter } from './tool.ts';

const CODES: ReadonlySet<string> = new Set(
  (
    'invalid_input invalid_item not_found ambiguous permission_denied signature_invalid timeout ' +
    'cancelled rate_limit network_error quota_exceeded model_unavailable provider_error ' +
    'stream_incomplete outcome_unknown loop_detected stuck tool_failed output_invalid ' +
    'tool_chain_failed config_invalid dependency_missing sandbox_missing thread_exists spawn_failed ' +
    'mcp_connection_failed mcp_definition_changed hook_failed expression_error http_error internal_error ' +
    // Common names of other systems for `network_error` or `rate_limit`.
    'connection_reset connection_refused connection_error network rate_limited'
  ).split(' '),
);

/** True for a code of the runtime in any case, and for a text that begins with an HTTP status. */
const isKnownCode = (entry: string): boolean =>
  /^[1-5]\d\d(?!\d)/.test(entry) || CODES.has(entry.toLowerCase());

const TYPES = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'any'] as const;
type ParameterType = (typeof TYPES)[number];

/** Type names of other languages with the right name, for a hint. */
const TYPE_SLIPS: Readonly<Record<string, ParameterType>> = {
  str: 'string',
  text: 'string',
  int: 'integer',
  float: 'number',
  bool: 'boolean',
  dict: 'object',
  map: 'object',
  list: 'array',
};

const plainType = oneOf(TYPES);
const type: Rule<ParameterType> = (value, place) => {
  const meant = typeof value === 'string' && Object.hasOwn(TYPE_SLIPS, value) && TYPE_SLIPS[value];
  if (!meant) return plainType(value, place);
  return wrongType(place, `one of ${TYPES.join(', ')}`, value, `write \`${meant}\``);
};

const items: Rule<JsonObject> = (value, place) => {
  if (typeof value !== 'string') return mapping(value, place);
  const named = type(value, place);
  return named === undefined ? undefined : named === 'any' ? {} : { type: named };
};

const parameterName = textLike(
  /^(?!__)[A-Za-z_][A-Za-z0-9_.-]{0,127}$/,
  'a name of letters, digits, `_`, `.` and `-`',
  'only the runtime sets names that begin with `__`',
);

export const kindName = textLike(
  /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
  'the name of a kind, such as `account`',
);

const parameterFields = record(
  {
    name: parameterName,
    type,
    required: flag,
    default: anything,
    description: text,
    enum: listOf(anything),
    items,
    role: oneOf(ROLES),
    kind: kindName,
    volatile: flag,
  },
  {
    required: ['name'],
    moved: { optional: 'write `required: false`, or leave it out', choices: 'write `enum`' },
  },
);

const FITS: Readonly<Record<string, (value: unknown) => boolean>> = {
  any: () => true,
  array: Array.isArray,
  object: isObject,
  integer: Number.isInteger,
};
const fitsType = (value: Json, name = 'any'): boolean =>
  FITS[name]?.(value) ?? typeof value === name;

/** Reports a default or an `enum` value that its own declaration refuses, because calls would fail. */
function checkValues(parameter: ToolParameter, place: RulePlace): void {
  const { default: fallback, enum: members, type: typed } = parameter;
  if (fallback !== undefined && !fitsType(fallback, typed)) {
    wrongType(place.child('default'), `of type \`${typed}\``, fallback);
  }
  for (const [index, member] of (members ?? []).entries()) {
    if (!fitsType(member, typed)) {
      wrongType(place.child('enum').child(index), `of type \`${typed}\``, member);
    }
  }
  if (fallback !== undefined && members && !members.some((one) => jsonEqual(one, fallback))) {
    const message = `the default of \`${parameter.name}\` is not among its \`enum\``;
    place.child('default').report({ code: 'invalid_field', message });
  }
}

const parameter: Rule<ToolParameter> = (value, place) => {
  const read = parameterFields(value, place);
  if (read?.name === undefined) return undefined;
  const { name, required = false, description = '' } = read;
  const result: ToolParameter = { ...read, name, required, description };
  checkValues(result, place);
  return result;
};

const parameters: Rule<ToolParameter[]> = uniqueBy(
  listOf(parameter),
  ({ name }) => name,
  'parameter',
);

/** A tool as its YAML file describes it. The parser runs, expands and fills in nothing. */
export interface ParsedTool {
  /** The tool. Absent: the file has an error, and an invalid tool never runs. */
  tool?: Tool;
  diagnostics: Diagnostic[];
}

const toolId = textLike(
  /^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$/,
  'a name of letters, digits, `_` and `-`',
  'folders are not part of it: `.ai/tools/shell/bash.yaml` has `tool_id: bash`',
);
const executorId = textLike(
  /^[A-Za-z0-9_@][A-Za-z0-9_@.-]*(\/[A-Za-z0-9_@][A-Za-z0-9_@.-]*)*$/,
  'the id of a tool or primitive',
);
const version = textLike(VERSION, 'a version such as "1.0.0"', 'put it in quotes: "1.0.0"');
const capability = textLike(
  /^([A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_*-]+)+|approve)$/,
  'the name of a capability, such as `fs.read`',
);
const capabilities = listOf(capability);
const variable = textLike(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable');
// Only names and versions are valid, because a URL or an option could fetch other code.
const dependency = textLike(
  /^@?[A-Za-z0-9][A-Za-z0-9._/-]*(\[[A-Za-z0-9,_-]+\])?(@|[=<>~!^]=?)?[A-Za-z0-9.*+,<>=~^-]*$/,
  'a package name with an optional version',
);
const label = textLike(
  /^(?!src:|dir:)[A-Za-z][A-Za-z0-9:_-]*$/,
  'a label',
  'only the runtime adds labels that begin with `src:` or `dir:`',
);

/** Reads an error code. YAML parses the status `429` as a number, which becomes a text. */
const errorCode: Rule<string> = (value, place) =>
  text(typeof value === 'number' ? String(value) : value, place);

const retryFields = record(
  {
    max_attempts: wholeBetween(1, 20),
    backoff_ms: listOf(wholeBetween(0, 600_000), 20),
    retryable_errors: listOf(errorCode, 50),
  },
  { required: ['max_attempts'] },
);

const retry: Rule<Retry> = (value, place) => {
  const read = retryFields(value, place);
  if (read === undefined) return undefined;
  const { max_attempts = 1, backoff_ms = [], retryable_errors = [] } = read;
  for (const [index, entry] of retryable_errors.entries()) {
    reportRetryCode(entry, place.child('retryable_errors').child(index));
  }
  return { max_attempts, backoff_ms, retryable_errors };
};

function reportRetryCode(entry: string, place: RulePlace): void {
  if (entry.toLowerCase() === 'stream_incomplete') {
    const message = `\`${entry}\` is never retried inside a chain; the thread decides about retries`;
    place.report({ code: 'retry_ineffective', severity: 'note', message });
  } else if (!isKnownCode(entry)) {
    const message = `\`${entry}\` is not an error code of the runtime`;
    const hint =
      didYouMean(entry.toLowerCase(), CODES) ?? 'it matches only if a tool reports this code';
    place.report({ code: 'unknown_error_code', severity: 'warning', message, hint });
  }
}

const actionFields = record(
  {
    name: textLike(/^[A-Za-z_][A-Za-z0-9_-]*$/, 'a name of letters, digits, `_` and `-`'),
    description: text,
    parameters,
    requires: capabilities,
    effect: oneOf(TOOL_EFFECTS),
  },
  { required: ['name'] },
);

const action: Rule<ToolAction> = (value, place) => {
  const read = actionFields(value, place);
  if (read?.name === undefined) return undefined;
  const { name, description = '', parameters = [], requires, effect } = read;
  return compact<ToolAction>({ name, description, parameters, requires, effect });
};

/** Reads the schema of an object of parameters. A tool with another schema could never be called. */
const objectSchema: Rule<{ [key: string]: Json }> = (value, place) => {
  const schema = mapping(value, place);
  if (schema && schema.type !== undefined && schema.type !== 'object') {
    return wrongType(place.child('type'), '`object`', schema.type);
  }
  return schema;
};

/** Reads a glob over paths of the project, as in a permission. */
const viewGlob: Rule<string> = (value, place) => {
  const glob = text(value, place);
  if (glob === undefined) return undefined;
  const isOutside = /^([/\\~]|[A-Za-z]:)/.test(glob);
  const problem = globProblem(glob) ?? (isOutside ? 'must be in the project' : undefined);
  if (problem === undefined) return glob;
  const message = `the glob \`${glob}\` ${problem}`;
  place.report({ code: 'invalid_field', message, hint: 'write one such as `src/**`' });
  return undefined;
};

export const resultFields = {
  free_text: listOf(text),
  identifiers: listOf(text),
  kinds: tableOf(kindName),
  untrusted: flag,
};

const FIELDS = {
  tool_id: toolId,
  tool_type: text,
  version,
  description: text,
  category: text,
  executor_id: executorId,
  config: mapping,
  parameters,
  input_schema: objectSchema,
  output_schema: mapping,
  requires: capabilities,
  retry,
  timeout: numberBetween(0.001, 604_800, 'a number of seconds above 0'),
  env: listOf(variable),
  dependencies: listOf(dependency, 100),
  actions: uniqueBy(listOf(action, 200), ({ name }) => name, 'action'),
  background: flag,
  effect: oneOf(TOOL_EFFECTS),
  risk: listOf(oneOf(RISKS)),
  labels: listOf(label),
  result: record(resultFields),
  directory: flag,
  sees: listOf(viewGlob, 100),
  sandbox: oneOf(SANDBOXES),
  expose: exposeRule('tool'),
};

const fields = record(FIELDS, {
  moved: {
    name: 'write `tool_id`',
    id: 'write `tool_id`',
    executor: 'write `executor_id`',
    module: 'write it inside `config`',
    function: 'write it inside `config`',
    url: 'write it inside `config`',
    command: 'write it inside `config`',
    permissions: 'list the needed capabilities in `requires`',
  },
});

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]{0,512})?\}/g;

/** Yields every text in a value with its location, without keys. */
export function* texts(value: Json, place: RulePlace): Generator<[string, RulePlace]> {
  if (typeof value === 'string') yield [value, place];
  else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* texts(item, place.child(index));
  } else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) yield* texts(item, place.child(key));
  }
}

const CONNECT = 'mcp.connect';

/**
 * Completes a connector of an MCP server. If the file names Python and no module, the executor is
 * replaced. Variables in its config count as declared. Only the connector needs the right to connect: an
 * approved tool of the server needs only the right to call it.
 */
function asConnector(tool: Tool): Tool {
  if (tool.tool_type !== 'mcp_connector') return tool;
  const { executor_id = 'python', config, requires, env } = tool;
  const isOurs = /^(?:runtime\/)?python(?:_runtime)?$/.test(executor_id) && !config.module;
  const used = [...JSON.stringify(config).matchAll(VARIABLE)].map(([, name = '']) => name);
  return {
    ...tool,
    executor_id: isOurs ? 'mcp/connector' : executor_id,
    env: [...new Set([...env, ...used])],
    requires: [...new Set([...requires, CONNECT])],
    handsOn: requires.filter((name) => name !== CONNECT),
  };
}

/** Reports undeclared variables, because only declared ones are expanded. */
function checkVariables(config: Json, declared: readonly string[], place: RulePlace): void {
  for (const [content, at] of texts(config, place)) {
    for (const [, name = ''] of content.matchAll(VARIABLE)) {
      if (declared.includes(name)) continue;
      const message = `the config uses \`\${${name}}\`, which \`env\` does not declare`;
      const hint = `add \`env: [${[...declared, name].join(', ')}]\``;
      at.report({ code: 'env_undeclared', message, hint });
    }
  }
}

/** Returns the parts of a config in which placeholders are filled. The text of a script is not a template. */
export const filledConfig = (config: JsonObject, executor: string | undefined): JsonObject => {
  const { script: _, ...rest } = config;
  return executor === 'script' ? rest : config;
};

const OUTSIDE = /^(?:[/\\~]|[A-Za-z]:)|(?:^|[\\/])\.\.(?:[\\/]|$)/;

/** Fields that only a connector may set, because an approved tool of a server must not choose the server. */
const OF_CONNECTOR = ['command', 'args', 'env', 'mcp_url', 'auth', 'headers', 'grants'];

function checkPinned(config: JsonObject, place: RulePlace): void {
  if (config.pin === undefined || config.mcp_tool === undefined) return;
  for (const name of OF_CONNECTOR.filter((field) => Object.hasOwn(config, field))) {
    const message = `a tool with a \`pin\` takes \`config.${name}\` from its connector`;
    place.child(name).report({ code: 'pinned_elsewhere', message, at: 'key' });
  }
}

function checkConfig({ config, env, executor_id }: Tool, place: RulePlace): void {
  checkVariables(filledConfig(config, executor_id), env, place);
  checkPinned(config, place);
  const { module, background } = config;
  if (typeof module === 'string' && OUTSIDE.test(module)) {
    const message = `the module \`${module}\` must be in the folder of the tool or below it`;
    const hint = 'write a path such as `./resize.ts`';
    place.child('module').report({ code: 'module_outside', message, hint });
  }
  if (typeof background === 'boolean') {
    place.child('background').report({
      code: 'field_misplaced',
      severity: 'warning',
      message: '`config.background` has no effect',
      hint: 'write `background: true` at the top level of the file',
      at: 'key',
    });
  }
}

/** Reports a field with two meanings: free text cannot be an identifier or have a kind. */
function checkResult({ result }: Tool, at: RulePlace): void {
  const { free_text = [], identifiers = [], kinds = {} } = result ?? {};
  const free = new Set(free_text);
  const refuse = (where: RulePlace, name: string, field: string) =>
    where.report({
      code: 'invalid_field',
      message: `\`${name}\` is \`free_text\`, so it cannot be among \`${field}\` too`,
      hint: 'remove it from one of the two',
    });
  for (const [index, name] of identifiers.entries()) {
    if (free.has(name)) refuse(at.child('identifiers').child(index), name, 'identifiers');
  }
  for (const name of Object.keys(kinds)) {
    if (free.has(name)) refuse(at.child('kinds').child(name), name, 'kinds');
  }
}

function checkIdentity(fields: Json, tool: Tool, file: string, place: RulePlace): void {
  const expected = (file.split(/[\\/]/).at(-1) ?? '').replace(/\.ya?ml$/, '');
  if (tool.tool_id !== '' && tool.tool_id !== expected) {
    const message = `\`tool_id\` is \`${tool.tool_id}\` but the file is called \`${expected}\``;
    const hint = `write \`tool_id: ${expected}\`, or rename the file to \`${tool.tool_id}.yaml\``;
    place.child('tool_id').report({ code: 'tool_id_mismatch', message, hint });
  }
  if ((getOwn(fields, 'tool_id') ?? null) === null) {
    const hint = `add \`tool_id: ${expected}\``;
    place.report({ code: 'missing_field', message: '`tool_id` is missing', hint });
  }
  const hints = {
    version: 'add `version: "1.0.0"`',
    description: 'describe the tool in one sentence',
  };
  for (const [field, hint] of Object.entries(hints)) {
    if ((getOwn(fields, field) ?? null) !== null) continue;
    const message = `the tool has no \`${field}\``;
    place.report({ code: `${field}_missing`, severity: 'warning', message, hint });
  }
}

/** Returns the fields of the file with defaults for the others. */
function withDefaults(read: NonNullable<ReturnType<typeof fields>>): Tool {
  const { result, ...rest } = read;
  const defaults = {
    tool_id: '',
    tool_type: '',
    version: NO_VERSION,
    description: '',
    category: '',
    config: {},
    parameters: [],
    requires: [],
    env: [],
    dependencies: [],
    actions: [],
    background: false,
    effect: 'write' as const,
    risk: [],
    labels: [],
    sandbox: 'workspace' as const,
  };
  return compact<Tool>({
    ...rest,
    ...defaults,
    ...rest,
    result: result && compact({ ...result, free_text: result.free_text ?? [] }),
  });
}

/** Parses a tool file. Never throws. `file` appears in diagnostics, and its name must match the `tool_id`. */
export function parseTool(content: string, file: string): ParsedTool {
  const { value, place, diagnostics } = openYaml(blankSignatureLine(content), file);
  if (value === null && diagnostics.length > 0) return { diagnostics };
  const read = fields(value, place);
  if (read === undefined) return { diagnostics };
  const tool = asConnector(withDefaults(read));
  checkIdentity(value, tool, file, place);
  checkConfig(tool, place.child('config'));
  checkResult(tool, place.child('result'));
  diagnostics.sort((a, b) => a.line - b.line || a.column - b.column);
  return hasErrors(diagnostics) ? { diagnostics } : { tool, diagnostics };
}

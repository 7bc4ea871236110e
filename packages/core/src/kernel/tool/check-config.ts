// Finds the problems of a merged config before a call: the shape of the primitive and, for a stream, the
// shape of every sink, whose fields come from the destination and the sink's tool.
import {
  compact,
  didYouMean,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  mergeDeep,
  type Outcome,
  ok,
  plainText,
  problemsIn,
  type ShapeProblem,
  textAt,
} from '../../base/index.ts';
import { type Chain, type ConfigFault, type Library, mergedConfig } from '../../items/index.ts';
import type { Primitive } from '../primitive.ts';
import { SINK_SHAPES, sinkId } from '../primitives/config-shapes.ts';
import { PROGRAM } from '../primitives/program-tools.ts';

type Primitives = ReadonlyMap<string, Pick<Primitive, 'config' | 'isOfBundle'>>;
type Shelf = Pick<Library, 'all' | 'find' | 'chainOf'>;

interface SinkConfig {
  /** Config of the sink's tool. Empty for the built-in sink. */
  config: JsonObject;
  rule: Primitive['config'];
}

const shapeOf = (name: Json | undefined): Primitive['config'] =>
  typeof name === 'string' && Object.hasOwn(SINK_SHAPES, name) ? SINK_SHAPES[name] : undefined;

function findSink(type: string, primitives: Primitives, library: Shelf): Outcome<SinkConfig> {
  if (type === 'return') return ok({ config: {}, rule: SINK_SHAPES.return });
  const sinkTool = library.find('tool', sinkId(type));
  if (!sinkTool.ok) {
    const sinks = library.all('tool').flatMap(({ id, tags }) => (tags.includes('sink') ? id : []));
    const hint = didYouMean(type, ['return', 'file_sink', 'null_sink', 'websocket_sink', ...sinks]);
    return fail('not_found', `sink \`${type}\` not found`, compact({ hint }));
  }
  const chain = library.chainOf(sinkTool.output);
  if (!chain.ok) return chain;
  const { links, primitive } = chain.output;
  const config = mergedConfig(links);
  if (primitive !== 'function') return ok({ config, rule: primitives.get(primitive)?.config });
  const rule = shapeOf(config.function);
  return rule ? ok({ config, rule }) : fail('config_invalid', `tool \`${type}\` is not a sink`);
}

function destinationProblems(
  destination: Json,
  at: ShapeProblem['path'],
  primitives: Primitives,
  library: Shelf,
): ShapeProblem[] {
  if (!isObject(destination)) return [];
  const { type } = destination;
  const place = [...at, 'type'];
  if (typeof type !== 'string') {
    const message = 'every destination of a stream needs a `type`';
    return [{ path: type === undefined ? at : place, code: 'missing_field', message }];
  }
  const sink = findSink(type, primitives, library);
  if (!sink.ok) {
    const { message, hint } = sink.error.detail;
    const help = typeof hint === 'string' ? { hint } : {};
    return [{ path: place, code: 'unknown_sink', message, ...help }];
  }
  if (destination.config !== undefined) {
    const hint = 'write its fields beside `type`';
    return [
      { path: [...at, 'config'], code: 'unknown_field', message: 'unknown field `config`', hint },
    ];
  }
  const { config, rule } = sink.output;
  const problems = rule ? problemsIn(mergeDeep(config, destination), at.join('.'), rule) : [];
  return problems.map(({ path, ...rest }) => ({ ...rest, path: [...at, ...path.slice(1)] }));
}

const notShipped = (primitive: string): ShapeProblem => ({
  path: ['executor_id'],
  code: 'invalid_field',
  message: `only shipped tools may use primitive \`${primitive}\``,
  hint: 'call a tool of `read/` with the text and the schema instead',
});

/**
 * Reports a tool of an MCP server without a schema. It would accept the parameters of `mcp_http`, and its
 * server would get none of them.
 */
function schemaProblem(
  primitive: string,
  leaf: Chain['links'][number] | undefined,
): ShapeProblem[] {
  const { config = {}, parameters = [], input_schema } = leaf?.tool ?? {};
  const isPlain = primitive === 'mcp' && config.mcp_tool !== undefined && config.pin === undefined;
  if (!isPlain || input_schema !== undefined || parameters.length > 0) return [];
  const [url, suffix] = [textAt(config, 'mcp_url') || 'URL', `_${plainText(config.mcp_tool)}`];
  const { tool_id = '' } = leaf?.tool ?? {};
  const server = tool_id.endsWith(suffix) ? tool_id.slice(0, -suffix.length) : 'NAME';
  const hint = `remove the file and run its connector, which writes it again with its \`input_schema\`: \`km mcp sync ${server}\`, or \`km mcp add ${server} --url ${url}\``;
  const message = 'a tool of an MCP server has no `input_schema`';
  return [{ path: ['config', 'mcp_tool'], code: 'missing_schema', message, hint }];
}

/**
 * Returns the problems of a config. A field that a parameter of its name fills gets a hint about its
 * placeholder.
 */
function withPlaceholders(
  config: JsonObject,
  links: Chain['links'],
  rule: NonNullable<Primitive['config']>,
): ShapeProblem[] {
  const problems = problemsIn(config, 'config', rule);
  const names = links.flatMap(({ tool }) => tool?.parameters.map(({ name }) => name) ?? []);
  for (const name of names.filter((one) => problems.length > 0 && config[one] === undefined)) {
    const filled = problemsIn({ ...config, [name]: `{${name}}` }, 'config', rule);
    const index = problems.findIndex(
      ({ code, message }) =>
        code === 'missing_field' && !filled.some((one) => one.message === message),
    );
    const missing = problems[index];
    if (missing) problems[index] = { ...missing, hint: `add \`${name}: "{${name}}"\`` };
  }
  return problems;
}

/** Checks the configs of tools for a library. A program vouches for its own tools. */
export function checkConfig(
  config: JsonObject,
  { links, primitive }: Chain,
  primitives: Primitives,
  library: Shelf,
): ShapeProblem[] {
  const { config: rule, isOfBundle } = primitives.get(primitive) ?? {};
  if (isOfBundle && links.some(({ source }) => source !== 'bundle')) return [notShipped(primitive)];
  if (!rule || links[0]?.file.startsWith(PROGRAM)) return [];
  const faults = [...withPlaceholders(config, links, rule), ...schemaProblem(primitive, links[0])];
  const listed = primitive === 'http_client' ? getOwn(config.stream, 'destinations') : [];
  const destinations = Array.isArray(listed) ? listed : [];
  return destinations.reduce<ShapeProblem[]>((all, destination, index) => {
    const at = ['config', 'stream', 'destinations', index];
    return [...all, ...destinationProblems(destination, at, primitives, library)];
  }, faults);
}

/** Returns the refusal of a call of a tool with these config problems. Undefined: there are none. */
export function configFailure(faults: readonly ConfigFault[]): Failure | undefined {
  const [first] = faults;
  if (!first) return undefined;
  const errors = faults
    .filter(({ link }) => link === first.link)
    .map(({ path, message }) => ({ field: path.join('.'), error: message }));
  return fail('config_invalid', first.message, {
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    config_path: first.path.join('.'),
    validation_errors: errors,
  });
}

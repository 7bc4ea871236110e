// Finds connectors, which are tool items that describe other MCP servers. It reads files and calls no server.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  lastSegment,
  type Outcome,
  ok,
  setOwn,
  textAt,
} from '../../base/index.ts';
import type { ToolItem } from '../item.ts';
import type { Library } from './library.ts';

/** A connector and the tool items that were generated for it. */
export interface KnownServer {
  readonly name: string;
  readonly item: ToolItem;
  readonly tools: readonly ToolItem[];
}

/** Returns the name of a connector's server. The capabilities of its tools contain this name. */
export function serverName(config: JsonObject, connector: string): string {
  const own = textAt(config, 'server');
  if (own !== '') return own;
  const [last = '', folder = ''] = connector.split('/').toReversed();
  return last === 'connector' ? folder : last.replace(/[_-]?connector$/, '') || last;
}

/** True if this item was generated for this connector. */
export const isGenerated = ({ source, tool }: ToolItem, connector: string): boolean =>
  source === 'project' &&
  tool?.tool_type === 'mcp_tool' &&
  tool.executor_id === connector &&
  getOwn(tool.config, 'pin') !== undefined;

/** Returns the connectors of a library, except connectors of the bundle. */
export function knownServers({ library }: { library: Pick<Library, 'all'> }): KnownServer[] {
  const all = library.all('tool');
  return all
    .filter(({ tags, source }) => tags.includes('mcp_connector') && source !== 'bundle')
    .map((item) => ({
      name: serverName(item.tool?.config ?? {}, item.id),
      item,
      tools: all.filter((tool) => isGenerated(tool, item.id)),
    }));
}

/** A tool of another server, as scripts call it. */
export interface ConnectorTool {
  readonly id: string;
  /** Name of the tool at its server. */
  readonly name: string;
  readonly schema: JsonObject;
}

const TABLES = ['properties', '$defs', 'definitions'];
const TYPES = ['type', 'enum', 'const', '$ref', 'items', 'anyOf', 'oneOf'];

/**
 * Keeps the parts of a schema that name types, because they decide how arguments are parsed. The call
 * checks the rest.
 */
function typesIn(schema: Json | undefined): Json {
  if (Array.isArray(schema)) return schema.map(typesIn);
  if (!isObject(schema)) return schema ?? null;
  const types: JsonObject = {};
  for (const key of TYPES) {
    const value = getOwn(schema, key);
    if (value === undefined) continue;
    types[key] = key === 'enum' || key === 'const' ? value : typesIn(value);
  }
  for (const key of TABLES) {
    const table = getOwn(schema, key);
    if (!isObject(table)) continue;
    const inner: JsonObject = {};
    for (const [name, value] of Object.entries(table)) setOwn(inner, name, typesIn(value));
    types[key] = inner;
  }
  return types;
}

const toolOf = ({ id, tool }: ToolItem): ConnectorTool => {
  const { config = {}, input_schema: schema = {} } = tool ?? {};
  const types = typesIn(schema);
  return {
    id,
    name: textAt(config, 'mcp_tool') || lastSegment(id),
    schema: isObject(types) ? types : {},
  };
};

/** True for a command line or an address, which only other programs accept as a server. */
const isForeign = (name: string): boolean => /[\s/\\:@]/.test(name);

/** Returns the tools of a connector. Fails with `invalid_input` for a command line or an address, and with `not_found`. */
export function connectorTools(
  library: Pick<Library, 'all'>,
  name: string,
): Outcome<readonly ConnectorTool[]> {
  if (isForeign(name)) {
    const message = `\`${name}\` is not a connector`;
    return fail('invalid_input', message, {
      hint: 'connect it once with `km mcp add NAME …`, then write `from mcp "NAME"`',
    });
  }
  const servers = knownServers({ library });
  const server = servers.find((one) => one.name === name);
  if (server) return ok(server.tools.map(toolOf));
  const names = servers.map((one) => one.name).join(', ');
  return fail('not_found', `connector \`${name}\` not found`, {
    hint: names === '' ? 'connect a server with `km mcp add`' : `use one of: ${names}`,
  });
}

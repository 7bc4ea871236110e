// Other MCP servers, as files tell of them: nothing is asked of a server before a call. For people, and
// for scripts that import tools.
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
import type { Library, ToolItem } from '../../items/index.ts';
import type { ConnectorTool } from '../../script/index.ts';

/** A connector, and the tools that were written for it. */
export interface KnownServer {
  readonly name: string;
  readonly item: ToolItem;
  readonly tools: readonly ToolItem[];
}

/** Other MCP servers, as files tell of them. */
export async function knownServers({ library }: { library: Library }): Promise<KnownServer[]> {
  const { serverName, isGenerated } = await import('../../mcp/index.ts');
  const all = library.all('tool');
  return all
    .filter(({ tags, source }) => tags.includes('mcp_connector') && source !== 'bundle')
    .map((item) => ({
      name: serverName(item.tool?.config ?? {}, item.id),
      item,
      tools: all.filter((tool) => isGenerated(tool, item.id)),
    }));
}

const TABLES = ['properties', '$defs', 'definitions'];
const TYPES = ['type', 'enum', 'const', '$ref', 'items', 'anyOf', 'oneOf'];

/** What of a schema says which types it takes: how arguments are read. The rest is checked by the call. */
function typesIn(schema: Json | undefined): Json {
  if (Array.isArray(schema)) return schema.map(typesIn);
  if (!isObject(schema)) return schema ?? null;
  const kept: JsonObject = {};
  for (const key of TYPES) {
    const value = getOwn(schema, key);
    if (value === undefined) continue;
    kept[key] = key === 'enum' || key === 'const' ? value : typesIn(value);
  }
  for (const key of TABLES) {
    const table = getOwn(schema, key);
    if (!isObject(table)) continue;
    const inner: JsonObject = {};
    for (const [name, value] of Object.entries(table)) setOwn(inner, name, typesIn(value));
    kept[key] = inner;
  }
  return kept;
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

/** A command line or an address, as other programs take it. */
const isForeign = (name: string): boolean => /[\s/\\:@]/.test(name);

export async function connectorTools(
  library: Library,
  name: string,
): Promise<Outcome<readonly ConnectorTool[]>> {
  if (isForeign(name)) {
    const message = `\`${name}\` is no connector: tools come from servers that a person has connected`;
    return fail('invalid_input', message, {
      hint: 'connect it once with `km mcp add NAME …`, then write `from mcp "NAME"`',
    });
  }
  const known = await knownServers({ library });
  const found = known.find((one) => one.name === name);
  if (found) return ok(found.tools.map(toolOf));
  const names = known.map((one) => one.name).join(', ');
  return fail('not_found', `there is no connector \`${name}\``, {
    hint: names === '' ? 'connect a server with `km mcp add`' : `there are: ${names}`,
  });
}

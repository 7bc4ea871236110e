// Reads the tool list of a server, page by page and within bounds. Every field stays in the list,
// because pins cover all of them.
import {
  fail,
  getOwn,
  isDeeperThan,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import type { Client } from '@modelcontextprotocol/client';
import type { ServerTool } from './pool.ts';

const MAX_PAGES = 100;
const MAX_NAME = 256;
/** Maximum nesting of a tool. No reasonable schema is deeper. */
const MAX_SCHEMA_DEPTH = 64;
const MAX_LIST_BYTES = 16 * 1024 * 1024;

/** Accepts any result. The sender of the request validates it. */
export const AS_IT_IS = {
  '~standard': {
    version: 1,
    vendor: 'kernmantle',
    validate: (value: unknown) => ({ value: value as JsonObject }),
  },
} as const;

const unusable = (message: string): Outcome<never> =>
  fail('tool_failed', `the list of tools ${message}`, { method: 'tools/list' });

function toolOf(listed: Json): Outcome<ServerTool> {
  const name = getOwn(listed, 'name');
  if (!isObject(listed) || typeof name !== 'string' || name === '' || name.length > MAX_NAME) {
    return unusable('contains a tool without a valid name');
  }
  if (!isObject(getOwn(listed, 'inputSchema')) || isDeeperThan(listed, MAX_SCHEMA_DEPTH)) {
    return unusable(`contains \`${name}\` without a valid \`inputSchema\``);
  }
  return ok({ name, definition: listed });
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HEADER_TYPES: readonly unknown[] = ['string', 'integer', 'boolean'];
const HEADER = 'x-mcp-header';

/** Checks the parameters that a schema maps to headers (revision 2026-07-28, HTTP). */
export function hasValidHeaders(schema: Json): boolean {
  const headers = new Set<string>();
  const visit = (node: Json, isReachable: boolean): boolean => {
    if (Array.isArray(node)) return node.every((one) => visit(one, false));
    if (!isObject(node)) return true;
    const name = getOwn(node, HEADER);
    if (name !== undefined) {
      const isNamed =
        typeof name === 'string' && TOKEN.test(name) && !headers.has(name.toLowerCase());
      if (!isReachable || !isNamed || !HEADER_TYPES.includes(node['type'])) return false;
      headers.add(name.toLowerCase());
    }
    return Object.entries(node).every(([key, child]) =>
      key === 'properties' && isObject(child)
        ? Object.values(child).every((one) => visit(one, isReachable))
        : IS_SCHEMA.has(key)
          ? visit(child, false)
          : SCHEMAS_BY_NAME.has(key) && isObject(child)
            ? Object.values(child).every((one) => visit(one, false))
            : true,
    );
  };
  // The schema as a whole is not a parameter and cannot be mapped to a header.
  return getOwn(schema, HEADER) === undefined && visit(schema, true);
}

const IS_SCHEMA = new Set(
  'items prefixItems contains additionalProperties unevaluatedProperties unevaluatedItems propertyNames oneOf anyOf allOf not if then else contentSchema'.split(
    ' ',
  ),
);
const SCHEMAS_BY_NAME = new Set(['patternProperties', 'dependentSchemas', '$defs', 'definitions']);

export const repeatsAsHeader = ({ definition }: ServerTool): boolean =>
  JSON.stringify(definition['inputSchema']).includes(`"${HEADER}"`);

interface WalkOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly maxTools: number;
  readonly meta: JsonObject;
}

/** Reads all pages. Fails with `tool_failed` for an unusable list. Throws the errors of the SDK. */
export async function readTools(
  client: Client,
  { signal, timeoutMs, maxTools, meta }: WalkOptions,
): Promise<Outcome<ServerTool[]>> {
  if (client.getServerCapabilities()?.tools === undefined) return ok([]);
  const byName = new Map<string, ServerTool>();
  let [cursor, bytes]: [string | undefined, number] = [undefined, 0];
  for (let pages = 1; ; pages++) {
    const params: JsonObject = {
      ...(cursor !== undefined && { cursor }),
      ...(Object.keys(meta).length > 0 && { _meta: meta }),
    };
    const options = { signal, timeout: timeoutMs };
    const page = await client.request({ method: 'tools/list', params }, AS_IT_IS, options);
    const tools = getOwn(page, 'tools');
    if (!Array.isArray(tools)) return unusable('must be an array');
    bytes += JSON.stringify(tools).length;
    for (const listed of tools) {
      const tool = toolOf(listed);
      if (!tool.ok) return tool;
      if (byName.has(tool.output.name)) return unusable(`contains \`${tool.output.name}\` twice`);
      byName.set(tool.output.name, tool.output);
    }
    if (byName.size > maxTools) return unusable(`contains more than ${maxTools} tools`);
    if (bytes > MAX_LIST_BYTES) return unusable(`is longer than ${MAX_LIST_BYTES} bytes`);
    const next = getOwn(page, 'nextCursor');
    if (typeof next !== 'string' || next === '') return ok([...byName.values()]);
    if (next === cursor || pages === MAX_PAGES) return unusable('does not end');
    cursor = next;
  }
}

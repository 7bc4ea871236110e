// Implements the primitive `mcp`: the end of the chains of connectors, of generated tools, and of `mcp_stdio`
// and `mcp_http`. The config selects one of the three.
import {
  fail,
  getOwn,
  isObject,
  type Outcome,
  ok,
  textAt,
  withDetail,
} from '@kernmantle/core/base';
import { markFailure } from '@kernmantle/core/flow';
import { serverName } from '@kernmantle/core/items';
import type { Primitive, PrimitiveCall, PrimitiveResult } from '@kernmantle/core/kernel';
import type { Endpoint, McpPool } from '../client/pool.ts';
import { callTool, FOREIGN, LABELS, poolCall } from './call.ts';
import { readConnection, type ServerPlace } from './endpoint.ts';
import { type SyncPorts, syncConnector } from './sync.ts';

type Result = Promise<Outcome<PrimitiveResult>>;

/** Checks the permission to connect, and for a server that the caller names also to start or reach it. */
function mayConnect({ verify }: PrimitiveCall, endpoint?: Endpoint): Outcome<null> {
  const permission = verify({ capability: 'mcp.connect' });
  if (!permission.ok || endpoint === undefined) return permission;
  if (endpoint.kind === 'stdio') return verify({ capability: 'process.spawn' });
  const host = new URL(endpoint.url).hostname;
  return verify({ capability: 'net.http', scope: { host, method: 'POST' } });
}

/** Checks the permission to call the server, whose name is that of its connector. */
function mayCall(library: SyncPorts['library'], { tool, verify }: PrimitiveCall): Outcome<null> {
  const chain = library.chain(tool.id);
  if (!chain.ok) return chain;
  const [leaf, ...below] = chain.output.links;
  const connector = below.find(({ tags }) => tags.includes('mcp_connector'));
  if (!leaf || !connector) {
    return fail('config_invalid', `\`${tool.id}\` has a pin but no connector`, {
      config_path: 'config.pin',
    });
  }
  const server = serverName(connector.tool?.config ?? {}, connector.id);
  const read = `mcp.${server}.read`;
  const isRead = leaf.signature.state === 'signed' && tool.requires.includes(read);
  return verify({ capability: isRead ? read : `mcp.${server}.call` });
}

async function request(pool: McpPool, { endpoint }: ServerPlace, call: PrimitiveCall): Result {
  // A caller cannot override values in the file of the tool.
  const settings = { ...call.parameters, ...call.config };
  const method = textAt(settings, 'method') || textAt(settings, 'rpc_method');
  if (!/^[A-Za-z0-9_$./-]{1,200}$/.test(method) || method === 'initialize') {
    return fail('invalid_input', `method \`${method}\` is not supported`);
  }
  const value = getOwn(settings, 'params') ?? getOwn(settings, 'rpc_params') ?? {};
  const params = isObject(value) ? value : {};
  const answered = await pool.request(endpoint, { method, params }, poolCall(call));
  if (!answered.ok) return answered;
  const { result, marks } = answered.output;
  return ok({ output: { result }, labels: [...LABELS], marks });
}

/**
 * INVARIANT: a program that a caller names never sees more than that caller. It is started for one
 * call and serves no other.
 */
async function withPool(
  ports: SyncPorts,
  { endpoint }: ServerPlace,
  { verify }: PrimitiveCall,
  work: (pool: McpPool) => Result,
): Result {
  if (!(endpoint.kind === 'stdio' && endpoint.isDirect)) return await work(ports.pool);
  const pool = await ports.openFor(verify);
  try {
    return await work(pool);
  } finally {
    await pool.close();
  }
}

async function run(ports: SyncPorts, call: PrimitiveCall): Result {
  const { config, tool, secrets } = call;
  const isTool = getOwn(config, 'mcp_tool') !== undefined;
  const isDirect = getOwn(config, 'direct') !== undefined;
  const read = readConnection(config, serverName(config, tool.id), secrets);
  if (!read.ok) return read;
  const connection = read.output;
  const isPinned = isTool && getOwn(config, 'pin') !== undefined;
  const allowed = isPinned
    ? mayCall(ports.library, call)
    : mayConnect(call, isTool || isDirect ? connection.endpoint : undefined);
  if (!allowed.ok) return allowed;
  const result = isTool
    ? await withPool(ports, connection, call, (pool) => callTool(pool, connection, call))
    : isDirect
      ? await withPool(ports, connection, call, (pool) => request(pool, connection, call))
      : await syncConnector(ports, connection, call);
  if (result.ok) return result;
  // Listing tools has no effect, so it can be retried.
  const failed = isTool || isDirect ? result : withDetail(result, { sent: false });
  return markFailure(failed, FOREIGN);
}

export function createMcpPrimitive(ports: SyncPorts): Primitive {
  return {
    name: 'mcp',
    run: (call) => run(ports, call),
    plan({ config, tool }) {
      const name = textAt(config, 'mcp_tool');
      const server = textAt(config, 'mcp_url') || textAt(config, 'command');
      return { mcp: name ? 'call' : 'sync', server, ...(name && { tool: name }), id: tool.id };
    },
  };
}

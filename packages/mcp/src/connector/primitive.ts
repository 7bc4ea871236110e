// The primitive `mcp`: the end of the chains of connectors, of the tools they wrote, and of `mcp_stdio`
// and `mcp_http`. Which of the three a call is stands in its config.
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

/** Whoever names the server himself starts a process or sends to a host of his own choice. */
function mayConnect({ verify }: PrimitiveCall, endpoint?: Endpoint): Outcome<null> {
  const held = verify({ capability: 'mcp.connect' });
  if (!held.ok || endpoint === undefined) return held;
  if (endpoint.kind === 'stdio') return verify({ capability: 'process.spawn' });
  const host = new URL(endpoint.url).hostname;
  return verify({ capability: 'net.http', scope: { host, method: 'POST' } });
}

/**
 * The right to call this server: by the name that its connector has, whatever the tool's file says, and in
 * the milder form only where a person has signed that it reads.
 */
function mayCall(library: SyncPorts['library'], { tool, verify }: PrimitiveCall): Outcome<null> {
  const chain = library.chain(tool.id);
  if (!chain.ok) return chain;
  const [leaf, ...below] = chain.output.links;
  const connector = below.find(({ tags }) => tags.includes('mcp_connector'));
  if (!leaf || !connector) {
    return fail('config_invalid', `\`${tool.id}\` has a pin and no connector`, {
      config_path: 'config.pin',
    });
  }
  const server = serverName(connector.tool?.config ?? {}, connector.id);
  const read = `mcp.${server}.read`;
  const isRead = leaf.signature.state === 'signed' && tool.requires.includes(read);
  return verify({ capability: isRead ? read : `mcp.${server}.call` });
}

async function request(pool: McpPool, { endpoint }: ServerPlace, call: PrimitiveCall): Result {
  // What a tool's file fixes is not its caller's to choose.
  const asked = { ...call.parameters, ...call.config };
  const method = textAt(asked, 'method') || textAt(asked, 'rpc_method');
  if (!/^[A-Za-z0-9_$./-]{1,200}$/.test(method) || method === 'initialize') {
    return fail('invalid_input', `\`${method}\` is no method that could be asked for`);
  }
  const given = getOwn(asked, 'params') ?? getOwn(asked, 'rpc_params') ?? {};
  const params = isObject(given) ? given : {};
  const answered = await pool.request(endpoint, { method, params }, poolCall(call));
  if (!answered.ok) return answered;
  const { result, marks } = answered.output;
  return ok({ output: { result }, labels: [...LABELS], marks });
}

/**
 * INVARIANT: a program that a caller names never sees more than that caller. It is started for this call and
 * serves nobody else.
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
  const done = isTool
    ? await withPool(ports, connection, call, (pool) => callTool(pool, connection, call))
    : isDirect
      ? await withPool(ports, connection, call, (pool) => request(pool, connection, call))
      : await syncConnector(ports, connection, call);
  if (done.ok) return done;
  // Listing what there is has no effect: it may be tried again.
  const failed = isTool || isDirect ? done : withDetail(done, { sent: false });
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

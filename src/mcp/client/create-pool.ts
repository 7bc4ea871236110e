// The pool itself: what may be asked of a server, over connections that come and go.
import { asJson, createRedactor, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { EMPTY, markFailure, mergeDescriptors } from '../../flow/index.ts';
import type { McpConnection, ServerRequest } from './connection.ts';
import { createConnections } from './connections.ts';
import { redacted } from './failures.ts';
import { waitedFor } from './pace.ts';
import type { Endpoint, Listing, McpPool, PoolCall, ServerAnswer } from './pool.ts';
import { type McpPoolPorts, POOL_LIMITS } from './ports.ts';

/** A person who logs in needs longer than a server that starts. */
const LOGIN_MS = 600_000;

export function createMcpPool(ports: McpPoolPorts): McpPool {
  const limits = { ...POOL_LIMITS, ...ports.limits };
  const connectMs = ports.authorize ? Math.max(LOGIN_MS, limits.connectMs) : limits.connectMs;
  const connections = createConnections(ports, { ...limits, connectMs });

  async function ask(
    endpoint: Endpoint,
    request: ServerRequest,
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>> {
    let isForgotten = false;
    const work = async (connection: McpConnection, timed: PoolCall) => {
      const answer = await connection.ask(request, timed);
      isForgotten = connection.isForgotten;
      return answer;
    };
    const first = await connections.use(endpoint, call, work);
    // It was turned away with the session it belonged to, so it was not done.
    return !first.ok && isForgotten ? await connections.use(endpoint, call, work) : first;
  }

  return {
    list: (endpoint, call) =>
      connections.use(endpoint, call, async (connection, timed) => {
        const given = await connection.give(call.given);
        if (!given.ok) return given;
        const listed = await waitedFor(connection.list(call.fresh ?? false), timed);
        const seen = await connection.give(EMPTY);
        if (!seen.ok) return seen;
        const marks = mergeDescriptors(given.output, seen.output);
        if (!listed.ok) return markFailure(redacted(listed, call.secrets), marks);
        const { server, tools } = listed.output;
        const { json } = createRedactor(call.secrets);
        return ok({ ...(json(asJson({ server, tools })) as unknown as Listing), marks });
      }),
    call(endpoint, { name, arguments: given }, call) {
      const params: JsonObject = { name, arguments: given };
      return ask(endpoint, { method: 'tools/call', params }, call);
    },
    request: ask,
    close: () => connections.close(),
  };
}

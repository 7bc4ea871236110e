// Creates the pool: requests to servers over connections that open and close as needed.
import { asJson, createRedactor, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { EMPTY, markFailure, mergeDescriptors } from '@kernmantle/core/flow';
import type { McpConnection, ServerRequest } from './connection.ts';
import { createConnections } from './connections.ts';
import { redacted } from './failures.ts';
import { waitedFor } from './pace.ts';
import type { Endpoint, Listing, McpPool, PoolCall, ServerAnswer } from './pool.ts';
import { type McpPoolPorts, POOL_LIMITS } from './ports.ts';

/** Timeout of a connection that can wait for a login, which takes longer than the start of a server. */
const LOGIN_MS = 600_000;

export function createMcpPool(ports: McpPoolPorts): McpPool {
  const limits = { ...POOL_LIMITS, ...ports.limits };
  const connectMs = ports.authorize ? Math.max(LOGIN_MS, limits.connectMs) : limits.connectMs;
  const connections = createConnections(ports, { ...limits, connectMs });

  /** Repeats a request that the server did not execute because it had dropped the session. */
  async function use<T>(
    endpoint: Endpoint,
    call: PoolCall,
    work: (connection: McpConnection, call: PoolCall) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    let isForgotten = false;
    const noting = async (connection: McpConnection, timed: PoolCall) => {
      const result = await work(connection, timed);
      isForgotten = connection.isForgotten;
      return result;
    };
    const first = await connections.use(endpoint, call, noting);
    return !first.ok && isForgotten ? await connections.use(endpoint, call, noting) : first;
  }

  const ask = (
    endpoint: Endpoint,
    request: ServerRequest,
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>> =>
    use(endpoint, call, (connection, timed) => connection.ask(request, timed));

  async function list(
    connection: McpConnection,
    timed: PoolCall,
    isFresh: boolean,
  ): Promise<Outcome<Listing>> {
    const recorded = await connection.give(timed.given);
    if (!recorded.ok) return recorded;
    // A cached list needs no marks: nothing goes to the server and nothing new comes back.
    const cached = isFresh ? undefined : connection.kept();
    const listed = cached ? ok(cached) : await waitedFor(connection.list(isFresh), timed);
    const current = cached ? recorded : await connection.give(EMPTY);
    if (!current.ok) return current;
    const marks = mergeDescriptors(recorded.output, current.output);
    if (!listed.ok) return markFailure(redacted(listed, timed.secrets), marks);
    const { server, tools } = listed.output;
    const redact = createRedactor(timed.secrets);
    if (redact.isIdle) return ok({ server, tools, marks });
    return ok({ ...(redact.json(asJson({ server, tools })) as unknown as Listing), marks });
  }

  return {
    list: (endpoint, call) =>
      use(endpoint, call, (connection, timed) => list(connection, timed, call.fresh ?? false)),
    call(endpoint, { name, arguments: input }, call) {
      const params: JsonObject = { name, arguments: input };
      return ask(endpoint, { method: 'tools/call', params }, call);
    },
    request: ask,
    close: () => connections.close(),
  };
}

// Manages sessions of the older protocol revision over HTTP: a client initializes once and then names its
// session, over which the server can also send requests. A session belongs to the client that
// opened it. The number of sessions and their idle time are bounded.
import { randomUUID } from 'node:crypto';
import type { Clock, Json } from '@kernmantle/core/base';
import {
  isInitializeRequest,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Exchange } from './exchanges.ts';
import type { McpClient } from './host.ts';

/** Maximum number of sessions per client. */
const MAX_OWN = 32;
const MAX_ALL = 256;
const IDLE_MS = 30 * 60 * 1000;
const SWEEP_MS = 60 * 1000;

type SessionClient = Omit<McpClient, 'name'>;

interface Session {
  readonly id: string;
  readonly client: string;
  readonly server: McpServer;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly ready: Promise<void>;
  /** Number of open requests and streams. */
  open: number;
  usedAt: number;
}

/** Returns an HTTP error response in the format of the protocol. */
export const refusal = (
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  code = -32_000,
): Response =>
  Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status, headers });

const SESSION_NOT_FOUND = -32_001;

interface SessionPorts {
  readonly clock: Pick<Clock, 'monotonic'>;
  create(client: SessionClient): McpServer;
  onError(error: Error): void;
}

export function createSessions({ clock, create, onError }: SessionPorts) {
  const sessions = new Map<string, Session>();
  const own = (client: string): Session[] =>
    [...sessions.values()].filter((session) => session.client === client);

  async function end(session: Session): Promise<void> {
    sessions.delete(session.id);
    await session.server.close().catch(onError);
  }

  /** Ends sessions that have been idle for too long. */
  async function sweep(): Promise<void> {
    const since = clock.monotonic() - IDLE_MS;
    const old = [...sessions.values()].filter(({ open, usedAt }) => open === 0 && usedAt <= since);
    await Promise.all(old.map(end));
  }
  const timer = setInterval(() => void sweep(), SWEEP_MS).unref();

  /** Returns true if the client may open a session. May end its session that was idle longest. */
  function makeRoom(client: string): boolean {
    const mine = own(client);
    if (mine.length >= MAX_OWN) {
      const idle = mine.filter(({ open }) => open === 0);
      const [oldest] = idle.toSorted((a, b) => a.usedAt - b.usedAt);
      if (!oldest) return false;
      void end(oldest);
    }
    return sessions.size < MAX_ALL;
  }

  function begin(client: SessionClient): Session {
    const id = randomUUID();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
    });
    const server = create(client);
    const { onclose } = server.server;
    const closed = (): void => {
      onclose?.();
      sessions.delete(id);
    };
    Object.assign(server.server, { onclose: closed, onerror: onError });
    const ready = server.connect(transport);
    const session = { id, client: client.id, server, transport, ready, open: 0, usedAt: 0 };
    sessions.set(id, session);
    return session;
  }

  async function answer(
    session: Session,
    request: Request,
    parsedBody: Json | undefined,
    exchange: Exchange,
  ): Promise<Response> {
    session.open += 1;
    session.usedAt = clock.monotonic();
    exchange.after(() => {
      session.open -= 1;
      session.usedAt = clock.monotonic();
    });
    await session.ready;
    return await session.transport.handleRequest(request, { parsedBody });
  }

  return {
    async serve(
      request: Request,
      body: Json | undefined,
      client: SessionClient,
      exchange: Exchange,
    ): Promise<Response> {
      const id = request.headers.get('mcp-session-id');
      const namedSession = id === null ? undefined : sessions.get(id);
      // The answer does not reveal whether another client has a session of this name.
      if (namedSession?.client === client.id)
        return await answer(namedSession, request, body, exchange);
      if (id !== null) return refusal(404, 'Session not found', {}, SESSION_NOT_FOUND);
      if (!isInitializeRequest(body)) {
        return refusal(400, 'Bad Request: Mcp-Session-Id header is required');
      }
      if (!makeRoom(client.id)) {
        return refusal(503, 'too many sessions are open', { 'retry-after': '60' });
      }
      const session = begin(client);
      const response = await answer(session, request, body, exchange);
      if (!response.ok) await end(session);
      return response;
    },
    count: (): number => sessions.size,
    sweep,
    async endOf(client: string): Promise<void> {
      await Promise.all(own(client).map(end));
    },
    async close(): Promise<void> {
      clearInterval(timer);
      await Promise.all([...sessions.values()].map(end));
    },
  };
}

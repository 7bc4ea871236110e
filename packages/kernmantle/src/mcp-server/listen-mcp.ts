// Serves MCP over HTTP at `/mcp`. The request guard checks every request first.
import type { HttpBindings } from '@hono/node-server';
import { fail, messageOf, type Outcome, ok, systemClock } from '@kernmantle/core/base';
import { createMcpHttp, type HttpOptions, type McpClient, type McpHost } from '@kernmantle/mcp';
import {
  addHeaders,
  createGuard,
  inUrl,
  isLoopback,
  openListener,
  type Rejection,
  type TokenStore,
  withProcessToken,
} from '@kernmantle/web';
import { Hono } from 'hono';

interface ListenOptions extends Omit<HttpOptions, 'clock'> {
  /** Address to bind. Default `127.0.0.1`. Other addresses need at least one token. */
  readonly hostname?: string;
  /** Port of the server. Absent: any free port. */
  readonly port?: number;
  readonly tokens: TokenStore;
  readonly clock?: typeof systemClock;
  onRefused(address: string, reason: string): void;
}

interface Listening {
  readonly url: string;
  /**
   * Bearer token with the role `steer`, valid while this server runs. Absent if other machines can
   * connect.
   */
  readonly token?: string;
  close(): Promise<void>;
}

/** Interval between checks whether the tokens of open streams are still valid. */
const TOKENS_MS = 1000;

interface ListenerEnv {
  Bindings: HttpBindings;
  Variables: { client: Omit<McpClient, 'name'> };
}

function refuse(verdict: Rejection): Response {
  const { status, message, wait, isWithoutToken } = verdict;
  const error = isWithoutToken ? '' : ', error="invalid_token"';
  const headers = {
    ...(status === 401 ? { 'www-authenticate': `Bearer realm="kernmantle"${error}` } : {}),
    ...(wait === undefined ? {} : { 'retry-after': String(wait) }),
  };
  const body = { jsonrpc: '2.0', error: { code: -32_000, message }, id: null };
  return Response.json(body, { status, headers });
}

export async function listenForMcp(
  host: McpHost,
  options: ListenOptions,
): Promise<Outcome<Listening>> {
  const { hostname = '127.0.0.1', tokens, clock = systemClock, onRefused } = options;
  if (!isLoopback(hostname)) {
    const entries = tokens.list();
    if (!entries.ok) return entries;
    if (!entries.output.some(({ id }) => tokens.counts(id))) {
      const message = `other machines can reach \`${hostname}\`, and this project has no token; create one first`;
      return fail('permission_denied', message, { missing: 'token' });
    }
  }
  const mcp = await createMcpHttp(host, { ...options, clock });
  let port = options.port ?? 0;
  const own = isLoopback(hostname) ? withProcessToken(tokens) : { tokens };
  const guard = createGuard({ hostname, port: () => port, clock, onRefused, tokens: own.tokens });
  const app = new Hono<ListenerEnv>();
  app.use(async (context, next) => {
    const { incoming } = context.env;
    const { headers } = context.req.raw;
    const verdict = guard.judge(headers, incoming.socket.remoteAddress ?? '', incoming.url);
    if ('client' in verdict) {
      context.set('client', verdict.client);
      await next();
    } else if (verdict.status === 401 && context.req.path.startsWith('/.well-known/')) {
      // Clients that look for another way to log in get a clear 404.
      context.res = refuse({ status: 404, message: 'not found; the server is at `/mcp`' });
    } else context.res = refuse(verdict);
    addHeaders(context.res.headers);
  });
  app.all('/mcp', (context) => mcp.fetch(context.req.raw, context.get('client')));
  app.onError((error) => {
    host.onError(error);
    return refuse({ status: 500, message: 'Internal server error' });
  });
  const onError = (error: Error): void => host.onError(error);
  const opened = await openListener({ fetch: app.fetch, hostname, port, onError });
  if (!opened.ok) {
    await mcp.close();
    return opened;
  }
  port = opened.output.port;
  const timer = setInterval(() => {
    for (const id of mcp.clients()) {
      if (id.startsWith('token_') && !tokens.counts(id)) void mcp.end(id);
    }
  }, TOKENS_MS).unref();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    clearInterval(timer);
    const closed = opened.output.close();
    await mcp.close();
    await closed;
  };
  return ok({
    url: `http://${inUrl(hostname)}:${port}/mcp`,
    ...('token' in own && { token: own.token }),
    close: () => (closing ??= close().catch((error) => host.onError(new Error(messageOf(error))))),
  });
}

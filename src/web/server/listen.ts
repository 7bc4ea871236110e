// The one listener over HTTP: the guard stands before everything, `/mcp` is the protocol, and whatever
// else is served hangs into the same app.
import type { Server } from 'node:http';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { type Clock, fail, messageOf, type Outcome, ok, systemClock } from '../../base/index.ts';
import { createMcpHttp, type HttpOptions, type McpClient, type McpHost } from '../../mcp/index.ts';
import { type Admission, createGuard, inUrl, isLoopback } from './request-guard.ts';
import type { TokenStore } from './tokens.ts';

interface ListenOptions extends Omit<HttpOptions, 'clock'> {
  /** `127.0.0.1` unless said otherwise. Anything but loopback needs tokens, and there must be one. */
  readonly hostname?: string;
  /** Any that is free unless said otherwise. */
  readonly port?: number;
  readonly tokens: TokenStore;
  readonly clock?: Clock;
  onRefused(address: string, reason: string): void;
}

interface Listening {
  /** Where clients connect. */
  readonly url: string;
  /** Only this machine can connect, and needs no token. */
  readonly isOpen: boolean;
  /** Streams are told, then everything is closed; nothing stays behind. */
  close(): Promise<void>;
}

/** A client that says nothing is not waited for: headers, then the whole request. */
const HEADERS_MS = 5000;
const REQUEST_MS = 60_000;
const LOOK_MS = 1000;
const MAX_CONNECTIONS = 1000;
/** What is still on its way at the end gets so long. */
const GRACE_MS = 1000;
const IDLE_MS = 20;
/** How often open streams are asked whether their token still counts. */
const TOKENS_MS = 1000;

const HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

interface Env {
  Bindings: HttpBindings;
  Variables: { client: Omit<McpClient, 'name'> };
}

function refuse(verdict: Exclude<Admission, { client: unknown }>): Response {
  const { status, message, wait } = verdict;
  const error = message.startsWith('a bearer') ? '' : ', error="invalid_token"';
  const headers = {
    ...(status === 401 ? { 'www-authenticate': `Bearer realm="kernmantle"${error}` } : {}),
    ...(wait === undefined ? {} : { 'retry-after': String(wait) }),
  };
  const body = { jsonrpc: '2.0', error: { code: -32_000, message }, id: null };
  return Response.json(body, { status, headers });
}

/** Binds, or says why that is not possible. */
const bound = (server: Server, hostname: string, port: number): Promise<Outcome<number>> =>
  new Promise((resolve) => {
    const onError = (error: Error): void => {
      resolve(fail('invalid_input', `cannot listen on ${hostname}:${port}: ${error.message}`));
    };
    if (!Number.isInteger(port) || port < 0 || port > 65_535) {
      onError(new Error('there is no such port'));
      return;
    }
    server.once('error', onError);
    server.listen(port, hostname, () => {
      server.off('error', onError);
      const address = server.address();
      resolve(ok(typeof address === 'object' ? (address?.port ?? port) : port));
    });
  });

/** Nothing is accepted any more; what is not over after the grace is cut. */
const ended = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
    // Connections are kept for a next request; those whose answer has just ended, too.
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS);
    server.close(() => {
      clearTimeout(timer);
      clearInterval(idle);
      resolve();
    });
  });

export async function listen(host: McpHost, options: ListenOptions): Promise<Outcome<Listening>> {
  const { hostname = '127.0.0.1', tokens, clock = systemClock, onRefused } = options;
  if (!isLoopback(hostname)) {
    const known = tokens.list();
    if (!known.ok) return known;
    if (!known.output.some(({ id }) => tokens.counts(id))) {
      const message = `\`${hostname}\` can be reached by others, and this project has no token; make one first`;
      return fail('permission_denied', message, { missing: 'token' });
    }
  }
  const mcp = createMcpHttp(host, { ...options, clock });
  let port = options.port ?? 0;
  const guard = createGuard({ hostname, port: () => port, tokens, clock, onRefused });
  const app = new Hono<Env>();
  app.use(async (context, next) => {
    const { incoming } = context.env;
    const { headers } = context.req.raw;
    const verdict = guard.judge(headers, incoming.socket.remoteAddress ?? '', incoming.url);
    if ('client' in verdict) {
      context.set('client', verdict.client);
      await next();
    } else if (verdict.status === 401 && context.req.path.startsWith('/.well-known/')) {
      // Whoever looks for another way to log in is told that there is none.
      context.res = refuse({ status: 404, message: 'there is nothing here' });
    } else context.res = refuse(verdict);
    for (const [name, value] of Object.entries(HEADERS)) {
      if (!context.res.headers.has(name)) context.res.headers.set(name, value);
    }
  });
  app.all('/mcp', (context) => mcp.fetch(context.req.raw, context.get('client')));
  app.onError((error) => {
    host.onError(error);
    return refuse({ status: 500, message: 'Internal server error' });
  });
  const server = createAdaptorServer({
    fetch: app.fetch,
    overrideGlobalObjects: false,
    serverOptions: {
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: LOOK_MS,
    },
  }) as Server;
  server.maxConnections = MAX_CONNECTIONS;
  const listening = await bound(server, hostname, port);
  if (!listening.ok) {
    await mcp.close();
    return listening;
  }
  port = listening.output;
  server.on('error', (error) => host.onError(error));
  const timer = setInterval(() => {
    for (const id of mcp.clients()) {
      if (id.startsWith('token_') && !tokens.counts(id)) void mcp.end(id);
    }
  }, TOKENS_MS).unref();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    clearInterval(timer);
    const done = ended(server);
    await mcp.close();
    await done;
  };
  return ok({
    url: `http://${inUrl(hostname)}:${port}/mcp`,
    isOpen: isLoopback(hostname),
    close: () => (closing ??= close().catch((error) => host.onError(new Error(messageOf(error))))),
  });
}

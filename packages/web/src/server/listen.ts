// A listener over HTTP or TLS, for MCP and for the page. Silent clients time out, and close leaves
// no connection open.
import type { Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createAdaptorServer } from '@hono/node-server';
import { fail, messageOf, type Outcome, ok } from '@kernmantle/core/base';

/** Time limit for the headers, then for the whole request. */
const HEADERS_MS = 5000;
const REQUEST_MS = 60_000;
const POLL_MS = 1000;
const MAX_CONNECTIONS = 1000;
/** Open requests get this much time to finish at the end. */
const GRACE_MS = 1000;
const IDLE_MS = 20;

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

interface OpenOptions {
  readonly fetch: Parameters<typeof createAdaptorServer>[0]['fetch'];
  readonly hostname: string;
  readonly port: number;
  readonly tls?: TlsFiles | undefined;
  onError(error: Error): void;
}

/** Binds the server, or returns the reason of the failure. */
const bind = (server: Server, hostname: string, port: number): Promise<Outcome<number>> =>
  new Promise((resolve) => {
    const onError = (error: Error & { code?: string }): void => {
      const message = `cannot listen on ${hostname}:${port}: ${error.message}`;
      resolve(fail('invalid_input', message, { reason: error.code ?? '' }));
    };
    if (!Number.isInteger(port) || port < 0 || port > 65_535) {
      onError(new Error('the port must be a whole number from 0 to 65535'));
      return;
    }
    server.once('error', onError);
    server.listen(port, hostname, () => {
      server.off('error', onError);
      const address = server.address();
      resolve(ok(typeof address === 'object' ? (address?.port ?? port) : port));
    });
  });

/** Accepts no new connections, and closes the remaining ones after the grace time. */
const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
    // A client keeps its connection for a next request, also after its last answer.
    const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS);
    server.close(() => {
      clearTimeout(timer);
      clearInterval(idle);
      resolve();
    });
  });

function createServer({ fetch, tls }: OpenOptions): Outcome<Server> {
  const limits = {
    headersTimeout: HEADERS_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: POLL_MS,
  };
  const plain = { fetch, overrideGlobalObjects: false };
  try {
    const server = tls
      ? createAdaptorServer({
          ...plain,
          createServer: createTlsServer,
          serverOptions: { ...limits, ...tls, minVersion: 'TLSv1.2' },
        })
      : createAdaptorServer({ ...plain, serverOptions: limits });
    return ok(server as Server);
  } catch (error) {
    // The system's error text contains no part of the key.
    return fail('invalid_input', `certificate and key cannot be used: ${messageOf(error)}`);
  }
}

export interface OpenListener {
  readonly server: Server;
  readonly port: number;
  /** Resolves when every connection is closed. */
  close(): Promise<void>;
}

export async function openListener(options: OpenOptions): Promise<Outcome<OpenListener>> {
  const result = createServer(options);
  if (!result.ok) return result;
  const server = result.output;
  server.maxConnections = MAX_CONNECTIONS;
  const listening = await bind(server, options.hostname, options.port);
  if (!listening.ok) return listening;
  server.on('error', (error) => options.onError(error));
  return ok({ server, port: listening.output, close: () => closeServer(server) });
}

// Serves both protocol revisions at one address. The current revision has no sessions: each request
// is complete and gets its own server. The older one uses sessions. The caller has already checked
// tokens, hosts and origins.
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock, type Json, parseJson, systemClock } from '@kernmantle/core/base';
import {
  createMcpHandler,
  isJsonContentType,
  isLegacyRequest,
  readRequestBody,
  type ServerEventBus,
} from '@modelcontextprotocol/server';
import { createExchanges } from './exchanges.ts';
import type { ChangeListener, Changes, McpClient, McpHost } from './host.ts';
import { createChanges, listedUris } from './resources-changes.ts';
import { createMcpServer, type ServerOptions } from './server.ts';
import { createSessions, refusal } from './sessions.ts';

const MAX_BODY = 4 * 1024 * 1024;
/**
 * Maximum number of open requests and streams of one client, so that no client blocks the others.
 */
const MAX_OPEN = 256;
/** Maximum number of messages in a batch, which counts as one open request. */
const MAX_BATCH = 20;

type HttpClient = Omit<McpClient, 'name'>;

export interface HttpOptions extends ServerOptions {
  readonly changes?: Changes;
  readonly clock?: Pick<Clock, 'monotonic'>;
}

interface McpHttp {
  /** `client` is authenticated by the caller. Never throws. */
  fetch(request: Request, client: HttpClient): Promise<Response>;
  /** Ids of clients with an open request or stream. */
  clients(): ReadonlySet<string>;
  /** Ends sessions, streams and calls of a client. */
  end(client: string): Promise<void>;
  /** Ends all streams and releases all resources. */
  close(): Promise<void>;
}

/** Reads the body once, with a size limit. Returns an error response for an unusable body. */
async function readBody(request: Request): Promise<{ body?: Json } | Response> {
  if (request.method !== 'POST') return {};
  if (!isJsonContentType(request.headers.get('content-type'))) {
    return refusal(415, 'Unsupported Media Type: Content-Type must be application/json');
  }
  try {
    const read = await readRequestBody(request, MAX_BODY);
    if (read.tooLarge) return refusal(413, `Request body too large: at most ${MAX_BODY} bytes`);
    const parsed = parseJson(read.text);
    if (parsed.ok && Array.isArray(parsed.output) && parsed.output.length > MAX_BATCH) {
      return refusal(400, `Bad Request: more than ${MAX_BATCH} messages at once`, {}, -32_600);
    }
    if (parsed.ok) return { body: parsed.output };
    return refusal(400, `Parse error: ${parsed.error.detail.message}`, {}, -32_700);
  } catch {
    return refusal(400, 'Parse error: the request body could not be read', {}, -32_700);
  }
}

export function createMcpHttp(host: McpHost, options: HttpOptions): McpHttp {
  const { changes = createChanges(host), clock = systemClock } = options;
  const onError = (error: Error): void => host.onError(error);
  const exchanges = createExchanges();
  const create = (client: HttpClient) => createMcpServer(host, client, options);
  const sessions = createSessions({ clock, create, onError });
  // The SDK opens a stream inside its request and does not pass on the client.
  const asking = new AsyncLocalStorage<Omit<ChangeListener, 'tell'>>();
  const bus: ServerEventBus = {
    publish() {},
    subscribe(tell) {
      const listener = asking.getStore();
      return listener ? changes.follow({ ...listener, tell }) : () => {};
    },
  };
  const modern = createMcpHandler(
    () => {
      const listener = asking.getStore();
      if (!listener) throw new Error('the request has no client');
      return create(listener.client);
    },
    { legacy: 'reject', onerror: onError, bus },
  );
  let isClosed = false;

  return {
    async fetch(incoming, client) {
      const read = await readBody(incoming);
      if (read instanceof Response) return read;
      if (isClosed) return refusal(503, 'the server is closing');
      if (exchanges.countOf(client.id) >= MAX_OPEN) {
        return refusal(503, 'too many requests and streams are open', { 'retry-after': '10' });
      }
      const exchange = exchanges.open(client.id, incoming.signal);
      try {
        const { body } = read;
        const { url, method, headers } = incoming;
        const request = new Request(url, { method, headers, signal: exchange.signal });
        const response = (await isLegacyRequest(request, body))
          ? await sessions.serve(request, body, client, exchange)
          : await asking.run({ client, uris: listedUris(body) }, () =>
              modern.fetch(request, { parsedBody: body }),
            );
        return exchange.answer(response);
      } catch (error) {
        exchange.end();
        onError(error instanceof Error ? error : new Error(String(error)));
        return refusal(500, 'Internal server error', {}, -32_603);
      }
    },
    clients: exchanges.clients,
    async end(client) {
      await sessions.endOf(client);
      exchanges.cut(client);
    },
    async close() {
      isClosed = true;
      await Promise.all([modern.close(), sessions.close()]);
      // The last messages must be sent before the connections close.
      await new Promise(setImmediate);
      exchanges.cut();
    },
  };
}

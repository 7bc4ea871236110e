// Serves one client over a lasting connection. The SDK detects the revision and answers
// subscriptions. This file produces the notifications.
import type { Json } from '@kernmantle/core/base';
import type { McpServer, Transport } from '@modelcontextprotocol/server';
import { type StdioServerHandle, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { McpClient, McpHost } from './host.ts';
import { createListens } from './resources-changes.ts';
import { createMcpServer, type ServerOptions } from './server.ts';

/** Returns a transport that passes every message to `hear` after its receiver. */
const overheard = (wire: Transport, hear: (message: Json) => void): Transport =>
  new Proxy(wire, {
    set(target, name, value: unknown) {
      if (name !== 'onmessage' || typeof value !== 'function')
        return Reflect.set(target, name, value);
      const onMessage: Transport['onmessage'] = (message, extra) => {
        value(message, extra);
        hear(message as Json);
      };
      return Reflect.set(target, name, onMessage);
    },
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

/** Shortens an error in which the SDK lists every violated rule of the protocol. */
const briefly = (error: Error): Error =>
  /Zod/.test(error.name) ? new Error('a message violates the protocol') : error;

/** Serves one client over a lasting connection in either revision. */
export function serveConnection(
  host: McpHost,
  client: Omit<McpClient, 'name'>,
  options: ServerOptions,
  wire: Transport,
): StdioServerHandle {
  let server: McpServer | undefined;
  const listens = createListens(host, client, (change) => {
    if (change.kind !== 'resource_updated') return;
    server?.server.sendResourceUpdated({ uri: change.uri }).catch(() => undefined);
  });
  const handle = serveStdio(
    () => {
      server = createMcpServer(host, client, options);
      return server;
    },
    { transport: overheard(wire, listens.hear), onerror: (error) => host.onError(briefly(error)) },
  );
  return {
    async close() {
      listens.close();
      await handle.close();
    },
  };
}

// A real client of the official SDK and our server in one process, in either revision. The tools
// run in processes of their own.
import type { Runtime } from '@kernmantle/core/runtime';
import { Client } from '@modelcontextprotocol/client';
import { type ClientCapabilities, InMemoryTransport } from '@modelcontextprotocol/server';
import type { McpClient } from '../../src/index.ts';
import { createMcpHost } from '../../src/index.ts';
import { serveConnection } from '../../src/server/connection.ts';
import type { ServerOptions } from '../../src/server/server.ts';

export const ERAS = ['2025-11-25', '2026-07-28'] as const;

export interface PeerOptions extends Partial<ServerOptions> {
  readonly era?: (typeof ERAS)[number];
  readonly capabilities?: ClientCapabilities;
  readonly caller?: Partial<Omit<McpClient, 'name'>>;
  /** Name that the client claims. */
  readonly name?: string;
  /** Adds handlers before the connection is made. */
  readonly prepare?: (client: Client) => void;
  readonly onError?: (error: Error) => void;
}

export async function connectPeer(runtime: Runtime, options: PeerOptions = {}) {
  const { era = '2025-11-25', capabilities = {}, caller, prepare, onError, ...more } = options;
  const { name = 'test', ...rest } = more;
  const host = createMcpHost(runtime, '0.0.0', onError ?? (() => {}));
  const [near, far] = InMemoryTransport.createLinkedPair();
  const who = { id: 'test', role: 'approve', ...caller } as const;
  const serving = serveConnection(host, who, { instructions: '', ...rest }, far);
  const client = new Client(
    { name, version: '1.0.0' },
    {
      capabilities,
      versionNegotiation: { mode: era === '2025-11-25' ? 'legacy' : { pin: era } },
    },
  );
  prepare?.(client);
  await client.connect(near);
  return {
    client,
    host,
    async close(): Promise<void> {
      await client.close();
      await serving.close();
    },
  };
}

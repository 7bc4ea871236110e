// Over standard input and output: it ends with its input, so a client that dies takes it along.
import { randomUUID } from 'node:crypto';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { McpHost } from './host.ts';
import { createMcpServer, type ServerOptions } from './server.ts';

/** Serves until the client closes its end; resolves then. */
export async function serveMcp(host: McpHost, options: ServerOptions = {}): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    process.stdin.once('close', resolve);
  });
  // Whoever started this process is the person whose project it is.
  const client = { id: `stdio:${randomUUID()}`, role: 'approve' } as const;
  const handle = serveStdio(() => createMcpServer(host, client, options), {
    onerror: (error) => host.onError(error),
  });
  await ended;
  await handle.close();
}

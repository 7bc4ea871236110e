// Over standard input and output: it ends with its input, so a client that dies takes it along.
import { randomUUID } from 'node:crypto';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { serveConnection } from './connection.ts';
import type { McpHost } from './host.ts';
import type { ServerOptions } from './server.ts';

/** Serves until the client closes its end or the signal aborts; resolves then. */
export async function serveMcp(
  host: McpHost,
  options: ServerOptions = {},
  signal?: AbortSignal,
): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    const done = (): void => resolve();
    process.stdin.once('end', done);
    process.stdin.once('close', done);
    process.stdin.once('error', done);
    signal?.addEventListener('abort', done, { once: true });
    if (signal?.aborted) done();
  });
  // Whoever started this process is the person whose project it is.
  const client = { id: `stdio:${randomUUID()}`, role: 'approve' } as const;
  const handle = serveConnection(host, client, options, new StdioServerTransport());
  await ended;
  await handle.close();
  // Somebody may hold the other end open: nothing more is read from it.
  process.stdin.pause();
  process.stdin.unref?.();
}

// Serves one client over standard input and output. The server ends with its input, so it ends with
// the client's process.
import { randomUUID } from 'node:crypto';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { serveConnection } from './connection.ts';
import type { McpHost } from './host.ts';
import type { ServerOptions } from './server.ts';

/** Resolves when the client closes its end or the signal aborts. */
export async function serveMcp(
  host: McpHost,
  options: ServerOptions = {},
  signal?: AbortSignal,
): Promise<void> {
  // The owner of the project started this process.
  const client = { id: `stdio:${randomUUID()}`, role: 'approve' } as const;
  const wire = new StdioServerTransport();
  const handle = serveConnection(host, client, options, wire);
  await new Promise<void>((resolve) => {
    const done = (): void => resolve();
    process.stdin.once('end', done);
    process.stdin.once('close', done);
    process.stdin.once('error', done);
    signal?.addEventListener('abort', done, { once: true });
    if (signal?.aborted) done();
    // After a closed output or an oversized message, the input is not read further and would never
    // end.
    const { onclose } = wire;
    const closed = (): void => {
      onclose?.();
      done();
    };
    Object.assign(wire, { onclose: closed });
  });
  await handle.close();
  // Another process can keep the input open, so reading stops here.
  process.stdin.pause();
  process.stdin.unref?.();
}

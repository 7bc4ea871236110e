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
  // Whoever started this process is the person whose project it is.
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
    // Nobody reads what we say, or what came was too long: the input is not read on, and has no end then.
    const { onclose } = wire;
    const closed = (): void => {
      onclose?.();
      done();
    };
    Object.assign(wire, { onclose: closed });
  });
  await handle.close();
  // Somebody may hold the other end open: nothing more is read from it.
  process.stdin.pause();
  process.stdin.unref?.();
}

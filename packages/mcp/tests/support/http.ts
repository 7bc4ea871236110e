// Runs `km mcp serve --http` as a process, with clients for it.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Fixture } from '@kernmantle/test-support/project';
import {
  Client,
  type ClientCapabilities,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';

export const launcher = fileURLToPath(new URL('../../../../bin/km.js', import.meta.url));

export interface Served {
  readonly url: string;
  /** Header with the token that the server printed. */
  readonly steering: { readonly authorization: string };
  readonly child: ChildProcess;
  /** Output of the server on stderr so far. */
  said(): string;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts a server and waits for its address. */
export async function serve(fixture: Fixture, ...args: readonly string[]): Promise<Served> {
  const command = ['mcp', 'serve', '--http', '--json', '--project', fixture.root, ...args];
  const child = spawn(process.execPath, [launcher, ...command], {
    env: { ...fixture.env, KERNMANTLE_SRC: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const over = once(child, 'exit') as Promise<[number | null]>;
  const line = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>,
    over.then(() => ['']),
  ]);
  const answer = JSON.parse(line[0] || '{}') as { output?: { url: string; token?: string } };
  if (!answer.output) {
    // The process may write into the project until it has ended.
    await over;
    throw new Error(`the server did not start: ${line[0]}${said}`);
  }
  return {
    url: answer.output.url,
    steering: { authorization: `Bearer ${answer.output.token ?? ''}` },
    child,
    said: () => said,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      return (await over)[0];
    },
  };
}

export type Era = 'legacy' | 'modern';

/** Connects a client of the current SDK in one revision. `prepare` adds handlers. */
export async function connect(
  url: string,
  era: Era,
  headers: Record<string, string> = {},
  capabilities: ClientCapabilities = {},
  prepare: (client: Client) => void = () => {},
): Promise<Client> {
  const versionNegotiation = { mode: era === 'modern' ? 'auto' : 'legacy' } as const;
  const about = { name: 'test', version: '1.0.0' };
  const client = new Client(about, { versionNegotiation, capabilities });
  prepare(client);
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  );
  return client;
}

export const ACCEPT = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
};

/** An `initialize` request of the older revision, as plain JSON. */
export const HELLO = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'raw', version: '1' },
  },
};

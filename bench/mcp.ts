// Measures a call of another server's tool through the whole kernel (chain, pin, policy, labels, audit, pool), against
// a bare client of the SDK that makes the same call. The server is another process and does not count. The file also
// runs as the measured process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture } from '@kernmantle/test-support/project';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { raceFresh, type Subject, serveSubject } from './fresh.ts';
import type { BenchRow } from './row.ts';

const SELF = fileURLToPath(import.meta.url);
const FOLDER = fileURLToPath(new URL('..', import.meta.url));
const SERVER = fileURLToPath(new URL('./mcp-server.ts', import.meta.url));
const CALLS = 300;
const ROUNDS = 5;
const TEXT = 'the quick brown fox';

type Line = 'http' | 'stdio';

/** Source of a server over pipes. The sandbox requires it in the project, so it has no imports. */
const PROGRAM = `
import { createInterface } from 'node:readline';
const tool = { name: 'echo', description: 'Says it again', inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } };
const answers = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'bench', version: '1.0.0' } }),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': ({ arguments: { text } }) => ({ content: [{ type: 'text', text }] }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = answers[method];
  const told = answer ? { result: answer(params) } : { error: { code: -32601, message: 'unknown' } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...told }) + '\\n');
}
`;

async function startServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [SERVER], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    url: said.toString().trim(),
    async stop() {
      child.kill();
      await once(child, 'exit');
    },
  };
}

const times = (work: () => Promise<unknown>) => async () => {
  for (let done = 0; done < CALLS; done++) await work();
};

async function bareClient(line: Line): Promise<Subject> {
  const server = line === 'http' ? await startServer() : undefined;
  const fixture = makeFixture({ 'server.mjs': PROGRAM });
  const mode = server ? { pin: '2026-07-28' } : 'legacy';
  const client = new Client({ name: 'bench', version: '1.0.0' }, { versionNegotiation: { mode } });
  const transport = server
    ? new StreamableHTTPClientTransport(new URL(server.url))
    : new StdioClientTransport({
        command: process.execPath,
        args: [join(fixture.root, 'server.mjs')],
      });
  await client.connect(transport);
  await client.listTools();
  return {
    run: times(() => client.callTool({ name: 'echo', arguments: { text: TEXT } })),
    async close() {
      await client.close();
      fixture.remove();
      await server?.stop();
    },
  };
}

async function throughKernel(line: Line): Promise<Subject> {
  const server = line === 'http' ? await startServer() : undefined;
  const fixture = makeFixture({ 'server.mjs': PROGRAM });
  fixture.write(join(fixture.home, 'policy.yaml'), 'hosts: ["127.0.0.1"]\n');
  const where = server
    ? ['--url', server.url]
    : ['--command', process.execPath, '--read', 'server.mjs', '--', 'server.mjs'];
  const words = ['mcp', 'add', 'bench', '--yes', ...where];
  const { code, output } = await runCommand(words, fixture.root, fixture.env);
  if (code !== 0) throw new Error(output);
  const runtime = await fixture.open();
  const request = {
    item_type: 'tool',
    item_id: 'mcp/bench/echo',
    parameters: { text: TEXT },
  };
  const call = async (): Promise<void> => {
    const answer = await runtime.call('execute', request, { surface: 'cli' });
    if (!answer.ok) throw new Error(JSON.stringify(answer.error));
  };
  return {
    run: times(call),
    async close() {
      await runtime.close();
      fixture.remove();
      await server?.stop();
    },
  };
}

const row = (line: Line, most?: number): BenchRow => {
  const { ours, base } = raceFresh(SELF, { rounds: ROUNDS, line });
  return {
    name: `a pooled call of an MCP tool over ${line}`,
    ours: ours / CALLS,
    base: base / CALLS,
    ratio: ours / base,
    unit: 'µs CPU',
    target: most === undefined ? 'told' : `at most ${most}x a bare client of the SDK`,
    ok: most === undefined || ours <= most * base,
  };
};

export async function bench(): Promise<BenchRow[]> {
  process.chdir(FOLDER);
  return [row('http', 1.25), row('stdio')];
}

await serveSubject(SELF, (name, { line }: { line: Line }) =>
  name === 'ours' ? throughKernel(line) : bareClient(line),
);

// A project with signed directives, a scripted model and our server over real pipes, for tests with
// an external client.
import { fileURLToPath } from 'node:url';
import type { Json, JsonObject } from '@kernmantle/core/base';
import { type ScriptedProvider, startScriptedProvider } from '@kernmantle/core/llm';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { directiveText, type Parts } from '@kernmantle/test-support/thread-project';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { onTestFinished } from 'vitest';

const launcher = fileURLToPath(new URL('../../../../bin/km.js', import.meta.url));

export interface Served {
  fixture: Fixture;
  provider: ScriptedProvider;
  /** The command with which a client starts the server. */
  command: { command: string; args: string[]; env: Record<string, string> };
}

/** Starts the project. It is removed at the end of the test. */
export async function serve(
  directives: Readonly<Record<string, Parts>>,
  script: Parameters<typeof startScriptedProvider>[0],
  files: Record<string, string> = {},
): Promise<Served> {
  const provider = await startScriptedProvider(script);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const fixture = makeFixture({ 'notes/a.txt': 'hello\n', ...files });
  for (const [name, parts] of Object.entries(directives)) {
    const file = `.ai/directives/${name}.md`;
    fixture.write(file, directiveText(name, parts));
    if (!name.startsWith('unsigned')) signAsUser(fixture, file);
  }
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.output.url, ANTHROPIC_API_KEY: 'key' });
  onTestFinished(async () => {
    await provider.output.close();
    fixture.remove();
  });
  const args = [launcher, 'mcp', 'serve', '--project', fixture.root];
  const env = { ...(fixture.env as Record<string, string>), KERNMANTLE_SRC: '1' };
  return { fixture, provider: provider.output, command: { command: process.execPath, args, env } };
}

export interface CallOptions {
  onprogress?: (progress: { progress: number; message?: string | undefined }) => void;
  signal?: AbortSignal;
}

export interface Outside {
  call(args: Record<string, Json>, options?: CallOptions): Promise<Answered>;
  /** Process id of the server. */
  pid(): number;
  close(): Promise<void>;
}

/** The envelope of a result, for both lines of the SDK. */
const envelope = (result: unknown): Answered =>
  (result as { structuredContent: Answered }).structuredContent;

const NAME = { name: 'outside', version: '1.0.0' };

/** Connects a client of the current line in either revision. */
export async function connect(
  { command }: Served,
  mode: 'auto' | 'legacy' = 'auto',
): Promise<Outside> {
  const client = new Client(NAME, { versionNegotiation: { mode } });
  const transport = new StdioClientTransport({ ...command, stderr: 'ignore' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return {
    call: async (args, options) =>
      envelope(await client.callTool({ name: 'execute', arguments: args }, options)),
    pid: () => transport.pid ?? 0,
    close: () => client.close(),
  };
}

/** Connects a client of the previous line. */
export async function connectOld({ command }: Served): Promise<Outside> {
  const client = new OldClient(NAME);
  const transport = new OldTransport({ ...command, stderr: 'ignore' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return {
    call: async (args, options) =>
      envelope(await client.callTool({ name: 'execute', arguments: args }, undefined, options)),
    pid: () => transport.pid ?? 0,
    close: () => client.close(),
  };
}

export interface Answered {
  ok: boolean;
  output: JsonObject;
  error: { code: string; detail: { message: string; [name: string]: unknown } };
}

export const startDirective = (name: string, more: JsonObject = {}) => ({
  item_type: 'tool',
  item_id: 'threads/thread_directive',
  parameters: { directive_name: name, ...more },
});

export const onThread = (
  handle: Json | undefined,
  action: string,
  parameters: JsonObject = {},
) => ({
  item_type: 'thread',
  item_id: handle ?? '',
  action,
  parameters,
});

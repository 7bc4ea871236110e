// Tests that clients of both lines of the SDK, over both transports and in both revisions, see the
// same project in native mode.
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport as OldTransport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  LAUNCHER,
  prepareProject,
  type Subject,
  serveArguments,
  serveHttp,
  type Workplace,
} from '../../../scripts/conformance/subject.ts';
import { probeSandbox } from '../../core/src/kernel/sandbox/probe.ts';

const sandbox = await probeSandbox();

let place: Workplace;
let served: Subject;
beforeAll(async () => {
  place = prepareProject('native');
  served = await serveHttp(serveArguments('native', place.project), place.env);
});
afterAll(async () => {
  await served.stop();
  place.remove();
});

/** The common interface of the two client lines. */
interface Peer {
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  listPrompts(): Promise<{ prompts: { name: string }[] }>;
  getPrompt(prompt: { name: string; arguments: Record<string, string> }): Promise<unknown>;
  listResources(): Promise<{ resources: { uri: string }[] }>;
  listResourceTemplates(): Promise<{ resourceTemplates: { uriTemplate: string }[] }>;
  readResource(resource: { uri: string }): Promise<unknown>;
  close(): Promise<void>;
}

const ME = { name: 'peer', version: '1.0.0' };
const ELICITS = { elicitation: {} };
const ADA = { action: 'accept' as const, content: { name: 'Ada' } };
const ourProcess = () => ({
  command: process.execPath,
  args: [LAUNCHER, ...serveArguments('native', place.project)],
  env: place.env as Record<string, string>,
  stderr: 'ignore' as const,
});

async function older(transport: OldTransport): Promise<Peer> {
  const client = new OldClient(ME, { capabilities: ELICITS });
  client.setRequestHandler(ElicitRequestSchema, () => ADA);
  await client.connect(transport);
  return client;
}

async function current(
  mode: 'legacy' | 'auto',
  transport: StdioClientTransport | StreamableHTTPClientTransport,
): Promise<Peer> {
  const client = new Client(ME, { capabilities: ELICITS, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', () => ADA);
  await client.connect(transport);
  const revision = mode === 'legacy' ? '2025-11-25' : '2026-07-28';
  expect(client.getNegotiatedProtocolVersion()).toBe(revision);
  return client;
}

const PEERS: Readonly<Record<string, () => Promise<Peer>>> = {
  'SDK 1.x over stdio': () => older(new OldStdio(ourProcess())),
  'SDK 1.x over HTTP': () => older(new OldHttp(new URL(served.url))),
  'SDK 2.x over stdio, 2025-11-25': () => current('legacy', new StdioClientTransport(ourProcess())),
  'SDK 2.x over stdio, 2026-07-28': () => current('auto', new StdioClientTransport(ourProcess())),
  'SDK 2.x over HTTP, 2025-11-25': () =>
    current('legacy', new StreamableHTTPClientTransport(new URL(served.url))),
  'SDK 2.x over HTTP, 2026-07-28': () =>
    current('auto', new StreamableHTTPClientTransport(new URL(served.url))),
};

test.skipIf(sandbox.kind === 'none').for(Object.entries(PEERS))('%s', async ([, connect]) => {
  const peer = await connect();
  try {
    const { tools } = await peer.listTools();
    expect(tools.map(({ name }) => name)).toContain('test_simple_text');
    expect(await peer.callTool({ name: 'test_simple_text', arguments: {} })).toMatchObject({
      content: [{ type: 'text', text: 'This is a simple text response for testing.' }],
    });
    expect(await peer.callTool({ name: 'test_error_handling', arguments: {} })).toMatchObject({
      isError: true,
    });
    const asks = { name: 'test_input_required_result_elicitation', arguments: {} };
    expect(await peer.callTool(asks)).toMatchObject({ content: [{ text: 'Hello, Ada!' }] });

    const { prompts } = await peer.listPrompts();
    expect(prompts.map(({ name }) => name)).toContain('test_prompt_with_image');
    const given = { name: 'test_prompt_with_arguments', arguments: { arg1: 'one', arg2: 'two' } };
    expect(JSON.stringify(await peer.getPrompt(given))).toContain("arg1='one', arg2='two'");

    const { resources } = await peer.listResources();
    expect(resources.map(({ uri }) => uri)).toContain('test://static-binary');
    const { resourceTemplates } = await peer.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain(
      'test://template/{id}/data',
    );
    expect(await peer.readResource({ uri: 'test://static-text' })).toMatchObject({
      contents: [{ mimeType: 'text/plain' }],
    });
    expect(JSON.stringify(await peer.readResource({ uri: 'test://template/7/data' }))).toContain(
      'Data for ID: 7',
    );
  } finally {
    await peer.close();
  }
});

test('the official Inspector over HTTP', async () => {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('@modelcontextprotocol/inspector/package.json');
  const { bin } = require(manifest) as { bin: Record<string, string> };
  const entry = join(dirname(manifest), Object.values(bin)[0] ?? '');
  const inspect = async (...method: string[]): Promise<unknown> => {
    const args = [entry, '--cli', served.url, '--transport', 'http', '--method', ...method];
    return JSON.parse((await promisify(execFile)(process.execPath, args)).stdout);
  };
  const [called, prompt, resource] = await Promise.all([
    inspect('tools/call', '--tool-name', 'test_simple_text'),
    inspect('prompts/get', '--prompt-name', 'test_prompt_with_image'),
    inspect('resources/read', '--uri', 'test://static-binary'),
  ]);
  expect(called).toMatchObject({ content: [{ type: 'text' }] });
  expect(prompt).toMatchObject({ messages: [{ content: { type: 'image' } }, {}] });
  expect(resource).toMatchObject({ contents: [{ mimeType: 'image/png' }] });
});

// A server inside a program, as the library starts it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRuntime, startServer } from '@kernmantle/kernmantle';
import { LIBRARY } from '@kernmantle/test-support/built';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { connect } from '../../mcp/tests/support/http.ts';

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture();
});
afterEach(() => fixture.remove());

const add = defineTool({
  id: 'math/add',
  description: 'Adds two numbers',
  effect: 'read',
  parameters: { a: 'number', b: 'number' },
  run: ({ a, b }) => ({ sum: a + b }),
});
const SUM = {
  name: 'execute',
  arguments: { item_type: 'tool', item_id: 'math/add', parameters: { a: 40, b: 2 } },
};

test('clients reach the tools of a program; its runtime outlives the server', async () => {
  const opened = await createRuntime({ project: fixture.root, env: fixture.env, tools: [add] });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  const runtime = opened.output;
  const started = await startServer(runtime);
  if (!started.ok) throw new Error(started.error.detail.message);
  for (const era of ['modern', 'legacy'] as const) {
    const client = await connect(started.output.url, era);
    expect(await client.callTool(SUM)).toMatchObject({
      structuredContent: { ok: true, output: { sum: 42 } },
    });
    await client.close();
  }
  await started.output.close();
  await started.output.ended;
  await expect(fetch(started.output.url)).rejects.toThrow('fetch failed');
  expect(await runtime.call('search', { query: 'add' })).toMatchObject({ ok: true });
  await runtime.close();
});

test('a project is opened and closed with its server', async () => {
  const given = { project: fixture.root, env: fixture.env, tools: [add] };
  const started = await startServer({ ...given, port: 0, host: 'localhost' });
  if (!started.ok) throw new Error(started.error.detail.message);
  const client = await connect(started.output.url, 'modern');
  expect((await client.listTools()).tools).toHaveLength(4);
  await client.close();
  await started.output.close();
});

test('what cannot be served is refused with what to do', async () => {
  const given = { project: fixture.root, env: fixture.env };
  expect(await startServer({ ...given, host: '0.0.0.0' })).toMatchObject({
    ok: false,
    error: { code: 'permission_denied', detail: { missing: 'token' } },
  });
  expect(await startServer({ ...given, host: '127.0.0.1', port: 1_000_000 })).toMatchObject({
    ok: false,
    error: { code: 'invalid_input' },
  });
  const first = await startServer(given);
  if (!first.ok) throw new Error(first.error.detail.message);
  const port = Number(new URL(first.output.url).port);
  expect(await startServer({ ...given, port })).toMatchObject({
    ok: false,
    error: { detail: { message: expect.stringContaining(`cannot listen on 127.0.0.1:${port}`) } },
  });
  await first.output.close();
});

const PROGRAM = `
  import { startServer } from ${JSON.stringify(LIBRARY)};
  const started = await startServer({ project: process.argv[1], transport: 'stdio' });
  // Something of the program that would keep it alive.
  const timer = setInterval(() => {}, 1000);
  await started.output.ended;
  clearInterval(timer);
`;
const program = () => ({
  command: process.execPath,
  args: ['--no-warnings', '--input-type=module', '-e', PROGRAM, fixture.root],
  env: fixture.env as Record<string, string>,
});

test('over its own standard streams it speaks to one client', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(new StdioClientTransport({ ...program(), stderr: 'inherit' }));
  expect((await client.listTools()).tools).toHaveLength(4);
  await client.close();
});

test('and is told when its input ends', async () => {
  const { command, args, env } = program();
  const child = spawn(command, args, { env, stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.end();
  expect((await once(child, 'exit'))[0]).toBe(0);
});

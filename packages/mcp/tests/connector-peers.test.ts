// Tests a third-party server over HTTP: all its tools become files and are called.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Connected, makeConnected } from './support/connected.ts';

let project: Connected;
let server: ChildProcess;
let url: string;

beforeAll(async () => {
  project = makeConnected();
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  const script = resolve('node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  server = spawn(process.execPath, [script, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  url = `http://127.0.0.1:${port}/mcp`;
  await new Promise<void>((ready) => {
    server.stderr?.on('data', (said: Buffer) => {
      if (/listening/i.test(said.toString())) ready();
    });
  });
}, timeoutMs(60_000));

afterAll(async () => {
  server.kill('SIGKILL');
  await once(server, 'exit');
  project.remove();
});

test('server-everything over HTTP: its tools are files that check clean, and are called', async () => {
  const added = await project.kmJson('mcp', 'add', 'every', '--url', url, '--yes');
  expect(added).toMatchObject({ ok: true, output: { status: 'synced' } });
  expect(added.ok && added.output.left_out).toBeFalsy();
  expect(await project.km('check')).toMatchObject({ code: 0 });
  expect(await project.run('mcp/every/echo', { message: 'hi' })).toMatchObject({
    output: { content: [{ type: 'text', text: 'Echo: hi' }] },
  });
  expect(await project.run('mcp/every/get-sum', { a: 1, b: 2 })).toMatchObject({ ok: true });
  expect(await project.run('mcp/every/get-sum', { a: 1, b: 'two' })).toMatchObject({
    error: { code: 'invalid_input' },
  });
  const weather = await project.run('mcp/every/get-structured-content', { location: 'Chicago' });
  expect(weather).toMatchObject({ output: { structured: { temperature: expect.any(Number) } } });
  expect(await project.kmJson('mcp', 'sync', 'every')).toMatchObject({
    output: { status: 'synced', written: [] },
  });
});

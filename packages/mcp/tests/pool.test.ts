// Tests the pool with third-party servers over pipes and HTTP.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HttpEndpoint } from '../src/client/pool.ts';
import { callWith, install, nodeServer, poolOf } from './support/pool.ts';

const EVERYTHING = '@modelcontextprotocol/server-everything';
const FILESYSTEM = '@modelcontextprotocol/server-filesystem';

let project: TestProject;
let web: ChildProcess;
let url: string;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

beforeAll(async () => {
  project = makeProject({ 'data/a.txt': 'alpha' });
  install(project, EVERYTHING, FILESYSTEM, '@modelcontextprotocol/server');
  copyFileSync('packages/mcp/tests/support/modern-server.mjs', join(project.root, 'modern.mjs'));
  const port = await freePort();
  const script = resolve('node_modules', EVERYTHING, 'dist/index.js');
  web = spawn(process.execPath, [script, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  url = `http://127.0.0.1:${port}/mcp`;
  await new Promise<void>((ready) => {
    web.stderr?.on('data', (said: Buffer) => {
      if (/listening/i.test(said.toString())) ready();
    });
  });
}, timeoutMs(60_000));

afterAll(async () => {
  web.kill('SIGKILL');
  await once(web, 'exit');
  project.remove();
});

const everything = () => nodeServer(`node_modules/${EVERYTHING}/dist/index.js`, ['stdio']);
const overHttp = (): HttpEndpoint => ({ kind: 'http', url, headers: {} });

test.each([
  ['over pipes', everything],
  ['over HTTP', overHttp],
])('server-everything %s: list, call, progress', async (_name, endpoint) => {
  const { pool } = poolOf(project);
  const listed = await pool.list(endpoint(), callWith());
  expect(listed).toMatchObject({ ok: true, output: { server: { name: expect.any(String) } } });
  const names = listed.ok ? listed.output.tools.map(({ name }) => name) : [];
  expect(names).toContain('echo');
  const echoed = await pool.call(
    endpoint(),
    { name: 'echo', arguments: { message: 'hi' } },
    callWith(),
  );
  expect(echoed).toMatchObject({
    ok: true,
    output: { result: { content: [{ type: 'text', text: 'Echo: hi' }] } },
  });
  const steps: unknown[] = [];
  const long = await pool.call(
    endpoint(),
    { name: 'trigger-long-running-operation', arguments: { duration: 0.03, steps: 3 } },
    callWith({ onProgress: (progress) => steps.push(progress) }),
  );
  expect(long.ok).toBe(true);
  expect(steps).toContainEqual(expect.objectContaining({ progress: 3, total: 3 }));
  await pool.close();
});

test('a server of the newer revision over pipes: its list is read again when it says so', async () => {
  const versions = new Set<unknown>();
  const { pool } = poolOf(project, {
    span(_name, attributes, work) {
      versions.add(attributes['mcp.protocol.version']);
      return work({});
    },
  });
  const endpoint = nodeServer('modern.mjs');
  const call = (name: string) => pool.call(endpoint, { name, arguments: {} }, callWith());
  const names = async () => {
    const listed = await pool.list(endpoint, callWith());
    return listed.ok ? listed.output.tools.map(({ name }) => name) : [listed.error.detail.message];
  };
  expect(await names()).toEqual(['echo', 'grow']);
  expect(await call('echo')).toMatchObject({
    ok: true,
    output: { result: { content: [{ text: 'again' }] } },
  });
  expect(await call('grow')).toMatchObject({ ok: true });
  await expect.poll(names).toEqual(['echo', 'grow', 'new']);
  expect([...versions]).toEqual(['2026-07-28']);
  await pool.close();
});

test('server-filesystem reads and writes where its connector lets it, and nowhere else', async () => {
  const { pool } = poolOf(project);
  const endpoint = nodeServer(`node_modules/${FILESYSTEM}/dist/index.js`, [project.root], {
    grants: { read: ['node_modules/**', 'data/**'], write: ['out/**'], network: false },
  });
  const read = await pool.call(
    endpoint,
    { name: 'read_text_file', arguments: { path: join(project.root, 'data/a.txt') } },
    callWith(),
  );
  expect(read).toMatchObject({ ok: true, output: { result: { content: [{ text: 'alpha' }] } } });
  const write = (path: string) =>
    pool.call(
      endpoint,
      { name: 'write_file', arguments: { path: join(project.root, path), content: 'new' } },
      callWith(),
    );
  expect(await write('out/b.txt')).toMatchObject({ ok: true });
  expect(await write('data/b.txt')).toMatchObject({
    ok: true,
    output: { result: { isError: true } },
  });
  expect(readFileSync(join(project.root, 'out/b.txt'), 'utf8')).toBe('new');
  await pool.close();
});

// Tests a server that requires a login: `km mcp add --oauth` shows the page, and later runs use the
// tokens without a person.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Connected, makeConnected } from './support/connected.ts';
import { startGuardedServer } from './support/guarded-server.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));

let project: Connected;
let server: Awaited<ReturnType<typeof startGuardedServer>>;
beforeEach(async () => {
  project = makeConnected();
  server = await startGuardedServer();
});
afterEach(async () => {
  await server.stop();
  project.remove();
});

test('a person logs in where the server is added; its tools are then called without one', async () => {
  const words = ['mcp', 'add', 'guarded', '--url', server.url, '--oauth', '--yes'];
  const child = spawn(process.execPath, [LAUNCHER, ...words], {
    cwd: project.root,
    env: { ...project.env, KERNMANTLE_SRC: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    const before = said.includes('log in');
    said += chunk.toString();
    const page = /log in with your browser: (\S+)/.exec(said)?.[1];
    if (page !== undefined && !before) void fetch(page);
  });
  child.stdout.resume();
  const [code] = (await once(child, 'exit')) as [number];
  expect(code, said).toBe(0);
  expect(server.state).toMatchObject({ clients: 1, pages: 1 });
  expect(await project.run('mcp/guarded/act')).toMatchObject({
    output: { content: [{ text: 'in' }] },
  });
  expect(server.state).toMatchObject({ clients: 1, pages: 1 });
});

test.each(['SIGTERM', 'SIGHUP', 'SIGINT'] as const)(
  '%s ends a command that waits for a login, and nothing of it is left',
  async (signal) => {
    const words = ['mcp', 'add', 'guarded', '--url', server.url, '--oauth', '--yes'];
    const child = spawn(process.execPath, [LAUNCHER, ...words], {
      cwd: project.root,
      env: { ...project.env, KERNMANTLE_SRC: '1' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      const before = said.includes('log in');
      said += chunk.toString();
      if (said.includes('log in') && !before) child.kill(signal);
    });
    const [code] = (await once(child, 'close')) as [number];
    expect(code, said).toBe(130);
    expect(said).toContain('interrupted before its tools were added');
    expect(await project.kmJson('mcp', 'ls')).toMatchObject({ output: { servers: [] } });
    expect(existsSync(join(project.root, '.ai/tools/mcp/guarded'))).toBe(false);
    expect(existsSync(join(project.home, 'mcp-auth'))).toBe(false);
  },
);

test('where nobody can be asked it says which command helps, and nothing is kept', async () => {
  const added = await project.kmJson('mcp', 'add', 'guarded', '--url', server.url, '--yes');
  expect(added).toMatchObject({
    error: {
      code: 'mcp_connection_failed',
      detail: { remediation: expect.stringContaining('`oauth` for a login') },
    },
  });
  expect(server.state).toMatchObject({ clients: 0, pages: 0 });
  expect(await project.kmJson('mcp', 'ls')).toMatchObject({ output: { servers: [] } });
});

test('a secret that the server does not take is told of as that', async () => {
  project.env.KEY = 'wrong-secret';
  const words = ['mcp', 'add', 'guarded', '--url', server.url, '--bearer', 'KEY', '--yes'];
  const added = await project.kmJson(...words);
  expect(added).toMatchObject({
    error: {
      code: 'mcp_connection_failed',
      detail: {
        cause: expect.stringContaining('it refused the credentials'),
        remediation: expect.stringContaining('check the secret'),
      },
    },
  });
  expect(JSON.stringify(added)).not.toContain('wrong-secret');
});

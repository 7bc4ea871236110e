// A program that starts us may leave descriptors open. No process that we start has them: neither in a
// sandbox nor outside of one. Each case is a program of its own with descriptors in odd places.
import { spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programWords } from '@kernmantle/test-support/built';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { working } from '@kernmantle/test-support/sandboxes';
import { directiveText } from '@kernmantle/test-support/thread-project';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const source = (path: string): string => new URL(`../../../../${path}`, import.meta.url).href;
/** Without a pipe, which would be a descriptor of the shell. The folder that `ls` reads is its own. */
const LIST = 'ls -l /proc/$$/fd; true';

let base: string;
beforeAll(() => {
  base = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-descriptors-')));
  mkdirSync(join(base, 'project', '.ai'), { recursive: true });
  writeFileSync(join(base, 'lock'), 'held');
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

type Left = 'folder' | 'file' | 'socket';

/** Runs a program with these descriptors beside the usual three; returns its output. */
async function runWith(left: Readonly<Record<number, Left>>, args: readonly string[]) {
  const stdio: ('ignore' | 'pipe' | 'inherit' | number)[] = ['ignore', 'pipe', 'inherit'];
  const opened: number[] = [];
  for (const [key, kind] of Object.entries(left)) {
    while (stdio.length <= Number(key)) stdio.push('ignore');
    // A pipe of Node is a pair of sockets.
    const fd =
      kind === 'socket' ? 'pipe' : openSync(kind === 'folder' ? '/' : join(base, 'lock'), 'r');
    if (typeof fd === 'number') opened.push(fd);
    stdio[Number(key)] = fd;
  }
  const child = spawn(process.execPath, [...args], {
    stdio,
    cwd: base,
    env: { ...process.env, TMPDIR: base, HOME: base },
  });
  for (const fd of opened) closeSync(fd);
  let text = '';
  for await (const chunk of child.stdout ?? []) text += String(chunk);
  return text;
}

const program = (code: string): string[] => ['--input-type=module', '-e', code];

/** The descriptors of a list from `first` on, without those that lead nowhere. */
const leftIn = (text: string, first: number): string[] =>
  [...text.matchAll(/ (\d+) -> (.*)$/gm)]
    .filter(([, fd, target]) => Number(fd) >= first && target !== '/dev/null')
    .map(([, fd, target]) => `${fd} ${target}`);

const CASES: readonly (readonly [string, Readonly<Record<number, Left>>])[] = [
  ['a folder behind a gap', { 200: 'folder' }],
  [
    'files, sockets and folders, with gaps',
    { 17: 'file', 40: 'socket', 251: 'folder', 252: 'file' },
  ],
  ['a high number', { 1000: 'folder', 1001: 'socket' }],
  ['the places that we use ourselves', { 3: 'folder', 4: 'folder', 5: 'folder', 9: 'file' }],
];

describe.each(CASES)('%s', (_name, left) => {
  const lowest = Math.min(...Object.keys(left).map(Number));

  test('is open in the program that was started with it', async () => {
    const code = `import { readlinkSync } from 'node:fs'; console.log(' ${lowest} -> ' + readlinkSync('/proc/self/fd/${lowest}'));`;
    expect(leftIn(await runWith(left, program(code)), 3)).toHaveLength(1);
  });

  test('is not inherited by any process that is started outside of a sandbox', async () => {
    const code = `
      import { spawn } from '${source('packages/core/src/base/spawn.ts')}';
      import { runCommand } from '${source('packages/core/src/items/catalogs/fetch.ts')}';
      import { runNotice } from '${source('packages/core/src/harness/observe/notify.ts')}';
      const list = ${JSON.stringify(LIST)};
      const child = spawn('/bin/sh', ['-c', list], { stdio: ['ignore', 'inherit', 'inherit'] });
      await new Promise((resolve) => child.once('close', resolve));
      const cwd = process.cwd();
      const fetched = await runCommand('sh', ['-c', list], { cwd, env: process.env, timeoutMs: 60000 });
      console.log(fetched.output);
      const told = await runNotice(cwd, process.env)(['/bin/sh', '-c', 'exec > notice; ' + list], {});
      console.log((await import('node:fs')).readFileSync('notice', 'utf8'), told.ok);`;
    const text = await runWith(left, program(code));
    expect(text.match(/ 0 -> /g)).toHaveLength(3);
    expect(leftIn(text, 3)).toEqual([]);
  });

  test.each(working)('is not inherited %s', async (_kind, { kind }) => {
    const script = `${LIST}; for fd in ${Object.keys(left).join(' ')}; do ls /proc/self/fd/$fd/ /proc/self/fd/$fd/../; done 2>&1; true`;
    const text = await runWith(
      left,
      programWords('sandbox-driver', kind, join(base, 'project'), script),
    );
    const { output } = JSON.parse(text) as { output?: { output?: { stdout?: string } } };
    const stdout = output?.output?.stdout ?? text;
    expect(stdout).toMatch(/ 0 -> /);
    // Descriptor 4 is the channel on which a module answers.
    expect(leftIn(stdout, 5)).toEqual([]);
    expect(leftIn(stdout, 3).filter((line) => !/^4 (socket|pipe):/.test(line))).toEqual([]);
    expect(stdout).not.toContain('\nboot');
  });
});

// The whole program, started by a shell that holds descriptors of a folder and of a file with gaps between them.

const HELD = ['3<left-open', '7<left-open/lock', '20<left-open', '200<left-open/lock'];
const LISTS = `ls -l /proc/$$/fd; true`;
/** The targets of all descriptors of the process that runs this. */
const IN_NODE = `require('node:fs').readdirSync('/proc/self/fd').map((fd) => { try { return fd + ' ' + require('node:fs').readlinkSync('/proc/self/fd/' + fd); } catch { return fd; } }).join('\\n')`;
const IN_MODULE = IN_NODE.replaceAll("require('node:fs')", 'fs');
const KM = new URL('../../../../bin/km.js', import.meta.url).pathname;

/** A server that writes its list when it starts. */
const SERVER = `
import fs from 'node:fs';
import { createInterface } from 'node:readline';
fs.writeFileSync('got/server.txt', ${IN_MODULE});
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  if (id === undefined) continue;
  const info = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'db', version: '1' } };
  const result = method === 'initialize' ? info : { tools: [{ name: 'q', inputSchema: { type: 'object' } }] };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
}
`;
const tool = (id: string, rest: string): string =>
  `tool_id: ${id}\nversion: 1.0.0\ndescription: a list\n${rest}`;

describe.skipIf(working.length === 0)(
  'the program with descriptors that its parent left open',
  () => {
    let fixture: Fixture;
    let server: Server;
    beforeAll(async () => {
      server = createServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end('data: {"a":1}\n\n');
      });
      await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
      const { port } = server.address() as { port: number };
      fixture = makeFixture({
        'got/.keep': '',
        'left-open/lock': 'held',
        'server/server.mjs': SERVER,
        'bin/git': `#!/bin/sh\n{ ${LISTS}; } > ${join(base, 'git.txt')}\nexit 1\n`,
        'list.mld': [
          'exe @a() = cmd {ls -l /proc/self/fd}',
          `exe @b() = sh {${LISTS}}`,
          'exe @c() = py { import os; return "\\n".join(fd + " " + os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.islink("/proc/self/fd/" + fd)) }',
          `exe @d() = node { return ${IN_NODE} }`,
          'show `cmd @a()`\nshow `sh @b()`\nshow `py @c()`\nshow `node @d()`\n',
        ].join('\n'),
        '.ai/tools/list/shell.yaml': tool(
          'shell',
          `executor_id: subprocess\nrequires: [process.spawn]\neffect: read\nconfig: { shell: bash, script: '${LISTS}' }\n`,
        ),
        '.ai/tools/list/module.yaml': tool(
          'module',
          'executor_id: runtime/node\neffect: read\nconfig: { module: ./module.mjs }\n',
        ),
        '.ai/tools/list/module.mjs': `import fs from 'node:fs';\nexport default () => ${IN_MODULE};\n`,
        '.ai/tools/list/sink.yaml': tool(
          'sink',
          'executor_id: runtime/node\nrequires: [fs.write]\neffect: write\nconfig: { module: ./sink.mjs }\n',
        ),
        '.ai/tools/list/sink.mjs': `import fs from 'node:fs';\nexport const write = () => fs.writeFileSync('got/sink.txt', ${IN_MODULE});\n`,
        '.ai/tools/list/stream.yaml': tool(
          'stream',
          `executor_id: http_client\nrequires: [net.http, fs.write, process.spawn]\neffect: write\nconfig: { method: GET, url: "http://127.0.0.1:${port}/", mode: stream, stream: { destinations: [{ type: list/sink }] } }\n`,
        ),
        '.ai/directives/fails.md': directiveText('fails'),
        '../home/policy.yaml': `unsigned: allow\nhosts: ["127.0.0.1"]\nnotify: { command: "{ ${LISTS}; } > ${join(base, 'notice.txt')}", on: [failed] }\n`,
      });
      chmodSync(join(fixture.root, 'bin/git'), 0o755);
    });
    afterAll(() => {
      server.close();
      fixture.remove();
    });

    /** Runs a command as a child of that shell and returns all that it printed. */
    async function held(command: readonly string[], input = ''): Promise<string> {
      const script = `exec ${HELD.join(' ')}; exec "$@"`;
      const { PATH } = fixture.env;
      const child = spawn('bash', ['-c', script, 'bash', ...command], {
        cwd: fixture.root,
        env: {
          ...fixture.env,
          PATH: `${join(fixture.root, 'bin')}:${PATH}`,
          ANTHROPIC_BASE_URL: 'http://127.0.0.1:9/',
          ANTHROPIC_API_KEY: 'key',
        },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      let text = '';
      child.stderr.on('data', (chunk) => (text += String(chunk)));
      // A command that reads nothing may have ended by now. What it printed is asserted.
      child.stdin.on('error', () => undefined);
      // A server ends with its input, which must not come before its answer.
      if (input === '') child.stdin.end();
      else child.stdin.write(input);
      for await (const chunk of child.stdout) {
        text += String(chunk);
        if (text.includes('"id":2')) child.stdin.end();
      }
      return text;
    }
    const km = (...words: string[]) => held([process.execPath, KM, ...words]);
    const written = (path: string): string => readFileSync(path, 'utf8');

    test('has them itself', async () => {
      const text = await held(['ls', '-l', '/proc/self/fd']);
      expect(text.match(/left-open/g)).toHaveLength(HELD.length);
    });

    test.each(['list/shell', 'list/module'])('gives none to a tool (%s)', async (id) => {
      const text = await km('exec', 'tool', id);
      expect(text).toMatch(/\b0 (-> )?\/dev\/null|\b0 (-> )?(pipe|socket):/);
      expect(text).not.toContain('left-open');
    });

    test('gives none to a tool that an MCP client calls', async () => {
      const ask = (id: number, method: string, params: object) =>
        `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
      const about = {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'a', version: '1' },
      };
      const call = { item_type: 'tool', item_id: 'list/shell', parameters: {} };
      const text = await held(
        [process.execPath, KM, 'mcp', 'serve'],
        ask(1, 'initialize', about) +
          '{"jsonrpc":"2.0","method":"notifications/initialized"}\n' +
          ask(2, 'tools/call', { name: 'execute', arguments: call }),
      );
      expect(text).toMatch(/\b0 -> /);
      expect(text).not.toContain('left-open');
    });

    test('gives none to blocks of a script', async () => {
      const text = await km('script', 'list.mld');
      for (const kind of ['cmd', 'sh', 'py', 'node'])
        expect(text).toMatch(new RegExp(`^${kind} `, 'm'));
      expect(text.match(/\b0 (-> )?(\/dev\/null|pipe:|socket:)/g)?.length).toBeGreaterThanOrEqual(
        4,
      );
      expect(text).not.toContain('left-open');
    });

    test('gives none to an MCP server', async () => {
      const grants = ['--read', 'server/**', '--write', 'got/**', '--yes'];
      const words = ['mcp', 'add', 'db', '--command', process.execPath, ...grants];
      await km(...words, '--', 'server/server.mjs');
      const text = written(join(fixture.root, 'got/server.txt'));
      expect(text).toMatch(/^0 /m);
      expect(text).not.toContain('left-open');
    });

    test('gives none to a sink', async () => {
      await km('exec', 'tool', 'list/stream');
      const text = written(join(fixture.root, 'got/sink.txt'));
      expect(text).toMatch(/^0 /m);
      expect(text).not.toContain('left-open');
    });

    test('gives none to the program of a catalog', async () => {
      await km('catalog', 'add', `file://${fixture.root}/none.git`);
      const text = written(join(base, 'git.txt'));
      expect(text).toMatch(/ 0 -> /);
      expect(text).not.toContain('left-open');
    });

    test('gives none to a notifier', async () => {
      await km('run', 'fails');
      const text = written(join(base, 'notice.txt'));
      expect(text).toMatch(/ 0 -> /);
      expect(text).not.toContain('left-open');
    });
  },
);

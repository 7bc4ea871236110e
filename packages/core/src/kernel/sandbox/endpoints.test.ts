// Sockets and FIFOs in the view of a child: a process outside is at the other end. Judged by what arrives
// there, and by what comes back.
import { execFile, execFileSync } from 'node:child_process';
import {
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  readSync,
  symlinkSync,
  writeSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import {
  callOf,
  makeProject,
  portsOf,
  shell,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type JsonObject, plainText } from '../../base/index.ts';
import { createProcessPrimitive } from '../process/subprocess.ts';
import { findEndpoints } from './executable-names.ts';
import type { SandboxReport } from './plan.ts';

let project: TestProject;
let servers: Server[];
let reached: string[];
beforeEach(() => {
  project = makeProject({ 'src/a.txt': 'alpha', 'docs/b.txt': 'beta', 'run/c.txt': 'gamma' });
  servers = [];
  reached = [];
});
afterEach(() => {
  for (const server of servers) server.close();
  project.remove();
});

const inProject = (path: string): string => join(project.root, path);

/** A server outside, on a socket with this path. */
async function listen(path: string): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  const server = createServer((socket) => {
    reached.push(path);
    socket.on('error', () => undefined).end('ANSWER');
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return path;
}

const CONNECT = `
const { connect } = require('node:net');
for (const path of process.argv.slice(1)) {
  connect(path).on('error', () => console.log('refused')).on('data', (text) => console.log(String(text)));
}`;

async function run(
  report: SandboxReport,
  script: string,
  args: readonly string[],
  more: Parameters<typeof callOf>[2] = {},
  folders: readonly string[] = [],
): Promise<string> {
  const ports = portsOf(project, report);
  const PATH = [process.env.PATH, dirname(process.execPath), ...folders].join(':');
  const primitive = createProcessPrimitive({ ...ports, env: { ...ports.env, PATH } });
  const config: JsonObject = { ...shell(script), args: [...args] };
  const result = await primitive.run(callOf(project, config, more));
  const facts = (result.ok ? result.output.output : result.error.detail) as JsonObject;
  return plainText(facts.stdout ?? facts.message ?? '');
}

const connects = (
  report: SandboxReport,
  paths: readonly string[],
  more: Parameters<typeof callOf>[2] = {},
  folders: readonly string[] = [],
): Promise<string> =>
  run(report, '"$@"', [process.execPath, '-e', CONNECT, ...paths], more, folders);

const READS = {
  verify: verifierOf('process.spawn', 'fs.read **'),
  tool: { effect: 'read' as const },
};
const WRITES = { verify: verifierOf('process.spawn', 'fs.write **') };
const PARTS = { verify: verifierOf('process.spawn', 'fs.read run/**', 'fs.write src/**') };

describe.each(working)('%s', (_name, report) => {
  test.each([
    ['a tool that reads', READS],
    ['a tool that writes', WRITES],
    ['a strict tool', { ...WRITES, tool: { sandbox: 'strict' as const } }],
    ['a tool that sees parts', PARTS],
    [
      'a tool with the network',
      {
        ...WRITES,
        tool: { requires: ['net.http'] },
        verify: () => ({ ok: true as const, output: null }),
      },
    ],
  ])('%s reaches no socket, wherever it lies', async (_kind, more) => {
    const paths = [
      's',
      'run/one.sock',
      'src/deep/er/two words.sock',
      '.git/x/ipc',
      'node_modules/a/b/s',
      '.ai/tools/s',
    ].map(inProject);
    for (const path of paths) await listen(path);
    symlinkSync('run/one.sock', inProject('link.sock'));
    symlinkSync('..', inProject('run/up'));
    linkSync(inProject('run/one.sock'), inProject('src/hard.sock'));
    const ways = ['link.sock', 'run/up/run/one.sock', 'src/hard.sock'].map(inProject);
    const text = await connects(report, [...paths, ...ways], more);
    expect(text.trim().split('\n')).toEqual(Array.from({ length: 9 }, () => 'refused'));
    expect(reached).toEqual([]);
  });

  test('a socket in a toolchain on the path is not reached, nor through a link to it', async () => {
    const tools = join(project.base, 'tools');
    mkdirSync(join(tools, 'bin'), { recursive: true });
    const sockets = [join(tools, 'bin', 'a.sock'), join(tools, 'lib', 'deep', 'b.sock')];
    for (const path of sockets) await listen(path);
    symlinkSync(join(tools, 'bin'), join(project.base, 'linked'));
    const folders = [join(tools, 'bin'), join(project.base, 'linked')];
    const ways = [...sockets, join(project.base, 'linked', 'a.sock')];
    expect(await connects(report, ways, READS, folders)).toBe('refused\nrefused\nrefused\n');
    expect(reached).toEqual([]);
  });

  test.each([
    ['reads', READS],
    ['writes', WRITES],
  ])('a tool that %s neither writes into a FIFO nor reads from it', async (_kind, more) => {
    const paths = ['out', 'run/deep/in'].map(inProject);
    mkdirSync(inProject('run/deep'));
    execFileSync('mkfifo', paths);
    const [out = -1, into = -1] = paths.map((path) => openSync(path, 'r+'));
    writeSync(into, 'a word from outside\n');
    const script =
      'echo sent | timeout 5 tee "$1" > /dev/null; timeout 5 head -n 1 "$2"; echo done';
    expect(await run(report, script, paths, more)).toBe('done\n');
    writeSync(out, 'own\n');
    const read = Buffer.alloc(100);
    expect(read.toString('utf8', 0, readSync(out, read))).toBe('own\n');
    closeSync(out);
    closeSync(into);
  });

  test.each([
    ['reads', READS],
    ['writes', WRITES],
    ['is strict', { ...WRITES, tool: { sandbox: 'strict' as const } }],
  ])('a tool that %s reaches no abstract socket', async (_kind, more) => {
    const name = `km-abstract-${project.base}`;
    const server = createServer((socket) => {
      reached.push(name);
      socket.on('error', () => undefined).end('ANSWER');
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(`\0${name}`, resolve));
    const connect = CONNECT.replace('connect(path)', "connect('\\0' + path)");
    const program = [process.execPath, '-e', connect, name] as const;
    // The control: without a sandbox the same program gets an answer.
    const [file, ...args] = program;
    const outside = await promisify(execFile)(file, args);
    expect(outside.stdout).toBe('ANSWER\n');
    reached = [];
    expect(await run(report, '"$@"', program, more)).toBe('refused\n');
    expect(reached).toEqual([]);
  });

  test('its own sockets and FIFOs work, in the project and in /tmp', async () => {
    const script = `
      const { createServer, connect } = require('node:net');
      for (const path of ['own.sock', '/tmp/own.sock']) {
        const server = createServer((socket) => socket.end('mine')).listen(path, () =>
          connect(path).on('data', (text) => console.log(String(text))).on('close', () => server.close()));
      }`;
    const text = await run(
      report,
      `"$1" -e "$2"; mkfifo p; (echo x > p &); cat p`,
      [process.execPath, script],
      WRITES,
    );
    expect(text).toBe('mine\nmine\nx\n');
  });

  test('temporary files and shared memory have the size of `max_memory_mb`', async () => {
    const config = {
      ...shell('df -m --output=target,size /tmp /dev/shm | tail -n 2 | tr -s " "'),
      max_memory_mb: 64,
    };
    const primitive = createProcessPrimitive(portsOf(project, report));
    const sized = await primitive.run(callOf(project, config, READS));
    expect(sized.ok && sized.output.output).toMatchObject({ stdout: '/tmp 64\n/dev/shm 64\n' });
    const fill =
      'for f in /tmp/a /dev/shm/a /dev/a; do head -c 70M /dev/zero > $f; stat -c %s $f; done 2> /dev/null';
    const full = await primitive.run(callOf(project, { ...shell(fill), max_memory_mb: 64 }, READS));
    const { stdout } = (full.ok ? full.output.output : full.error.detail) as { stdout: string };
    const sizes = stdout.trim().split('\n').map(Number);
    expect(sizes.length).toBe(2);
    for (const size of sizes) expect(size).toBeLessThanOrEqual(64 * 1024 * 1024);
  });

  test('without a figure they have that of the default', async () => {
    const text = await run(
      report,
      'df -m --output=size /tmp /dev/shm | tail -n 2 | tr -d " "',
      [],
      READS,
    );
    expect(text).toBe('4096\n4096\n');
  });
});

describe('a project with too many folders', () => {
  beforeEach(() => {
    for (const path of ['a/b/c', 'node_modules/x/y', 'node_modules/z'])
      mkdirSync(inProject(path), { recursive: true });
    execFileSync('mkfifo', ['a/b/fifo', 'node_modules/x/fifo', 'node_modules/fifo'].map(inProject));
  });
  const found = (most: number) => {
    const result = findEndpoints([project.root], () => false, most);
    return result.ok
      ? result.output.map((path) => path.slice(project.root.length + 1)).sort()
      : result;
  };

  test('is searched as a whole when it has few', () => {
    expect(found(1000)).toEqual(['a/b/fifo', 'node_modules/fifo', 'node_modules/x/fifo']);
  });

  test('is closed where it was not searched, installed packages first', () => {
    // The root and eight folders that hold no installed packages.
    expect(found(9)).toEqual(['a/b/fifo', 'node_modules']);
    expect(found(10)).toEqual([
      'a/b/fifo',
      'node_modules/fifo',
      'node_modules/x',
      'node_modules/z',
    ]);
  });

  test('is refused when nothing of it could be searched, or there are too many FIFOs', () => {
    for (let at = 0; at < 40; at++) mkdirSync(inProject(`many-${at}`));
    expect(found(1)).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
    const many = Array.from({ length: 257 }, (_, at) => inProject(`fifo-${at}`));
    execFileSync('mkfifo', many);
    expect(found(1000)).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  });
});

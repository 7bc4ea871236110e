// A program that starts us may leave descriptors open. No process that we start has them: neither in a
// sandbox nor outside of one. Each case is a program of its own with descriptors in odd places.
import { spawn } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { working } from '../support/sandboxes.ts';

const source = (path: string): string => new URL(`../../${path}`, import.meta.url).href;
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
      import { spawn } from '${source('src/base/spawn.ts')}';
      import { runCommand } from '${source('src/items/catalogs/fetch.ts')}';
      import { runNotice } from '${source('src/harness/observe/notify.ts')}';
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
    const driver = new URL('../support/sandbox-driver.ts', import.meta.url).pathname;
    const script = `${LIST}; for fd in ${Object.keys(left).join(' ')}; do ls /proc/self/fd/$fd/ /proc/self/fd/$fd/../; done 2>&1; true`;
    const text = await runWith(left, [driver, kind, join(base, 'project'), script]);
    const { output } = JSON.parse(text) as { output?: { output?: { stdout?: string } } };
    const stdout = output?.output?.stdout ?? text;
    expect(stdout).toMatch(/ 0 -> /);
    // Descriptor 4 is the channel on which a module answers.
    expect(leftIn(stdout, 5)).toEqual([]);
    expect(leftIn(stdout, 3).filter((line) => !/^4 (socket|pipe):/.test(line))).toEqual([]);
    expect(stdout).not.toContain('\nboot');
  });
});

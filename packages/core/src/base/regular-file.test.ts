import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isInside, readRegularFile, withoutFolder } from './regular-file.ts';

let dir = '';
const server = createServer();
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'km-file-'));
  writeFileSync(join(dir, 'file'), 'text');
  mkdirSync(join(dir, 'folder'));
  execFileSync('mkfifo', [join(dir, 'pipe')]);
  symlinkSync('/dev/zero', join(dir, 'zero'));
  symlinkSync('pipe', join(dir, 'to-pipe'));
  symlinkSync('file', join(dir, 'to-file'));
  await new Promise<void>((ready) => {
    server.listen(join(dir, 'socket'), ready);
  });
});
afterAll(() => {
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

const read = (name: string, max = 100, followsLinks = true) =>
  readRegularFile(join(dir, name), { max, followsLinks });

test.each([
  ['folder', 'not_a_file'],
  ['pipe', 'not_a_file'],
  ['to-pipe', 'not_a_file'],
  ['zero', 'not_a_file'],
  ['socket', 'unreadable'],
  ['none', 'unreadable'],
  ['file/below', 'unreadable'],
])('`%s` is answered at once', (name, code) => {
  expect(read(name)).toMatchObject({ problem: { code } });
});

test('a file is read up to its bound, through a link only when that was asked for', () => {
  expect(read('file', 4)).toEqual({ bytes: Buffer.from('text') });
  expect(read('to-file', 4)).toEqual({ bytes: Buffer.from('text') });
  expect(read('file', 3)).toMatchObject({ problem: { code: 'too_large' } });
  expect(read('to-file', 4, false)).toMatchObject({ problem: { errno: 'ELOOP' } });
});

test('what grows while it is read, or says nothing of its size, is bounded too', () => {
  const whole = readRegularFile('/proc/self/maps', { max: 10 });
  expect(whole).toMatchObject({ problem: { code: 'too_large' } });
});

test.each([
  ['/a', '/a', true],
  ['/a/b', '/a', true],
  ['/ab', '/a', false],
  ['/', '/', true],
  ['/a', '/', true],
  ['/', '/a', false],
  ['/b/../a/c', '/a', true],
  ['/a/../b', '/a', false],
  ['/a/b/..', '/a/', true],
  ['//a//b', '/a', true],
  ['/a/..b', '/a', true],
])('`%s` in `%s`: %s', (path, folder, expected) => {
  expect(isInside(path, folder)).toBe(expected);
});

test('it says what the way from one to the other says', () => {
  const path = fc
    .array(fc.constantFrom('a', 'b', '..', '.', '', '..a', 'a.'), { maxLength: 5 })
    .map((steps) => `/${steps.join('/')}`);
  fc.assert(
    fc.property(path, path, (one, other) => {
      const way = relative(other, one);
      expect(isInside(one, other)).toBe(way === '' || !/^\.\.(\/|$)/.test(way));
    }),
  );
});

test.each([
  ['cannot open /w/my project/a.ts:3', 'cannot open a.ts:3'],
  ["'/w/my project/.ai/x.py' and /w/my project/b", "'.ai/x.py' and b"],
  ['at file:///w/my%20project/a.mjs:1:2', 'at a.mjs:1:2'],
  ['in /w/my project.', 'in ..'],
  ['/w/my project', '.'],
  ['/w/my project-2/a and /w/my project.old/b', '/w/my project-2/a and /w/my project.old/b'],
  ['/usr/bin/node', '/usr/bin/node'],
])('the folder of `%s` is left out', (text, shown) => {
  expect(withoutFolder(text, '/w/my project')).toBe(shown);
});

test('another name can stand for a folder, and the root of all stands for nothing', () => {
  expect(withoutFolder('/h/u/.ai/a and /h/u/.ai', '/h/u/.ai', '~/.ai/')).toBe('~/.ai/a and ~/.ai/');
  expect(withoutFolder('/a/b', '/')).toBe('/a/b');
});

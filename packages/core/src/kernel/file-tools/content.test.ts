import {
  appendFileSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail } from '../../base/index.ts';
import { eachChunk, type OpenFile, openFile } from './content.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'km-content-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function opened(name: string): OpenFile {
  const file = openFile(join(dir, name), name);
  if (!file.ok) throw new Error(file.error.detail.message);
  return file.output;
}

async function textOf(file: OpenFile): Promise<string> {
  const parts: string[] = [];
  await eachChunk(file, (chunk) => void parts.push(Buffer.from(chunk).toString('latin1')));
  closeSync(file.descriptor);
  return parts.join('');
}

test.each([0, 1, 65_536, 262_144, 262_145, 1_000_000])('reads %i bytes whole', async (size) => {
  const text = Array.from({ length: size }, (_, at) => String(at % 10)).join('');
  writeFileSync(join(dir, 'a.txt'), text);
  expect((await textOf(opened('a.txt'))) === text).toBe(true);
});

test('what is appended after the file was opened is read too', async () => {
  writeFileSync(join(dir, 'a.txt'), 'one');
  const file = opened('a.txt');
  appendFileSync(join(dir, 'a.txt'), ' and two');
  expect(await textOf(file)).toBe('one and two');
});

test('reading ends with what the reader answers', async () => {
  writeFileSync(join(dir, 'a.txt'), 'x'.repeat(200_000));
  const file = opened('a.txt');
  let pieces = 0;
  const ended = await eachChunk(file, () => {
    pieces += 1;
    return fail('invalid_input', 'enough');
  });
  closeSync(file.descriptor);
  expect(ended?.error.detail.message).toBe('enough');
  expect(pieces).toBe(1);
});

test('a link in the place of the file or of its folder is not followed', () => {
  mkdirSync(join(dir, 'real'));
  writeFileSync(join(dir, 'real/a.txt'), 'x');
  symlinkSync(join(dir, 'real'), join(dir, 'linked'));
  symlinkSync(join(dir, 'real/a.txt'), join(dir, 'link.txt'));
  expect(openFile(join(dir, 'linked/a.txt'), 'linked/a.txt').ok).toBe(false);
  expect(openFile(join(dir, 'link.txt'), 'link.txt')).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
});

test('a folder is no file, and nothing is not there', () => {
  mkdirSync(join(dir, 'real'));
  expect(openFile(join(dir, 'real'), 'real')).toMatchObject({ error: { code: 'invalid_input' } });
  expect(openFile(join(dir, 'no'), 'no')).toMatchObject({ error: { code: 'not_found' } });
});

import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resolveProjectPath } from './project-path.ts';

let base = '';
let root = '';
beforeAll(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'km-path-')));
  root = join(base, 'project');
  mkdirSync(join(root, 'src'), { recursive: true });
  writeFileSync(join(base, 'secret.txt'), 's');
  writeFileSync(join(root, 'src', 'a.ts'), 'a');
  symlinkSync('../..', join(root, 'src', 'out'));
  symlinkSync(join(base, 'nowhere'), join(root, 'dangling'));
  symlinkSync('src', join(root, 'alias'));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

test('a path inside is answered with its real place', () => {
  expect(resolveProjectPath(root, 'alias/a.ts')).toEqual({
    ok: true,
    output: { absolute: join(root, 'src/a.ts'), relative: 'src/a.ts' },
  });
  expect(resolveProjectPath(root, '.')).toMatchObject({ output: { relative: '.' } });
  expect(resolveProjectPath(root, join(root, 'new/b.ts'))).toMatchObject({
    output: { relative: 'new/b.ts' },
  });
});

test('what leads out is refused, by dots, links, absolute paths and links to nothing', () => {
  for (const path of [
    '..',
    '../secret.txt',
    'src/out/secret.txt',
    '/etc/passwd',
    'dangling',
    'dangling/x',
  ]) {
    expect(resolveProjectPath(root, path), path).toMatchObject({
      ok: false,
      error: { code: 'permission_denied' },
    });
  }
});

test('control characters and endless paths are invalid', () => {
  for (const path of ['', 'a\0b', 'a\nb', 'x'.repeat(5000)]) {
    expect(resolveProjectPath(root, path)).toMatchObject({ error: { code: 'invalid_input' } });
  }
});

test('no text leads to a place outside the project', () => {
  const part = fc.constantFrom(
    '..',
    '.',
    'src',
    'out',
    'alias',
    'dangling',
    'a.ts',
    '',
    'new',
    '/',
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      const result = resolveProjectPath(root, parts.join('/'));
      if (result.ok) expect(`${result.output.absolute}/`.startsWith(`${root}/`)).toBe(true);
    }),
  );
});

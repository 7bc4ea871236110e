import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { callFileTool, goodOutput } from '@kernmantle/test-support/file-tools';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type JsonObject, matchGlob, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';

let root: string;

beforeEach(async () => {
  root = join(await realpath(await mkdtemp(join(tmpdir(), 'search-'))), 'project');
  await mkdir(root);
});
afterEach(async () => await rm(dirname(root), { recursive: true, force: true }));

const put = async (...paths: string[]) => {
  for (const path of paths) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), `content of ${path}\nTODO here\nlast line\n`);
  }
};

/** Runs a function for a caller who may read what the glob covers. */
const call = (name: string, parameters: JsonObject, readable = '**', signal?: AbortSignal) => {
  const verify: Verifier = ({ capability, scope }) =>
    capability === 'fs.read' && matchGlob(readable, scope?.path ?? '')
      ? ok(null)
      : fail('permission_denied', `needs ${capability}`, { missing: capability });
  return callFileTool(root, name, parameters, verify, signal);
};
const works = async (...given: Parameters<typeof call>) => goodOutput(await call(...given));

async function codeOf(...given: Parameters<typeof call>): Promise<string> {
  const result = await call(...given);
  return result.ok ? 'ok' : result.error.code;
}

const found = async (...given: Parameters<typeof call>) => (await works(...given)).output.paths;

test('a folder is listed by name, with kinds and sizes', async () => {
  await put('src/b.ts', 'src/a/x.ts');
  await symlink('/', join(root, 'src/z'));
  expect((await works('list_dir', { path: 'src' })).output).toEqual({
    path: 'src',
    entries: [
      { name: 'a', type: 'folder' },
      { name: 'b.ts', type: 'file', bytes: 40 },
      { name: 'z', type: 'link' },
    ],
    total: 3,
    truncated: false,
  });
});

test('a listing shows only what may be read, and a refusal where nothing may', async () => {
  await put('src/a.ts', 'src/secret.env', 'other/b.ts');
  const names = async (path: string, glob: string) =>
    ((await works('list_dir', { path }, glob)).output.entries as JsonObject[]).map(
      ({ name }) => name,
    );
  expect(await names('src', 'src/*.ts')).toEqual(['a.ts']);
  expect(await names('.', 'src/**')).toEqual(['src']);
  expect(await codeOf('list_dir', { path: 'other' }, 'src/**')).toBe('permission_denied');
  expect(await codeOf('list_dir', { path: 'nowhere' }, 'src/**')).toBe('permission_denied');
  expect(await codeOf('list_dir', { path: 'nowhere' })).toBe('not_found');
  expect(await codeOf('list_dir', { path: 'src/a.ts' })).toBe('invalid_input');
});

test('a long listing says how much there is', async () => {
  await put(...Array.from({ length: 12 }, (_, index) => `many/${index}.txt`));
  expect((await works('list_dir', { path: 'many', limit: 5 })).output).toMatchObject({
    total: 12,
    truncated: true,
  });
});

test('a glob finds files in order, below a folder too', async () => {
  await put('src/b.ts', 'src/a.ts', 'src/deep/c.ts', 'docs/d.md');
  expect(await found('glob', { pattern: '**/*.ts' })).toEqual([
    'src/a.ts',
    'src/b.ts',
    'src/deep/c.ts',
  ]);
  expect(await found('glob', { pattern: 'src/*.ts' })).toEqual(['src/a.ts', 'src/b.ts']);
  expect(await found('glob', { pattern: '*.ts', path: 'src' })).toEqual(['src/a.ts', 'src/b.ts']);
  expect(await found('glob', { pattern: 'docs/d.md' })).toEqual(['docs/d.md']);
  expect(await found('glob', { pattern: 'none/**' })).toEqual([]);
  expect(await codeOf('glob', { pattern: '*', path: 'none' })).toBe('not_found');
  expect(await codeOf('glob', { pattern: '{a,b}' })).toBe('invalid_input');
});

test('a glob returns only what may be read', async () => {
  await put('src/a.ts', 'private/b.ts');
  expect(await found('glob', { pattern: '**/*.ts' }, 'src/**')).toEqual(['src/a.ts']);
  expect(await codeOf('glob', { pattern: 'private/*.ts' }, 'src/**')).toBe('permission_denied');
  expect(await codeOf('glob', { pattern: 'absent/*.ts' }, 'src/**')).toBe('permission_denied');
});

test('other programs’ folders are skipped unless they are asked for', async () => {
  await put('a.ts', 'node_modules/x/b.ts', '.git/c.ts', '.ai/threads/t/d.ts', '.ai/knowledge/e.ts');
  const pattern = '**/*.ts';
  expect(await found('glob', { pattern })).toEqual(['.ai/knowledge/e.ts', 'a.ts']);
  expect(await found('glob', { pattern: 'node_modules/**/*.ts' })).toEqual(['node_modules/x/b.ts']);
  expect(await found('glob', { pattern, path: '.ai/threads' })).toEqual(['.ai/threads/t/d.ts']);
  expect((await found('glob', { pattern, include_ignored: true })) as string[]).toHaveLength(5);
});

test('links are not followed, so no walk leaves the project or goes in circles', async () => {
  await put('src/a.ts');
  await symlink('..', join(root, 'src/up'));
  await symlink('/etc', join(root, 'etc'));
  expect(await found('glob', { pattern: '**' })).toEqual(['src/a.ts']);
  expect(await codeOf('glob', { pattern: '*', path: 'etc' })).toBe('permission_denied');
});

test('a bounded answer says that it is', async () => {
  await put('a.ts', 'b.ts', 'c.ts');
  expect((await works('glob', { pattern: '*', limit: 2 })).output).toMatchObject({
    paths: ['a.ts', 'b.ts'],
    truncated: true,
  });
  const { output } = await works('grep', { pattern: 'TODO', limit: 2 });
  expect(output).toMatchObject({ truncated: true, stopped_by: 'limit', files_matched: 2 });
});

test('grep shows lines with their place, and marks the files they came from', async () => {
  await put('src/a.ts', 'b.md');
  const { output, labels, sources, files } = await works('grep', { pattern: 'TODO', context: 1 });
  expect(output).toMatchObject({ files_searched: 2, files_matched: 2, truncated: false });
  expect((output.matches as JsonObject[])[1]).toEqual({
    path: 'src/a.ts',
    line: 2,
    text: 'TODO here',
    before: ['content of src/a.ts'],
    after: ['last line'],
  });
  expect(labels).toEqual(['src:file', 'dir:src']);
  expect(sources).toEqual(['file:b.md', 'file:src/a.ts']);
  expect(files?.map((file) => file.access)).toEqual(['read', 'read']);
});

test('grep takes literals, expressions, case and a glob', async () => {
  await put('src/a.ts', 'src/deep/b.ts', 'c.md');
  const lines = async (parameters: JsonObject) =>
    ((await works('grep', parameters)).output.matches as JsonObject[]).map(({ path }) => path);
  expect(await lines({ pattern: 'todo' })).toEqual([]);
  expect(await lines({ pattern: 'todo', ignore_case: true, glob: '*.ts' })).toEqual([
    'src/a.ts',
    'src/deep/b.ts',
  ]);
  expect(await lines({ pattern: 'T.DO', glob: 'src/*.ts' })).toEqual([]);
  expect(await lines({ pattern: '^T.DO\\b', regex: true, glob: 'src/*.ts' })).toEqual(['src/a.ts']);
  expect(await lines({ pattern: 'line$', regex: true, path: 'src/deep' })).toEqual([
    'src/deep/b.ts',
  ]);
  expect(await lines({ pattern: 'TODO', path: 'c.md' })).toEqual(['c.md']);
  expect(await codeOf('grep', { pattern: '(?=x)', regex: true })).toBe('invalid_input');
});

test('grep looks only into files that may be read', async () => {
  await put('src/a.ts', 'private/b.ts');
  const { output } = await works('grep', { pattern: 'TODO' }, 'src/**');
  expect(output).toMatchObject({ files_searched: 1, files_matched: 1 });
  expect(await codeOf('grep', { pattern: 'TODO', path: 'private' }, 'src/**')).toBe(
    'permission_denied',
  );
  expect(await codeOf('grep', { pattern: 'TODO', path: 'private/b.ts' }, 'src/**')).toBe(
    'permission_denied',
  );
});

test('binary files are skipped and counted, long lines are cut', async () => {
  await writeFile(join(root, 'b.bin'), new Uint8Array([0x54, 0, 0x4f]));
  await writeFile(join(root, 'long.txt'), `TODO${'x'.repeat(5000)}`);
  const { output } = await works('grep', { pattern: 'TODO' });
  expect(output.skipped).toEqual({ binary: 1 });
  expect(output.matches).toMatchObject([{ text: `TODO${'x'.repeat(496)}…` }]);
});

test('a pattern that costs too much ends the search, not the process', async () => {
  let text = '';
  for (let seed = 1; text.length < 300_000; seed = (seed * 48_271) % 2_147_483_647) {
    text += seed % 2 === 0 ? 'a' : 'b';
  }
  await writeFile(join(root, 'a.txt'), text);
  const { output } = await works('grep', { pattern: '[ab]*a[ab]{100}[xyz]', regex: true });
  expect(output).toMatchObject({ truncated: true, stopped_by: 'pattern_too_costly', matches: [] });
});

test('a cancelled search ends', async () => {
  await put('a.ts');
  expect(await codeOf('grep', { pattern: 'x' }, '**', AbortSignal.abort())).toBe('cancelled');
  expect(await codeOf('glob', { pattern: '**' }, '**', AbortSignal.abort())).toBe('cancelled');
});

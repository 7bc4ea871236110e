import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, linkSync, readdirSync, statSync } from 'node:fs';
import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { callFileTool, goodOutput } from '@kernmantle/test-support/file-tools';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type JsonObject, matchGlob, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';

let root: string;
let outside: string;

beforeEach(async () => {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'files-')));
  [root, outside] = [join(base, 'project'), join(base, 'outside')];
  await mkdir(root);
  await mkdir(outside);
});
afterEach(async () => await rm(dirname(root), { recursive: true, force: true }));

const put = async (path: string, content: string | Uint8Array) => {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), content);
};
const onDisk = (path: string) => readFile(join(root, path), 'utf8');

/** A caller who holds these globs; `fs.write` is `fs.read` too, as tokens have it. */
const holding =
  (grants: { read?: string; write?: string }): Verifier =>
  ({ capability, scope }) => {
    const globs = capability === 'fs.read' ? [grants.read, grants.write] : [grants.write];
    const held = globs.some((glob) => glob !== undefined && matchGlob(glob, scope?.path ?? ''));
    if (held) return ok(null);
    return fail('permission_denied', `needs ${capability}`, { missing: capability });
  };

const call = (
  name: string,
  parameters: JsonObject,
  verify: Verifier = holding({ write: '**' }),
  signal?: AbortSignal,
) => callFileTool(root, name, parameters, verify, signal);
const works = async (...given: Parameters<typeof call>) => goodOutput(await call(...given));

async function refused(...given: Parameters<typeof call>) {
  const result = await call(...given);
  if (result.ok) throw new Error(`expected a refusal, got ${JSON.stringify(result.output)}`);
  return result.error;
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

test('reading gives the content, where it stands, its hash and its marks', async () => {
  await put('src/deep/a.txt', 'one\ntwo\nthree');
  const { output, labels, sources, files } = await works('read_file', { path: 'src/deep/a.txt' });
  expect(output).toEqual({
    path: 'src/deep/a.txt',
    content: 'one\ntwo\nthree',
    start_line: 1,
    end_line: 3,
    total_lines: 3,
    bytes: 13,
    truncated: false,
  });
  expect(labels).toEqual(['src:file', 'dir:src/deep', 'dir:src']);
  expect(sources).toEqual(['file:src/deep/a.txt']);
  expect(files?.[0]?.sha256).toBe(sha256('one\ntwo\nthree'));
});

test('a window shows its lines, says that there is more and hashes the whole', async () => {
  const text = Array.from({ length: 100 }, (_, index) => `line ${index + 1}\n`).join('');
  await put('a.txt', text);
  const { output, files } = await works('read_file', { path: 'a.txt', offset: 10, limit: 2 });
  expect(output).toMatchObject({
    content: 'line 10\nline 11\n',
    start_line: 10,
    end_line: 11,
    total_lines: 100,
    truncated: true,
    next_offset: 12,
  });
  expect(files?.[0]?.sha256).toBe(sha256(text));
});

test('windows one after the other give the whole file', async () => {
  const texts = fc.array(fc.constantFrom('a', 'é\n', '\n', '\r\n', '😀', 'long'.repeat(50)));
  await fc.assert(
    fc.asyncProperty(texts, fc.integer({ min: 1, max: 4 }), async (parts, limit) => {
      await put('w.txt', parts.join(''));
      let [read, offset] = ['', 1];
      for (;;) {
        const { output } = await works('read_file', { path: 'w.txt', offset, limit });
        read += output.content as string;
        if (output.next_offset === undefined) break;
        offset = output.next_offset as number;
      }
      expect(read).toBe(parts.join(''));
    }),
    { numRuns: runs(50) },
  );
});

test('a huge line is cut, and the answer says so', async () => {
  await put('a.txt', `${'é'.repeat(400_000)}\nrest\n`);
  const { output } = await works('read_file', { path: 'a.txt' });
  expect((output.content as string).length).toBe(256 * 1024);
  expect(output).toMatchObject({ truncated: true, cut_line: true, next_offset: 2, total_lines: 2 });
});

test('binary files are refused, broken text is marked, empty files are empty', async () => {
  await put('b.bin', new Uint8Array([1, 2, 0, 3]));
  expect(await refused('read_file', { path: 'b.bin' })).toMatchObject({ detail: { binary: true } });
  await put('latin.txt', new Uint8Array([0x67, 0xfc, 0x6e]));
  expect((await works('read_file', { path: 'latin.txt' })).output).toMatchObject({
    content: 'g\ufffdn',
    invalid_utf8: true,
  });
  await put('empty.txt', '');
  expect((await works('read_file', { path: 'empty.txt' })).output).toMatchObject({
    content: '',
    total_lines: 0,
    truncated: false,
  });
});

test('an offset past the end, a folder and a missing file are told apart', async () => {
  await put('src/config.ts', 'x\n');
  expect((await refused('read_file', { path: 'src/config.ts', offset: 9 })).detail).toMatchObject({
    total_lines: 1,
  });
  expect((await refused('read_file', { path: 'src' })).detail.message).toContain('is a folder');
  const missing = await refused('read_file', { path: 'src/confg.ts' });
  expect(missing).toMatchObject({ code: 'not_found', detail: { suggestion: 'src/config.ts' } });
});

test('a denial comes before any word about what exists', async () => {
  await put('secret/key.txt', 'x');
  const only = holding({ read: 'src/**' });
  for (const path of ['secret/key.txt', 'secret/none.txt']) {
    expect((await refused('read_file', { path }, only)).code).toBe('permission_denied');
  }
  const near = await refused(
    'read_file',
    { path: 'secret/ke.txt' },
    holding({ read: '**/ke.txt' }),
  );
  expect(near.detail.suggestion).toBe(undefined);
});

test('rights are asked for the real place, not for the name', async () => {
  await put('private/a.txt', 'secret');
  await mkdir(join(root, 'src'));
  await symlink('../private/a.txt', join(root, 'src/link.txt'));
  const only = holding({ read: 'src/**' });
  expect((await refused('read_file', { path: 'src/link.txt' }, only)).code).toBe(
    'permission_denied',
  );
  expect((await works('read_file', { path: 'src/link.txt' })).output.path).toBe('private/a.txt');
});

test('no path leads out of the project', async () => {
  await writeFile(join(outside, 'a.txt'), 'secret');
  await symlink(outside, join(root, 'way'));
  await symlink(join(outside, 'new.txt'), join(root, 'dangling'));
  const paths = ['../outside/a.txt', join(outside, 'a.txt'), 'way/a.txt', 'dangling', 'a\0b', ''];
  for (const path of paths) {
    expect((await call('read_file', { path })).ok).toBe(false);
    expect((await call('write_file', { path, content: 'x' })).ok).toBe(false);
    expect((await call('edit_file', { path, old_string: 'secret', new_string: 'x' })).ok).toBe(
      false,
    );
  }
  expect(readdirSync(outside)).toEqual(['a.txt']);
  expect(await readFile(join(outside, 'a.txt'), 'utf8')).toBe('secret');
});

test('a folder swapped for a link after the check does not lead out', async () => {
  await mkdir(join(outside, 'in'));
  await writeFile(join(outside, 'in/a.txt'), 'theirs');
  await writeFile(join(outside, 'a.txt'), 'theirs');
  // The verifier runs between the check and the opening: the moment an attacker would choose.
  const swapping: Verifier = () => {
    execFileSync('mv', [join(root, 'box'), join(root, 'gone')]);
    execFileSync('ln', ['-s', outside, join(root, 'box')]);
    return ok(null);
  };
  for (const path of ['box/in/a.txt', 'box/a.txt', 'box/in/new/b.txt']) {
    for (const name of ['read_file', 'write_file']) {
      await put('box/in/a.txt', 'mine');
      await put('box/a.txt', 'mine');
      expect((await call(name, { path, content: 'x' }, swapping)).ok).toBe(false);
      await rm(join(root, 'box'));
      await rm(join(root, 'gone'), { recursive: true });
    }
  }
  expect(readdirSync(outside, { recursive: true, encoding: 'utf8' }).toSorted()).toEqual([
    'a.txt',
    'in',
    'in/a.txt',
  ]);
  expect(await readFile(join(outside, 'in/a.txt'), 'utf8')).toBe('theirs');
});

test('a pipe in the project does not hang whoever reads it', async () => {
  execFileSync('mkfifo', [join(root, 'pipe')]);
  expect((await refused('read_file', { path: 'pipe' })).detail.message).toContain(
    'not a regular file',
  );
  expect((await refused('write_file', { path: 'pipe', content: 'x' })).code).toBe('invalid_input');
});

test('writing makes the folders, keeps the mode and leaves nothing behind', async () => {
  const made = await works('write_file', { path: 'a/b/c.sh', content: 'one' });
  expect(made.output).toEqual({ path: 'a/b/c.sh', bytes: 3, created: true });
  expect(made.files).toMatchObject([
    { access: 'written', relative: 'a/b/c.sh', sha256: sha256('one') },
  ]);
  await chmod(join(root, 'a/b/c.sh'), 0o750);
  const again = await works('write_file', { path: 'a/b/c.sh', content: 'twö' });
  expect(again.output).toMatchObject({ bytes: 4, created: false });
  expect(statSync(join(root, 'a/b/c.sh')).mode & 0o777).toBe(0o750);
  expect(await onDisk('a/b/c.sh')).toBe('twö');
  expect(readdirSync(join(root, 'a/b'))).toEqual(['c.sh']);
});

test('`append` adds to the end and leaves what is there', async () => {
  await works('write_file', { path: 'log.txt', content: 'one\n' });
  const given = { path: 'log.txt', old_string: '', new_string: 'two\n', append: true };
  const { output } = await works('edit_file', given);
  expect(output).toEqual({ path: 'log.txt', added: 4, bytes: 8 });
  expect(await onDisk('log.txt')).toBe('one\ntwo\n');
  const error = await refused('edit_file', { ...given, old_string: 'one' });
  expect(error.code).toBe('invalid_input');
  expect((await refused('edit_file', { ...given, path: 'none.txt' })).code).toBe('not_found');
  linkSync(join(root, 'log.txt'), join(root, 'twice.txt'));
  await refused('edit_file', given);
  expect(await onDisk('twice.txt')).toBe('one\ntwo\n');
});

test('what is written is held to what was judged', async () => {
  const sha = (text: string) => createHash('sha256').update(text).digest('hex');
  const { signal } = new AbortController();
  const held = async (name: string, holds: string, parameters: JsonObject) =>
    (await callFileTool(root, name, parameters, () => ok(null), signal, { holds })).ok;
  const write = (path: string, content: string) => ({ path, content });
  await put('there.txt', 'one');
  await put('other/kept.txt', 'one');
  await symlink('other', join(root, 'link'));
  // The file appeared, changed or vanished since, or a link was put in its path.
  expect(await held('write_file', 'new', write('there.txt', 'two'))).toBe(false);
  expect(await held('write_file', sha('zero'), write('there.txt', 'two'))).toBe(false);
  expect(await held('write_file', sha('one'), write('gone.txt', 'two'))).toBe(false);
  expect(await held('write_file', 'never', write('none.txt', 'two'))).toBe(false);
  expect(await held('write_file', 'new', write('link/none.txt', 'two'))).toBe(false);
  const edit = { path: 'there.txt', old_string: 'one', new_string: 'two' };
  for (const holds of ['new', 'add', 'never', sha('zero')]) {
    expect(await held('edit_file', holds, edit)).toBe(false);
  }
  const add = { ...edit, old_string: '', append: true };
  expect(await held('edit_file', sha('zero'), add)).toBe(false);
  expect([await onDisk('there.txt'), await onDisk('other/kept.txt')]).toEqual(['one', 'one']);
  expect(existsSync(join(root, 'none.txt')) || existsSync(join(root, 'gone.txt'))).toBe(false);
  expect(await held('edit_file', 'add', add)).toBe(true);
  expect(await held('edit_file', sha('onetwo'), { ...edit, old_string: 'twotwo' })).toBe(false);
  expect(await held('write_file', sha('onetwo'), write('there.txt', 'three'))).toBe(true);
  expect(await held('write_file', 'new', write('new.txt', 'one'))).toBe(true);
  expect([await onDisk('there.txt'), await onDisk('new.txt')]).toEqual(['three', 'one']);
});

test('of many who create the same file one does', async () => {
  const { signal } = new AbortController();
  const done = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      callFileTool(
        root,
        'write_file',
        { path: 'deep/er/one.txt', content: `${at}` },
        () => ok(null),
        signal,
        { holds: 'new' },
      ),
    ),
  );
  const winners = done.flatMap(({ ok: isDone }, at) => (isDone ? [`${at}`] : []));
  expect(winners).toHaveLength(1);
  expect(await onDisk('deep/er/one.txt')).toBe(winners[0]);
  expect(readdirSync(join(root, 'deep/er'))).toEqual(['one.txt']);
});

test('`overwrite: false` refuses what exists', async () => {
  await works('write_file', { path: 'a.txt', content: 'one', overwrite: false });
  const error = await refused('write_file', { path: 'a.txt', content: 'two', overwrite: false });
  expect(error.detail).toMatchObject({ reason: 'exists' });
  expect(error.detail.message).toContain('exists already');
  expect(await onDisk('a.txt')).toBe('one');
});

test('writing needs `fs.write` on the place and makes no folder without it', async () => {
  const only = holding({ write: 'out/**', read: '**' });
  expect((await refused('write_file', { path: 'src/a.txt', content: 'x' }, only)).code).toBe(
    'permission_denied',
  );
  expect(existsSync(join(root, 'src'))).toBe(false);
  await works('write_file', { path: 'out/a.txt', content: 'x' }, only);
});

test('items and git are out of reach, whatever is granted', async () => {
  await put('.ai/policy.yaml', 'a: 1\n');
  await symlink('.ai', join(root, 'alias'));
  const paths = [
    '.ai/tools/x.yaml',
    '.AI/x',
    'alias/policy.yaml',
    '.git/hooks/pre-commit',
    'sub/.git/config',
  ];
  for (const path of paths) {
    expect((await refused('write_file', { path, content: 'x' })).code).toBe('permission_denied');
    const edit = { path, old_string: 'a', new_string: 'b' };
    expect((await refused('edit_file', edit)).code).toBe('permission_denied');
  }
  expect(await onDisk('.ai/policy.yaml')).toBe('a: 1\n');
});

test('a cancelled call writes nothing', async () => {
  const error = await refused(
    'write_file',
    { path: 'a.txt', content: 'x' },
    holding({ write: '**' }),
    AbortSignal.abort(),
  );
  expect(error.code).toBe('cancelled');
  expect(existsSync(join(root, 'a.txt'))).toBe(false);
});

test('an edit replaces one exact text and reports where', async () => {
  await put('a.ts', 'const a = 1;\nconst b = 2;\n');
  const edit = { path: 'a.ts', old_string: 'b = 2', new_string: "b = '$&$1'" };
  const { output, files } = await works('edit_file', edit);
  expect(output).toMatchObject({ replacements: 1, lines: [2] });
  expect(await onDisk('a.ts')).toBe("const a = 1;\nconst b = '$&$1';\n");
  expect(files?.map((file) => file.access)).toEqual(['read', 'written']);
});

test('a text that is missing or not unique is refused with the places', async () => {
  await put('a.ts', 'x = 1\ny\n\tx = 1\n');
  const twice = await refused('edit_file', { path: 'a.ts', old_string: 'x = 1', new_string: 'z' });
  expect(twice.detail).toMatchObject({ reason: 'not_unique', lines: [1, 3], matches: 2 });
  const missing = await refused('edit_file', {
    path: 'a.ts',
    old_string: 'y\nx = 1',
    new_string: 'z',
  });
  expect(missing.detail).toMatchObject({ reason: 'no_match', near_line: 2 });
  expect(missing.detail.message).toContain('differs only in white space');
  const all = { path: 'a.ts', old_string: 'x = 1', new_string: 'z', replace_all: true };
  expect((await works('edit_file', all)).output).toMatchObject({ replacements: 2, lines: [1, 3] });
  expect(await onDisk('a.ts')).toBe('z\ny\n\tz\n');
});

test('Windows line ends and byte order marks survive an edit', async () => {
  await put('a.txt', '\ufeffone\r\ntwo\r\nthree\r\n');
  await works('edit_file', { path: 'a.txt', old_string: 'one\ntwo', new_string: '1\n2' });
  expect(await onDisk('a.txt')).toBe('\ufeff1\r\n2\r\nthree\r\n');
});

test('what is not UTF-8 is not edited', async () => {
  await put('latin.txt', new Uint8Array([0x67, 0xfc, 0x6e]));
  const error = await refused('edit_file', { path: 'latin.txt', old_string: 'g', new_string: 'h' });
  expect(error.detail.message).toContain('not UTF-8');
});

test('a replacement that would explode is refused before it is built', async () => {
  await put('a.txt', 'a'.repeat(1_000_000));
  const edit = { path: 'a.txt', old_string: 'a', new_string: 'x'.repeat(10_000) };
  const error = await refused('edit_file', { ...edit, replace_all: true });
  expect(error.detail.message).toContain('has 10000000000 bytes');
});

test('an edit undone gives the text back', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\t'), maxLength: 40 });
  const edit = { path: 'f.txt', old_string: 'MARK', new_string: 'DONE' };
  const undo = { path: 'f.txt', old_string: 'DONE', new_string: 'MARK' };
  await fc.assert(
    fc.asyncProperty(text, text, async (before, after) => {
      await put('f.txt', `${before}MARK${after}`);
      const { output } = await works('edit_file', edit);
      expect(output.lines).toEqual([before.split('\n').length]);
      await works('edit_file', undo);
      expect(await onDisk('f.txt')).toBe(`${before}MARK${after}`);
    }),
  );
});

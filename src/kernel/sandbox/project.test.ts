import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeProject, type TestProject } from '../../../tests/support/processes.ts';
import { matchGlob } from '../../base/index.ts';
import { writablePlaces } from './project.ts';

const FILES = [
  'a.txt',
  'src/a.ts',
  'src/deep/b.ts',
  'docs/x.md',
  'docs/y/z.md',
  '.git/config',
  '.ai/x',
  'node_modules/m/i.js',
];
let project: TestProject;
beforeAll(() => {
  project = makeProject(Object.fromEntries(FILES.map((path) => [path, ''])));
});
afterAll(() => project.remove());

const placesFor = (allow: readonly string[], deny: readonly string[] = []) => {
  const matches = (globs: readonly string[], path: string) =>
    globs.some((glob) => matchGlob(glob, path));
  const found = writablePlaces(
    project.root,
    (path) => matches(allow, path) && !matches(deny, path),
    'unguessable',
  );
  if (!found.ok) throw new Error(found.error.detail.message);
  return found.output;
};

test('everything or nothing needs no places', () => {
  expect(placesFor(['**'])).toEqual({ root: 'write', places: [] });
  expect(placesFor([])).toEqual({ root: 'read', places: [] });
});

test('a glob opens the folders it covers as a whole, and single files', () => {
  expect(placesFor(['src/**', 'a.txt'])).toEqual({
    root: 'read',
    places: expect.arrayContaining([
      { path: 'src', access: 'write' },
      { path: 'a.txt', access: 'write' },
    ]),
  });
});

test('a glob over names inside a folder opens the files, not the folder', () => {
  expect(placesFor(['src/*.ts']).places).toEqual([{ path: 'src/a.ts', access: 'write' }]);
});

test('what is denied is closed inside what is open', () => {
  expect(placesFor(['**'], ['docs/**']).places).toEqual([{ path: 'docs', access: 'read' }]);
  expect(placesFor(['**'], ['src/deep/b.ts']).places).toEqual([
    { path: 'src/deep/b.ts', access: 'read' },
  ]);
});

test('no file is writable in there that may not be written', () => {
  const glob = fc.constantFrom(
    '**',
    'src/**',
    'src/*',
    'docs/**',
    '*',
    '*.txt',
    'docs/y/**',
    '**/*.md',
    'src/deep/b.ts',
  );
  const mounted = FILES.filter((path) => !/^(\.git|\.ai|node_modules)\//.test(path));
  fc.assert(
    fc.property(
      fc.array(glob, { maxLength: 4 }),
      fc.array(glob, { maxLength: 3 }),
      (allow, deny) => {
        const { root, places } = placesFor(allow, deny);
        for (const file of mounted) {
          const over = places
            .filter(({ path }) => file === path || file.startsWith(`${path}/`))
            .at(-1);
          const isWritable = (over?.access ?? root) === 'write';
          const mayWrite =
            allow.some((g) => matchGlob(g, file)) && !deny.some((g) => matchGlob(g, file));
          if (isWritable) expect(mayWrite, file).toBe(true);
        }
      },
    ),
  );
});

test('rights scattered over too many places are refused', () => {
  const many = makeProject(
    Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`d${index}/f`, ''])),
  );
  const found = writablePlaces(many.root, (path) => matchGlob('d*/**', path), 'unguessable');
  expect(found).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  many.remove();
});

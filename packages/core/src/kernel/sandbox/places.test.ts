import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { matchGlob } from '../../base/index.ts';
import { findPlaces, type MountPlace } from './places.ts';

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

const placesFor = (allow: readonly string[], deny: readonly string[] = [], areKnown = true) => {
  const matches = (globs: readonly string[], path: string) =>
    globs.some((glob) => matchGlob(glob, path));
  const found = findPlaces(project.root, {
    mayRead: () => true,
    mayWrite: (path) => matches(allow, path) && !matches(deny, path),
    unguessable: 'unguessable',
    globs: areKnown ? [...allow, ...deny] : undefined,
  });
  if (!found.ok) throw new Error(found.error.detail.message);
  return { root: found.output.root, places: found.output.places };
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
  // Mounted by themselves, the folders above it cannot be renamed.
  expect(placesFor(['**'], ['src/deep/b.ts']).places).toEqual([
    { path: 'src', access: 'write' },
    { path: 'src/deep', access: 'write' },
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
    'node_modules/**',
    'node_modules/*/i.js',
    'src/**/b.ts',
  );
  const mounted = FILES.filter((path) => !/^(\.git|\.ai)\//.test(path));
  fc.assert(
    fc.property(
      fc.array(glob, { maxLength: 4 }),
      fc.array(glob, { maxLength: 3 }),
      fc.boolean(),
      (allow, deny, areKnown) => {
        const { root, places } = placesFor(allow, deny, areKnown);
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
    Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`d${index}/f`, ''])),
  );
  const found = findPlaces(many.root, {
    mayRead: () => true,
    mayWrite: (path) => matchGlob('d*/**', path),
    unguessable: 'unguessable',
  });
  expect(found).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  many.remove();
});

describe('a project too large to ask about everything', () => {
  let large: TestProject;
  const DEEP = 'a/b/c/d/e/f/g/h';
  beforeAll(() => {
    const files = Array.from(
      { length: 400 },
      (_, index) => `node_modules/m${index % 100}/f${index}`,
    );
    const others = ['src/a.ts', 'src/locked/x', 'zapp/config/x', `${DEEP}/x`, 'Secret/x'];
    large = makeProject(Object.fromEntries([...files, ...others].map((path) => [path, ''])));
  });
  afterAll(() => large.remove());

  const ask = (deny: readonly string[], areKnown: boolean, most = 200) => {
    let asked = 0;
    const found = findPlaces(large.root, {
      mayRead: () => true,
      mayWrite(path) {
        asked++;
        return !deny.some((glob) => matchGlob(glob.toLowerCase(), path.toLowerCase()));
      },
      unguessable: 'unguessable',
      globs: areKnown ? ['**', ...deny] : undefined,
      most,
    });
    if (!found.ok) throw new Error(found.error.detail.message);
    return { root: found.output.root, places: found.output.places, asked };
  };

  test('is closed exactly where a glob denies it, at any depth and in any case', () => {
    const deny = [
      'src/locked/**',
      'zapp/config/**',
      `${DEEP}/**`,
      'node_modules/m7/**',
      'secret/**',
    ];
    const { root, places, asked } = ask(deny, true);
    expect(root).toBe('write');
    const paths = places.filter(({ access }) => access === 'read').map(({ path }) => path);
    expect(paths.sort()).toEqual(
      ['Secret', DEEP, 'node_modules/m7', 'src/locked', 'zapp/config'].sort(),
    );
    expect(asked).toBeLessThan(100);
  });

  test('is not writable where nobody could be asked, and installed packages come last', () => {
    const closed: MountPlace = { path: 'node_modules', access: 'read' };
    expect(ask(['**/*.env'], true)).toMatchObject({ root: 'write', places: [closed] });
    const hidden: MountPlace = { path: 'node_modules', access: 'none' };
    expect(ask([], false)).toMatchObject({ root: 'write', places: [hidden] });
    const some = ask([], false, 500);
    const shut = some.places.filter(({ access }) => access !== 'write');
    expect(shut.length).toBeGreaterThan(0);
    expect(shut.every(({ path }) => path.startsWith('node_modules/m'))).toBe(true);
    expect(ask([], false, 3)).toMatchObject({ root: 'none', places: [] });
  });

  test('costs two questions where everything is granted', () => {
    expect(ask([], true)).toEqual({ root: 'write', places: [], asked: 2 });
  });
});

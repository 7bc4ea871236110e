// The packages: their manifests say what their sources import, and the examples of their READMEs run.
import { execFile } from 'node:child_process';
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { timeoutMs } from './support/soak.ts';

interface Manifest {
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly sideEffects?: unknown;
}
const manifestIn = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
const ROOT = manifestIn('.');
const PACKAGES = readdirSync('packages');
const RATCHET = JSON.parse(readFileSync('scripts/house/ratchet.json', 'utf8')) as Readonly<
  Record<string, Readonly<Record<string, number>>>
>;
const isOwn = (name: string): boolean => name.startsWith('@kernmantle/');
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort();

/** Packages that the sources of a workspace import, tests aside. */
function importedBy(name: string): string[] {
  const files = globSync(`packages/${name}/src/**/*.{ts,tsx}`).filter(
    (path) => !/\.test\.tsx?$/.test(path),
  );
  const specifiers = files.flatMap((path) =>
    [
      ...readFileSync(path, 'utf8').matchAll(
        /(?:^|\n)[^\n/*]*(?:\bfrom|\bimport|\bimport\(|\brequire\(|createRequire\(import\.meta\.url\)(?:\.resolve)?\()\s*'([@a-z][^'\n]*)'/g,
      ),
    ].map(([, specifier = '']) => specifier),
  );
  return sorted(
    specifiers
      .filter((one) => !one.startsWith('node:'))
      .map((one) =>
        one
          .split('/')
          .slice(0, one.startsWith('@') ? 2 : 1)
          .join('/'),
      ),
  );
}

test('the published package depends on what the packages depend on, at the same versions', () => {
  const all = PACKAGES.flatMap((name) =>
    Object.entries(manifestIn(`packages/${name}`).dependencies ?? {}),
  );
  const union = Object.fromEntries(all.filter(([name]) => !isOwn(name)));
  expect(union).toEqual(ROOT.dependencies);
  for (const name of PACKAGES)
    expect(ROOT.devDependencies).toMatchObject(
      manifestIn(`packages/${name}`).devDependencies ?? {},
    );
});

test.each(PACKAGES)('the manifest of %s names what its sources import', (name) => {
  const { dependencies, devDependencies } = manifestIn(`packages/${name}`);
  const declared = Object.keys({ ...dependencies, ...devDependencies });
  expect(importedBy(name).filter((one) => one !== `@kernmantle/${name}`)).toEqual(sorted(declared));
});

test('core has one door per folder and none for all of it', () => {
  const folders = readdirSync('packages/core/src').sort();
  expect(Object.entries(manifestIn('packages/core').exports ?? {})).toEqual(
    folders.map((folder) => [`./${folder}`, `./src/${folder}/index.ts`]),
  );
});

test('no module of a package has an effect when it is imported', () => {
  for (const name of PACKAGES)
    expect(manifestIn(`packages/${name}`).sideEffects, name).toEqual(
      name === 'web' ? ['**/*.css', './src/page/main.tsx'] : false,
    );
});

describe.each(PACKAGES)('the README of %s', (name) => {
  const text = readFileSync(`packages/${name}/README.md`, 'utf8');

  test('has a purpose, a door, an example, and a table of places that exist', () => {
    const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual([
      `@kernmantle/${name}`,
      'Door',
      'Example',
      'Where to change what',
      'Tests',
    ]);
    const rows = [...text.matchAll(/^\| [^|]+ \| (.*) \|$/gm)].slice(1);
    const places = rows.flatMap(([, places = '']) =>
      [...places.matchAll(/`([\w./-]+)`/g)].map(([, place = '']) => place),
    );
    expect(places.length).toBeGreaterThan(3);
    for (const place of places)
      expect(globSync(`packages/${name}/${place}`), place).toHaveLength(1);
  });

  test('names what the doors export, and the line budget', () => {
    const doors = Object.values(manifestIn(`packages/${name}`).exports ?? {})
      .map((path) => readFileSync(join('packages', name, String(path)), 'utf8'))
      .join('\n');
    const [, door = '', tests = ''] =
      /## Door\n([\s\S]*)## Example[\s\S]*## Tests\n([\s\S]*)/.exec(text) ?? [];
    const names = [...door.matchAll(/`(\w+)`/g)].map(([, word = '']) => word);
    expect(names.length).toBeGreaterThan(3);
    expect(names.filter((word) => !new RegExp(`\\b${word}\\b`).test(doors))).toEqual([]);
    expect(tests.replaceAll('\n', ' ')).toContain(
      `The line budget is ${RATCHET[name]?.['line budget']}.`,
    );
    expect(tests).toContain(`npm test -w @kernmantle/${name}`);
  });

  test('has an example that prints what it says', { timeout: timeoutMs(60_000) }, async () => {
    const [, code = '', output = ''] =
      /```ts\n([\s\S]*?)```\n[\s\S]*?```text\n([\s\S]*?)```/.exec(text) ?? [];
    expect(code).not.toBe('');
    // The program finds the packages above its working directory, which is empty.
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'km-readme-')));
    const [program, cwd] = [join(folder, 'example.mts'), join(folder, 'empty')];
    mkdirSync(cwd);
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    writeFileSync(program, code);
    try {
      const options = { cwd, env: { PATH: process.env['PATH'], HOME: cwd } };
      const words = ['--no-warnings', program];
      const done = await promisify(execFile)(process.execPath, words, options);
      expect(done.stdout).toBe(output);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

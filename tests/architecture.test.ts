import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, test } from 'vitest';

const FLOORS = [
  ['base'],
  ['trust', 'expr'],
  ['flow'],
  ['items'],
  ['kernel'],
  ['llm', 'store'],
  ['harness', 'script', 'mcp'],
  ['runtime'],
  ['web'],
  ['cli', 'index.ts'],
];
const roomOf = (path: string) => path.split('/')[0] ?? path;
const floorOf = (room: string) => FLOORS.findIndex((rooms) => rooms.includes(room));

const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);
const textOf = (file: string) => readFileSync(`src/${file}`, 'utf8');

/** Every relative import of a file, static or dynamic, as a path below `src`. */
function importsOf(file: string, text = textOf(file)): string[] {
  const found = text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g);
  const targets = [...found].map(([, path = '']) => posix.join(posix.dirname(file), path));
  // What tests are built from stands outside.
  return targets.filter((target) => !target.startsWith('../tests/support/'));
}

/** Is `target` in the same room, or the door of a room further down? */
function mayImport(file: string, target: string): boolean {
  const [from, to] = [roomOf(file), roomOf(target)];
  if (from === to) return true;
  return floorOf(to) < floorOf(from) && (target === to || target === `${to}/index.ts`);
}

test('every room has its floor', () => {
  expect(files.map(roomOf).filter((room) => floorOf(room) === -1)).toEqual([]);
});

test('imports point down and enter through doors', () => {
  const offences = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => !mayImport(file, target))
      .map((target) => `${file} -> ${target}`),
  );
  expect(offences).toEqual([]);
});

/** What is there at run time: `import type` is erased. */
const valueImportsOf = (file: string): string[] =>
  importsOf(file, textOf(file).replace(/import type [^;]+;|export type \{[^;]+;/g, ''));

test('no file imports itself, however far the way around', () => {
  const graph = new Map(files.map((file) => [file, valueImportsOf(file)]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (done.has(file) || path.includes(file)) return;
    for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(cycles).toEqual([]);
});

test('importing the library loads none of its rooms', () => {
  const statements = textOf('index.ts').match(/^(import|export) [^;]*? from '[^']+'/gm) ?? [];
  expect(statements.length).toBeGreaterThan(0);
  expect(statements.filter((statement) => !/^(import|export) type /.test(statement))).toEqual([]);
});

test('the kernel knows no threads, models, prices or hooks', () => {
  const rooms = ['kernel/'];
  const words = /\b(spawnThread|runThread|pricing|tierOf|hookDirective)\b/;
  const offences = files.filter(
    (file) =>
      rooms.some((room) => file.startsWith(room)) &&
      !file.endsWith('.test.ts') &&
      words.test(textOf(file).replace(/\/\/.*|\/\*[\s\S]*?\*\//g, '')),
  );
  expect(offences).toEqual([]);
});

test('each dependency is imported by one room only', () => {
  const users = new Map<string, Set<string>>();
  for (const file of files.filter((name) => !name.endsWith('.test.ts'))) {
    for (const [, name = ''] of textOf(file).matchAll(/from '(@?[a-z][^':]*)'/g)) {
      const dependency = name
        .split('/')
        .slice(0, name.startsWith('@') ? 2 : 1)
        .join('/');
      users.set(dependency, (users.get(dependency) ?? new Set()).add(roomOf(file)));
    }
  }
  const shared = [...users].filter(([, rooms]) => rooms.size > 1).map(([name]) => name);
  expect(shared).toEqual([]);
});

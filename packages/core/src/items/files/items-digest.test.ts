import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../base/index.ts';
import { createItemsDigest } from './items-digest.ts';
import type { Root } from './root.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-digest-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

type Files = Readonly<Record<string, string>>;

const FILES: Files = {
  'AGENTS.md': 'be kind\n',
  '.ai/directives/deploy.md': '# deploy\r\nwith both kinds of line ends\n',
  '.ai/directives/docs/notes.md': '# notes\n',
  '.ai/tools/text/count.yaml': 'tool_id: text/count\n',
  '.ai/tools/text/count.ts': 'export const run = () => 1;\n',
  '.ai/tools/text/help/words.ts': 'export const words = [];\n',
  '.ai/knowledge/rules.md': 'rules\n',
  '.ai/skills/cook/SKILL.md': 'cook\n',
  '.ai/config/limits.yaml': 'defaults: {}\n',
  '.ai/config/project.yaml': 'id: prj_0123456789abcdef\n',
  '.ai/policy.yaml': 'rules: {}\n',
  '.ai/scripts/deploy.mld': '/show "x"\n',
};
const NAMES = Object.keys(FILES);

function write(project: string, files: Files, order: readonly string[] = Object.keys(files)): void {
  for (const name of order) {
    const file = join(project, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, files[name] ?? '');
  }
}

const none = (): readonly Root[] => [];

function digestOf(project: string, roots: () => readonly Root[] = none): string {
  const digest = createItemsDigest(project, roots, systemClock)();
  if (!digest.ok) throw new Error(digest.error.detail.message);
  return digest.output;
}

let made = 0;
const folder = (): string => join(dir, String(++made));

test('the same files have one digest, wherever they lie, whenever and in which order they came', () => {
  const first = folder();
  write(first, FILES);
  const expected = digestOf(first);
  expect(expected).toMatch(/^sha256:[0-9a-f]{64}$/);
  fc.assert(
    fc.property(
      fc.shuffledSubarray(NAMES, { minLength: NAMES.length, maxLength: NAMES.length }),
      fc.integer({ min: 1, max: 2_000_000_000 }),
      fc.array(fc.constantFrom('deep', 'Other Name', 'ünï'), { maxLength: 3 }),
      (order, time, path) => {
        const project = join(folder(), ...path);
        write(project, FILES, order);
        for (const name of order) utimesSync(join(project, name), time, time);
        expect(digestOf(project)).toBe(expected);
      },
    ),
    { numRuns: 20 },
  );
});

/** Returns another name that counts. Beside `.ai` only one name counts. */
const otherName = (name: string): string =>
  name.startsWith('.ai/') ? name.replace(/(\.\w+)$/, '2$1') : `.ai/moved/${name}`;

test('every change of a file of the project is another digest', () => {
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(
      fc.constantFrom(...NAMES),
      fc.constantFrom('change', 'remove', 'rename', 'line ends', 'add'),
      (name, how) => {
        const project = folder();
        const { [name]: text = '', ...rest } = FILES;
        const changed: Files =
          {
            change: { ...FILES, [name]: `${text}x` },
            remove: rest,
            rename: { ...rest, [otherName(name)]: text },
            'line ends': { ...FILES, [name]: text.replaceAll(/\r?\n/g, '\r\n\r\n') },
            add: { ...FILES, [`.ai/tools/more/${how}.py`]: name },
          }[how] ?? FILES;
        write(project, changed);
        const digest = digestOf(project);
        const before = seen.get(digest);
        expect(before === undefined || before === JSON.stringify(changed)).toBe(true);
        seen.set(digest, JSON.stringify(changed));
      },
    ),
    { numRuns: 60 },
  );
  const project = folder();
  write(project, FILES);
  expect(seen.has(digestOf(project))).toBe(false);
});

test('what runs leave behind, and what is no file of the project, does not count', () => {
  const project = folder();
  write(project, FILES);
  const before = digestOf(project);
  write(project, {
    '.ai/threads/registry.db': 'x',
    '.ai/threads/t1/transcript.jsonl': 'x',
    '.ai/audit.jsonl': 'x',
    '.ai/labels.jsonl': 'x',
    '.ai/outputs/a.txt': 'x',
    '.ai/.env/python/a': 'x',
    '.ai/tools/text/node_modules/a/index.js': 'x',
    'src/index.ts': 'x',
  });
  expect(digestOf(project)).toBe(before);
});

test('a link to the project, its folder or one of its files is as good as the thing itself', () => {
  const project = folder();
  write(project, FILES);
  const expected = digestOf(project);
  const linked = folder();
  symlinkSync(project, linked);
  expect(digestOf(realpathSync(linked))).toBe(expected);
  const moved = folder();
  cpSync(join(project, '.ai'), join(moved, 'items'), { recursive: true });
  symlinkSync('items', join(moved, '.ai'));
  write(moved, { 'AGENTS.md': FILES['AGENTS.md'] ?? '' });
  expect(digestOf(moved)).toBe(expected);
  const inner = folder();
  write(inner, FILES);
  const [from, to] = ['.ai/knowledge/rules.md', '.ai/knowledge/also.md'];
  symlinkSync('rules.md', join(inner, to));
  const copied = folder();
  write(copied, { ...FILES, [to]: FILES[from] ?? '' });
  expect(digestOf(inner)).toBe(digestOf(copied));
  const away = folder();
  write(away, FILES);
  symlinkSync('/etc/hostname', join(away, '.ai/knowledge/host.md'));
  expect(digestOf(away)).not.toBe(expected);
});

test('bundles that the project installs count, those of the user and ours do not', () => {
  const [project, home] = [folder(), folder()];
  write(project, FILES);
  write(home, { 'directives/mine.md': 'x' });
  const before = digestOf(project);
  const user: Root = { source: 'user', dir: home };
  const theirs: Root = { source: 'installed', dir: join(home, 'node_modules/a/bundle'), name: 'a' };
  expect(digestOf(project, () => [user, theirs])).toBe(before);
  write(project, {
    'node_modules/a/package.json': '{}',
    'node_modules/a/bundle/tools/a.yaml': 'x',
    'node_modules/a/lib/a.js': 'x',
  });
  const root: Root = {
    source: 'installed',
    dir: join(project, 'node_modules/a/bundle'),
    name: 'a',
  };
  const installed = digestOf(project, () => [root]);
  expect(installed).not.toBe(before);
  expect(digestOf(project, () => [{ ...root, name: 'b' }])).not.toBe(installed);
  write(project, { 'node_modules/a/lib/a.js': 'y' });
  expect(digestOf(project, () => [root])).not.toBe(installed);
});

test('a digest that is asked for again and again sees every change', () => {
  const project = folder();
  write(project, FILES);
  // Old enough to be trusted as they look.
  const clock = { now: () => Date.now() + 10_000 };
  const roots: readonly Root[] = [];
  const digest = createItemsDigest(project, () => roots, clock);
  const first = digest();
  expect(digest()).toEqual(first);
  const all = new Set([JSON.stringify(first)]);
  for (const name of NAMES) {
    write(project, { [name]: `${FILES[name]} and more` });
    all.add(JSON.stringify(digest()));
  }
  write(project, { '.ai/tools/new/one.py': 'x' });
  all.add(JSON.stringify(digest()));
  expect(all.size).toBe(NAMES.length + 2);
  rmSync(join(project, '.ai'), { recursive: true });
  rmSync(join(project, 'AGENTS.md'));
  expect(digest()).toEqual(createItemsDigest(folder(), none, systemClock)());
});

import {
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createRootFiles, type RootFiles } from './root.ts';

let base: string;
let files: Set<string>;
let changes: string[];
let root: RootFiles;

function put(path: string, text = 'x'): void {
  const file = join(base, 'p/.ai', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

async function changed(): Promise<string[]> {
  changes = [];
  await root.refresh();
  return changes.sort();
}

const codes = () => root.diagnostics().map(({ code }) => code);

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'km-root-')));
  mkdirSync(join(base, 'p'));
  files = new Set();
  changes = [];
});

afterEach(() => {
  root.close();
  rmSync(base, { recursive: true, force: true });
});

/** Until the file system's clock has moved on: what changes after this has another stamp. */
function nextTick(): void {
  const probe = join(base, 'probe');
  const stamp = () => {
    writeFileSync(probe, 'x');
    return lstatSync(probe).ctimeMs;
  };
  for (const before = stamp(); stamp() === before; );
}

/** Long after every change, so that stamps are relied on; each look is followed by a second one. */
function settled(files: RootFiles): RootFiles {
  return {
    ...files,
    async refresh() {
      const first = await files.refresh();
      await files.refresh();
      nextTick();
      return first;
    },
  };
}

function open(watchAbove: number, isSettled: boolean): void {
  const made = createRootFiles(
    { source: 'project', dir: join(base, 'p/.ai') },
    (path, stamp) => {
      changes.push(stamp ? path : `-${path}`);
      if (stamp) files.add(path);
      else files.delete(path);
    },
    { watchAbove, ...(isSettled ? { clock: { now: () => Date.now() + 60_000 } } : {}) },
  );
  root = isSettled ? settled(made) : made;
}

describe.each([
  ['looking at everything', Number.POSITIVE_INFINITY, false],
  ['watching', 0, false],
  ['looking at known names', Number.POSITIVE_INFINITY, true],
])('%s', (_, watchAbove, isSettled) => {
  beforeEach(() => open(watchAbove, isSettled));

  test('new, changed, moved and removed files are seen by the next call', async () => {
    put('tools/a/one.yaml');
    put('knowledge/note.md');
    expect(await changed()).toEqual(['knowledge/note.md', 'tools/a/one.yaml']);
    expect(await changed()).toEqual([]);
    put('tools/a/one.yaml', 'longer');
    put('tools/a/b/c/two.yaml');
    expect(await changed()).toEqual(['tools/a/b/c/two.yaml', 'tools/a/one.yaml']);
    put('tools/a/b/c/three.yaml');
    put('directives/go.md');
    expect(await changed()).toEqual(['directives/go.md', 'tools/a/b/c/three.yaml']);
    renameSync(join(base, 'p/.ai/tools/a/b'), join(base, 'p/.ai/tools/d'));
    expect(await changed()).toEqual([
      '-tools/a/b/c/three.yaml',
      '-tools/a/b/c/two.yaml',
      'tools/d/c/three.yaml',
      'tools/d/c/two.yaml',
    ]);
    put('tools/d/c/two.yaml', 'changed after it was moved');
    rmSync(join(base, 'p/.ai/tools/a'), { recursive: true });
    expect(await changed()).toEqual(['-tools/a/one.yaml', 'tools/d/c/two.yaml']);
  });

  test('a folder that is replaced by another of its name goes on being seen', async () => {
    put('tools/a/b/one.yaml');
    await root.refresh();
    for (let round = 0; round < 20; round++) {
      rmSync(join(base, 'p/.ai/tools/a'), { recursive: true });
      put(`tools/a/b/first_${round}.yaml`);
      await root.refresh();
      put(`tools/a/b/second_${round}.yaml`);
      await root.refresh();
      put(`tools/a/third_${round}.yaml`);
      renameSync(join(base, 'p/.ai/tools/a'), join(base, 'p/.ai/tools/was'));
      renameSync(join(base, 'p/.ai/tools/was'), join(base, 'p/.ai/tools/a'));
      await root.refresh();
      put('tools/a/b/last.yaml', 'x'.repeat(round + 1));
      expect(await changed()).toEqual(['tools/a/b/last.yaml']);
      expect([...files].sort()).toEqual([
        `tools/a/b/first_${round}.yaml`,
        'tools/a/b/last.yaml',
        `tools/a/b/second_${round}.yaml`,
        `tools/a/third_${round}.yaml`,
      ]);
    }
  });

  test('a root that is removed or replaced is noticed', async () => {
    put('tools/one.yaml');
    await root.refresh();
    renameSync(join(base, 'p/.ai'), join(base, 'p/old'));
    expect(await changed()).toEqual(['-tools/one.yaml']);
    put('tools/two.yaml');
    expect(await changed()).toEqual(['tools/two.yaml']);
    put('tools/three.yaml');
    expect(await changed()).toEqual(['tools/three.yaml']);
  });

  test('a change is seen when its time was set back, through a link and through a second name', async () => {
    put('tools/one.yaml', 'abc');
    put('tools/sub/two.yaml', 'abc');
    writeFileSync(join(base, 'p/second'), 'abc');
    linkSync(join(base, 'p/second'), join(base, 'p/.ai/tools/three.yaml'));
    symlinkSync('sub/two.yaml', join(base, 'p/.ai/tools/link.yaml'));
    utimesSync(join(base, 'p/.ai/tools/one.yaml'), 1000, 1000);
    await root.refresh();
    put('tools/one.yaml', 'abcd');
    utimesSync(join(base, 'p/.ai/tools/one.yaml'), 1000, 1000);
    put('tools/sub/two.yaml', 'abcd');
    writeFileSync(join(base, 'p/second'), 'abcd');
    expect(await changed()).toEqual([
      'tools/link.yaml',
      'tools/one.yaml',
      'tools/sub/two.yaml',
      'tools/three.yaml',
    ]);
  });

  test('AGENTS.md beside the folder belongs to the project, also without the folder', async () => {
    writeFileSync(join(base, 'p/AGENTS.md'), 'x');
    expect(await changed()).toEqual(['AGENTS.md']);
    put('tools/one.yaml');
    expect(await changed()).toContain('tools/one.yaml');
    expect(files).toEqual(new Set(['AGENTS.md', 'tools/one.yaml']));
  });
});

test('links that lead out are reported and not followed, links inside are', async () => {
  open(0, false);
  put('tools/one.yaml');
  mkdirSync(join(base, 'secret/tools'), { recursive: true });
  writeFileSync(join(base, 'secret/passwd.yaml'), 'x');
  writeFileSync(join(base, 'secret/tools/evil.yaml'), 'x');
  const link = (to: string, at: string) => symlinkSync(to, join(base, 'p/.ai', at));
  link(join(base, 'secret/passwd.yaml'), 'tools/file.yaml');
  link(join(base, 'secret/tools'), 'tools/folder');
  link(join(base, 'secret/tools'), 'knowledge');
  link('.', 'tools/loop');
  link('nowhere', 'tools/broken.yaml');
  link('one.yaml', 'tools/same.yaml');
  await root.refresh();
  expect([...files].sort()).toEqual(['tools/one.yaml', 'tools/same.yaml']);
  expect(codes().sort()).toEqual([
    'symlink_folder',
    'symlink_outside',
    'symlink_outside',
    'symlink_outside',
    'unreadable',
  ]);
});

test('a project folder that is a link out of the project is not followed', async () => {
  open(0, false);
  mkdirSync(join(base, 'secret/tools'), { recursive: true });
  writeFileSync(join(base, 'secret/tools/evil.yaml'), 'x');
  symlinkSync(join(base, 'secret'), join(base, 'p/.ai'));
  await root.refresh();
  expect([...files]).toEqual([]);
  expect(codes()).toEqual(['symlink_outside']);
});

test('folders without end are left at a depth, odd names are left out', async () => {
  open(0, false);
  put(`tools/${'d/'.repeat(40)}deep.yaml`);
  put('tools/a\nb.yaml');
  put('tools/.hidden.yaml');
  put('tools/node_modules/x.yaml');
  put('tools/llm/pricing.yaml');
  put('tools/capabilities/fs.yaml');
  put('tools/notes.txt');
  await root.refresh();
  expect([...files]).toEqual([]);
  expect(codes().sort()).toEqual(['odd_name', 'too_deep']);
});

test('nothing changed is said only when nothing did, data files included', async () => {
  const touch = async (change: () => void): Promise<boolean[]> => {
    await root.refresh();
    nextTick();
    change();
    const first = await root.refresh();
    await root.refresh();
    return [first, await root.refresh()];
  };
  put('directives/go.md');
  put('config/limits.yaml', 'turns: 1\n');
  open(Number.POSITIVE_INFINITY, true);
  await root.refresh();
  expect(await touch(() => {})).toEqual([true, true]);
  expect(await touch(() => put('config/limits.yaml', 'turns: 2\n'))).toEqual([false, true]);
  expect(await touch(() => put('config/models.yaml', '{}'))).toEqual([false, true]);
  expect(await touch(() => put('tools/capabilities/a.yaml', '{}'))).toEqual([false, true]);
  expect(await touch(() => put('tools/capabilities/a.yaml', '{x: 1}'))).toEqual([false, true]);
  expect(await touch(() => rmSync(join(base, 'p/.ai/config'), { recursive: true }))).toEqual([
    false,
    true,
  ]);
  expect(await touch(() => writeFileSync(join(base, 'p/AGENTS.md'), 'x'))).toEqual([false, true]);
});

test('what changed just now is looked at again, since a second change could look the same', async () => {
  put('directives/go.md');
  root = createRootFiles({ source: 'project', dir: join(base, 'p/.ai') }, () => {}, {
    clock: { now: () => lstatSync(join(base, 'p/.ai/directives')).ctimeMs + 10 },
  });
  for (let round = 0; round < 3; round++) expect(await root.refresh()).toBe(false);
});

import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { lateClock } from '@kernmantle/test-support/clock';
import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { KeyPair } from '../../trust/index.ts';
import { generateKeyPair } from '../../trust/keys/key.ts';
import { readCatalogSettings } from '../data/catalog-settings.ts';
import { signItem } from '../library/sign.ts';
import { type Catalogs, createCatalogs } from './catalogs.ts';
import { runCommand } from './fetch.ts';
import { createItemRoots } from './installed-bundles.ts';

let fixture: Fixture;
let key: KeyPair;
let trusted: Map<string, Outcome<{ key: string }>>;
const clock = { now: () => 1_800_000_000_000 };

beforeEach(() => {
  key = generateKeyPair();
  trusted = new Map([[key.id, ok({ key: key.publicKey })]]);
  fixture = createFixture({ 'home/x': '' });
});
afterEach(() => fixture.end());

const open = (options: Partial<Parameters<typeof createCatalogs>[0]> = {}): Catalogs =>
  createCatalogs({
    project: fixture.path('project'),
    home: fixture.path('home'),
    trustStore: { judge: (id) => trusted.get(id) ?? fail('not_found', 'unknown key') },
    clock: { ...lateClock, ...clock },
    env: { PATH: process.env.PATH, HOME: fixture.path('home') },
    ...options,
  });

function putSigned(root: string, id: string, text: string): void {
  const file = fixture.put(`${root}/${id}`, text);
  const signed = signItem(file, key, clock, [{ dir: fixture.path(root) }]);
  expect(signed).toMatchObject({ ok: true });
}

/** Signed, unsigned and a tool with a module. */
function putItems(root: string): void {
  putSigned(
    root,
    'tools/img/grow.yaml',
    toolText('grow', 'executor_id: subprocess\nrequires: [fs.read]\n'),
  );
  fixture.put(`${root}/tools/img/resize.ts`, 'export const run = 1;\n');
  putSigned(
    root,
    'tools/img/resize.yaml',
    toolText('resize', 'executor_id: node\nconfig: { module: ./resize.ts }\n'),
  );
  fixture.put(`${root}/tools/loose.yaml`, toolText('loose'));
  putSigned(root, 'knowledge/note.md', '# Growing trees\n');
}

test('a folder is added, searched from its index, and items are copied after the check', async () => {
  putItems('shared');
  const catalogs = open();
  const added = await catalogs.add({
    name: 'team',
    type: 'folder',
    location: fixture.path('shared'),
  });
  expect(added).toMatchObject({
    ok: true,
    output: { items: 4, updated: '2027-01-15T08:00:00.000Z' },
  });
  expect(catalogs.list().catalogs).toMatchObject([{ name: 'team', level: 'user', items: 4 }]);
  expect(catalogs.search({ text: 'grow' }).hits.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
    'tool img/grow',
    'knowledge note',
  ]);
  expect(catalogs.search({ text: '', kind: 'tool' }).total).toBe(3);

  const copied = await catalogs.copy('tool', 'img/resize');
  expect(copied).toMatchObject({
    ok: true,
    output: { copied_to: fixture.path('project/.ai/tools/img/resize.yaml') },
  });
  expect(existsSync(fixture.path('project/.ai/tools/img/resize.ts'))).toBe(true);
  expect((await catalogs.copy('knowledge', 'team:note', 'user')).ok).toBe(true);
  expect(existsSync(fixture.path('home/knowledge/note.md'))).toBe(true);
  expect(await catalogs.copy('tool', 'img/resize')).toMatchObject({
    error: { code: 'invalid_input' },
  });
});

test('a bare name means the one item that ends in it', async () => {
  putItems('shared');
  const catalogs = open();
  await catalogs.add({ name: 'team', type: 'folder', location: fixture.path('shared') });
  expect(catalogs.resolve('tool', 'resize')).toMatchObject({
    output: { id: 'img/resize', catalog: 'team' },
  });
  expect(catalogs.resolve('tool', 'team:resize')).toMatchObject({ output: { id: 'img/resize' } });
  expect(catalogs.resolve('tool', 'size')).toMatchObject({ error: { code: 'not_found' } });
  expect(await catalogs.copy('tool', 'resize')).toMatchObject({
    output: { copied_to: fixture.path('project/.ai/tools/img/resize.yaml') },
  });
  putSigned('shared', 'tools/text/resize.yaml', toolText('resize'));
  await catalogs.update();
  expect(await catalogs.copy('tool', 'resize')).toMatchObject({
    error: {
      code: 'ambiguous',
      detail: { candidates: ['team:img/resize', 'team:text/resize'] },
    },
  });
  putSigned('shared', 'tools/resize.yaml', toolText('resize'));
  await catalogs.update();
  expect(catalogs.resolve('tool', 'resize')).toMatchObject({ output: { id: 'resize' } });
});

test('what is unsigned, changed or signed by a stranger is not copied', async () => {
  putItems('shared');
  const catalogs = open();
  await catalogs.add({ name: 'team', type: 'folder', location: fixture.path('shared') });
  expect(await catalogs.copy('tool', 'loose')).toMatchObject({
    error: { code: 'signature_invalid' },
  });
  fixture.put('shared/tools/img/resize.ts', 'evil();\n');
  expect(await catalogs.copy('tool', 'img/resize')).toMatchObject({
    error: { code: 'signature_invalid', detail: { state: 'changed' } },
  });
  trusted.clear();
  expect(await catalogs.copy('tool', 'img/grow')).toMatchObject({
    error: { detail: { state: 'untrusted' } },
  });
  expect(await catalogs.copy('tool', 'none')).toMatchObject({ error: { code: 'not_found' } });
  expect(existsSync(fixture.path('project/.ai/tools'))).toBe(false);
});

test('the index answers until it is read again', async () => {
  putItems('shared');
  const catalogs = open();
  await catalogs.add({ name: 'team', type: 'folder', location: '../shared' }, 'project');
  fixture.put('shared/tools/new.yaml', toolText('new'));
  expect(catalogs.search({ text: 'new' }).total).toBe(0);
  expect(await catalogs.update()).toMatchObject({ ok: true, output: [{ items: 5 }] });
  expect(catalogs.search({ text: 'new' }).total).toBe(1);
  expect(open({ project: fixture.path('other') }).list().catalogs).toEqual([]);
  expect(await catalogs.update('none')).toMatchObject({ error: { code: 'not_found' } });
});

test('an id in two catalogs must say which', async () => {
  putItems('a');
  putItems('b');
  const catalogs = open();
  await catalogs.add({ name: 'one', type: 'folder', location: fixture.path('a') });
  await catalogs.add({ name: 'two', type: 'folder', location: fixture.path('b') });
  expect(await catalogs.copy('tool', 'img/grow')).toMatchObject({
    error: { code: 'ambiguous', detail: { candidates: ['one:img/grow', 'two:img/grow'] } },
  });
  expect((await catalogs.copy('tool', 'two:img/grow')).ok).toBe(true);
  expect(catalogs.remove('two').ok).toBe(true);
  expect(catalogs.list().catalogs.map(({ name }) => name)).toEqual(['one']);
});

test('a git repository is cloned, and nothing in it runs', async () => {
  putItems('repo/.ai');
  const mark = fixture.path('mark');
  fixture.put('repo/.gitattributes', '* filter=evil\n');
  fixture.put('repo/.ai/tools/link.yaml', '');
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: fixture.path('repo'),
      stdio: 'pipe',
      env: { PATH: process.env.PATH, HOME: fixture.path('home'), GIT_CONFIG_NOSYSTEM: '1' },
    });
  git('init', '-q', '-b', 'main');
  mkdirSync(fixture.path('repo/.git/hooks'), { recursive: true });
  writeFileSync(fixture.path('repo/.git/hooks/post-checkout'), `#!/bin/sh\ntouch ${mark}\n`, {
    mode: 0o755,
  });
  symlinkSync('/etc', fixture.path('repo/.ai/tools/etc'));
  git('add', '-A');
  git('-c', 'user.name=t', '-c', 'user.email=t@t', 'commit', '-q', '-m', 'x', '--no-verify');
  const catalogs = open();
  const entry = {
    name: 'repo',
    type: 'git',
    location: `file://${fixture.path('repo')}`,
    ref: 'main',
  } as const;
  expect(await catalogs.add(entry)).toMatchObject({ ok: true, output: { items: 5 } });
  expect(existsSync(mark)).toBe(false);
  expect((await catalogs.copy('tool', 'img/grow')).ok).toBe(true);
  expect((await catalogs.update('repo')).ok).toBe(true);
  const [cache = ''] = readdirSync(fixture.path('home/cache/catalogs'));
  expect(readdirSync(fixture.path(`home/cache/catalogs/${cache}`)).sort()).toEqual([
    'checkout',
    'index.json',
  ]);
  expect(
    await catalogs.add({ ...entry, name: 'gone', location: `file://${fixture.path('none')}` }),
  ).toMatchObject({
    error: { code: 'tool_failed' },
  });
  expect(catalogs.list().catalogs).toHaveLength(1);
});

/** Stands in for npm: unpacks a package that lies in the fixture, and keeps what it was asked. */
function fakeNpm(packages: Record<string, string[]>): { run: typeof runCommand; asked: string[] } {
  const asked: string[] = [];
  const run: typeof runCommand = async (command, args, { cwd }) => {
    asked.push(`${command} ${args.join(' ')}`);
    if (args[0] === 'search') {
      return ok(JSON.stringify(Object.keys(packages).map((name) => ({ name, version: '1.0.0' }))));
    }
    for (const spec of args.slice(args.indexOf('--') + 1)) {
      const name = spec.replace(/(?!^)@.*$/, '');
      const keywords = packages[name];
      if (!keywords) return fail('tool_failed', `no package ${name}`);
      const folder = join(cwd, 'node_modules', name);
      mkdirSync(join(folder, 'bundle/knowledge'), { recursive: true });
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, keywords }));
      writeFileSync(join(folder, 'bundle/knowledge/tip.md'), `# Tip of ${name}\n`);
    }
    return ok('');
  };
  return { run, asked };
}

test('packages are found by name or keyword, unpacked without scripts, and must say what they are', async () => {
  const { run, asked } = fakeNpm({
    '@team/items': ['kernmantle-bundle'],
    other: ['kernmantle-bundle'],
    plain: [],
  });
  const catalogs = open({ run });
  expect(
    await catalogs.add({ name: 'team', type: 'npm', location: '@team/items@1.0.0' }),
  ).toMatchObject({
    ok: true,
    output: { items: 1 },
  });
  expect(await catalogs.add({ name: 'all', type: 'npm', location: '' })).toMatchObject({
    ok: true,
  });
  expect(await catalogs.add({ name: 'plain', type: 'npm', location: 'plain' })).toMatchObject({
    error: { code: 'invalid_item' },
  });
  for (const line of asked)
    if (line.includes('install')) expect(line).toContain('--ignore-scripts');
  expect(catalogs.search({ text: 'tip' }).hits.map(({ catalog }) => catalog)).toEqual([
    'team',
    'all',
  ]);
});

test.each([
  ['git', 'ext::sh -c "touch x"'],
  ['git', '--upload-pack=touch x'],
  ['git', 'http://insecure/x.git'],
  ['npm', '--ignore-scripts=false'],
  ['npm', 'git+https://evil/x.git'],
  ['npm', '../local'],
  ['folder', ''],
  ['folder', '-x'],
] as const)('a %s catalog at %j is refused before anything runs', async (type, location) => {
  const { run, asked } = fakeNpm({});
  const catalogs = open({ run });
  expect(await catalogs.add({ name: 'x', type, location })).toMatchObject({
    error: { code: 'invalid_input' },
  });
  fixture.put(
    'project/.ai/config/catalogs.yaml',
    `catalogs:\n  - ${JSON.stringify({ name: 'x', type, location })}\n`,
  );
  expect(catalogs.list()).toMatchObject({ catalogs: [], diagnostics: [{ code: 'invalid_field' }] });
  expect(asked).toEqual([]);
});

test('settings keep their comments when a catalog is added', async () => {
  putItems('shared');
  const file = fixture.put(
    'home/config/catalogs.yaml',
    '# ours\ncatalogs:\n  - name: a # first\n    type: folder\n    location: /a\n',
  );
  await open().add({ name: 'b', type: 'folder', location: fixture.path('shared') });
  const text = readFileSync(file, 'utf8');
  expect(text).toContain('# ours\n');
  expect(text).toContain('# first\n');
  const settings = () => readCatalogSettings(fixture.path('home'));
  expect(settings().entries.map(({ name }) => name)).toEqual(['a', 'b']);
  writeFileSync(file, 'catalogs: [{ name: a, type: folder, loc: x }]');
  expect(settings().diagnostics).toHaveLength(2);
});

test('a program that is missing, fails, takes too long or is cancelled is an answer', async () => {
  const options = {
    cwd: dirname(fixture.path('x')),
    env: { PATH: process.env.PATH },
    timeoutMs: 20_000,
  };
  expect(await runCommand('km-no-such-program', [], options)).toMatchObject({
    error: { code: 'dependency_missing' },
  });
  expect(
    await runCommand('sh', ['-c', 'echo https://me:tok@host >&2; exit 3'], options),
  ).toMatchObject({
    error: { code: 'tool_failed', detail: { message: '`sh` ended with 3: https://***@host' } },
  });
  const slow = ['-c', 'sleep 60 & sleep 60'];
  expect(await runCommand('sh', slow, { ...options, timeoutMs: 50 })).toMatchObject({
    error: { code: 'timeout' },
  });
  const signal = AbortSignal.abort();
  expect(await runCommand('sh', slow, { ...options, signal })).toMatchObject({
    error: { code: 'cancelled' },
  });
});

test('installed bundles are the dependencies that say so, not what came along', () => {
  const manifest = (folder: string, content: object) =>
    fixture.put(`${folder}/package.json`, JSON.stringify(content));
  manifest('project', {
    dependencies: { 'a-bundle': '1', '@x/b': '1', plain: '1', '../evil': '1', gone: '1' },
  });
  for (const [name, folder] of [
    ['a-bundle', 'bundle'],
    ['@x/b', '.ai'],
    ['hidden', 'bundle'],
  ] as const) {
    manifest(`project/node_modules/${name}`, { keywords: ['kernmantle-bundle'] });
    fixture.put(`project/node_modules/${name}/${folder}/tools/t.yaml`, toolText('t'));
  }
  manifest('project/node_modules/plain', { keywords: [] });
  fixture.put('project/node_modules/plain/bundle/tools/t.yaml', toolText('t'));
  const rootsNow = createItemRoots(
    fixture.path('project'),
    fixture.path('home'),
    fixture.path('shipped'),
    { now: () => Date.now() + 60_000 },
  );
  const names = () => rootsNow().flatMap(({ name }) => name ?? []);
  expect(rootsNow()).toEqual([
    { source: 'project', dir: fixture.path('project/.ai') },
    { source: 'user', dir: fixture.path('home') },
    { source: 'installed', name: '@x/b', dir: fixture.path('project/node_modules/@x/b/.ai') },
    {
      source: 'installed',
      name: 'a-bundle',
      dir: fixture.path('project/node_modules/a-bundle/bundle'),
    },
    { source: 'bundle', dir: fixture.path('shipped') },
  ]);
  // The list itself is kept while nothing changes, and what decides is seen when it does.
  expect(rootsNow()).toBe(rootsNow());
  manifest('project/node_modules/plain', { keywords: ['kernmantle-bundle', 'longer'] });
  expect(names()).toEqual(['@x/b', 'a-bundle', 'plain']);
  expect(rootsNow()).toBe(rootsNow());
  rmSync(fixture.path('project/node_modules/@x'), { recursive: true });
  expect(names()).toEqual(['a-bundle', 'plain']);
  manifest('home', { dependencies: { own: '1' } });
  manifest('home/node_modules/own', { keywords: ['kernmantle-bundle'] });
  expect(names()).toEqual(['a-bundle', 'plain']);
  fixture.put('home/node_modules/own/bundle/tools/t.yaml', toolText('t'));
  expect(names()).toEqual(['a-bundle', 'plain', 'own']);
  fixture.put('project/package.json', '{"dependencies": [');
  expect(names()).toEqual(['own']);
});

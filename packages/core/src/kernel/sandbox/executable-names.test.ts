// A process inside must not leave behind what a program outside acts upon. Each attempt is judged by
// running git outside afterwards, as the person would.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  makeProject,
  portsOf,
  shell,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { sandboxes } from '@kernmantle/test-support/sandboxes';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type JsonObject, plainText } from '../../base/index.ts';
import { createProcessPrimitive } from '../process/subprocess.ts';
import { findTraps, newTraps, setTrapsAside, type Traps } from './executable-names.ts';
import type { Places } from './places.ts';
import type { SandboxReport } from './plan.ts';

const NO_GIT = verifierOf('process.spawn', 'fs.write **');
const WITH_GIT = verifierOf('process.spawn', 'fs.write **', 'git.write');
const EVERYWHERE: Places = { root: 'write', places: [] };

let project: TestProject;
beforeEach(() => {
  project = makeProject({ 'sub/a.txt': 'a' });
});
afterEach(() => project.remove());

const at = (path: string): string => join(project.root, path);
const inGit = (folder: string, ...args: string[]): string => {
  const env = { PATH: process.env.PATH, HOME: project.home };
  return execFileSync('git', ['-C', at(folder), ...args], { encoding: 'utf8', env, stdio: 'pipe' });
};

/** Did git, run outside in these folders, start what the child configured? */
function isPwned(...folders: string[]): boolean {
  for (const folder of folders) {
    try {
      inGit(folder, 'status');
    } catch {
      // no repository: just as well
    }
  }
  return existsSync(join(project.base, 'PWNED'));
}

const PLANT = 'git init -q . && git config core.fsmonitor "$evil"';

for (const { name, report } of sandboxes) {
  describe.skipIf(report.kind === 'none')(name, () => attempts(report));
}

function attempts(report: SandboxReport): void {
  async function run(script: string, verify = NO_GIT, root = project.root) {
    const primitive = createProcessPrimitive(portsOf(project, report));
    const evil = `evil='touch ${project.base}/PWNED; false'`;
    const tool = verify === WITH_GIT ? { requires: ['process.spawn', 'git.write'] } : {};
    const config = shell(`${evil}; ${script}`);
    const call = { ...callOf(project, config, { verify, tool }), projectRoot: root };
    const result = await primitive.run(call);
    return (result.ok ? result.output.output : result.error.detail) as JsonObject;
  }

  test.each([
    ['without `git.write`', NO_GIT],
    ['with `git.write`', WITH_GIT],
  ])('a project without `.git` gets none from inside, %s', async (_, verify) => {
    await run(
      `${PLANT}; mkdir -p .git/hooks; echo x > .git/config; rm -rf .git; mv .git x`,
      verify,
    );
    await run('rmdir .git; echo "gitdir: sub" > .git; ln -s sub .git', verify);
    expect(isPwned('.')).toBe(false);
    expect(existsSync(at('.git'))).toBe(false);
  });

  test('children at the same time count on the same empty `.git`', async () => {
    const slow = run('while ! test -e go; do sleep 0.05; done; git init -q .; test -e .git/HEAD');
    await Promise.all([run('true'), run('true')]);
    expect(lstatSync(at('.git')).isDirectory()).toBe(true);
    writeFileSync(at('go'), '');
    expect(await slow).toMatchObject({ exit_code: 1 });
    expect(existsSync(at('.git'))).toBe(false);
  });

  test('an empty `.git` that was taken away meanwhile does not help', async () => {
    const running = run(`touch here; while ! test -e go; do sleep 0.05; done; ${PLANT}`);
    await expect.poll(() => existsSync(at('here'))).toBe(true);
    execFileSync('rm', ['-r', at('.git')]);
    writeFileSync(at('go'), '');
    expect(await running).toMatchObject({ set_aside: ['.git'] });
    expect(isPwned('.')).toBe(false);
  });

  test('a repository that the person makes meanwhile stays', async () => {
    const running = run('while ! test -e go; do sleep 0.05; done');
    await expect.poll(() => existsSync(at('.git'))).toBe(true);
    inGit('.', 'init', '-q');
    writeFileSync(at('go'), '');
    expect(await running).not.toHaveProperty('set_aside');
    expect(inGit('.', 'status')).toContain('No commits yet');
  });

  test.each([
    ['a new folder', `mkdir new && cd new && ${PLANT}`, 'new', 'new/.git'],
    ['a folder that exists', `cd sub && ${PLANT}`, 'sub', 'sub/.git'],
    [
      'a file that leads to a folder',
      `git init -q --separate-git-dir=real sub && git -C sub config core.fsmonitor "$evil"`,
      'sub',
      'sub/.git',
    ],
    [
      'a link',
      `git init -q elsewhere && git -C elsewhere config core.fsmonitor "$evil"; ln -s ../elsewhere/.git sub/.git`,
      'sub',
      'sub/.git',
    ],
    [
      'a repository without a working tree that has one after all',
      'git init -q --bare sub && git -C sub config core.bare false && git -C sub config core.worktree . && git -C sub config core.fsmonitor "$evil"',
      'sub',
      'sub',
    ],
    [
      'a repository that borrows its settings',
      'git init -q --bare lent && git -C lent config core.bare false && git -C lent config core.worktree ../sub && git -C lent config core.fsmonitor "$evil"; cp lent/HEAD sub/HEAD; echo ../lent > sub/commondir',
      'sub',
      'sub',
    ],
    [
      'the project itself',
      'mkdir -p objects refs && echo "ref: refs/heads/x" > HEAD && printf "[core]\\nbare=false\\nworktree=.\\nfsmonitor=$evil\\nrepositoryformatversion=0\\n" > config',
      '.',
      '',
    ],
  ])('%s with git configuration does not keep its name', async (_, script, folder, expected) => {
    const facts = await run(script);
    expect(facts.set_aside).toContain(expected);
    expect(isPwned(folder)).toBe(false);
  });

  test('what was set aside is out of the project and still there', async () => {
    for (const _ of [1, 2]) {
      const { set_aside_in: folder } = await run('git init -q sub');
      expect(readdirSync(at('sub'))).toEqual(['a.txt']);
      expect(folder).toMatch(join(project.base, 'aside'));
      expect(existsSync(`${plainText(folder)}/sub/.git-from-sandbox/HEAD-from-sandbox`)).toBe(true);
    }
  });

  test('repositories that exist further down are read-only, also under another name', async () => {
    mkdirSync(at('a/b/c/d/e/f/g/h/node_modules/n'), { recursive: true });
    const nested = ['sub', 'a/b/c/d/e/f/g/h/node_modules/n'];
    for (const folder of nested) inGit(folder, 'init', '-q');
    inGit('.', 'init', '-q', '--bare', 'store.git');
    const configs = [...nested.map((folder) => `${folder}/.git/config`), 'store.git/config'];
    const before = configs.map((path) => readFileSync(at(path), 'utf8'));
    const attempts = configs.map(
      (path) => `echo x >> ${path}; mv ${path} ${path}.old; echo x > $(dirname ${path})/commondir`,
    );
    const facts = await run(
      `${attempts.join('; ')}; mv a z; echo x >> z/${configs[1]?.slice(2)}; mv z a`,
    );
    expect(configs.map((path) => readFileSync(at(path), 'utf8'))).toEqual(before);
    for (const folder of [...nested, 'store.git']) {
      expect(existsSync(at(`${folder}/commondir`)), folder).toBe(false);
    }
    expect(facts).not.toHaveProperty('set_aside');
  });

  test('with `git.write` repositories further down open, but not their settings', async () => {
    inGit('sub', 'init', '-q');
    inGit('.', 'init', '-q', '--bare', 'store.git');
    const config = readFileSync(at('store.git/config'), 'utf8');
    const settings = (path: string) =>
      `echo x >> ${path}/config; echo x > ${path}/hooks/pre-push; echo x > ${path}/commondir; echo x > ${path}/config.worktree`;
    const facts = await run(
      `touch sub/.git/index.x store.git/x; ${settings('store.git')}; mv sub moved; ${settings('moved/.git')}`,
      WITH_GIT,
    );
    expect(existsSync(at('moved/.git/index.x')) && existsSync(at('store.git/x'))).toBe(true);
    expect(readFileSync(at('store.git/config'), 'utf8')).toBe(config);
    for (const folder of ['moved/.git', 'store.git']) {
      expect(existsSync(at(`${folder}/hooks/pre-push`)), folder).toBe(false);
      expect(existsSync(at(`${folder}/commondir`)), folder).toBe(false);
      expect(existsSync(at(`${folder}/config.worktree`)), folder).toBe(false);
    }
    expect(facts.set_aside).toHaveLength(4);
    expect(existsSync(at('moved/.git/HEAD')) && existsSync(at('store.git/HEAD'))).toBe(true);
  });

  test('a repository that exists is kept when its folder was moved, and a new one beside it is not', async () => {
    inGit('sub', 'init', '-q');
    const facts = await run('mv sub moved && mkdir sub && cd sub && git init -q .');
    expect(facts).toMatchObject({ set_aside: ['sub/.git'] });
    expect(existsSync(at('moved/.git/HEAD'))).toBe(true);
  });

  test('a working tree that exists keeps its file and the folder it leads to', async () => {
    inGit('.', 'init', '-q');
    inGit(
      '.',
      '-c',
      'user.name=a',
      '-c',
      'user.email=a@b',
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'x',
    );
    inGit('.', 'worktree', 'add', '-q', 'tree');
    const evil = 'git init -q --bare lent && git -C lent config core.fsmonitor "$evil"';
    await run(
      `${evil}; echo "gitdir: $PWD/lent" > tree/.git; for f in .git .git/worktrees/tree; do echo ../../../lent > $f/commondir; echo x > $f/config.worktree; done`,
      WITH_GIT,
    );
    expect(readFileSync(at('.git/worktrees/tree/commondir'), 'utf8')).toBe('../..\n');
    expect(existsSync(at('.git/commondir'))).toBe(false);
    expect(existsSync(at('.git/config.worktree'))).toBe(false);
    expect(existsSync(at('.git/worktrees/tree/config.worktree'))).toBe(false);
    expect(isPwned('.', 'tree')).toBe(false);
    expect(inGit('tree', 'status')).toContain('On branch tree');
  });

  test('modules of a repository cannot be configured with `git.write`', async () => {
    inGit('.', 'init', '-q');
    inGit('.', 'init', '-q', '--bare', '.git/modules/m');
    const before = readFileSync(at('.git/modules/m/config'), 'utf8');
    await run('echo x >> .git/modules/m/config; git init -q --bare .git/modules/n', WITH_GIT);
    expect(readFileSync(at('.git/modules/m/config'), 'utf8')).toBe(before);
    expect(existsSync(at('.git/modules/n'))).toBe(false);
  });

  test('a nested `.ai` is not written and not made', async () => {
    project.write('sub/.ai/tools/t.yaml', 'tool');
    const facts = await run(
      'echo x > sub/.ai/tools/t.yaml; mkdir -p other/.ai/tools; echo x > other/.ai/tools/e.yaml',
    );
    expect(readFileSync(at('sub/.ai/tools/t.yaml'), 'utf8')).toBe('tool');
    expect(facts).toMatchObject({ set_aside: ['other/.ai'] });
    expect(existsSync(at('other/.ai'))).toBe(false);
  });

  test('only what may be written is looked at', async () => {
    mkdirSync(at('open'));
    const verify = verifierOf('process.spawn', 'fs.write open/**');
    const facts = await run('git init -q open; git init -q sub; git init -q .', verify);
    expect(facts).toMatchObject({ set_aside: ['open/.git'] });
    expect(existsSync(at('.git'))).toBe(false);
    expect(existsSync(at('sub/.git'))).toBe(false);
  });

  test('a child that was stopped leaves none either', async () => {
    const primitive = createProcessPrimitive(portsOf(project, report));
    const config = { ...shell('git init -q sub; sleep 60'), grace_ms: 100 };
    const result = await primitive.run({
      ...callOf(project, config, { verify: NO_GIT }),
      timeoutMs: 1500,
    });
    expect(result).toMatchObject({
      ok: false,
      error: { code: 'timeout', detail: { set_aside: ['sub/.git'] } },
    });
    expect(existsSync(at('sub/.git'))).toBe(false);
  });

  test('a project that is a repository without a working tree opens for nothing', async () => {
    inGit('.', 'init', '-q', '--bare', '.');
    expect(await run('true')).toMatchObject({ message: expect.stringContaining('working tree') });
    expect(existsSync(at('.git'))).toBe(false);
  });
}

const setAside = (traps: Traps): string[] =>
  setTrapsAside(project.root, newTraps(project.root, EVERYWHERE, traps), `${project.base}/aside`);

const before = (): Traps => ({
  known: new Set(findTraps(project.root, EVERYWHERE).map(({ id }) => id)),
  opened: new Set(),
});

test('a trap in a folder that was looked at before is seen', () => {
  const known = before();
  for (let round = 0; round < 20; round++) {
    mkdirSync(at('sub/.git'));
    expect(setAside(known)).toEqual(['sub/.git']);
  }
});

test.skipIf(process.getuid?.() === 0)(
  'a folder nobody can look into is closed (not as root)',
  () => {
    const known = before();
    mkdirSync(at('dark/.git'), { recursive: true });
    chmodSync(at('dark'), 0o300);
    expect(setAside(known)).toEqual(['dark']);
    expect(lstatSync(at('dark')).mode & 0o777).toBe(0);
    chmodSync(at('dark'), 0o700);
  },
);

test('a folder that became a link is not followed', () => {
  const known = before();
  const outside = join(project.base, 'outside');
  mkdirSync(join(outside, '.git'), { recursive: true });
  mkdirSync(at('sub/.git'));
  const traps = findTraps(project.root, EVERYWHERE);
  expect(traps.map(({ path }) => path)).toContain('sub/.git');
  renameSync(at('sub'), at('moved'));
  symlinkSync(outside, at('sub'));
  expect(setAside(known)).toEqual(['moved/.git']);
  expect(existsSync(join(outside, '.git'))).toBe(true);
});

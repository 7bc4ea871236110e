// A child cannot read or write more than its caller, whatever was granted or denied, whether the path
// exists or not, and in each sandbox.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  makeProject,
  portsOf,
  shell,
  type TestProject,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { bundleCatalog } from '@kernmantle/test-support/trust';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type JsonObject, plainText } from '../../base/index.ts';
import { createCeilingVerifier, type Grant } from '../../trust/index.ts';
import type { Verifier } from '../primitive.ts';
import { createProcessPrimitive } from '../process/subprocess.ts';
import { pathspecsOf } from './pathspecs.ts';
import type { AccessQuestion } from './places.ts';

const catalog = bundleCatalog();

/** Rights as `name` or `name glob`. */
const grants = (texts: readonly string[]): Grant[] =>
  texts.map((text) => {
    const [capability = '', path] = text.split(' ');
    return path === undefined ? { capability } : { capability, scope: { path } };
  });

/** Returns rights as a policy, or a token, makes them. */
const rights = (allow: readonly string[] | undefined, deny: readonly string[] = []): Verifier =>
  createCeilingVerifier(
    [{ ...(allow && { allow: grants(['process.spawn', ...allow]) }), deny: grants(deny) }],
    catalog,
  );

const EXISTING = [
  'a.txt',
  'b.env',
  'docs/x.md',
  'docs/deep/y.md',
  'secrets/key',
  'src/a.lock',
  'src/main.ts',
  'node_modules/m/i.js',
  '.ai/knowledge/k.md',
];
const FILES = Object.fromEntries(EXISTING.map((path) => [path, `CONTENT of ${path}`]));
let project: TestProject;
beforeEach(() => {
  project = makeProject(FILES);
});
afterEach(() => project.remove());

const at = (path: string): string => join(project.root, path);
const may = (verify: Verifier, capability: string, path: string): boolean =>
  verify({ capability, scope: { path } }).ok;

const NEW = [
  'new.txt',
  'new.env',
  'docs/new.env',
  'secrets/new',
  'src/new.lock',
  'src/deep/new.ts',
  'zapp/config/x',
  'ZAPP/Config/y',
  'zapp/other',
  'out/report',
  'out/deep/report.md',
];
const GLOBS = [
  '**',
  '*',
  '**/*.env',
  '*.txt',
  'docs/**',
  'docs/*',
  'docs/deep/**',
  'secrets/**',
  'src/*.lock',
  'src/**',
  'node_modules/**',
  'zapp/config/**',
  'out/**',
  '.ai/knowledge/**',
];
const TRY = `for path; do
  cat "$path"; mkdir -p "$(dirname "$path")"; echo made > "$path"
  mv "$path" "$path.moved"; cp "$path.moved" "$path"
done 2>/dev/null
mv docs docs2; mv src src2; mv zapp/config zapp/c2; exit 0`;

describe.each(working)('%s', (_, report) => {
  async function run(
    verify: Verifier,
    config: JsonObject,
    tool: NonNullable<Parameters<typeof callOf>[2]>['tool'] = {},
  ): Promise<JsonObject> {
    const result = await createProcessPrimitive(portsOf(project, report)).run(
      callOf(project, config, { verify, tool }),
    );
    return (result.ok ? result.output.output : result.error.detail) as JsonObject;
  }
  const textOf = async (...given: Parameters<typeof run>): Promise<string> =>
    plainText((await run(...given))['stdout']);

  test(
    'nothing is read, changed, moved or made that `fs.read` and `fs.write` do not cover',
    async () => {
      const rule = fc.tuple(fc.constantFrom('fs.read', 'fs.write'), fc.constantFrom(...GLOBS));
      const rules = rule.map((parts) => parts.join(' '));
      await fc.assert(
        fc.asyncProperty(
          fc.option(fc.array(rules, { maxLength: 4 }), { nil: undefined }),
          fc.array(rules, { maxLength: 3 }),
          async (allow, deny) => {
            project.remove();
            project = makeProject(FILES);
            const verify = rights(allow, deny);
            const paths = [...EXISTING, ...NEW];
            const facts = await run(verify, { ...shell(TRY), args: paths });
            const said = plainText(facts['stdout'] ?? '');
            for (const path of EXISTING) {
              if (!may(verify, 'fs.read', path)) expect(said, path).not.toContain(`of ${path}`);
              const isSame = existsSync(at(path)) && readFileSync(at(path), 'utf8') !== 'made\n';
              if (!may(verify, 'fs.write', path)) expect(isSame, path).toBe(true);
            }
            for (const path of NEW) {
              if (!may(verify, 'fs.write', path)) expect(existsSync(at(path)), path).toBe(false);
            }
          },
        ),
        { numRuns: 8 },
      );
    },
    timeoutMs(120_000),
  );

  test('what is granted is there, and everything that is not denied', async () => {
    const list = shell('cat a.txt docs/x.md docs/deep/y.md secrets/key src/main.ts 2>/dev/null');
    const only = await textOf(rights(['fs.read docs/**', 'fs.read src/*.ts']), list);
    expect(only).toBe('CONTENT of docs/x.mdCONTENT of docs/deep/y.mdCONTENT of src/main.ts');
    const without = await textOf(
      rights(undefined, ['fs.read secrets/**', 'fs.read **/y.md']),
      list,
    );
    expect(without).toBe('CONTENT of a.txtCONTENT of docs/x.mdCONTENT of src/main.ts');
    const nothing = await textOf(rights([]), shell('ls -A; cat a.txt 2>&1'));
    expect(nothing).not.toContain('CONTENT');
  });

  test('a link leads to nothing that is hidden', async () => {
    symlinkSync('secrets', at('open'));
    symlinkSync('../secrets/key', at('docs/key'));
    const verify = rights(undefined, ['fs.read secrets/**']);
    expect(await textOf(verify, shell('cat open/key docs/key; cat a.txt'))).toBe(
      'CONTENT of a.txt',
    );
  });

  test('the history of a repository is hidden with what may not be read', async () => {
    const git = (...args: string[]) =>
      execFileSync('git', [
        '-C',
        project.root,
        '-c',
        'user.name=a',
        '-c',
        'user.email=a@b',
        ...args,
      ]);
    git('init', '-q');
    git('add', 'secrets', 'a.txt');
    git('commit', '-q', '-m', 'x');
    const show = shell('git show HEAD:secrets/key; ls -A .git');
    expect(await textOf(rights(undefined, ['fs.read secrets/**']), show)).toBe('');
    expect(await textOf(rights(['fs.read **']), show)).toContain('CONTENT of secrets/key');
    const own = { id: 'my/show', requires: ['git.read'] };
    const verify = rights(['git.read', 'fs.read docs/**']);
    expect(await run(verify, show, own)).toMatchObject({ missing: 'fs.read' });
  });

  test('a tool that looks at less sees less, and its own module all the same', async () => {
    project.write(
      '.ai/tools/look.mjs',
      `import { readFileSync } from 'node:fs';
      const read = (path) => { try { return readFileSync(path, 'utf8'); } catch { return '-'; } };
      export default () => [read('docs/x.md'), read('a.txt'), read('.ai/knowledge/k.md')];`,
    );
    const config = { runtime: 'node', module: './look.mjs' };
    const all = rights(['fs.read **']);
    expect(await run(all, config, { sees: ['docs/**'] })).toEqual([
      'CONTENT of docs/x.md',
      '-',
      '-',
    ]);
    expect(await run(rights([]), config)).toEqual(['-', '-', '-']);
  });

  test('a tool that only reads writes nothing', async () => {
    const verify = rights(undefined);
    await run(verify, shell('touch made; mkdir -p sub; touch docs/made'), { effect: 'read' });
    expect(existsSync(at('made')) || existsSync(at('docs/made')) || existsSync(at('sub'))).toBe(
      false,
    );
    await run(verify, shell('touch made'), { effect: 'write' });
    expect(existsSync(at('made'))).toBe(true);
  });

  test('a granted folder that does not exist yet can be written in, and an empty one is gone', async () => {
    const verify = rights(['fs.read **', 'fs.write out/deep/**']);
    await run(verify, shell('true'));
    expect(existsSync(at('out'))).toBe(false);
    await run(verify, shell('mkdir -p out/deep; echo x > out/deep/report; echo x > out/other'));
    expect(readdirSync(at('out'))).toEqual(['deep']);
    expect(readFileSync(at('out/deep/report'), 'utf8')).toBe('x\n');
    await Promise.all(
      [1, 2, 3].map((n) => run(verify, shell(`sleep 0.${n}; echo x > out/deep/${n}`))),
    );
    expect(readdirSync(at('out/deep')).sort()).toEqual(['1', '2', '3', 'report']);
  });

  test('a denied folder that does not exist yet cannot be made, and leaves no trace', async () => {
    const verify = rights(undefined, ['fs.write zapp/config/**']);
    const facts = await run(
      verify,
      shell('mkdir -p zapp/config; touch zapp/config/x; touch zapp/y'),
    );
    expect(facts).not.toHaveProperty('set_aside');
    expect(readdirSync(at('zapp'))).toEqual(['y']);
    await run(rights(undefined, ['fs.write other/config/**']), shell('true'));
    expect(existsSync(at('other'))).toBe(false);
  });

  test('a denied name that was made is moved out and reported', async () => {
    const verify = rights(undefined, ['fs.write **/*.env', 'fs.write src/*.lock']);
    const facts = await run(
      verify,
      shell('touch new.env docs/deep/x.ENV src/new.lock fine; mkdir -p q/r; touch q/r/s.env'),
    );
    expect(facts['set_aside']).toEqual(
      expect.arrayContaining(['new.env', 'docs/deep/x.ENV', 'src/new.lock', 'q/r/s.env']),
    );
    for (const path of facts['set_aside'] as string[]) expect(existsSync(at(path))).toBe(false);
    expect(existsSync(join(plainText(facts['set_aside_in']), 'q/r/s.env-from-sandbox'))).toBe(true);
    expect(existsSync(at('fine')) && existsSync(at('b.env'))).toBe(true);
  });

  test('a link with a denied name is neither made nor replaced', async () => {
    symlinkSync('b.env', at('old.env'));
    const verify = rights(undefined, ['fs.write **/*.env']);
    const script = 'ln -s a.txt new.env; mkfifo pipe.env; rm old.env; echo x > old.env';
    const facts = await run(verify, shell(script));
    expect([...(facts['set_aside'] as string[])].sort()).toEqual([
      'new.env',
      'old.env',
      'pipe.env',
    ]);
    expect(readdirSync(project.root).filter((name) => name.endsWith('.env'))).toEqual([
      'b.env',
      'old.env',
    ]);
    expect(readlinkSync(at('old.env'))).toBe('b.env');
  });

  test('a project that cannot be written in, not even by its owner, can be looked at', async () => {
    execFileSync('rm', ['-rf', at('.ai')]);
    const isRoot = process.getuid?.() === 0;
    // Nobody writes in a folder that the system keeps closed, root included.
    const point = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c'];
    const script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"';
    const driver = new URL('../../../../../tests/support/sandbox-driver.ts', import.meta.url)
      .pathname;
    const [file = '', ...args] = [
      ...point.slice(0, 1),
      ...(isRoot ? [] : ['-Ur']),
      ...point.slice(1),
    ];
    const said = execFileSync(
      file,
      [
        ...args,
        script,
        'sh',
        project.root,
        process.execPath,
        driver,
        report.kind,
        project.root,
        'cat a.txt; touch new',
      ],
      { encoding: 'utf8', env: { ...process.env, TMPDIR: project.base } },
    );
    expect(said).toContain('CONTENT of a.txt');
    expect(existsSync(at('new'))).toBe(false);
  });

  test('a folder without `.ai` and `.git` has none afterwards', async () => {
    execFileSync('rm', ['-rf', at('.ai')]);
    const slow = run(rights(undefined), shell('sleep 0.3; touch slow'));
    await run(rights(undefined), shell('mkdir -p .ai/tools; touch .ai/x; touch quick'));
    await slow;
    expect(readdirSync(project.root)).not.toContain('.ai');
    expect(readdirSync(project.root)).not.toContain('.git');
    expect(existsSync(at('slow')) && existsSync(at('quick'))).toBe(true);
  });

  test('what a killed supervisor left is put right by the next start', async () => {
    execFileSync('rm', ['-rf', at('.ai')]);
    const driver = new URL('../../../../../tests/support/sandbox-driver.ts', import.meta.url)
      .pathname;
    const script = 'git init -q docs; mkdir -p src/.ai; touch started; sleep 60';
    const child = spawn(process.execPath, [driver, report.kind, project.root, script], {
      stdio: 'ignore',
      env: { ...process.env, TMPDIR: project.base, ASIDE: join(project.base, 'aside') },
    });
    await expect.poll(() => existsSync(at('started')), { timeout: timeoutMs(20_000) }).toBe(true);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));
    expect(existsSync(at('docs/.git'))).toBe(true);
    await run(rights(undefined), shell('true'));
    expect(existsSync(at('docs/.git')) || existsSync(at('src/.ai'))).toBe(false);
    expect(readdirSync(project.root)).not.toContain('.ai');
    expect(readdirSync(join(project.base, 'aside', 'running'))).toEqual([]);
  });

  test.each([
    [
      'that is shared',
      'import mmap; m = mmap.mmap(-1, 200 << 20); [m.write(bytes(1 << 20)) for _ in range(150)]',
    ],
    [
      'of many processes',
      'import os; [os.fork() for _ in range(3)]; x = bytearray(os.urandom(20 << 20))',
    ],
    [
      'of a process in a group of its own',
      'import os, mmap; os.setsid(); m = mmap.mmap(-1, 200 << 20); [m.write(bytes(1 << 20)) for _ in range(150)]',
    ],
  ])('memory %s is bounded', async (_kind, code) => {
    const facts = await run(rights(undefined), {
      ...shell(`python3 -c '${code}; import signal; signal.pause()' & wait; wait`),
      max_memory_mb: 64,
    });
    expect(facts['message']).toContain('its processes used more than 64 MB of memory');
  });

  test('memory, processes and open files are bounded', async () => {
    const limits = { max_memory_mb: 64, max_open_files: 32, max_processes: 50 };
    const text = await textOf(rights(undefined), {
      ...shell(
        'ulimit -n; ulimit -d; ulimit -u; python3 -c "x = bytearray(200_000_000)" 2>/dev/null || echo refused',
      ),
      ...limits,
    });
    expect(text).toBe(`32\n${64 * 1024}\n50\nrefused\n`);
    const plain = await textOf(rights(undefined), shell('ulimit -n; ulimit -d'));
    expect(plain).toBe(`4096\n${4096 * 1024}\n`);
    const many =
      '(for i in $(seq 200); do sleep 3 & done) 2>/dev/null; set -- /proc/[0-9]*; sleep 1; echo $#; exit 0';
    const facts = await run(rights(undefined), { shell: 'sh', script: many, ...limits });
    // The system refuses to start more; those of root are counted by us.
    const said = plainText(facts['message'] ?? '');
    const count = Number(facts['stdout'] || 0);
    expect(said.includes('more than 50 processes') || (count > 10 && count < 60), said).toBe(true);
  });
});

test('pathspecs let through what may be read and nothing else', () => {
  const question = (verify: Verifier): AccessQuestion => ({
    mayRead: (path) => may(verify, 'fs.read', path),
    unguessable: '\ue000'.repeat(20),
    globs: verify.globs?.(),
  });
  const specs = (verify: Verifier, ...given: string[]) => {
    const made = pathspecsOf(question(verify), given);
    return made.ok ? made.output.filter((spec) => !spec.includes('/.ai/')) : made.error.code;
  };
  const shut = (glob: string) => `:(exclude,top,glob,icase)${glob}`;
  const records = pathspecsOf(question(rights(undefined)), []);
  expect(records.ok && records.output).toEqual(
    expect.arrayContaining([shut('**/.ai/audit.jsonl'), shut('**/.ai/threads/**')]),
  );
  expect(specs(rights(undefined, ['fs.read **/.env/**']))).toEqual([
    shut('**/.env'),
    shut('**/.env/**'),
  ]);
  expect(specs(rights(undefined, ['fs.read secrets/**', 'fs.write docs/**']), 'a.txt')).toEqual([
    'a.txt',
    shut('secrets'),
    shut('secrets/**'),
  ]);
  const narrow = rights(['fs.read docs/**', 'fs.read a.txt'], ['fs.read **/*.env']);
  const open = [':(top,glob)docs/**', ':(top,glob)a.txt', shut('**/*.env')];
  expect(specs(narrow)).toEqual(open);
  expect(specs(narrow, './docs/deep/', 'a.txt')).toEqual([
    ':(top,literal)docs/deep',
    ':(top,literal)a.txt',
    shut('**/*.env'),
  ]);
  for (const path of ['src', '.', 'docs/../src', ':(top)src', '*', '']) {
    expect(specs(narrow, path), path).toBe('permission_denied');
  }
  expect(specs(rights([]))).toBe('permission_denied');
  const both = createCeilingVerifier(
    [
      { allow: grants(['fs.read docs/**', 'fs.read src/*']) },
      { allow: grants(['fs.read docs/deep/**', 'fs.read src/*', 'fs.read src/*/*']) },
    ],
    catalog,
  );
  expect(specs(both)).toEqual([':(top,glob)src/*', ':(top,glob)docs/deep/**', shut('src/*/*')]);
});

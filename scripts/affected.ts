// `npm run test:affected`: runs the test files that a change can affect. A test file is affected by every file that it
// imports, directly or not, by all sources of its own package, and, if it starts `km`, by the commands that it names.
// `--base REF` compares with another commit than `main`. `--list` prints the files and runs nothing.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g;
/** A program that a test starts from its source. */
const PROGRAM = /new URL\(\s*'([^']+\.m?[jt]s)',\s*import\.meta\.url/g;
const LAUNCHER = 'bin/km.js';
const ENTRY = 'packages/kernmantle/src/cli/main.ts';
/** Each row of this file names a command and the module of that command. */
const COMMANDS = 'packages/kernmantle/src/cli/table.ts';
const COMMAND = /^\s*'?([a-z][a-z ]*)'?: async .*?import\('([^']+)'/gm;
const isTest = (path: string): boolean => /\.test\.tsx?$/.test(path);
const packageOf = (path: string): string | undefined => /^packages\/[^/]+\//.exec(path)?.[0];

/** Reads the files of the repository. `read` returns undefined for a path that is not a file. */
export interface Repository {
  readonly files: readonly string[];
  read(path: string): string | undefined;
}

/** Returns the file of the door that a specifier of this repository names, by the `exports` of its package. */
function doorOf(specifier: string, read: Repository['read']): string | undefined {
  const [, name = '', rest = ''] = /^@kernmantle\/([^/]+)(?:\/(.+))?$/.exec(specifier) ?? [];
  if (name === 'test-support') return `tests/support/${rest}.ts`;
  const manifest = name && read(`packages/${name}/package.json`);
  if (!manifest) return undefined;
  const { exports } = JSON.parse(manifest) as { exports: Record<string, string> };
  const target = exports[rest === '' ? '.' : `./${rest}`];
  return target && posix.join('packages', name, target);
}

/** Returns the files that `path` needs, itself included. */
function createReach({ files, read }: Repository): (path: string) => ReadonlySet<string> {
  const direct = new Map<string, readonly string[]>();
  const importsOf = (path: string): readonly string[] => {
    const known = direct.get(path);
    if (known) return known;
    const text = read(path) ?? '';
    const found = [...text.matchAll(IMPORT)].map(([, name = '']) =>
      name.startsWith('.') ? posix.join(posix.dirname(path), name) : doorOf(name, read),
    );
    const programs = [...text.matchAll(PROGRAM)].map(([, name = '']) =>
      posix.join(posix.dirname(path), name),
    );
    const starts = text.includes(LAUNCHER) && path !== LAUNCHER ? [ENTRY] : [];
    const all = [...found, ...programs, ...starts].filter((one) => one !== undefined);
    direct.set(path, all);
    return all;
  };
  const commands = [...(read(COMMANDS) ?? '').matchAll(COMMAND)].map(
    ([, name = '', file = '']) => ({
      words: name.split(' '),
      module: posix.join(posix.dirname(COMMANDS), file),
    }),
  );
  /** Modules of the commands that a test writes as one text or as a list of words. */
  const commandsIn = (text: string): string[] => {
    const quoted = new Set([...text.matchAll(/(['"`])(.*?)\1/g)].map(([, , inner = '']) => inner));
    const texts = [...quoted].map((inner) => `${inner.replace(/^km /, '')} `);
    return commands
      .filter(
        ({ words }) =>
          words.every((word) => quoted.has(word)) ||
          texts.some((one) => one.startsWith(`${words.join(' ')} `)),
      )
      .map(({ module }) => module);
  };
  return (path) => {
    const own = packageOf(path);
    const reached = new Set<string>();
    const named = new Set<string>();
    const queue = [path];
    const follow = (): void => {
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        if (reached.has(next)) continue;
        reached.add(next);
        if (next !== COMMANDS) queue.push(...importsOf(next));
        if (/^(?:packages\/\w+\/src|bin)\//.test(next) && !isTest(next)) continue;
        for (const module of commandsIn(read(next) ?? '')) named.add(module);
      }
    };
    follow();
    // A test of a command needs only the modules of that command.
    if (own && !(ENTRY.startsWith(own) && reached.has(ENTRY))) {
      queue.push(...files.filter((file) => file.startsWith(`${own}src/`) && !isTest(file)));
      follow();
    }
    if (!reached.has(COMMANDS)) return reached;
    queue.push(...named);
    follow();
    return reached;
  };
}

/** Files that no test imports: a change of a document affects tests that read documents, others affect all tests. */
const isDocument = (path: string): boolean => path.endsWith('.md') && !path.startsWith('bundle/');
const isSource = (path: string): boolean => /^(?:packages|tests)\//.test(path);

/** Returns the test files that these changes can affect. */
export function affectedTests(changed: readonly string[], repository: Repository): string[] {
  const tests = repository.files.filter(isTest);
  const rest = changed.filter((path) => !isDocument(path));
  if (rest.some((path) => !isSource(path) || path.endsWith('package.json'))) return tests;
  const reach = createReach(repository);
  const readsDocuments = (path: string): boolean =>
    rest.length < changed.length && /\.md\b|docs-page/.test(repository.read(path) ?? '');
  // Data of a test, such as a folder of cases, has no importer: it belongs to the tests of its package.
  const data = rest.filter((path) => !/\.[mc]?[jt]sx?$/.test(path)).map(packageOf);
  return tests.filter((path) => {
    if (readsDocuments(path) || data.includes(packageOf(path))) return true;
    const reached = reach(path);
    return rest.some((one) => reached.has(one));
  });
}

/** Returns tracked files and new ones, without those that were deleted. */
function openRepository(): Repository {
  const git = (...args: string[]): string[] =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
      .split('\n')
      .filter(Boolean);
  const files = git('ls-files', '--cached', '--others', '--exclude-standard').filter((path) =>
    existsSync(`${ROOT}/${path}`),
  );
  const known = new Set(files);
  return {
    files,
    read: (path) => (known.has(path) ? readFileSync(`${ROOT}/${path}`, 'utf8') : undefined),
  };
}

/** Returns files that differ from `base`, committed or not. */
function changesSince(base: string): string[] {
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const start = git('merge-base', base, 'HEAD');
  const names = `${git('diff', '--name-only', start)}\n${git('ls-files', '--others', '--exclude-standard')}`;
  return names.split('\n').filter(Boolean);
}

function main(): void {
  const { values } = parseArgs({
    options: { base: { type: 'string', default: 'main' }, list: { type: 'boolean' } },
  });
  const changed = changesSince(values.base);
  const tests = affectedTests(changed, openRepository());
  process.stderr.write(
    `${changed.length} files differ from ${values.base}: ${tests.length} test files\n`,
  );
  if (values.list) process.stdout.write(tests.map((path) => `${path}\n`).join(''));
  if (values.list || tests.length === 0) return;
  const vitest = globSync('node_modules/vitest/vitest.mjs', { cwd: ROOT })[0] ?? '';
  const done = spawnSync(process.execPath, [vitest, 'run', ...tests], {
    cwd: ROOT,
    stdio: 'inherit',
  });
  process.exitCode = done.status ?? 1;
}

if (import.meta.main) main();

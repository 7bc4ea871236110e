#!/usr/bin/env node
// Runs every npm script. This file is plain JavaScript that an old Node can run: it installs missing packages
// (once per lock file), then runs the task with the Node version of the repository.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'node_modules');
const localNode = join(modules, 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** Environment variables of a task. */
const SETTINGS = { soak: { KERNMANTLE_SOAK: '1' } };

const bin = (name, ...path) => ['node', join(modules, name, ...path)];
/** Returns the command for these projects of `vitest.config.ts`. Without names, it runs all of them. */
const tests = (...projects) => [
  ...bin('vitest', 'vitest.mjs'),
  'run',
  ...projects.flatMap((project) => ['--project', project]),
];
/** Installs a browser for the tests of the page if the system can install one. */
const browser = ['node', join(root, 'scripts', 'browser.js'), '--install'];
const TASKS = {
  demo: [['node', join(root, 'bin', 'km.js'), 'demo']],
  test: [browser, tests()],
  'test:affected': [browser, ['node', '--no-warnings', join(root, 'scripts', 'affected.ts')]],
  unit: [tests('unit')],
  cases: [tests('cases')],
  e2e: [browser, tests('e2e', 'peers')],
  crash: [tests('crash')],
  soak: [browser, tests()],
  format: [[...bin('@biomejs/biome', 'bin', 'biome'), 'check', '--write', '.']],
  lint: [
    [...bin('@biomejs/biome', 'bin', 'biome'), 'check', '.'],
    [
      ...bin('oxlint', 'bin', 'oxlint'),
      '--type-aware',
      '--deny-warnings',
      'packages',
      'tests',
      'bench',
      'scripts',
    ],
    ['node', join(root, 'scripts', 'lint-sql.js')],
  ],
  types: [
    [...bin('typescript', 'bin', 'tsc'), '-p', 'tsconfig.json'],
    [...bin('typescript', 'bin', 'tsc'), '-p', join('packages', 'web', 'src', 'page')],
  ],
  build: [
    ['node', join(root, 'scripts', 'clean.js')],
    [...bin('typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json'],
    ['node', join(root, 'scripts', 'declarations.js')],
    ['node', join(root, 'scripts', 'bundle.js')],
    ['node', join(root, 'scripts', 'page.js')],
  ],
  house: [['node', '--no-warnings', join(root, 'scripts', 'house.ts')]],
  journals: [['node', '--no-warnings', join(root, 'scripts', 'journals.ts')]],
  digests: [['node', join(root, 'scripts', 'digests.js')]],
  conformance: [['node', '--no-warnings', join(root, 'scripts', 'conformance.ts')]],
  bench: [['node', '--expose-gc', join(root, 'bench', 'main.ts')]],
  'bench:fleet': [['node', '--no-warnings', join(root, 'bench', 'fleet', 'main.ts')]],
  'faults:fleet': [
    ['node', '--no-warnings', join(root, 'packages', 'fleet', 'tests', 'faults', 'main.ts')],
  ],
  'demo:fleet': [
    ['node', join(root, 'scripts', 'page.js')],
    ['node', '--no-warnings', join(root, 'scripts', 'demo-fleet', 'main.ts')],
  ],
  fleet: [tests('fleet')],
  capacity: [['node', '--no-warnings', join(root, 'scripts', 'capacity.ts')]],
};
TASKS.check = [...TASKS.lint, ...TASKS.types, ...TASKS.house, tests('unit', 'cases')];

/** True if this version of Node is recent enough. Compares major and minor, so 22.19 is smaller than 24.0. */
function isCurrent(version) {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 19);
}

function run(command, args, env = process.env) {
  const done = spawnSync(command, args, { cwd: root, stdio: 'inherit', env });
  if (done.error) {
    process.stderr.write(`cannot run ${command}: ${done.error.message}\n`);
    process.exit(1);
  }
  if (done.status !== 0) process.exit(done.status ?? 1);
}

/** Installs the packages if they are missing, or if the lock file changed since the last install. */
function install() {
  const lock = readFileSync(join(root, 'package-lock.json'));
  const stamp = join(modules, '.kernmantle-lock');
  const digest = createHash('sha256').update(lock).digest('hex');
  const fresh = existsSync(stamp) && readFileSync(stamp, 'utf8') === digest;
  if (fresh) return;
  process.stderr.write('installing dependencies (once) …\n');
  const npm = process.env['npm_execpath'];
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  if (npm?.endsWith('.js')) run(process.execPath, [npm, ...args]);
  else run(process.platform === 'win32' ? 'npm.cmd' : 'npm', args);
  writeFileSync(stamp, digest);
}

const [task = '', ...rest] = process.argv.slice(2);
// The demo serves the page, so the page is built first.
const isPage = task === 'demo' && rest.includes('--web');
const steps = isPage ? [['node', join(root, 'scripts', 'page.js')], ...TASKS.demo] : TASKS[task];
if (!steps) {
  process.stderr.write(`unknown task \`${task}\`; there are: ${Object.keys(TASKS).join(' ')}\n`);
  process.exit(2);
}
install();
const node = isCurrent(process.version) || !existsSync(localNode) ? process.execPath : localNode;
if (node === process.execPath && !isCurrent(process.version)) {
  process.stderr.write(
    `Node ${process.version} is too old (22.19 or newer is needed) and no Node was installed for this ` +
      'platform. Install Node 24, or run `npm install` with install scripts allowed.\n',
  );
  process.exit(1);
}
// The tools of the task and their child processes find the same Node first.
const path = [join(modules, 'node', 'bin'), join(modules, '.bin'), process.env.PATH].join(
  delimiter,
);
steps.forEach(([, ...args], index) => {
  const last = index === steps.length - 1;
  run(node, last ? [...args, ...rest] : args, { ...process.env, ...SETTINGS[task], PATH: path });
});

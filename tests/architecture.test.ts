// Tests the rules of ARCHITECTURE.md: rooms and folders have an order, imports enter through doors, there are no
// cycles, and every export has a user. There are no exceptions. `npm run house` has the figures.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { isOwnCode } from '@kernmantle/core/base';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, expect, test } from 'vitest';
import {
  circles,
  fileOf,
  isDoor,
  localImports,
  roomOf,
  shortestCircle,
  unusedExports,
} from '../scripts/house/graph.ts';
import { readTree, type SourceFile } from '../scripts/house/tree.ts';
import { wayToDeclaration } from '../scripts/house/walls.mjs';

/** Packages that each package may import. The graph has no cycle. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  script: ['core'],
  mcp: ['core'],
  fleet: ['core'],
  web: ['core', 'script'],
  evals: ['core'],
  kernmantle: ['core', 'script', 'mcp', 'fleet', 'web', 'evals'],
};

/** Folders of core, the lowest first. */
const FLOORS = [
  ['base'],
  ['trust', 'expr'],
  ['flow'],
  ['items'],
  ['kernel'],
  ['llm', 'store'],
  ['journal'],
  ['harness'],
  ['runtime'],
  ['reports'],
];

/**
 * Folders and files of a package or of a folder of core, the lowest first. Entries in one row do not import each
 * other. `.` means all files without an entry. A folder without an entry has no folders.
 */
const ORDER: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'core/trust': [['keys', 'grants'], ['tokens']],
  'core/flow': [['values'], ['operation.ts'], ['frame.ts'], ['guards'], ['policies'], ['pipeline']],
  'core/items': [
    ['item-kinds.ts', 'signature-line.ts'],
    ['expose.ts'],
    ['directive', 'tool', 'files'],
    ['item.ts', 'knowledge.ts', 'data'],
    ['signature.ts'],
    ['library'],
    ['catalogs'],
  ],
  'core/kernel': [
    ['sink.ts'],
    ['primitive.ts'],
    ['call.ts'],
    ['rights'],
    ['file-tools', 'sinks', 'sandbox'],
    ['process', 'http'],
    ['primitives'],
    ['tool'],
    ['verbs'],
    ['kernel.ts'],
  ],
  'core/llm': [['.'], ['prices', 'scripted']],
  'core/store': [
    ['amounts.ts', 'thread-id.ts', 'fleet-port.ts', 'steps.ts'],
    ['memory.ts'],
    ['port.ts'],
    ['encode.ts', 'decide.ts', 'list-threads.ts', 'watch.ts'],
    ['account.ts'],
    ['thread-filter.ts', 'schedules.ts'],
    ['leases', 'transcript', 'vault.ts'],
    ['sqlite'],
  ],
  'core/harness': [
    ['loop.ts'],
    ['limits'],
    ['thread'],
    ['secrets', 'hooks'],
    ['files'],
    ['rights'],
    ['memory'],
    ['turn'],
    ['step'],
    ['children', 'script-thread'],
    ['reading', 'compact'],
    ['run'],
    ['spawn'],
    ['replay', 'observe'],
  ],
  'core/runtime': [['.'], ['schedules']],
  script: [
    ['fault.ts', 'problem.ts', 'world.ts'],
    ['syntax'],
    ['files'],
    ['values'],
    ['js'],
    ['world'],
    ['run'],
    ['compile'],
    ['execute-script.ts', 'plan.ts'],
    ['runtime'],
    ['lsp'],
    ['extension.ts'],
  ],
  mcp: [['client', 'server'], ['connector'], ['runtime'], ['extension.ts']],
  fleet: [['postgres'], ['copy'], ['runtime', 'worker', 'local-server.ts'], ['extension.ts']],
  web: [['model'], ['server', 'page']],
  kernmantle: [
    ['extensions.ts'],
    ['.', 'conversation'],
    ['acp', 'mcp-server', 'agent'],
    ['testing.ts'],
  ],
  'kernmantle/cli': [
    ['terminal'],
    ['command.ts'],
    ['project.ts'],
    ['threads'],
    ['commands'],
    ['chat'],
    ['demo'],
    ['table.ts'],
    ['main.ts'],
  ],
};

const tree = readTree();
afterAll(() => tree.close());
const { files } = tree;

const floorOf = (room: string): number =>
  FLOORS.findIndex((folders) => folders.includes(room.slice('core/'.length)));

/** Returns the folder below its room that contains a file, or the file itself. */
const partOf = (path: string): string => path.slice(roomOf(path).length + 1).split('/')[0] ?? path;

/** Returns the height of a part in its room. The door is the highest. Undefined for a part without an entry. */
function heightOf(path: string): number | undefined {
  const order = ORDER[roomOf(path)] ?? [['.']];
  if (isDoor(path)) return order.length;
  const part = partOf(path);
  const named = order.findIndex((parts) => parts.includes(part));
  const unnamed = /\.tsx?$/.test(part) ? order.findIndex((parts) => parts.includes('.')) : -1;
  const height = named === -1 ? unnamed : named;
  return height === -1 ? undefined : height;
}

const packageOf = (path: string): string => path.split('/')[0] ?? path;

/** True for the door or the extension of another package, and for the door of another folder of core. */
const isEntrance = (path: string): boolean =>
  [`${roomOf(path)}/index.ts`, `${roomOf(path)}/extension.ts`].includes(path);

/** True if the import is allowed. Imports between folders of core point down. Others follow the graph of packages. */
function mayEnter(path: string, target: string): boolean {
  const [from, to] = [packageOf(path), packageOf(target)];
  if (from !== to) return MAY_IMPORT[from]?.includes(to) === true && isEntrance(target);
  if (from !== 'core') return roomOf(path) === roomOf(target) || from === roomOf(target);
  if (roomOf(path) === roomOf(target)) return true;
  return isEntrance(target) && floorOf(roomOf(target)) < floorOf(roomOf(path));
}

/** True if the target is in the same folder or in a lower one. A file never imports the door of its own room. */
function pointsDown(path: string, target: string): boolean {
  if (isDoor(target)) return false;
  const [from, to] = [heightOf(path), heightOf(target)];
  // Another test reports a file without a height.
  if (from === undefined || to === undefined) return true;
  return partOf(path) === partOf(target) || to < from || isUnnamedPair(path, target);
}

/** True for two files without an entry in the same room. They may import each other, and another test finds cycles. */
const isUnnamedPair = (path: string, target: string): boolean =>
  [path, target].every((file) => {
    const order = ORDER[roomOf(file)] ?? [['.']];
    return partOf(file).endsWith('.ts') && !order.flat().includes(partOf(file));
  });

const edges = (from: readonly SourceFile[]): { path: string; target: string }[] =>
  from.flatMap((file) => localImports(file).map((target) => ({ path: file.path, target })));

/** Fails for each new finding, and for each expected finding that no longer exists. */
function expectOnly(found: readonly string[], known: readonly string[] = []): void {
  expect(found.filter((one) => !known.includes(one))).toEqual([]);
  expect(known.filter((one) => !found.includes(one))).toEqual([]);
}

test('every file is in a package, and every folder of core has its floor', () => {
  const packages = new Set(files.map(({ path }) => packageOf(path)));
  expect([...packages].sort()).toEqual(Object.keys(MAY_IMPORT).sort());
  const core = files.filter(({ path }) => packageOf(path) === 'core');
  expectOnly(core.map(({ path }) => roomOf(path)).filter((room) => floorOf(room) === -1));
});

test('imports follow the graph of packages, point down inside core, and enter through doors', () => {
  const offences = edges(files).filter(({ path, target }) => !mayEnter(path, target));
  expectOnly(offences.map(({ path, target }) => `${path} -> ${target}`));
});

test('every folder has its place in the order of its room', () => {
  const unplaced = files.map(({ path }) => path).filter((path) => heightOf(path) === undefined);
  expectOnly(unplaced);
  const named = Object.entries(ORDER).flatMap(([room, order]) =>
    order.flat().flatMap((part) => (part === '.' ? [] : `${room}/${part}`)),
  );
  const isThere = (place: string): boolean =>
    files.some(({ path }) => path === place || path.startsWith(`${place}/`));
  expectOnly(named.filter((place) => !isThere(place)));
});

test('imports inside a room point down too', () => {
  const offences = edges(files).filter(
    ({ path, target }) =>
      packageOf(path) === packageOf(target) &&
      roomOf(path) === roomOf(target) &&
      !pointsDown(path, target),
  );
  expectOnly(offences.map(({ path, target }) => `${path} -> ${target}`));
});

test('doors list what they export by name', () => {
  const passesAll = ({ imports }: SourceFile): boolean =>
    imports.some(({ names }) => names.some(({ local, name }) => local === '' && name === '*'));
  expectOnly(
    files
      .filter(({ path }) => isDoor(path))
      .filter(passesAll)
      .map(({ path }) => path),
  );
});

test('no file imports itself, however far the way around, types counted', () => {
  expectOnly(circles(tree).map((group) => shortestCircle(tree, group).join(' -> ')));
});

test('no export is without a user, and none is only for tests', () => {
  expectOnly(unusedExports(tree));
});

test('importing the library loads none of its rooms', () => {
  const statements = tree.byPath.get('kernmantle/index.ts')?.imports ?? [];
  const text = readFileSync('packages/kernmantle/src/index.ts', 'utf8').split('\n');
  // An import inside a function is loaded when the function is called.
  const atOnce = statements.filter(({ line }) => /^(import|export) /.test(text[line - 1] ?? ''));
  expect(atOnce.length).toBeGreaterThan(0);
  // `tool` and the class of errors are values, and they load nothing else.
  expectOnly(
    atOnce.filter(({ isType }) => !isType).map(({ target }) => target),
    ['kernmantle/agent/error.ts', 'kernmantle/agent/tool.ts'],
  );
  expectOnly(
    [...runtimeClosure('kernmantle/agent/tool.ts')].filter(
      (path) => !/agent\/(?:tool|error)\.ts$/.test(path),
    ),
  );
});

/** Returns files and packages that a file needs at run time. Imports of doors lead to the files behind them. */
function runtimeClosure(path: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(path)) return found;
  found.add(path);
  for (const { target, isLocal, isType, names } of tree.byPath.get(path)?.imports ?? []) {
    if (isType) continue;
    if (!isLocal) found.add(target);
    for (const { name } of isLocal ? names.filter((one) => one.isType !== true) : []) {
      runtimeClosure(wayToDeclaration(tree.byPath, target, name).at(-1)?.path ?? target, found);
    }
  }
  return found;
}

test('a browser can run the journal: none of its files needs a module of Node', () => {
  const journal = files.filter(({ path }) => roomOf(path) === 'core/journal');
  const closure = new Set(journal.flatMap(({ path }) => [...runtimeClosure(path)]));
  expect(closure).toContain('core/base/outcome.ts');
  expectOnly([...closure].filter((target) => target.startsWith('node:')));
  expect(runtimeClosure('core/base/yaml.ts')).toContain('node:fs');
});

test('an extension loads core and nothing else before it is used', () => {
  const extensions = files.filter(({ path }) => path.endsWith('/extension.ts'));
  const outer = extensions.filter(({ path }) => packageOf(path) !== 'core');
  expect(outer.map(({ path }) => packageOf(path)).toSorted()).toEqual(['fleet', 'mcp', 'script']);
  const loaded = outer.flatMap(({ path, imports }) => {
    const text = readFileSync(fileOf(path), 'utf8').split('\n');
    const atOnce = imports.filter(({ line }) => /^(import|export) /.test(text[line - 1] ?? ''));
    const code = atOnce.filter(({ isType, target }) => !isType && packageOf(target) !== 'core');
    return code.map(({ target }) => `${path} -> ${target}`);
  });
  expectOnly(loaded);
});

test('the kernel knows no threads, models, prices or hooks', () => {
  // Names of kinds and surfaces from higher folders, and the folder of threads in `.ai`.
  const words =
    /\b(spawnThread|runThread|pricing|tierOf|hookDirective|UNASKED|artifact)\b|['"`](thread|threads|harness)['"`]|\.ai\/threads/;
  const saysOne = ({ path }: SourceFile): boolean =>
    words.test(readFileSync(fileOf(path), 'utf8').replace(/\/\/.*|\/\*[\s\S]*?\*\//g, ''));
  const kernel = files.filter(({ path }) => path.startsWith('core/kernel/'));
  expectOnly(kernel.filter(saysOne).map(({ path }) => path));
});

test('one file starts processes, so that all of them inherit the same descriptors', () => {
  const starters = files.filter(({ imports }) =>
    imports.some(
      ({ target, isType }) => /^(node:)?(child_process|cluster)$/.test(target) && !isType,
    ),
  );
  expectOnly(
    starters.map(({ path }) => path),
    ['core/base/spawn.ts'],
  );
});

test('each dependency is imported by one room only, hono by both servers', () => {
  const users = new Map<string, Set<string>>();
  for (const { path, imports } of files) {
    // The build of the page contains its dependencies.
    if (path.startsWith('web/page/')) continue;
    for (const { target, isLocal } of imports) {
      if (isLocal || target.startsWith('node:')) continue;
      users.set(target, (users.get(target) ?? new Set()).add(roomOf(path)));
    }
  }
  expect(users.size).toBeGreaterThan(0);
  expectOnly(
    [...users].filter(([, rooms]) => rooms.size > 1).map(([name]) => name),
    ['@hono/node-server', 'hono'],
  );
});

test('every place asks for the same Node, which is enough for every dependency', () => {
  const packageOf = (folder: string) =>
    JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as {
      engines?: { node?: string };
      dependencies: Record<string, string>;
    };
  const oldest = (range = '0'): [number, number] => {
    const [major = 0, minor = 0] = range.replace(/^\D*/, '').split('.').map(Number);
    return [major, minor];
  };
  const { engines, dependencies } = packageOf('');
  const [major, minor] = oldest(engines?.node);
  for (const launcher of ['bin/km.js', 'scripts/bootstrap.js']) {
    const text = readFileSync(launcher, 'utf8');
    expect(text, launcher).toContain(`major === ${major} && minor >= ${minor}`);
    expect(text, launcher).toContain(`${major}.${minor} or newer`);
  }
  const tooNew = Object.keys(dependencies).filter((name) => {
    const [needs, atLeast] = oldest(packageOf(`node_modules/${name}/`).engines?.node);
    return needs > major || (needs === major && atLeast > minor);
  });
  expectOnly(tooNew);
});

test('CONTRIBUTING.md names places that are there', () => {
  const named = readFileSync('CONTRIBUTING.md', 'utf8').matchAll(
    /`((?:packages|tests|scripts|bundle)\/[^`*…]+)`/g,
  );
  const places = [...named].map(([, place = '']) => place);
  expect(places.length).toBeGreaterThan(10);
  expectOnly(places.filter((place) => !existsSync(place)));
});

test('a file that works without promises where it can says why in its first line', () => {
  const sources = globSync('packages/*/src/**/*.{ts,tsx}').map((path) => ({
    path,
    text: readFileSync(path, 'utf8'),
  }));
  const hot = sources.filter(({ path, text }) => {
    const isSource = !/\.test\.tsx?$|\/base\/(?:index|outcome)\.ts$/.test(path);
    return isSource && /\bwhenReady\b|\bshielded\(|instanceof Promise\b/.test(text);
  });
  expect(hot.length).toBeGreaterThan(10);
  expectOnly(hot.filter(({ text }) => !text.startsWith('// Hot: ')).map(({ path }) => path));
});

test('ARCHITECTURE.md is short, and names files that are there', () => {
  const page = readFileSync('ARCHITECTURE.md', 'utf8');
  expect(page.split(/\s+/).length).toBeLessThan(1500);
  const named = [...page.matchAll(/`([a-z][\w/-]*\.ts)`/g)].map(([, name = '']) => name);
  expect(named.length).toBeGreaterThan(20);
  const isThere = (name: string): boolean =>
    existsSync(name) || files.some(({ path }) => path === name || path.endsWith(`/${name}`));
  expectOnly(named.filter((name) => !isThere(name)));
});

test('every time limit of a test is multiplied by `KERNMANTLE_SLOW`', () => {
  const fixed =
    /\b(?:testTimeout|timeout): \d+_000|AbortSignal\.timeout\(\d+_000|^ *(?:\}, )?\d+_000\);$/m;
  const paths = [
    ...globSync('packages/**/*.test.ts'),
    ...globSync('{packages/*/tests,tests}/**/*.ts'),
  ];
  expect(paths.length).toBeGreaterThan(400);
  expectOnly(paths.filter((path) => fixed.test(readFileSync(path, 'utf8'))));
});

/** Calls that wait, with their arguments. */
const WAIT = /\b(?:sleep|pause|wait|delay|setTimeout)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)/g;
/** Names of variables that hold a duration in milliseconds. */
const TOOK = /\b(?:const|let) (\w+) = (?:performance|Date)\.now\(\) - /g;

/** True if the call waits longer than 50 ms. A limit that `KERNMANTLE_SLOW` multiplies only ends a test that hangs. */
const waitsLong = (text: string): boolean =>
  /\bwaitForTimeout\(/.test(text) ||
  [...text.matchAll(WAIT)].some(([, given = '']) => {
    const last = given.slice(given.lastIndexOf(',') + 1);
    if (/timeoutMs|pollMs/.test(last)) return false;
    const numbers = last.match(/\b\d[\d_]*/g) ?? [];
    return /Date\.now/.test(last) || numbers.some((one) => Number(one.replaceAll('_', '')) > 50);
  });

/** Tests and their support files, without this file and its examples. */
const TESTS = [
  ...globSync('packages/*/src/**/*.test.ts'),
  ...globSync('{packages/*/tests,tests}/**/*.{ts,mjs}'),
].filter((path) => path !== 'tests/architecture.test.ts');

test('no test waits for a time where it can wait for an event', () => {
  const isFree = (path: string): boolean =>
    /^packages\/(core\/tests\/crash|fleet\/tests)\//.test(path);
  const waiting = TESTS.filter((path) => !isFree(path) && waitsLong(readFileSync(path, 'utf8')));
  expectOnly(waiting);
  expect(waitsLong('new Promise((done) => setTimeout(done, 51))')).toBe(true);
  expect(waitsLong('await sleep(50)')).toBe(false);
});

test('no test asserts how long something takes', () => {
  const asserts = (text: string): boolean =>
    [
      String.raw`(?:performance|Date)\.now\(\) - `,
      ...[...text.matchAll(TOOK)].map(([, name]) => `${name}\\b`),
    ].some((took) => new RegExp(String.raw`\bexpect\([^;]*?(?<!\w)${took}`).test(text));
  expectOnly(TESTS.filter((path) => asserts(readFileSync(path, 'utf8'))));
  expect(asserts('expect(performance.now() - from).toBeLessThan(9)')).toBe(true);
  expect(asserts('const ms = Date.now() - from; expect(ms).toBeLessThan(9)')).toBe(true);
});

test('every code of a fault that the runtime makes is one that no module can report', () => {
  const written = files.flatMap(({ path }) => [
    ...readFileSync(fileOf(path), 'utf8').matchAll(
      /\b(?:fail|raise)\(\s*'([a-z_]+)'|_CODE = '([a-z_]+)'/g,
    ),
  ]);
  const codes = new Set(written.map(([, code, named]) => code ?? named ?? ''));
  expect(codes.size).toBeGreaterThan(50);
  expectOnly([...codes].filter((code) => !isOwnCode(code)));
});

/** Functions that write the name of a caller into a record, directly or through another function. */
const NAMES_CALLERS = [
  'core/kernel/call.ts',
  'core/kernel/tool/run-primitive.ts',
  'core/harness/observe/notify.ts',
  'core/harness/observe/watch-threads.ts',
  'core/harness/thread/opening.ts',
  'core/harness/step/step.ts',
  'core/runtime/open-kernel.ts',
  'script/runtime/script-setup.ts',
];

test(
  'no decision is made by the name of a caller',
  () => {
    const [name] = tree
      .members('core/kernel/call.ts', 'Caller')
      .filter((one) => one.name === 'name');
    expectOnly(name?.readers ?? ['there is no such member'], NAMES_CALLERS);
  },
  timeoutMs(120_000),
);

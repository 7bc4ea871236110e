// Tests the package as `npm pack` creates it, with only its dependencies: no types of Node or of
// optional peers. A program that uses every name compiles with the default settings of `tsc`.
import { execFileSync, spawnSync } from 'node:child_process';
import {
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
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildPackage } from '@kernmantle/test-support/built-package';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';

const REPOSITORY = fileURLToPath(new URL('../../../..', import.meta.url));
const MODULES = join(REPOSITORY, 'node_modules');
let scratch: string;
/** The package is loaded from the build, and the temporary folder stays empty. */
const { KERNMANTLE_SRC: _, KERNMANTLE_DIST: __, ...inherited } = process.env;
const env = { ...inherited, NODE_DISABLE_COMPILE_CACHE: '1' };

interface Manifest {
  readonly dependencies?: Record<string, string>;
}
const manifestIn = (dir: string): Manifest =>
  JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')) as Manifest;

/** Links only the dependencies of the package, from the packages installed here. */
function linkDependencies(names: readonly string[]): void {
  for (const name of names) {
    const to = join(scratch, 'node_modules', name);
    mkdirSync(dirname(to), { recursive: true });
    symlinkSync(join(MODULES, name), to);
  }
}

beforeAll(() => {
  scratch = realpathSync(mkdtempSync(join(tmpdir(), 'km-types-')));
  const built = buildPackage({ types: true });
  try {
    const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', scratch];
    const tarball = execFileSync('npm', pack, { cwd: built.dir, env, encoding: 'utf8' }).trim();
    const to = join(scratch, 'node_modules/kernmantle');
    mkdirSync(to, { recursive: true });
    execFileSync('tar', ['-xzf', join(scratch, tarball), '-C', to, '--strip-components=1']);
    linkDependencies(Object.keys(manifestIn(to).dependencies ?? {}));
  } finally {
    built.remove();
  }
  writeFileSync(join(scratch, 'package.json'), '{"type": "module"}');
}, timeoutMs(240_000));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const DECLARATIONS = (): string[] =>
  readdirSync(join(scratch, 'node_modules/kernmantle/dist'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.d.ts'))
    .map((name) => readFileSync(join(scratch, 'node_modules/kernmantle/dist', name), 'utf8'));

test('the declarations name no module but their own', () => {
  const files = DECLARATIONS();
  expect(files.length).toBeGreaterThan(10);
  const named = files.flatMap((text) =>
    [...text.matchAll(/ from ['"]([^'"]+)['"];$|import\(['"]([^'"]+)['"]\)/gm)].map(
      ([, from, inline]) => from ?? inline,
    ),
  );
  expect(named.filter((from) => !from?.startsWith('.'))).toEqual([]);
});

/** Names exported by `packages/kernmantle/src/index.ts`: the values, and all names. */
function exportedNames(): { values: string[]; types: string[] } {
  const text = readFileSync(join(REPOSITORY, 'packages/kernmantle/src/index.ts'), 'utf8');
  const own = [...text.matchAll(/^export const (\w+)/gm)].map(([, name = '']) => name);
  const lists = [...text.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(
    ([, type = '', list = '']) =>
      list
        .split(',')
        .map((part) => `${type}${part.trim()}`)
        .filter((part) => part !== type),
  );
  const [types, values] = [true, false].map((isType) =>
    lists
      .filter((part) => part.startsWith('type ') === isType)
      .map((part) => part.replace(/^type /, '').replace(/^.* as /, '')),
  );
  return { values: [...own, ...(values ?? [])], types: types ?? [] };
}

const PROGRAM = (): string => {
  const { values, types } = exportedNames();
  expect(values.length).toBeGreaterThan(5);
  expect(types.length).toBeGreaterThan(25);
  return `import { scriptedModel, scriptedProvider, type ScriptedReply } from 'kernmantle/testing';
import { ${[...values, ...types.map((name) => `type ${name}`)].join(', ')} } from 'kernmantle';
${types.map((name, at) => `export type T${at} = ${name === 'Outcome' ? 'Outcome<string>' : name};`).join('\n')}
export const all = [${values.join(', ')}];
const add = tool({
  name: 'math/add', description: 'adds', effect: 'read',
  input: { a: 'number', b: { type: 'number', default: 1 } },
  run: ({ a, b }) => ({ sum: a + b }),
});
interface Given { readonly path: string }
const given: Given = { path: 'notes/a.txt' };
const request: object = { item_type: 'tool', item_id: 'fs/read_file', parameters: given };
const provider = await scriptedProvider([{ tool_calls: [{ name: 'execute', arguments: request }] }, { text: 'x' }]);
const opened = await createRuntime({ project: '.', tools: [add] });
if (!opened.ok || !provider.ok) throw new Error('no');
const run = opened.output.threads.start({ directive: 'x', message: 'hello', limits: { turns: 3 } });
for await (const event of run) if (event.type === 'tool_call') event.data.tool.toUpperCase();
const done = await run.result;
const id: string = done.ok ? done.output.thread_id : '';
const more = await opened.output.threads.resume(id, { message: 'and', limits: { spend: '1.00' }, model: 'fast' }).result;
export const status: ThreadStatus | '' = more.ok ? more.output.status : '';
const page = await opened.output.threads.list({ search: 'x' });
export const title: string | undefined = page.ok ? page.output.rows[0]?.title : undefined;
const script: ScriptedReply = { text: 'y' };
const km = await kernmantle({ model: scriptedModel([script]) });
const agent = km.agent({ name: 'x', instructions: 'y', tools: [add] });
const answer = await agent.run('hello');
export const labels: readonly string[] = answer.labels;
// @ts-expect-error an agent without a schema has no output
export const output = answer.output;
// @ts-expect-error a project is a path
await createRuntime({ project: 1 });
// @ts-expect-error there is no such status
export const isDone = more.ok && more.output.status === 'complete';
// @ts-expect-error a limit is a number
opened.output.threads.resume(id, { limits: { turns: 'many' } });
`;
};

const RESOLUTIONS = {
  nodenext: ['--module', 'nodenext'],
  bundler: ['--module', 'esnext', '--moduleResolution', 'bundler'],
};
const COMPILERS: Readonly<Record<string, readonly string[]>> = {
  typescript: ['--ignoreConfig'],
  typescript5: [],
};

test.each(
  Object.keys(COMPILERS).flatMap((compiler) =>
    Object.keys(RESOLUTIONS).map((resolution) => [compiler, resolution] as const),
  ),
)(
  'a program compiles with %s and `%s`, strict, and with everything checked',
  (compiler, resolution) => {
    writeFileSync(join(scratch, 'program.ts'), PROGRAM());
    const tsc = join(MODULES, compiler, 'bin/tsc');
    const how = RESOLUTIONS[resolution as keyof typeof RESOLUTIONS];
    const settings = ['--noEmit', '--strict', '--target', 'es2022', ...how];
    const args = [tsc, ...(COMPILERS[compiler] ?? []), ...settings, 'program.ts'];
    const done = spawnSync(process.execPath, args, { cwd: scratch, env, encoding: 'utf8' });
    expect(`${done.stdout}${done.stderr}`).toBe('');
  },
  timeoutMs(120_000),
);

test('the names that are values are there when it is loaded', () => {
  const program = "console.log(JSON.stringify(Object.keys(await import('kernmantle')).sort()))";
  const args = ['--input-type=module', '-e', program];
  const printed = execFileSync(process.execPath, args, { cwd: scratch, env, encoding: 'utf8' });
  expect(JSON.parse(printed)).toEqual(exportedNames().values.toSorted());
});

import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuiltPackage, buildPackage } from '@kernmantle/test-support/built-package';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';

const REPOSITORY = fileURLToPath(new URL('../../../..', import.meta.url));
let built: BuiltPackage;
beforeAll(() => {
  built = buildPackage({ types: true });
  // A program that has the package installed.
  mkdirSync(join(built.dir, 'program/node_modules'), { recursive: true });
  symlinkSync(built.dir, join(built.dir, 'program/node_modules/kernmantle'));
}, timeoutMs(120_000));
afterAll(() => built.remove());

/** These tests need the built files, unlike all others. */
const { KERNMANTLE_SRC: _, KERNMANTLE_DIST: __, ...env } = process.env;
const node = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: join(built.dir, 'program'), env, encoding: 'utf8' });

test('the published library opens a project and finds what ships with it', () => {
  const program = `
    import { createRuntime } from 'kernmantle';
    const opened = await createRuntime({ project: '.', env: { KERNMANTLE_HOME: './home' } });
    const found = await opened.output.call('execute', {
      item_type: 'tool', item_id: 'fs/list_dir', parameters: { path: '.' },
    });
    console.log(JSON.stringify([opened.output.instructions() !== '', found]));
    await opened.output.close();`;
  const answer: unknown = JSON.parse(node('--input-type=module', '-e', program));
  expect(answer).toMatchObject([
    true,
    { ok: true, output: { chain: ['fs/list_dir', 'function'] } },
  ]);
});

test('the published command line runs from what was built', () => {
  cpSync(join(REPOSITORY, 'bin'), join(built.dir, 'bin'), { recursive: true });
  const { version } = JSON.parse(readFileSync(join(built.dir, 'package.json'), 'utf8')) as {
    version: string;
  };
  expect(node('../bin/km.js', '--version').trim()).toBe(version);
  expect(existsSync(join(built.dir, 'packages'))).toBe(false);
});

test('the published command line runs js blocks', () => {
  const script = 'exe @f(x) = js { return [x].map((n) => n + 1)[0] }\nshow @f(2)';
  expect(node('../bin/km.js', 'script', '-e', script)).toBe('3\n');
});

test('the published command line has the SQL files of the fleet, and none of them beside it', () => {
  const url = 'postgres://nobody@127.0.0.1:1/none';
  const migrate = (): string => node('../bin/km.js', 'store', 'migrate', '--store', url);
  expect(migrate).toThrow(/cannot be reached \(ECONNREFUSED\)/);
  const chunks = join(built.dir, 'dist/chunks');
  const texts = readdirSync(chunks).map((name) => readFileSync(join(chunks, name), 'utf8'));
  for (const name of ['km_write', 'km_claim', 'km_signal', 'km_enter']) {
    const isThere = (text: string): boolean => text.includes(`CREATE OR REPLACE FUNCTION ${name}(`);
    expect(texts.filter(isThere)).toHaveLength(1);
  }
  expect(texts.filter((text) => text.includes(".sql'"))).toEqual([]);
});

test('the published types hold for a program that has its own strict settings', () => {
  const file = join(built.dir, 'program/program.ts');
  writeFileSync(
    file,
    `import { createRuntime, type Runtime, tool as define } from 'kernmantle';
const tool = define({ name: 'a/b', description: 'x', input: {}, run: () => 1 });
const opened = await createRuntime({ tools: [tool] });
const runtime: Runtime | undefined = opened.ok ? opened.output : undefined;
// @ts-expect-error a project is a path
await createRuntime({ project: 1 });
const done = await runtime?.threads.start({ directive: 'x' }).result;
// @ts-expect-error there is no such status
export const isDone = done?.ok && done.output.status === 'complete';
export { runtime };
`,
  );
  const settings = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024'];
  const types = ['--types', 'node', '--typeRoots', join(REPOSITORY, 'node_modules/@types')];
  const tsc = join(REPOSITORY, 'node_modules/typescript/bin/tsc');
  expect(node(tsc, ...settings, ...types, '--ignoreConfig', file)).toBe('');
});

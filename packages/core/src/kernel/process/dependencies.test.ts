import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import { isSoakOrCi } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../base/index.ts';
import { environmentFolder, prepareDependencies } from './dependencies.ts';

type DependentTool = Parameters<typeof prepareDependencies>[0];

const has = (command: string, ...args: string[]): boolean => {
  try {
    execFileSync(command, args, {
      stdio: 'ignore',
      env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
    });
    return true;
  } catch {
    return false;
  }
};
const hasNpm = has('npm', '--version');
const hasPython = has('python3', '-c', 'import venv, ensurepip');

let project: TestProject;
let server: Server;
let base = '';
const files = new Map<string, { type: string; body: Buffer | string }>();

beforeAll(async () => {
  server = createServer((request, response) => {
    const file = files.get(decodeURIComponent(request.url ?? ''));
    response.writeHead(file ? 200 : 404, { 'content-type': file?.type ?? 'text/plain' });
    response.end(file?.body ?? 'not here');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  project = makeProject();
});
afterEach(() => project.remove());

function prepare(
  tool: DependentTool,
  install: 'allow' | 'ask' | 'deny',
  variables: Record<string, string> = {},
  root = project.root,
) {
  const env = { PATH: process.env.PATH, HOME: project.home, ...variables };
  return prepareDependencies(
    tool,
    root,
    { clock: systemClock, env, install },
    new AbortController().signal,
  );
}

/** A package with an install script, as a registry serves it. */
function publish(name: string): void {
  const folder = join(project.base, 'package');
  mkdirSync(folder);
  const description = {
    name,
    version: '1.0.0',
    main: 'index.js',
    scripts: { install: 'touch ran' },
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(description));
  writeFileSync(join(folder, 'index.js'), "exports.say = () => 'hello';");
  const tarball = execFileSync('tar', ['-czf', '-', '-C', project.base, 'package']);
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const dist = { tarball: `${base}/${name}.tgz`, integrity };
  files.set(`/${name}.tgz`, { type: 'application/octet-stream', body: tarball });
  files.set(`/${name}`, {
    type: 'application/json',
    body: JSON.stringify({
      name,
      'dist-tags': { latest: '1.0.0' },
      versions: { '1.0.0': { ...description, hasInstallScript: true, dist } },
    }),
  });
}

test.skipIf(!hasNpm)(
  'packages come from the registry once, and none of their scripts runs (needs npm)',
  async () => {
    publish('km-parrot');
    const tool = { id: 'demo/tool', runtime: 'node' as const, dependencies: ['km-parrot@1.0.0'] };
    expect(await prepare(tool, 'ask')).toMatchObject({
      ok: false,
      error: { code: 'dependency_missing' },
    });
    const registry = { npm_config_registry: base };
    expect(await prepare(tool, 'allow', registry)).toEqual({
      ok: true,
      output: null,
    });
    const folder = environmentFolder(project.root, 'node', tool.dependencies) as string;
    expect(readFileSync(join(folder, 'node_modules/km-parrot/index.js'), 'utf8')).toContain(
      'hello',
    );
    expect(existsSync(join(folder, 'node_modules/km-parrot/ran'))).toBe(false);
    expect(await prepare(tool, 'ask')).toEqual({ ok: true, output: null });
    files.clear();
    expect((await prepare(tool, 'allow', registry)).ok).toBe(true);
    expect(readdirSync(join(project.root, '.ai/.env/node'))).toHaveLength(1);
  },
);

test.skipIf(!hasNpm)(
  'a package that does not exist leaves nothing behind (needs npm)',
  async () => {
    const tool = { id: 'demo/tool', runtime: 'node' as const, dependencies: ['km-not-there'] };
    const failed = await prepare(tool, 'allow', { npm_config_registry: base });
    expect(failed).toMatchObject({
      ok: false,
      error: { code: 'dependency_missing', detail: { exit_code: 1 } },
    });
    expect(readdirSync(join(project.root, '.ai/.env/node'))).toEqual([]);
  },
);

// The environment takes 20 seconds of work, so that only soak and CI make one.
test.skipIf(!hasPython || !isSoakOrCi)(
  'a wheel is installed into an environment of its own (needs python3 with venv)',
  async () => {
    const wheel = 'km_parrot-1.0.0-py3-none-any.whl';
    const build = `
import zipfile, sys
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("km_parrot.py", "def say(): return 'hello'")
    z.writestr("km_parrot-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: km-parrot\\nVersion: 1.0.0\\n")
    z.writestr("km_parrot-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("km_parrot-1.0.0.dist-info/RECORD", "")
`;
    execFileSync('python3', ['-c', build, join(project.base, wheel)]);
    files.set(`/km-parrot/${wheel}`, {
      type: 'application/zip',
      body: readFileSync(join(project.base, wheel)),
    });
    files.set('/km-parrot/', { type: 'text/html', body: `<a href="${wheel}">${wheel}</a>` });
    const tool = {
      id: 'demo/tool',
      runtime: 'python' as const,
      dependencies: ['km-parrot==1.0.0'],
    };
    const done = await prepare(tool, 'allow', { PIP_INDEX_URL: base });
    expect(done).toEqual({ ok: true, output: null });
    const folder = environmentFolder(project.root, 'python', tool.dependencies) as string;
    const said = execFileSync(join(folder, 'bin/python'), [
      '-c',
      'import km_parrot; print(km_parrot.say())',
    ]);
    expect(said.toString()).toBe('hello\n');
  },
);

test('the answer for a missing package is a line to paste', async () => {
  const tool = { id: 'demo/tool', runtime: 'python' as const, dependencies: ['requests>=2,<3'] };
  const folder = environmentFolder('/my project', 'python', tool.dependencies) as string;
  const install = `python3 -m venv '${folder}' && '${folder}/bin/python' -m pip install --no-input --disable-pip-version-check --only-binary :all: --quiet -- 'requests>=2,<3' && touch '${folder}/.complete'`;
  expect(await prepare(tool, 'deny', {}, '/my project')).toMatchObject({
    ok: false,
    error: { code: 'dependency_missing', detail: { install } },
  });
});

test('only names and versions are packages', async () => {
  for (const name of [
    '--registry=http://evil',
    'file:../x',
    'git+https://x/y',
    '../up',
    'a b',
    'https://x/y.tgz',
    '',
  ]) {
    for (const runtime of ['node', 'python'] as const) {
      const tool = { id: 'demo/tool', runtime, dependencies: [name] };
      expect(await prepare(tool, 'ask'), name).toMatchObject({
        error: { code: 'config_invalid' },
      });
      expect((await prepare(tool, 'allow')).ok).toBe(false);
    }
  }
  for (const name of ['left-pad', '@scope/name', 'a@^1.2.3', '@s/n@1.x']) {
    const tool = { id: 'demo/tool', runtime: 'node' as const, dependencies: [name] };
    expect(await prepare(tool, 'ask'), name).toMatchObject({
      error: { code: 'dependency_missing' },
    });
  }
});

test('the folder depends on what is in the list, not on its order', async () => {
  const list = fc.uniqueArray(fc.constantFrom('a', 'b', 'c@1', '@d/e', 'f'), { minLength: 1 });
  fc.assert(
    fc.property(list, list, (one, other) => {
      const same = JSON.stringify(one.toSorted()) === JSON.stringify(other.toSorted());
      const folders = [one, other.toReversed()].map((names) =>
        environmentFolder('/p', 'node', names),
      );
      expect(folders[0] === folders[1]).toBe(same);
    }),
  );
  expect(environmentFolder('/p', 'node', [])).toBeUndefined();
  expect(environmentFolder('/p', 'node', ['a'])).not.toBe(environmentFolder('/p', 'python', ['a']));
  const tool = { id: 'demo/tool', runtime: 'node' as const, dependencies: ['a'] };
  expect(await prepare(tool, 'ask')).toMatchObject({
    error: { detail: { install: expect.stringContaining('--ignore-scripts') } },
  });
});

import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  makeProject,
  portsOf,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { sandboxes, working } from '@kernmantle/test-support/sandboxes';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import { environmentFolder } from './dependencies.ts';
import { createProcessPrimitive } from './subprocess.ts';

const hasPython = spawnSync('python3', ['--version']).status === 0;
const NONE: SandboxReport = { kind: 'none' };
const kinds: [string, SandboxReport][] = [['without a sandbox', NONE], ...working];

const MODULES = {
  '.ai/tools/text/echo.ts': `
    interface P { n: number }
    export function run(parameters: P, config: { top: number }) {
      console.log('{"ok":true,"output":"forged"}');
      process.stdout.write('noise');
      return { sum: parameters.n + config.top };
    }
    export async function later({ n }: P) { await null; return n; }
    export const fails = () => { throw Object.assign(new Error('no such thing'), { code: 'not_found' }); };
    export const crashes = () => { throw new TypeError('oops'); };
    export const answers = () => ({ ok: false, error: { code: 'quota_exceeded', detail: { message: 'enough', left: 0 } } });
    export const leaves = () => process.exit(7);
    export const hangs = () => { setInterval(() => {}, 1000); return 'done'; };
    export const nothing = () => {};
    export const repeats = (parameters: object) => parameters;
    export const endless = () => ({ n: 1n });
    export const large = () => 'x'.repeat(20_000_000);
    export const secret = () => process.env.CANARY ?? 'none';`,
  '.ai/tools/text/other.mjs': 'export default (p) => `hello ${p.name}`;',
  '.ai/tools/text/needs.mjs': "import { tell } from 'parrot'; export const run = () => tell();",
  '.ai/tools/text/tool.py': `
import sys
def run(parameters, config):
    print("noise")
    return {"sum": parameters["n"] + config["top"]}
def one(parameters):
    return parameters["n"]
async def later(parameters, config):
    return "later"
def fails(parameters, config):
    raise ValueError("bad value")
def leaves(parameters, config):
    sys.exit(7)
def repeats(parameters, config):
    return parameters
def odd(parameters, config):
    return float("nan")
async def execute(directive_name: str, inputs=None, **params):
    return [directive_name, inputs, params]
def loose(**params):
    return params
def exact(path, width=800, *, config):
    return [path, width, config["top"]]
def whole(params=None, config=None):
    return [params, config["top"]]
def shadow(config):
    return config
def only(params, /, config):
    return [params, config["top"]]
`,
  'src/elsewhere.ts': 'export const run = () => 1;',
};

let project: TestProject;
beforeAll(() => {
  project = makeProject(MODULES);
});
afterAll(() => project.remove());

describe.each(kinds)('%s', (_, report) => {
  async function run(
    runtime: string,
    module: string,
    name: string | undefined,
    more: Parameters<typeof callOf>[2] = {},
    config: JsonObject = {},
  ) {
    const primitive = createProcessPrimitive(portsOf(project, report));
    const own = {
      runtime,
      module,
      top: 10,
      ...(name === undefined ? {} : { function: name }),
      ...config,
    };
    const dir = `${join(project.root, '.ai/tools/text')}/`;
    const { tool, ...rest } = more;
    return await primitive.run(
      callOf(project, own, {
        parameters: { n: 1 },
        verify: verifierOf('process.spawn'),
        ...rest,
        tool: { dir, requires: [], ...tool },
      }),
    );
  }

  test('a TypeScript module gets parameters and config; what it prints is not its answer', async () => {
    expect(await run('node', './echo.ts', undefined)).toMatchObject({
      ok: true,
      output: { output: { sum: 11 }, labels: ['src:node'] },
    });
    expect(await run('node', './echo.ts', 'later')).toMatchObject({
      ok: true,
      output: { output: 1 },
    });
    expect(
      await run('node', 'other.mjs', undefined, { parameters: { name: 'you' } }),
    ).toMatchObject({ output: { output: 'hello you' } });
  });

  test('every way a module can fail has its own answer', async () => {
    expect(await run('node', './echo.ts', 'fails')).toMatchObject({
      error: { code: 'tool_failed', detail: { message: 'no such thing', reported: 'not_found' } },
    });
    expect(await run('node', './echo.ts', 'crashes')).toMatchObject({
      error: { code: 'tool_failed', detail: { message: 'oops' } },
    });
    expect(await run('node', './echo.ts', 'answers')).toMatchObject({
      error: {
        code: 'tool_failed',
        detail: { message: 'enough', reported: 'quota_exceeded', reported_detail: { left: 0 } },
      },
    });
    expect(await run('node', './echo.ts', 'leaves')).toMatchObject({
      error: { code: 'tool_failed', detail: { exit_code: 7 } },
    });
    expect(await run('node', './echo.ts', 'endless')).toMatchObject({
      error: { code: 'tool_failed' },
    });
    expect(await run('node', './echo.ts', 'large')).toMatchObject({
      error: { code: 'tool_failed' },
    });
    expect(await run('node', './echo.ts', 'missing')).toMatchObject({
      error: { detail: { message: expect.stringContaining('no function `missing`') } },
    });
  });

  test.each(['node', ...(hasPython ? ['python'] : [])])(
    'a module of %s chooses neither a code of ours nor a field of a fault',
    async (runtime) => {
      const module = runtime === 'node' ? './echo.ts' : './tool.py';
      const detail = {
        message: 'm',
        missing: 'fs.read',
        limit: 'spend',
        current: 1,
        max: 1,
        status: 503,
        retryable: true,
        retry_after_ms: 1,
        sent: false,
        guard: 'policy:x',
        answer: 'pending',
        closed: true,
        unsigned: 'a/b',
        reported: 'rate_limit',
        exit_code: 0,
        stdout: 'x',
      };
      const said = async (code: string) => {
        const done = await run(runtime, module, 'repeats', {
          parameters: { ok: false, error: { code, detail } },
        });
        if (done.ok) throw new Error('it did not fail');
        const { stdout: _, stderr: __, truncated: ___, ...rest } = done.error.detail;
        return { code: done.error.code, detail: rest };
      };
      const { message, ...fields } = detail;
      for (const code of ['config_invalid', 'spend_exceeded', 'Handed_Over', 'store_anything']) {
        expect(await said(code)).toEqual({
          code: 'tool_failed',
          detail: { message, reported: code, reported_detail: fields },
        });
      }
      expect(await said('my_code')).toEqual({
        code: 'my_code',
        detail: { message, reported_detail: fields },
      });
    },
  );

  test('a module that answers and does not end is ended', async () => {
    expect(await run('node', './echo.ts', 'hangs')).toMatchObject({
      ok: true,
      output: { output: 'done' },
    });
    expect(await run('node', './echo.ts', 'nothing')).toMatchObject({
      ok: true,
      output: { output: null },
    });
  });

  test.runIf(hasPython)(
    'a Python function whose parameters are those of the tool is called by name',
    async () => {
      const call = async (name: string, names: readonly string[], parameters: JsonObject) => {
        const done = await run('python', './tool.py', name, {
          parameters,
          tool: { parameters: names },
        });
        return done.ok ? done.output.output : done.error.detail.message;
      };
      const names = ['directive_name', 'inputs', 'extra'];
      const inputs = { a: 1 };
      expect(await call('execute', names, { directive_name: 'deploy', inputs, extra: 2 })).toEqual([
        'deploy',
        inputs,
        { extra: 2 },
      ]);
      expect(await call('execute', names, { directive_name: 'deploy' })).toEqual([
        'deploy',
        null,
        {},
      ]);
      expect(await call('loose', ['a'], { a: 1 })).toEqual({ a: 1 });
      expect(await call('loose', [], {})).toEqual({});
      expect(await call('exact', ['path', 'width'], { path: 'x' })).toEqual(['x', 800, 10]);
      expect(await call('exact', ['path', 'more'], { path: 'x', more: 1 })).toContain("'more'");
      // Names that do not fit: the parameters as one object, and the config.
      expect(await call('whole', ['n'], { n: 1 })).toEqual([{ n: 1 }, 10]);
      expect(await call('whole', [], {})).toEqual([{}, 10]);
      expect(await call('shadow', ['config'], { config: 'mine' })).toBe('mine');
      expect(await call('only', ['params'], { params: 1 })).toEqual([{ params: 1 }, 10]);
    },
  );

  test('our environment does not reach a module', async () => {
    expect(await run('node', './echo.ts', 'secret')).toMatchObject({
      ok: true,
      output: { output: 'none' },
    });
  });

  test.skipIf(!hasPython)('a Python module works the same (needs python3)', async () => {
    expect(await run('python', './tool.py', undefined)).toMatchObject({
      ok: true,
      output: { output: { sum: 11 }, labels: ['src:py'] },
    });
    expect(await run('python', './tool.py', 'one')).toMatchObject({
      ok: true,
      output: { output: 1 },
    });
    expect(await run('python', './tool.py', 'later')).toMatchObject({
      ok: true,
      output: { output: 'later' },
    });
    expect(await run('python', './tool.py', 'fails')).toMatchObject({
      error: { code: 'tool_failed', detail: { message: 'bad value' } },
    });
    expect(await run('python', './tool.py', 'leaves')).toMatchObject({
      error: { code: 'tool_failed', detail: { exit_code: 7 } },
    });
    expect(await run('python', './tool.py', 'odd')).toMatchObject({
      error: { code: 'tool_failed' },
    });
  });

  test('declared packages are found in their own folder, and asked for when they are not there', async () => {
    const config = { dependencies: ['parrot'] };
    const folder = environmentFolder(project.root, 'node', ['parrot']) as string;
    if (report === NONE) {
      const missing = await run('node', './needs.mjs', undefined, {}, config);
      expect(missing).toMatchObject({
        error: {
          code: 'dependency_missing',
          detail: { install: expect.stringContaining('npm install --prefix') },
        },
      });
    }
    mkdirSync(join(folder, 'node_modules/parrot'), { recursive: true });
    writeFileSync(
      join(folder, 'node_modules/parrot/package.json'),
      '{"name":"parrot","type":"module","main":"index.js"}',
    );
    writeFileSync(
      join(folder, 'node_modules/parrot/index.js'),
      "export const tell = () => 'polly';",
    );
    writeFileSync(join(folder, '.complete'), '');
    expect(await run('node', './needs.mjs', undefined, {}, config)).toMatchObject({
      ok: true,
      output: { output: 'polly' },
    });
  });

  test('a module must lie beside its tool', async () => {
    expect(await run('node', '../../../src/elsewhere.ts', undefined)).toMatchObject({
      error: {
        code: 'config_invalid',
        detail: { message: expect.stringContaining('outside of the folder') },
      },
    });
    expect(await run('node', './gone.ts', undefined)).toMatchObject({
      error: { code: 'config_invalid' },
    });
    expect(await run('node', './tool.py', undefined)).toMatchObject({
      error: { code: 'config_invalid' },
    });
    if (report === NONE)
      symlinkSync(
        join(project.root, 'src/elsewhere.ts'),
        join(project.root, '.ai/tools/text/link.ts'),
      );
    expect(await run('node', './link.ts', undefined)).toMatchObject({
      error: { code: 'config_invalid' },
    });
  });
});

for (const { name, report } of sandboxes) {
  test.skipIf(report.kind === 'none')(
    `a tool of the user runs from a folder that is otherwise hidden, ${name}`,
    async () => {
      const folder = join(project.home, '.ai', 'tools', 'mine');
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(project.home, '.ai', 'key'), 'private');
      writeFileSync(
        join(folder, 'm.mjs'),
        "import { readdirSync } from 'node:fs'; export const run = ({ dir }) => readdirSync(dir);",
      );
      const call = callOf(
        project,
        { runtime: 'node', module: 'm.mjs' },
        {
          tool: { dir: folder, source: 'user', requires: [] },
          parameters: { dir: join(project.home, '.ai') },
        },
      );
      const primitive = createProcessPrimitive(portsOf(project, report));
      expect(await primitive.run(call)).toMatchObject({ ok: true, output: { output: ['tools'] } });
      // The home folder itself as the project: its `.ai` is both.
      const atHome = { ...call, projectRoot: project.home };
      expect(await primitive.run(atHome)).toMatchObject({
        ok: true,
        output: { output: ['tools'] },
      });
    },
  );
}

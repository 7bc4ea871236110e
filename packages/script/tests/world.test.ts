// Files, processes and tools of scripts with real parts: a project folder, the operator's policy, the
// sandbox.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Json, Outcome } from '@kernmantle/core/base';
import { makeValue, describe as marks } from '@kernmantle/core/flow';
import { probeSandboxNow } from '@kernmantle/core/kernel';
import { createRuntime } from '@kernmantle/core/runtime';
import { afterEach, describe, expect, test } from 'vitest';
import { EXTENSIONS } from '../../kernmantle/src/extensions.ts';
import { runScriptIn } from '../src/runtime/run-script.ts';
import { findScriptProject, openScripts } from '../src/runtime/script-setup.ts';
import type { CodeRequest, JsArgument, ProcessRequest } from '../src/world.ts';

const sandbox = await probeSandboxNow();
const inSandbox = test.skipIf(sandbox.kind === 'none'); // without one the policy refuses processes

const bases: string[] = [];
afterEach(() => {
  for (const base of bases.splice(0)) rmSync(base, { recursive: true, force: true });
});

function folders(files: Readonly<Record<string, string>>) {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'km-script-')));
  bases.push(base);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(base, path)), { recursive: true });
    writeFileSync(join(base, path), text);
  }
  mkdirSync(join(base, 'project'), { recursive: true });
  return { base, project: join(base, 'project'), home: join(base, 'home') };
}

async function open(files: Readonly<Record<string, string>> = {}, signal?: AbortSignal) {
  const { base, project, home } = folders(files);
  const env = { PATH: process.env.PATH, HOME: base, KERNMANTLE_HOME: home, LANG: 'C.UTF-8' };
  const runtime = await createRuntime({ project, env, extensions: EXTENSIONS });
  if (!runtime.ok) throw new Error(runtime.error.detail.message);
  const stage = await openScripts(runtime.output.rooms, {
    name: 'test',
    ...(signal ? { signal } : {}),
  });
  const { world, frame } = stage;
  const at = (path: string): string => join(project, path);
  const request = (more: Partial<ProcessRequest>): ProcessRequest => ({
    kind: 'cmd',
    source: [],
    env: {},
    stdin: undefined,
    folder: project,
    timeoutMs: undefined,
    ...more,
  });
  return {
    base,
    project,
    home,
    world,
    frame,
    at,
    read: async (path: string) => await world.readFile(at(path), frame),
    write: async (path: string, text: string, labels: string[] = [], append = false) =>
      await world.writeFile(
        { path: at(path), text, append, descriptor: marks({ labels }), named: marks({}) },
        frame,
      ),
    run: async (source: string | string[], more: Partial<ProcessRequest> = {}) => {
      const kind = typeof source === 'string' ? 'sh' : 'cmd';
      return await world.process(request({ kind, source, ...more }), frame);
    },
    code: async (kind: 'node' | 'py', source: string, more: Partial<CodeRequest> = {}) =>
      await world.code(
        {
          kind,
          source,
          parameters: [],
          mx: { try: 1 },
          helpers: [],
          env: {},
          stdin: undefined,
          folder: project,
          timeoutMs: undefined,
          ...more,
        },
        frame,
      ),
    rows: async () => {
      const rows = await runtime.output.audit.read({ limit: 100 });
      if (!rows.ok) throw new Error(rows.error.detail.message);
      return rows.output.map(({ operation, decision }) => `${operation} ${decision}`);
    },
  };
}

const given = (values: Readonly<Record<string, Json>>) =>
  Object.entries(values).map(([name, data]) => ({
    name,
    value: { kind: 'data', data } satisfies JsArgument,
  }));
const denied = (outcome: Outcome<unknown>): void => {
  expect(outcome).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
};

describe('files', () => {
  test('carry where they come from', async () => {
    const { read, project } = await open({ 'project/docs/a.txt': 'hello' });
    const outcome = await read('docs/a.txt');
    expect(outcome).toMatchObject({
      output: {
        text: 'hello',
        path: join(project, 'docs/a.txt'),
        descriptor: { labels: [], sources: ['file:docs/a.txt'] },
      },
    });
    const taint = outcome.ok ? outcome.output.descriptor.taint : [];
    expect(taint.slice(0, 3)).toEqual(['src:file', 'dir:docs']);
  });

  test('outside the project are read as untrusted, the keys never', async () => {
    const { world, frame, base } = await open({ 'elsewhere/x.txt': 'x', 'home/keys/k': 'key' });
    expect(await world.readFile(join(base, 'elsewhere/x.txt'), frame)).toMatchObject({
      output: { descriptor: { labels: ['untrusted'] } },
    });
    denied(await world.readFile(join(base, 'home/keys/k'), frame));
  });

  test('that a policy closes stay closed, also through a link, and then nothing elsewhere is open', async () => {
    const policy = 'capabilities:\n  allow:\n    - { capability: fs.read, path: "src/**" }\n';
    const files = {
      'home/policy.yaml': policy,
      'project/src/a': '1',
      'project/b': '2',
      'c/x': '3',
    };
    const { read, world, frame, base, at } = await open(files);
    symlinkSync(at('b'), at('src/link'));
    expect(await read('src/a')).toMatchObject({ ok: true });
    denied(await read('b'));
    denied(await read('src/link'));
    denied(await world.readFile(join(base, 'c/x'), frame));
    expect(await world.exists(at('b'), frame)).toMatchObject({ found: false });
    expect(await world.glob(at('**'), frame)).toMatchObject({ output: { found: [at('src/a')] } });
  });

  test('that are missing, folders or devices are told apart', async () => {
    const { read, world, frame } = await open({ 'project/docs/a.txt': '' });
    expect(await read('nope.txt')).toMatchObject({ error: { code: 'not_found' } });
    expect(await read('docs')).toMatchObject({ error: { code: 'invalid_input' } });
    expect(await world.readFile('/dev/zero', frame)).toMatchObject({
      error: { code: 'invalid_input' },
    });
  });

  test('are listed and found by pattern, in order, without what hides', async () => {
    const files = ['b.md', 'a.md', '.hidden.md', 'sub/c.md', 'node_modules/x/d.md', 'e.txt'];
    const { world, frame, at } = await open(
      Object.fromEntries(files.map((name) => [`project/${name}`, ''])),
    );
    const found = async (pattern: string) => await world.glob(at(pattern), frame);
    expect(await found('*.md')).toMatchObject({ output: { found: [at('a.md'), at('b.md')] } });
    expect(await found('**/*.md')).toMatchObject({
      output: { found: [at('a.md'), at('b.md'), at('sub/c.md')] },
    });
    expect(await found('.*.md')).toMatchObject({ output: { found: [at('.hidden.md')] } });
    expect(await found('nope/*.md')).toMatchObject({
      output: { found: [], descriptor: { taint: ['src:file', 'dir:nope'] } },
    });
    expect(await world.list(at('sub'), frame)).toMatchObject({
      output: {
        found: [{ name: 'c.md', isFolder: false }],
        descriptor: { taint: ['src:file', 'dir:sub'] },
      },
    });
    expect(await world.exists(at('sub'), frame)).toMatchObject({ found: true });
  });
});

describe('written files', () => {
  test('give back the labels of what was written, also after appending', async () => {
    const { read, write, at } = await open();
    expect(await write('out/deep/x.txt', 'one\n', ['pii'])).toEqual({ ok: true, output: null });
    expect(await write('out/deep/x.txt', 'two\n', ['secret'], true)).toMatchObject({ ok: true });
    expect(await read('out/deep/x.txt')).toMatchObject({
      output: { text: 'one\ntwo\n', descriptor: { labels: ['pii', 'secret'] } },
    });
    writeFileSync(at('out/deep/x.txt'), 'other');
    expect(await read('out/deep/x.txt')).toMatchObject({
      output: { descriptor: { labels: ['secret'] } },
    });
  });

  test('keep their labels when the project gets its own folder for records', async () => {
    const { write, project, home } = await open();
    await write('x.txt', 'text', ['untrusted']);
    mkdirSync(join(project, '.ai'));
    const runtime = await createRuntime({ project, env: { KERNMANTLE_HOME: home } });
    if (!runtime.ok) throw new Error('not opened');
    const { world, frame } = await openScripts(runtime.output.rooms, {});
    expect(await world.readFile(join(project, 'x.txt'), frame)).toMatchObject({
      output: { descriptor: { labels: ['untrusted'] } },
    });
  });

  test('are never outside the project, an item, or something of git', async () => {
    const { write, base, at } = await open({ 'project/.git/config': '', 'other/x': '' });
    denied(await write('../other/x', 'new'));
    denied(await write('.ai/policy.yaml', 'sandbox: none'));
    denied(await write('.git/config', 'x'));
    symlinkSync(join(base, 'other'), at('link'));
    denied(await write('link/x', 'new'));
    expect(readFileSync(join(base, 'other/x'), 'utf8')).toBe('');
  });

  test('appended to at the same time hold every line', async () => {
    const { write, at } = await open();
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => write('log.txt', `${index}\n`, [], true)),
    );
    const lines = readFileSync(at('log.txt'), 'utf8').trim().split('\n');
    expect(lines).toEqual(Array.from({ length: 20 }, (_, index) => String(index)));
  });

  test('leave a row in the audit, refusals too', async () => {
    const { write, rows } = await open();
    await write('a.txt', 'x');
    await write('../b.txt', 'x');
    expect((await rows()).map((row) => row.replace(/write:\S*\//, 'write:'))).toEqual([
      'write:a.txt allowed',
      'write:b.txt denied',
    ]);
  });
});

describe('commands', () => {
  inSandbox('run one after the other until one fails, with its exit code', async () => {
    const { run, rows } = await open();
    expect(await run(['echo one', 'sh -c "echo two >&2; exit 3"', 'echo three'])).toEqual({
      ok: true,
      output: {
        stdout: 'one\n',
        stderr: 'two\n',
        code: 3,
        signal: undefined,
        descriptor: marks({}),
      },
    });
    expect(await run(['false | true', 'echo "a\\\\nb"'])).toMatchObject({
      output: { code: 0, stdout: 'a\\nb\n' },
    });
    expect(await rows()).toEqual(['run:cmd:echo allowed', 'run:cmd:false allowed']);
  });

  inSandbox('get stdin, variables and a working folder of the project, nothing else', async () => {
    const { run, project, base } = await open({ 'project/sub/a': '' });
    const script = 'cat; echo "$name"; pwd; echo "${CANARY:-none}"';
    const more = { stdin: 'in\n', env: { name: 'x  "y"' }, folder: join(project, 'sub') };
    expect(await run(script, more)).toMatchObject({
      output: { stdout: `in\nx  "y"\n${project}/sub\nnone\n` },
    });
    expect(await run('echo "$a_b"', { env: { 'a-b': 'dash' } })).toMatchObject({
      output: { stdout: 'dash\n' },
    });
    denied(await run('pwd', { folder: base }));
  });

  inSandbox('write in the project and nowhere else, and see no keys', async () => {
    const { run, base, project } = await open({ 'home/keys/k': 'secret', 'other/x': 'old' });
    const script = `echo new > made; echo bad > ${base}/other/x; cat ${base}/home/keys/k; echo x > .ai/policy.yaml; true`;
    expect(await run(script)).toMatchObject({ output: { stdout: '', code: 0 } });
    expect(readFileSync(join(project, 'made'), 'utf8')).toBe('new\n');
    expect(readFileSync(join(base, 'other/x'), 'utf8')).toBe('old');
    expect(existsSync(join(project, '.ai/policy.yaml'))).toBe(false);
  });

  inSandbox(
    'end by their time limit, without the values they were given in the fault',
    async () => {
      const { run } = await open();
      const outcome = await run('echo "$TOKEN"; echo "$TOKEN" >&2; sleep 60', {
        timeoutMs: 300,
        env: { TOKEN: 'hush-hush-hush' },
      });
      expect(outcome).toMatchObject({ ok: false, error: { code: 'timeout' } });
      expect(JSON.stringify(outcome)).not.toContain('hush-hush');
    },
  );

  inSandbox('that are called off, killed or too long say so', async () => {
    const stop = new AbortController();
    const { run } = await open({}, stop.signal);
    expect(await run('kill -9 $$')).toMatchObject({ output: { signal: 'SIGKILL' } });
    expect(await run('echo', { env: { big: 'x'.repeat(200_000) } })).toMatchObject({
      error: { code: 'invalid_input', detail: { message: expect.stringContaining('`$big`') } },
    });
    const running = run('sleep 60');
    stop.abort();
    expect(await running).toMatchObject({ error: { code: 'cancelled' } });
  });

  test('are refused where the policy for scripts does not allow them, and the refusal is recorded', async () => {
    const policy =
      'surfaces:\n  script:\n    capabilities:\n      deny: [process.spawn, fs.write]\n';
    const { run, write, rows } = await open({ 'home/policy.yaml': policy });
    denied(await run('echo hi'));
    denied(await write('x.txt', 'x'));
    expect((await rows())[0]).toBe('run:sh denied');
  });
});

describe('node blocks', () => {
  inSandbox('have values, helpers, require and the frame, and return data', async () => {
    const { code } = await open({ 'project/lib.js': 'module.exports = 7' });
    const helpers = [
      { name: 'up', parameters: ['s'], source: 's.toUpperCase()', call: () => makeValue(null) },
      { name: 'twice', parameters: ['s'], source: 'return up(s) + s', call: () => makeValue(null) },
      { name: 'far', parameters: [], source: undefined, call: () => makeValue(null) },
    ];
    const source =
      'console.log("said")\nconst own = await import("node:path");\n' +
      '[twice(name), list.length, require("./lib.js"), mx.try, typeof process.pid, 1 / 0, own.sep]';
    expect(
      await code('node', source, { helpers, parameters: given({ name: 'a', list: [1, NaN] }) }),
    ).toEqual({
      ok: true,
      output: {
        value: ['Aa', 2, 7, 1, 'number', Infinity, '/'],
        stdout: 'said\n',
        stderr: '',
        descriptor: marks({}),
      },
    });
    expect(await code('node', 'far()', { helpers })).toMatchObject({
      error: { detail: { message: expect.stringContaining('`far` cannot be called') } },
    });
  });

  inSandbox('see text, data and stdin as js blocks do', async () => {
    const { code } = await open();
    const input: JsArgument = { kind: 'textual', data: [1], text: ' [1] ', isStage: true };
    const kept: JsArgument = {
      kind: 'kept',
      data: 1,
      text: 'one',
      type: 'number',
      mx: { labels: ['a'] },
    };
    const source =
      'let all = ""; for await (const piece of process.stdin) all += piece\n' +
      'return [input.trim(), input[0], `${input}`, kept.text, kept.mx.labels, all, typeof gone]';
    const parameters = [
      { name: 'input', value: input },
      { name: 'kept', value: kept },
      { name: 'gone', value: { kind: 'undefined' } as const },
    ];
    expect(await code('node', source, { parameters, stdin: 'given' })).toMatchObject({
      output: { value: ['[1]', 1, ' [1] ', 'one', ['a'], 'given', 'undefined'] },
    });
  });

  inSandbox('fail with what they throw, their exit code, or what does not parse', async () => {
    const { code } = await open();
    expect(await code('node', 'throw new TypeError("bad\\nmore")')).toMatchObject({
      error: { code: 'tool_failed', detail: { message: 'bad', error: 'TypeError' } },
    });
    expect(await code('node', 'process.exit(4)')).toMatchObject({
      error: { code: 'tool_failed', detail: { exit_code: 4 } },
    });
    expect(await code('node', 'console.log("x"); process.exit(0)')).toMatchObject({
      output: { value: undefined, stdout: 'x\n' },
    });
    expect(await code('node', 'const = 1')).toMatchObject({ error: { code: 'invalid_input' } });
  });
});

describe('python blocks', () => {
  inSandbox('have values as objects and print their result', async () => {
    const { code } = await open();
    const source =
      '\n    import sys\n    print(a["k"][0], b, c, text + sys.stdin.read(), mx["try"], n)\n  ';
    const parameters = [
      ...given({ a: { k: [1] }, b: true, text: 'é', n: [Infinity] }),
      { name: 'c', value: { kind: 'undefined' } as const },
    ];
    expect(await code('py', source, { parameters, stdin: '!' })).toMatchObject({
      output: { value: undefined, stdout: '1 True None é! 1 [inf]\n' },
    });
    expect(await code('py', 'raise ValueError("bad")')).toMatchObject({
      error: { code: 'tool_failed', detail: { message: 'ValueError: bad', exit_code: 1 } },
    });
  });
});

describe('what is printed is told as it comes', () => {
  // Each process waits for a file that is created after its first line was received.
  const WAITING = {
    sh: 'echo one; while [ ! -e go.txt ]; do sleep 0.02; done; echo two',
    node: 'console.log("one"); const fs = require("node:fs"); while (!fs.existsSync("go.txt")) await new Promise((r) => setTimeout(r, 20)); console.log("two"); return 5',
    py: 'import os, time\nprint("one")\nwhile not os.path.exists("go.txt"): time.sleep(0.02)\nprint("two")',
  };

  inSandbox.each(['sh', 'node', 'py'] as const)('%s', async (kind) => {
    const { run, code, at } = await open();
    let heard = '';
    const onOutput = (text: string): void => {
      heard += text;
      if (heard === 'one\n') writeFileSync(at('go.txt'), '');
    };
    const more = { onOutput, timeoutMs: 20_000 };
    const ended = await (kind === 'sh' ? run(WAITING.sh, more) : code(kind, WAITING[kind], more));
    expect(ended).toMatchObject({ ok: true, output: { stdout: 'one\ntwo\n' } });
    expect(heard).toBe('one\ntwo\n');
  });

  test('to a program, which may throw', async () => {
    const { project, home, base } = folders({});
    const env = { PATH: process.env.PATH, HOME: base, KERNMANTLE_HOME: home };
    const runtime = await createRuntime({ project, env, extensions: EXTENSIONS });
    if (!runtime.ok) throw new Error(runtime.error.detail.message);
    const heard: unknown[] = [];
    const done = await runScriptIn(runtime.output, {
      text: 'run js { console.log("a"); console.log("b") } with { stream: true }',
      onOutput(piece) {
        heard.push(piece);
        throw new Error('not mine');
      },
      onEffect: ({ kind, text, isShown }) => heard.push([kind, text, isShown]),
    });
    expect(done).toMatchObject({ ok: true, output: { text: 'a\nb\n' } });
    expect(heard).toEqual(['a\n', 'b\n', ['run', 'a\nb', true]]);
    await runtime.output.close();
  });

  inSandbox('by a node block also what comes after its value, and never the value', async () => {
    const { code } = await open();
    let heard = '';
    const onOutput = (text: string) => void (heard += text);
    const late =
      'process.stdout.write("no end"); setTimeout(() => console.log("late"), 50); return 7';
    const ended = await code('node', late, { onOutput });
    expect(ended).toMatchObject({ ok: true, output: { value: 7, stdout: 'no endlate\n' } });
    expect(heard).toBe('no endlate\n');
  });
});

describe('tools', () => {
  test('are called with the right of the script, and labels go along', async () => {
    const { world, frame, write, rows } = await open({ 'project/a.txt': 'hello' });
    await write('b.txt', 'mine', ['pii']);
    const parameters = new Map([
      ['path', makeValue('b.txt', { descriptor: marks({ labels: ['x'] }) })],
    ]);
    const outcome = await world.tool('fs/read_file', parameters, frame);
    expect(outcome).toMatchObject({
      output: { data: { content: expect.stringContaining('mine') } },
    });
    const labels = outcome.ok ? outcome.output.meta.descriptor.labels : [];
    expect(labels).toEqual(expect.arrayContaining(['pii', 'x']));
    expect(await rows()).toContain('tool:fs/read_file allowed');
    expect(await world.tool('no/such', new Map(), frame)).toMatchObject({
      error: { code: 'not_found' },
    });
  });

  test('help says that nobody runs the script', async () => {
    const { world, frame } = await open();
    expect(await world.help('escalate', makeValue('what now'), frame)).toMatchObject({
      output: { data: { delivered: false } },
    });
  });

  test('a model without a key is refused with the name of the key', async () => {
    const { world, frame } = await open();
    const request = { prompt: makeValue('hi'), tier: undefined, options: {} };
    expect(await world.model(request, frame)).toMatchObject({
      error: { code: 'model_unavailable', detail: { message: expect.stringContaining('_KEY') } },
    });
  });
});

test('the project of a script is the nearest folder that says so, else its own', () => {
  const { base } = folders({ 'a/package.json': '{}', 'a/b/c/s.md': '', 'd/e/s.md': '' });
  expect(findScriptProject(join(base, 'a/b/c'), join(base, 'home'))).toBe(join(base, 'a'));
  expect(findScriptProject(join(base, 'd/e'), '/nowhere')).toBe(join(base, 'd/e'));
});

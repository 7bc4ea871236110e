// Tests of scripts on the command line.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FROM_SOURCE } from '@kernmantle/test-support/built';
import { runStreams } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { probeSandbox } from '../../core/src/kernel/sandbox/probe.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
const sandbox = await probeSandbox();

let fixture: Fixture;
beforeAll(() => {
  fixture = makeFixture({
    'a.md': '# Title\n\n/var @who = "Ann"\n/show `Hello @who`\nDear @who\n',
    'a.mld': 'var @who = "Ann"\n\nshow `Hello @who`\n',
    'names.mld': 'show @payload.name\nshow @payload.n + 1\n',
    'wrong.mld': 'show 1\nrun echo hi\nshow @a @b\n',
    'fails.mld': 'show "before"\nshow @nobody.at.all\nshow "after"\n',
  });
});
afterAll(() => fixture.remove());

const options = () => ({ cwd: fixture.root, env: { ...fixture.env, KERNMANTLE_SRC: '1' } });

/** Runs in a separate process, for tests that read a pipe. */
function kmAlone(
  words: readonly string[],
  input = '',
): { code: number | null; out: string; err: string } {
  const done = spawnSync(process.execPath, [LAUNCHER, ...words], {
    ...options(),
    input,
    encoding: 'utf8',
    timeout: timeoutMs(60_000),
  });
  return { code: done.status, out: done.stdout, err: done.stderr };
}
async function km(words: readonly string[]) {
  const { code, out, err } = await runStreams(words, fixture.root, fixture.env);
  return { code, out, err };
}
const script = (...words: string[]) => km(['script', ...words]);
const start = (...words: string[]): ChildProcess =>
  spawn(process.execPath, [LAUNCHER, 'script', ...words], {
    ...options(),
    stdio: ['pipe', 'pipe', 'pipe'],
  });

/** Number of wake-ups plus hundredths of a second of CPU time. Both only grow. */
function stepsOf({ pid }: ChildProcess): number {
  const woken = readFileSync(`/proc/${pid}/status`, 'utf8').match(
    /^voluntary_ctxt_switches:\s*(\d+)/m,
  );
  const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ').slice(13, 15);
  return Number(woken?.[1]) + Number(user) + Number(system);
}

/** Returns the folders whose code a process loads, besides the extensions of every runtime. */
function roomsLoaded(...words: string[]): string[] {
  const list = join(fixture.root, 'loaded.txt');
  const look = `import { registerHooks } from 'node:module';
import { appendFileSync } from 'node:fs';
registerHooks({ load(url, context, next) {
  appendFileSync(${JSON.stringify(list)}, url + '\\n');
  return next(url, context);
} });`;
  const hook = `data:text/javascript,${encodeURIComponent(look)}`;
  writeFileSync(list, '');
  const { env, ...rest } = options();
  const given = { ...rest, env: { ...env, ...FROM_SOURCE } };
  const done = spawnSync(process.execPath, ['--import', hook, LAUNCHER, ...words], given);
  expect(done.status).toBe(0);
  const loaded = readFileSync(list, 'utf8').matchAll(
    /\/packages\/(?:core\/src\/([a-z]+)|([a-z]+)\/src)\/(?!extension\.ts$)/gm,
  );
  const rooms = [...loaded].map(([, folder, name = '']) => folder ?? name);
  return [...new Set(rooms)].sort();
}

test('a script that asks for nothing loads no threads, models, stores or servers', () => {
  const rooms = [
    'base',
    'expr',
    'flow',
    'items',
    'kernel',
    'kernmantle',
    'runtime',
    'script',
    'trust',
  ];
  expect(roomsLoaded('script', 'a.mld')).toEqual(rooms);
  expect(roomsLoaded('threads', 'ls')).toContain('store');
});

test('a call of a tool loads no code of scripts, servers or other machines', () => {
  expect(roomsLoaded('--version')).toEqual(['base', 'kernmantle']);
  const rooms = ['base', 'expr', 'flow', 'items', 'kernel', 'kernmantle', 'runtime', 'trust'];
  expect(roomsLoaded('exec', 'tool', 'fs/read_file', 'path=a.mld')).toEqual(rooms);
});

describe('what is run', () => {
  test('a markdown file: text passes through, statements act', async () => {
    expect(await script('a.md')).toEqual({
      code: 0,
      out: '# Title\n\nHello Ann\nDear @who\n',
      err: '',
    });
  });

  test('a strict file: every line is a statement', async () => {
    expect(await script('a.mld')).toEqual({ code: 0, out: 'Hello Ann\n', err: '' });
  });

  test('a text of the command line', async () => {
    expect(await script('-e', 'show 1 + 2')).toEqual({ code: 0, out: '3\n', err: '' });
  });

  test('with a payload, in which JSON is data', async () => {
    expect(await script('names.mld', '--payload', 'name=Ann', 'n=2')).toMatchObject({
      code: 0,
      out: 'Ann\n3\n',
    });
  });

  test('with standard input as @input, data when it is JSON', () => {
    expect(kmAlone(['script', '-e', 'show @input.list[1]'], '{"list":[1,"two"]}')).toMatchObject({
      code: 0,
      out: 'two\n',
    });
    expect(kmAlone(['script', '-e', 'show @input.trim()'], ' plain \n').out).toBe('plain\n');
  });

  test('log goes to standard error', async () => {
    const text = 'log "aside"\nshow "data"';
    expect(await script('-e', text)).toEqual({ code: 0, out: 'data\n', err: 'aside\n' });
  });
});

test('--json prints the effects with labels, and the outcome', async () => {
  const text = 'var secret @k = "x"\nshow @k\noutput @k to "k.txt"\nlog 1';
  const { code, out } = await script('-e', text, '--json');
  const printed = JSON.parse(out) as { effects: unknown[]; outcome: unknown; exit_code: number };
  expect(code).toBe(0);
  expect(printed).toMatchObject({ outcome: { ok: true }, exit_code: 0 });
  expect(printed.effects).toMatchObject([
    { kind: 'show', text: 'x', labels: ['secret'], line: 2 },
    { kind: 'output', target: join(fixture.root, 'k.txt'), labels: ['secret'], line: 3 },
    { kind: 'log', text: '1', labels: [], line: 4 },
  ]);
  expect(readFileSync(join(fixture.root, 'k.txt'), 'utf8')).toContain('x');
  expect(JSON.parse((await script('-e', 'show @no', '--json')).out)).toMatchObject({
    outcome: { ok: false, error: { code: 'not_found' } },
    exit_code: 1,
  });
});

describe('how it ends', () => {
  test.each([
    [0, 'done', 'show 1'],
    [1, 'an error while running', 'show @nobody'],
    [1, 'bail', 'bail "enough"'],
    [3, 'a problem of form', 'show ('],
    [4, 'denied by a guard', 'guard before secret = when [ * => deny "no" ]\nvar secret @x = 1'],
    [4, 'denied by a policy', 'policy @p = { deny: ["sh"] }\nrun sh {echo 1}'],
    [4, 'denied by the kernel', 'output "x" to "/outside.txt"'],
    [5, 'a limit', 'exe @f() = when [ * => retry ]\nshow "x" | @f'],
    [7, 'a question', 'guard before secret = when [ * => ask "may it?" ]\nvar secret @x = 1'],
  ])('%i: %s', async (code, _what, text) => {
    expect((await script('-e', text)).code).toBe(code);
  });

  test('2: nothing to run', async () => {
    expect(await script()).toMatchObject({ code: 2, out: '' });
    expect((await script('a.md', '--payload', 'noequals')).code).toBe(2);
  });

  test('1: a file that is not there', async () => {
    const { code, err } = await script('none.mld');
    expect(code).toBe(1);
    expect(err).toContain('`none.mld` cannot be read: the file does not exist');
  });

  test.each([
    ['that waits', 'await new Promise(() => setInterval(() => {}, 10))'],
    ['that computes', 'for (;;) {}'],
  ])('130: a script %s is interrupted', async (_what, work) => {
    const child = start(
      '-e',
      `var @loaded = js { return 1 }\nshow "started"\nrun js { ${work} }\nshow "never"`,
    );
    const ended = once(child, 'exit');
    let out = '';
    child.stdout?.on('data', (chunk) => {
      out += String(chunk);
    });
    await expect.poll(() => out).toBe('started\n');
    const before = stepsOf(child);
    const steps = () => stepsOf(child) - before;
    await expect.poll(steps).toBeGreaterThan(30);
    child.kill('SIGINT');
    expect(await ended).toEqual([130, null]);
    expect(out).toBe('started\n');
  });

  test('130: a loop that goes on and on is interrupted', async () => {
    const inner = 'let @b = loop(100000) [\n let @a = 1\n continue\n]';
    const child = start('-e', `show "started"\nloop(100000) [\n${inner}\ncontinue\n]`);
    const ended = once(child, 'exit');
    child.stdout?.once('data', () => child.kill('SIGINT'));
    expect(await ended).toEqual([130, null]);
  });

  test.skipIf(sandbox.kind === 'none')(
    '130: a command is interrupted with it (needs a sandbox)',
    async () => {
      const child = start('-e', 'show "started"\nrun {sleep 60}\nshow "never"');
      const ended = once(child, 'exit');
      child.stdout?.once('data', () => child.kill('SIGINT'));
      expect(await ended).toEqual([130, null]);
    },
  );
});

describe('what is said about errors', () => {
  test('the place, the line, a caret, the reason; what was printed before stays', async () => {
    const { code, out, err } = await script('fails.mld');
    expect([code, out]).toEqual([1, 'before\n']);
    expect(err).toBe(
      'fails.mld:2:6: error: `@nobody` is not defined [not_found]\n    show @nobody.at.all\n         ^\n',
    );
  });

  test('all problems of form at once, with the right form; nothing has run', async () => {
    const { code, out, err } = await script('wrong.mld');
    expect([code, out]).toEqual([3, '']);
    expect(err).toContain('wrong.mld:2:5: error: ');
    expect(err).toContain('    run echo hi\n        ^\n  hint: write `run {echo hi}`');
    expect(err).toContain('wrong.mld:3:');
  });

  test('check says the same, of files, folders and statements in markdown', async () => {
    fixture.write('docs/page.md', '# Only text\n');
    fixture.write('scripts/deep/b.mld', 'show 1 2\n');
    fixture.write('scripts/notes.md', '/show (\n');
    const { code, err } = await km(['check', 'wrong.mld', 'a.md', 'scripts']);
    expect(code).toBe(3);
    expect(err.match(/^\S+:\d+:\d+: error/gm)).toEqual([
      'scripts/deep/b.mld:1:8: error',
      'wrong.mld:2:5: error',
      'wrong.mld:3:9: error',
    ]);
    expect(await km(['check', 'a.md', 'a.mld'])).toMatchObject({ code: 0, err: 'no problems\n' });
    expect((await km(['check', 'scripts/notes.md'])).err).toContain('[script_');
    expect((await km(['check', 'docs/page.md'])).err).toContain('[not_an_item]');
  });
});

test('a worker answers every line, whatever happened to the one before', async () => {
  const child = start('--worker');
  const ended = once(child, 'exit');
  const jobs = [
    { id: 1, work: fixture.root, file: 'a.mld' },
    { id: 'two', work: fixture.root, file: 'fails.mld' },
    { id: 3, work: fixture.root, file: 'wrong.mld' },
    { id: 4, work: fixture.root, file: 'none.mld' },
    'garbage',
    { id: 5 },
    { id: 6, work: fixture.root, file: 'a.md' },
  ];
  const lines = jobs.map((job) => (typeof job === 'string' ? job : JSON.stringify(job)));
  child.stdin?.end(`${lines.join('\n')}\n\n`);
  const answers: unknown[] = [];
  if (!child.stdout) throw new Error('the worker has no output');
  for await (const line of createInterface({ input: child.stdout })) answers.push(JSON.parse(line));
  expect(answers).toMatchObject([
    { id: 1, code: 0, out: 'Hello Ann\n', err: '' },
    { id: 'two', code: 1, out: 'before\n', err: expect.stringContaining('fails.mld:2:6') },
    { id: 3, code: 3, out: '', err: expect.stringContaining('hint: ') },
    { id: 4, code: 1, out: '' },
    { id: null, code: 2, out: '' },
    { id: null, code: 2, out: '' },
    { id: 6, code: 0, out: '# Title\n\nHello Ann\nDear @who\n' },
  ]);
  expect(await ended).toEqual([0, null]);
});

describe('what is no ordinary file', () => {
  beforeAll(() => {
    for (const name of ['pipe.mld', 'pipe.md']) {
      spawnSync('mkfifo', [join(fixture.root, name)]);
      symlinkSync(name, join(fixture.root, `to-${name}`));
      symlinkSync('/dev/zero', join(fixture.root, `zero-${name}`));
    }
  });

  test.each(['pipe.mld', 'to-pipe.mld', 'zero-pipe.mld', 'pipe.md', 'to-pipe.md', 'zero-pipe.md'])(
    '`%s` is refused at once by check and script',
    (name) => {
      const checked = kmAlone(['check', name]);
      expect(checked.code).not.toBe(0);
      expect(checked.code).not.toBeNull();
      expect(checked.out + checked.err).toMatch(/not an ordinary file|cannot be read/);
      const ran = kmAlone(['script', name]);
      expect(ran).toMatchObject({ code: 1, out: '' });
      expect(ran.err).toContain('the path is not an ordinary file');
    },
  );

  test('inputs of other commands are refused as well', () => {
    for (const words of [
      ['exec', 'tool', 'fs/list_dir', '--content', 'pipe.mld'],
      ['eval', 'a', '--ctx', 'pipe.mld'],
      ['eval', '--file', 'pipe.mld'],
      ['eval', '--file', 'zero-pipe.mld'],
    ]) {
      const { code, err } = kmAlone(words);
      expect(err).toContain('use `-` to read from a pipe');
      expect(code).toBe(1);
    }
    expect(kmAlone(['provenance', 'pipe.mld'])).toMatchObject({ code: 1 });
  });
});

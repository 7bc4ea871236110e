// The command line, as a person or a program would call it.
import { spawnSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FROM_SOURCE } from '@kernmantle/test-support/built';
import { runStreams } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { probeSandbox } from '../../../core/src/kernel/sandbox/probe.ts';

const launcher = fileURLToPath(new URL('../../../../bin/km.js', import.meta.url));
let fixture: Fixture;
beforeAll(() => {
  fixture = makeFixture({ 'notes.txt': 'one two three\n' });
});
afterAll(() => fixture.remove());

interface Done {
  code: number | null;
  out: string;
  err: string;
}

async function km(...args: string[]): Promise<Done> {
  const { code, out, err } = await runStreams(args, fixture.root, fixture.env);
  return { code, out, err };
}
/** In a process of its own. */
function kmWith(env: Readonly<Record<string, string | undefined>>, ...args: string[]): Done {
  const done = spawnSync(process.execPath, [launcher, ...args], {
    cwd: fixture.root,
    env: { ...fixture.env, KERNMANTLE_SRC: '1', ...env },
    encoding: 'utf8',
    timeout: timeoutMs(30_000),
  });
  return { code: done.status, out: done.stdout, err: done.stderr };
}
const json = ({ out }: Done) => JSON.parse(out) as Record<string, never>;

test('eval prints the value', async () => {
  expect(kmWith(FROM_SOURCE, 'eval', '1 + 1')).toEqual({ code: 0, out: '2\n', err: '' });
  for (const [source, shown] of [
    ['1 + 1', '2'],
    ['"a" + "b"', 'ab'],
    ['[1, nothing.here]', '[1,null]'],
    ['nothing', 'null'],
    ['not nothing', 'true'],
  ] as const) {
    expect(await km('eval', source)).toEqual({ code: 0, out: `${shown}\n`, err: '' });
  }
  expect(json(await km('eval', '1 + 1', '--json'))).toEqual({ ok: true, value: 2 });
  const cases = fixture.write('values.jsonl', '{"expr":"1 + 1"}\n{"expr":"1 == 2"}\n');
  const answers = (await km('eval', '--file', cases)).out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  // As a condition; what it is worth stands beside it.
  expect(answers).toEqual([
    { ok: true, value: true, result: 2 },
    { ok: true, value: false },
  ]);
});

test('eval prints true or false for a condition', async () => {
  const context = fixture.write('ctx.json', '{"cost":{"turns":10},"limits":{"turns":10}}');
  const given = ['cost.turns > limits.turns * 0.9', '--ctx', context];
  expect(await km('eval', ...given)).toEqual({ code: 0, out: 'true\n', err: '' });
  expect(json(await km('eval', ...given, '--json'))).toEqual({ ok: true, value: true });
});

test('eval points at a syntax error and exits with 3', async () => {
  const { code, err } = await km('eval', 'a && b');
  expect(code).toBe(3);
  expect(err).toContain('  a && b\n    ^ column 3');
  expect(err).toContain('write `and`');
  expect(json(await km('eval', 'a && b', '--json'))).toMatchObject({
    ok: false,
    error: { code: 'expression_error', detail: { column: 3 } },
  });
});

test('eval says what went wrong in evaluation and exits with 1', async () => {
  expect(await km('eval', '"a" < 1')).toMatchObject({ code: 1, out: '' });
});

test('eval fills both template forms', async () => {
  const ctx = ['--ctx', '{"directive":{"name":"x"},"n":3}'];
  expect(await km('eval', '--template', '${directive.name}', ...ctx)).toMatchObject({
    code: 0,
    out: 'x\n',
  });
  expect(await km('eval', '--body', '{"n":"{n}"}', ...ctx)).toMatchObject({
    code: 0,
    out: '{"n":3}\n',
  });
});

test('eval answers a file of cases, one line each', async () => {
  const cases = [
    { expr: '1 < 2', context: {} },
    { expr: 'a +', context: {} },
    { template: 'hi ${a.b}', context: { a: { b: 1 } } },
    { body: { n: '{n}' }, context: { n: [1] } },
    { body: { n: '{n}' }, context: {} },
    { env_template: 'x ${A:-d} ${B}', context: { B: 'b' } },
    { env_template: '${NONE}', context: {} },
    { nothing: 1 },
  ];
  const file = fixture.write(
    'cases.jsonl',
    `${cases.map((one) => JSON.stringify(one)).join('\n')}\nnot json\n`,
  );
  const { code, out } = await km('eval', '--file', file);
  expect(code).toBe(0);
  expect(
    out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    { ok: true, value: true },
    { ok: false, error: { code: 'expression_error', detail: { column: 4 } } },
    { ok: true, value: 'hi 1' },
    { ok: true, value: { n: [1] } },
    { ok: false, error: { code: 'invalid_input' } },
    { ok: true, value: 'x d b' },
    { ok: false, error: { code: 'config_invalid' } },
    { ok: false, error: { code: 'invalid_input' } },
    { ok: false, error: { code: 'invalid_input' } },
  ]);
});

test('a directive with six different mistakes yields six diagnostics', async () => {
  const file = fixture.write(
    'six.md',
    `<directive name="six" version="1.0">
  <metadata>
    <description>x</description><category>x</category>
    <modle tier="fast"/>
    <limits><turns>-1</turns></limits>
    <permissions><read resource="filesystem"/></permissions>
    <hooks><hook><when>a = 1</when><directive>none_such</directive></hook></hooks>
  </metadata>
</directive>
`,
  );
  const { code, out } = await km('check', file, '--json');
  expect(code).toBe(3);
  const found = JSON.parse(out) as {
    line: number;
    column: number;
    code: string;
    message: string;
  }[];
  expect(found.map(({ code: name, line }) => [name, line])).toEqual([
    ['version_invalid', 1],
    ['tag_unknown', 4],
    ['limit_invalid', 5],
    ['permission_invalid', 6],
    ['expression_error', 7],
    ['hook_directive_unknown', 7],
  ]);
});

test('check of a clean project says so', async () => {
  expect(await km('check')).toMatchObject({ code: 0, err: 'no problems\n' });
});

test('search, show and exec answer people and machines', async () => {
  expect((await km('search', 'read', 'file')).out).toContain('fs/read_file');
  expect(json(await km('search', 'read', '--json', '-n', '1'))).toMatchObject({ ok: true });
  expect((await km('show', 'tool', 'read_file')).out).toContain('fs/read_file -> function');
  expect(await km('exec', 'tool', 'fs/read_file', 'path=notes.txt')).toMatchObject({
    code: 0,
    out: 'one two three\n',
  });
  expect(
    json(await km('exec', 'tool', 'fs/read_file', '{"path":"notes.txt"}', '--json')),
  ).toMatchObject({
    ok: true,
    output: { content: 'one two three\n' },
  });
});

test('a refusal exits with 4, a missing item with 1, wrong usage with 2', async () => {
  const denied = await km('exec', 'tool', 'fs/write_file', 'path=.ai/x', 'content=y');
  expect(denied).toMatchObject({ code: 4, out: '' });
  expect(denied.err).toContain('permission_denied');
  for (const word of ['limit=1e999', '{"limit":1e999}', 'limit=[-1e999]']) {
    const large = await km('exec', 'tool', 'fs/read_file', 'path=notes.txt', word, '--json');
    expect(json(large), word).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
    expect(large.code).not.toBe(0);
  }
  // A text is what was typed.
  expect((await km('exec', 'tool', 'fs/read_file', 'path=1e999')).err).toContain('1e999');
  expect((await km('exec', 'tool', 'fs/read_flie', 'path=x')).err).toContain('fs/read_file');
  expect((await km('exec', 'tool', 'nothing', 'path=x')).code).toBe(1);
  expect((await km('exec', 'tool', 'fs/read_file', 'path')).code).toBe(2);
  expect(await km('serch', 'x')).toMatchObject({ code: 2 });
  expect((await km('serch', 'x')).err).toContain('search');
  expect(json(await km('audit', '--denied', '--json'))).toMatchObject({
    ok: true,
    output: [{ decision: 'denied', operation: 'tool:fs/write_file' }],
  });
});

test('what is wrong with the words is JSON too when that was asked for', async () => {
  const refused = { ok: false, error: { code: 'usage' } };
  for (const words of [['run'], ['mcp'], ['threads', 'ls', '--odd'], ['--odd']]) {
    const done = await km(...words, '--json');
    expect([words, done.code, JSON.parse(done.out)]).toMatchObject([words, 2, refused]);
    expect(done.err).toBe('');
  }
  const hint = 'Did you mean eval?';
  expect(JSON.parse((await km('evl', '--json')).out)).toMatchObject({
    error: { detail: { hint } },
  });
});

test('messages of a script hold no escape sequences of strangers', async () => {
  const esc = String.fromCharCode(27);
  for (const text of [`bail "${esc}]0;x${esc}"`, `import { a } from "./${esc}.mld"`]) {
    const done = await km('script', '-e', text);
    expect(done.code).not.toBe(0);
    expect(done.err).not.toContain(esc);
    expect(done.err).toContain('u001b');
  }
});

test('init makes a project that checks clean and whose tool runs after signing', async () => {
  const dir = join(fixture.root, 'sub');
  expect(await km('init', 'sub')).toMatchObject({ code: 0 });
  const at = ['--project', dir];
  expect(await km('check', ...at)).toMatchObject({ code: 0 });
  const states = json(await km('verify', ...at, '--json')) as unknown as {
    output: { state: string }[];
  };
  expect(states.output.map(({ state }) => state)).toEqual(Array(4).fill('signed'));
  const idFile = join(dir, '.ai/config/project.yaml');
  const id = readFileSync(idFile, 'utf8');
  expect(id).toMatch(/^id: prj_[a-z0-9]{24}$/m);
  const again = await km('init', 'sub', '--force');
  expect(again.out).toContain('kept  .ai/config/project.yaml');
  expect(readFileSync(idFile, 'utf8')).toBe(id);
  fixture.write(idFile, 'id: mine');
  expect(await km('check', ...at)).toMatchObject({ code: 3, err: expect.stringContaining('prj_') });
  expect(await km('init', 'sub')).not.toMatchObject({ code: 0 });
  fixture.write(idFile, id);
  const tool = join(dir, '.ai/tools/text/word_count.yaml');
  fixture.write(tool, readFileSync(tool, 'utf8').replace('lines of a text', 'lines'));
  expect(await km('verify', tool)).toMatchObject({ code: 4 });
  expect(await km('exec', 'tool', 'word_count', 'text=a', ...at)).toMatchObject({ code: 4 });
  expect(await km('sign', tool, ...at)).toMatchObject({ code: 0 });
  expect(await km('verify', tool)).toMatchObject({ code: 0 });
});

test('init gives a project that is there an id, and nothing else', async () => {
  const made = json(await km('init', '--id', '--json'));
  expect(made).toMatchObject({
    ok: true,
    output: { written: ['.ai/config/project.yaml'], kept: [] },
  });
  expect(json(await km('init', '--id', '--json'))).toMatchObject({ output: { written: [] } });
});

test('keys, trust, explain and doctor tell what holds', async () => {
  const key = json(await km('keys', '--json')) as unknown as { output: { id: string } };
  expect((await km('trust', 'ls')).out).toContain(key.output.id);
  expect((await km('explain', 'tool', 'shell/bash')).out).toContain('process.spawn');
  expect((await km('explain', 'directive', 'hello')).out).toMatch(/spend +0\.05/);
  const doctor = json(await km('doctor', '--json')) as unknown as {
    output: { findings: { about: string; state: string }[] };
  };
  const about = doctor.output.findings.map((finding) => finding.about);
  expect(about).toEqual(
    expect.arrayContaining(
      'node keys trust sandbox policy bundle store'.split(' ').concat('provider anthropic'),
    ),
  );
});

test.skipIf((await probeSandbox()).kind === 'none')(
  'files that the sandbox quarantines are reported to the user',
  async () => {
    const bash = (command: string) => km('exec', 'tool', 'shell/bash', `command=${command}`);
    for (const command of ['mkdir -p sub/.git && echo made', 'mkdir -p sub/.git && exit 3']) {
      const { out, err } = await bash(command);
      expect(out + err).toContain('quarantined: `sub/.git`; the files are in');
    }
    expect((await bash('echo nothing')).err).not.toContain('moved out');
  },
);

test('completion scripts are valid and know the commands', async () => {
  const { out } = await km('completion', 'bash');
  expect(out).toContain('doctor');
  expect(spawnSync('bash', ['-n'], { input: out }).status).toBe(0);
  for (const shell of ['zsh', 'fish']) {
    const script = (await km('completion', shell)).out;
    for (const word of ['doctor', 'completion words --']) expect(script).toContain(word);
  }
  expect((await km('completion', 'fish')).out).toContain('-l older-than');
  expect((await km('completion', 'tcsh')).code).toBe(2);
});

test('completion knows commands, their own options and ids', async () => {
  fixture.write('.ai/tools/odd/$(touch pwned).yaml', 'tool_id: odd\n');
  const offered = async (...line: string[]) => {
    const done = await runStreams(
      ['completion', 'words', '--', ...line],
      fixture.root,
      fixture.env,
    );
    expect(done.code).toBe(0);
    return done.output.split('\n').filter((word) => word !== '');
  };
  expect(await offered('thr')).toEqual(['threads']);
  expect(await offered('threads', 'pr')).toEqual(['prune']);
  expect(await offered('threads', 'prune', '--o')).toEqual(['--older-than']);
  expect(await offered('approvals', 'approve', '--b')).toEqual(['--beyond']);
  expect(await offered('run', 'hel')).toEqual(['hello']);
  expect(await offered('run', '--turns', '3', 'hel')).toEqual(['hello']);
  expect(await offered('run', 'hello', '--tur')).toEqual(['--turns']);
  expect(await offered('threads', 'ls', '--directive', 'hel')).toEqual(['hello']);
  expect(await offered('exec', 't')).toEqual(['tool']);
  expect(await offered('exec', 'tool', 'fs/read')).toEqual(['fs/read_file']);
  expect(await offered('show', 'knowledge', 'help/lim')).toEqual(['help/limits']);
  expect(await offered('completion', 'z')).toEqual(['zsh']);
  fixture.write(
    '.ai/tools/mcp/docs/connector.yaml',
    'tool_id: connector\ntool_type: mcp_connector\nversion: 1.0.0\ndescription: Docs\nconfig: { mcp_url: "https://docs.example/mcp" }\nrequires: [mcp.connect]\n',
  );
  expect(await offered('mcp', 'sync', '')).toEqual(['docs']);
  expect(await offered('mcp', 'remove', 'x')).toEqual([]);
  expect(await offered('web', 'token', '')).toEqual(['add', 'ls', 'remove']);
  // Files are the shell's.
  expect(await offered('check', '')).toEqual([]);
  expect(await offered('threads', 'show', '')).toEqual([]);
  const every = await offered('exec', 'tool', '');
  expect(every.length).toBeGreaterThan(10);
  expect(every.join('')).not.toContain('$');
});

test('bash offers what completion knows', async () => {
  const script = [
    `km() { '${process.execPath}' '${launcher}' "$@"; }`,
    (await km('completion', 'bash')).out,
    'COMP_WORDS=(km exec tool fs/wri); COMP_CWORD=3; _km; echo "${COMPREPLY[@]}"',
    'COMP_WORDS=(km threads tail --fol); COMP_CWORD=3; _km; echo "${COMPREPLY[@]}"',
    'COMP_WORDS=(km check no); COMP_CWORD=2; _km; echo "${COMPREPLY[@]}"',
  ].join('\n');
  const env = { ...fixture.env, KERNMANTLE_SRC: '1' };
  const done = spawnSync('bash', ['-c', script], { cwd: fixture.root, env, encoding: 'utf8' });
  expect(done.stdout).toBe('fs/write_file\n--follow\nnotes.txt\n');
});

test('calls in a folder without a project make none of it', async () => {
  const alone = makeFixture({ 'note.txt': 'hi' });
  rmSync(join(alone.root, '.ai'), { recursive: true });
  const there = async (...words: string[]) => (await runStreams(words, alone.root, alone.env)).code;
  expect(await there('exec', 'tool', 'fs/write_file', 'path=a.txt', 'content=x')).toBe(0);
  expect(await there('exec', 'tool', 'fs/list_dir', 'path=.')).toBe(0);
  expect(await there('search', 'file')).toBe(0);
  expect(await there('threads', 'ls')).toBe(0);
  expect(readdirSync(alone.root).sort()).toEqual(['a.txt', 'note.txt']);
  alone.remove();
});

test('help and version need no project', async () => {
  for (const word of ['--version', '-V', '-v', 'version']) {
    expect(kmWith({}, word)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
  }
  const help = await km('--help');
  expect(help).toMatchObject({ code: 0, err: '' });
  for (const name of ['init', 'check', 'eval', 'search', 'exec', 'sign', 'mcp', 'doctor']) {
    expect(help.out).toContain(name);
  }
  expect((await km()).code).toBe(2);
});

test('the demo shows the kernel, then a thread that is held, and leaves nothing behind', () => {
  const { code, out } = kmWith({}, 'demo');
  expect(code, out).toBe(0);
  for (const part of [
    '# check',
    '# a chain',
    '# denied',
    '# labels',
    '# a stream',
    '# a thread',
    'fs/read_file path=notes/release.md',
    'denied: `tool.write_file`',
    'hook warn_approaching_limit',
    'limit turns reached: 10 of 10',
    'the sums are equal',
    '# a poisoned message',
    'may not reach `op:tool:http`',
    'file:inbox/urgent.md',
    'tool demo/read_mail',
    'tainted by',
  ]) {
    expect(out).toContain(part);
  }
});

test('a catalog is added, searched, and its signed items are copied in, others are not', async () => {
  const shelf = join(fixture.root, '..', 'shelf');
  expect(await km('init', shelf)).toMatchObject({ code: 0 });
  const unsigned = join(shelf, '.ai/tools/text/unsigned.yaml');
  const tool = readFileSync(join(shelf, '.ai/tools/text/word_count.yaml'), 'utf8');
  const body = tool.slice(tool.indexOf('tool_id:')).replace('word_count', 'unsigned');
  fixture.write(unsigned, body);
  expect(await km('catalog', 'add', shelf, '--name', 'shelf')).toMatchObject({ code: 0 });
  expect((await km('catalog', 'ls')).out).toContain('shelf');
  expect(json(await km('search', 'count', 'words', '-s', 'catalog', '--json'))).toMatchObject({
    output: {
      items: expect.arrayContaining([
        expect.objectContaining({ item_id: 'text/word_count', signed: true }),
      ]),
    },
  });
  expect(
    (await km('show', 'tool', 'text/unsigned', '-s', 'catalog', '--copy', 'project')).code,
  ).toBe(4);
  expect(
    (await km('show', 'tool', 'text/word_count', '-s', 'catalog', '--copy', 'project')).code,
  ).toBe(0);
  expect((await km('show', 'tool', 'text/word_count')).out).toContain('signed');
  expect((await km('catalog', 'update')).out).toContain('shelf');
});

test.skipIf(process.platform === 'win32')(
  'compiled code is kept only where nobody else writes',
  () => {
    const cache = join(fixture.root, 'cache');
    const folder = join(cache, 'kernmantle/compile');
    const start = (home: string) =>
      kmWith({ ...FROM_SOURCE, XDG_CACHE_HOME: home }, '--version').code;
    expect(start(cache)).toBe(0);
    expect(lstatSync(folder).mode & 0o777).toBe(0o700);
    expect(readdirSync(folder)).toHaveLength(1);
    const shared = join(fixture.root, 'shared');
    const open = join(shared, 'kernmantle/compile');
    mkdirSync(open, { recursive: true });
    chmodSync(open, 0o777);
    expect(start(shared)).toBe(0);
    expect(readdirSync(open)).toEqual([]);
    expect(start('/dev/null')).toBe(0);
  },
);

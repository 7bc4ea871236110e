// Labels of scripts through real files, real commands and the real command line.
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { probeSandboxNow } from '@kernmantle/core/kernel';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';

const sandbox = await probeSandboxNow();
const inSandbox = test.skipIf(sandbox.kind === 'none'); // without one the policy refuses processes

const fixtures: Fixture[] = [];
afterEach(() => {
  for (const fixture of fixtures.splice(0)) fixture.remove();
});

function project(files: Readonly<Record<string, string>>) {
  const fixture = makeFixture(files);
  fixtures.push(fixture);
  const script = (name: string): Promise<Ran> =>
    runCommand(['script', name], fixture.root, fixture.env);
  return { ...fixture, script };
}

test('what is written keeps its labels for another run that reads it', async () => {
  const { script, write } = project({
    'write.mld':
      'var secret,pii @k = "k-1"\noutput @k to "out/k.txt"\nvar @row = { "k": @k }\nappend @row to "out/k.jsonl"',
    'read.mld':
      'var @k = <out/k.txt>\nvar @l = <out/k.jsonl>\nshow `@k.mx.labels @l.mx.labels`\nguard @g before secret = when [ @mx.op.type == "log" => deny "no"  * => allow ]\nlog @k',
  });
  expect(await script('write.mld')).toEqual({ code: 0, output: '' });
  const read = await script('read.mld');
  expect(read.output).toContain('["secret","pii"] ["secret","pii"]');
  expect(read.output).toContain('log was denied by @g (secret)');
  expect(read.code).toBe(4);
  // Another process wrote this content, but it may still contain the secret.
  write('out/k.txt', 'something else');
  expect((await script('read.mld')).output).toContain('["secret"] ["secret","pii"]');
});

test('an imported function writes through `output` with its labels', async () => {
  const { script } = project({
    'lib.mld':
      'var secret @key = "k"\nexe net:w @save(x) = [ output `@x @key` to "saved.txt"  => "done" ]',
    'main.mld':
      'import { @save } from "./lib.mld"\nvar pii @n = "Ann"\nvar @r = @save(@n)\nvar @s = <saved.txt>\nshow `@r @r.mx.labels @s.mx.labels`',
  });
  const { output, code } = await script('main.mld');
  expect(output).toBe('done ["pii","net:w"] ["pii","secret"]\n');
  expect(code).toBe(0);
});

test('a write under an after-guard happens only when the guard allows', async () => {
  const body = 'exe @f() = [ output "data" to "o.txt"  => "r" ]\n';
  const { script, root } = project({
    'deny.mld': `${body}guard @g after @f = when [ * => deny "never" ]\nshow @f()`,
    'allow.mld': `${body}guard @g after @f = when [ * => allow ]\nshow @f()\nshow <o.txt>`,
  });
  expect((await script('deny.mld')).code).toBe(4);
  expect(existsSync(join(root, 'o.txt'))).toBe(false);
  expect(await script('allow.mld')).toEqual({ code: 0, output: 'r\ndata\n' });
  expect(readFileSync(join(root, 'o.txt'), 'utf8')).toBe('data');
});

inSandbox('labels go through child processes', async () => {
  const { script } = project({
    'run.mld': [
      'var secret @k = "s"',
      'var @word = run {echo @k}',
      'var @piped = run @k | {cat}',
      'exe @shell(x) = sh { echo "got $x" }',
      'exe @given() = run cmd {printenv TOKEN} using @k as TOKEN',
      'exe @node(x) = node { return x.length }',
      'var @s = @shell(@k)',
      'var @g = @given()',
      'var @n = @node(@k)',
      'show `@word.mx.labels @piped.mx.labels @s.mx.labels @g.mx.labels @n.mx.labels`',
      'show `@word @piped @s @g @n`',
    ].join('\n'),
  });
  const { output } = await script('run.mld');
  expect(output).toBe(
    `${Array.from({ length: 5 }, () => '["secret"]').join(' ')}\ns s got s s 1\n`,
  );
});

test('a guard that asks ends with 7 where nobody can answer now', async () => {
  const { script } = project({
    'ask.mld': 'guard @g before op:show = when [ * => ask "may I show it?" ]\nshow "x"',
  });
  const { code, output } = await script('ask.mld');
  expect(code).toBe(7);
  expect(output).toContain('may I show it?');
});

test('a policy for reading holds on the command line', async () => {
  const { script } = project({
    'a.txt': 'A',
    'keys/k.txt': 'K',
    'p.mld': 'policy @p = { deny: ["fs:r:keys/**"] }\nshow <a.txt>\nshow <keys/k.txt>',
  });
  const { code, output } = await script('p.mld');
  expect(code).toBe(4);
  expect(output).toContain('A\n');
  expect(output).not.toContain('K\n');
});

test('a js block that another one left something for gives it back with its labels', async () => {
  const { script } = project({
    'stash.mld': [
      'var secret @k = "k-1"',
      'exe @put(x) = js { globalThis.stash = x; return 1 }',
      'exe @get() = js { return globalThis.stash }',
      'exe @none() = js { return globalThis.stash === "other" ? 1 : undefined }',
      'var @before = @none()',
      'var @a = @put(@k)',
      'var @z = @get()',
      'var @after = @none()',
      'show `@before.mx.labels @z.mx.labels @after.mx.labels`',
      'guard @g before secret = when [ @mx.op.type == "log" => deny "no"  * => allow ]',
      'log @z',
    ].join('\n'),
  });
  const { output, code } = await script('stash.mld');
  expect(output).toContain('[] ["secret"] ["secret"]');
  expect(output).toContain('log was denied by @g (secret)');
  expect(code).toBe(4);
});

const READERS = {
  'a file': '<private/key.txt>',
  'a section of a file': '<private/key.txt # Key>',
  'files by a pattern': '<private/*.txt>',
  'fs/read_file': '@tool("fs/read_file", { path: "private/key.txt" })',
  'fs/grep': '@tool("fs/grep", { pattern: "k-1", path: "." })',
  'fs/list_dir': '@tool("fs/list_dir", { path: "private" })',
  'fs/glob': '@tool("fs/glob", { pattern: "private/*" })',
};
const NAMES = (root: string) => [
  'dir:private',
  'dir:private/',
  `dir:${root}/private`,
  `dir:${root}`,
];

test.each(Object.entries(READERS))(
  'a folder that a policy, a guard or a script names is the same folder for %s',
  async (_reader, reading) => {
    const { script, write, root } = project({ 'private/key.txt': '# Key\nk-1\n' });
    write('read.mld', `var @k = ${reading}\nlog @k`);
    for (const name of NAMES(root)) {
      const asGuard = `guard @g before ${name} = when [ @mx.op.type == "log" => deny "no"  * => allow ]`;
      write('guarded.mld', `${asGuard}\nvar @k = ${reading}\nlog @k`);
      write(
        'policy.mld',
        `policy @p = { labels: { "${name}": { deny: ["op:log"] } } }\nvar @k = ${reading}\nlog @k`,
      );
      write('.ai/policy.yaml', '');
      expect([name, (await script('read.mld')).code]).toEqual([name, 0]);
      expect([name, (await script('policy.mld')).code]).toEqual([name, 4]);
      if (!name.endsWith('/'))
        expect([name, (await script('guarded.mld')).code]).toEqual([name, 4]);
      write('.ai/policy.yaml', `labels:\n  "${name}": {deny: ["op:log"]}\n`);
      expect([name, (await script('read.mld')).code]).toEqual([name, 4]);
      write(
        '.ai/policy.yaml',
        `guards:\n  - {on: "${name}", when: 'op.type == "log"', deny: no}\n`,
      );
      expect([name, (await script('read.mld')).code]).toEqual([name, 4]);
    }
  },
);

const FROM_FILES = {
  'a template file': 'exe @t(x) = template "private/doc.att"\nvar @v = @t("q")',
  'a mustache template': 'exe @t(x) = template "private/doc.mtt"\nvar @v = @t("q")',
  'a template called in a template': 'exe @t(x) = template "private/doc.att"\nvar @v = `<@t("q")>`',
  'a folder of templates': 'import templates from "private" as @t(x)\nvar @v = @t.doc("q")',
  'a variable of a module': 'import { @key } from "./private/mod.mld"\nvar @v = @key',
  'a namespace': 'import "./private/mod.mld" as @m\nvar @v = @m.key',
  'a function of a module': 'import { @say } from "./private/mod.mld"\nvar @v = @say()',
  'a block of code of a module': 'import { @js } from "./private/mod.mld"\nvar @v = @js()',
  'a function that a module calls': 'import { @twice } from "./private/mod.mld"\nvar @v = @twice()',
  'the front matter of a module': 'import "./private/mod.mld" as @m\nvar @v = @m.mx.fm',
  'what a function of a module does':
    'import { @do } from "./private/mod.mld"\n@do()\nvar @v = <out.txt>',
  'a module of a module': 'import { @again } from "./other.mld"\nvar @v = @again',
  'a guard of a module':
    'import "./private/mod.mld" as @m\nguard @mine before nothing = when [ * => allow ]\nvar pii @n = "x"\nexe @f(x) = `@x`\nvar @v = @f(@n)',
};

test.each(Object.entries(FROM_FILES))('%s carries the labels of its file', async (_what, text) => {
  const { script, write } = project({
    'private/doc.att': 'k-1 @x',
    'private/doc.mtt': 'k-1 {{x}}',
    'private/mod.mld': [
      '---',
      'title: k-1',
      '---',
      'var @key = "k-1"',
      'exe @say() = "k-1"',
      'exe @js() = js { return "k-1" }',
      'exe @twice() = `@say() @say()`',
      'exe @do() = [ output "k-1" to "@root/out.txt" ]',
      'guard @g before pii = when [ @mx.op.type == "exe" => allow "k-1"  * => allow ]',
    ].join('\n'),
    'other.mld': 'import { @key } from "./private/mod.mld"\nvar @again = @key',
  });
  write('use.mld', `${text}\nshow \`@v\`\nlog @v`);
  const open = await script('use.mld');
  expect(open.output).toContain('k-1');
  write('.ai/policy.yaml', 'labels:\n  "dir:private": {deny: ["op:log"]}\n');
  expect(await script('use.mld')).toMatchObject({
    code: 4,
    output: expect.stringContaining('dir:private'),
  });
});

/** Commands that reveal something about `private/` without printing its lines. */
const LOOKS = {
  'a search without a match': '@tool("fs/grep", { pattern: "nothing", path: "." }).files_matched',
  'a search of one file without a match':
    '@tool("fs/grep", { pattern: "no", path: "private/key.txt" })',
  'a pattern that finds nothing': '@tool("fs/glob", { pattern: "private/*.zz" }).paths.length',
  'a pattern over all': '@tool("fs/glob", { pattern: "**/*.zz" }).paths.length',
  'names in a folder': '@tool("fs/list_dir", { path: "private" }).total',
  'a file that is there': '@fileExists("private/key.txt")',
  'a file that is not there': '@fileExists("private/other.txt")',
  'a file that is not there, by a link': '@fileExists("linked/other.txt")',
  'a loaded file that is not there': '@exists(<private/other.txt>)',
  'files that are not there': '<private/*.zz>.length',
  'files further down': '<**/*.zz>.length',
  'a file that may be missing': '<private/other.txt>?',
  'a file in a text': '`a <private/other.txt> b`',
};

test.each(Object.entries(LOOKS))('%s carries the labels of the place', async (_what, look) => {
  const { script, write, root } = project({
    'private/key.txt': 'k-1\n',
    'use.mld': `var @v = ${look}\nlog \`v @v\``,
  });
  symlinkSync('private', join(root, 'linked'));
  expect(await script('use.mld')).toMatchObject({ code: 0 });
  write('.ai/policy.yaml', 'labels:\n  "dir:private": {deny: ["op:log"]}\n');
  expect(await script('use.mld')).toMatchObject({ code: 4 });
});

const FAILURES = {
  'a tool that finds no file': '@tool("fs/read_file", { path: "private/other.txt" })',
  'a tool that finds no line': '@tool("fs/read_file", { path: "private/key.txt", offset: 9 })',
  'an edit that finds no text':
    '@tool("fs/edit_file", { path: "private/key.txt", old_string: "z", new_string: "y" })',
  'a file that must be new':
    '@tool("fs/write_file", { path: "private/key.txt", content: "", overwrite: false })',
  'a missing file': '<private/other.txt>',
  'a missing template': '@late()',
};

test.each(Object.entries(FAILURES))(
  'the failure of %s carries the labels',
  async (_what, failing) => {
    const { script, write } = project({
      'private/key.txt': 'k-1\n',
      'use.mld': [
        'exe @late() = template "private/other.att"',
        `var @all = for parallel @i in [1, 2] => when [ @i == 1 => "fine"  * => ${failing} ]`,
        'var @v = @mx.errors.length',
        'log `v @v`',
      ].join('\n'),
    });
    expect(await script('use.mld')).toMatchObject({
      code: 0,
      output: expect.stringContaining('v 1'),
    });
    write('.ai/policy.yaml', 'labels:\n  "dir:private": {deny: ["op:log"]}\n');
    expect(await script('use.mld')).toMatchObject({ code: 4 });
  },
);

const NAMING = {
  output: 'output "x" to `out/f-@k`',
  append: 'append "x" to `out/f-@k`',
  'a folder on the way': 'output "x" to `out/@k/deep/a.txt`',
  'a tool': 'var @w = @tool("fs/write_file", { path: `out/f-@k`, content: "x" })',
  'a condition': 'when @k == "s-1" => output "x" to "out/s-1.txt"',
};

test.each(Object.entries(NAMING))('a name made by %s marks its folder', async (_what, naming) => {
  const { script, write } = project({
    'out/first.txt': '',
    'make.mld': `var secret @k = "s-1"\n${naming}`,
    'clean.mld': 'show @tool("fs/list_dir", { path: "out" }).mx.labels',
  });
  expect((await script('clean.mld')).output).toBe('[]\n');
  expect(await script('make.mld')).toMatchObject({ code: 0 });
  const looks = [
    '@tool("fs/list_dir", { path: "out" })',
    '@tool("fs/glob", { pattern: "out/**" })',
    '@tool("fs/glob", { pattern: "**" })',
    '@tool("fs/grep", { pattern: "none", path: "." })',
    '<out/**/*>',
    '@fileExists("out/other")',
  ];
  for (const look of looks) {
    write('look.mld', `var @v = ${look}\nshow @v.mx.labels`);
    expect([look, (await script('look.mld')).output]).toEqual([look, '["secret"]\n']);
  }
});

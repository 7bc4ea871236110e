// Commands and code of scripts: what reaches them by name, helpers, streams, formats. Real processes,
// through the real command line.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { probeSandboxNow } from '../../src/kernel/index.ts';
import { parseScript } from '../../src/script/syntax/parse.ts';
import { type Ran, runCommand } from '../support/command-line.ts';
import { printScript } from '../support/print-script.ts';
import { type Fixture, makeFixture } from '../support/project.ts';

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

/** Strict, in a project of its own with these other files. */
const run = (text: string, files: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  project({ ...files, 'main.mld': text }).script('main.mld');

const printed = (...lines: readonly string[]): Ran => ({
  code: 0,
  output: lines.map((line) => `${line}\n`).join(''),
});

// ---- names in the environment of a command

inSandbox('parameters and listed names are in the environment of a command', async () => {
  const ran = await run(`
exe @greet(who) = cmd {printf '%s' "hi $who"}
show @greet("Bo; ls")
run sh {mkdir -p out}
var @f = "a b.txt"
run sh (@f):out { echo 1 > "$f"; ls }
run cmd (@f) {printf '%s' "$f"}`);
  expect(ran).toEqual(printed('hi Bo; ls', 'a b.txt', 'a b.txt'));
});

inSandbox('a command gets them in the form a shell gets them', async () => {
  const ran = await run(`
var @list = ["a b", 2, null]
var @o = { "k": [1] }
exe @both(x, y, z) = cmd {printf '[%s|%s|%s]' "$x" "$y" "$z"}
exe @shell(x, y, z) = sh {printf '[%s|%s|%s]' "$x" "$y" "$z"}
show @both(@list, @o)
show @shell(@list, @o)
run cmd (@list, @o.k) {printf '%s/%s' "$list" "$k"}
exe @dashed(a-b) = cmd {printf '%s' "$a_b"}
show @dashed("d")`);
  expect(ran).toEqual(
    printed('[a b\n2\nnull|{"k":[1]}|]', '[a b\n2\nnull|{"k":[1]}|]', 'a b\n2\nnull/1', 'd'),
  );
});

inSandbox('names and a folder stand together before every kind of block', async () => {
  const ran = await run(
    `
var @n = "x y"
var @dir = "out"
run cmd (@n):out {printf '%s in %s' "$n" "$(basename "$PWD")"}
run sh (@n):@dir { printf '%s in %s' "$n" "$(basename "$PWD")" }
run node (@n):@root/out { return n + " in " + require("path").basename(process.cwd()) }
run nodejs (@n):out { return n }
run py (@n):"out" { import os; print(n, "in", os.path.basename(os.getcwd())) }
run bash:out (@n) { printf '%s in %s' "$n" "$(basename "$PWD")" }
exe @f(n) = cmd:out {printf '%s in %s' "$n" "$(basename "$PWD")"}
show @f("p")
var @v = run cmd (@n):out {printf '%s' "$n"} | @upper
show @v`,
    { 'out/keep.txt': '' },
  );
  const line = 'x y in out';
  expect(ran).toEqual(printed(line, line, line, 'x y', line, line, 'p in out', 'X Y'));
});

inSandbox('a folder outside of the project is refused behind names too', async () => {
  const ran = await run(`var @n = "x"\nrun sh (@n):.. { ls }`);
  expect(ran.code).toBe(4);
});

inSandbox('what a process needs is never set by a parameter', async () => {
  const needed =
    'PATH HOME IFS LD_PRELOAD LD-PRELOAD NODE_OPTIONS PYTHONPATH BASH_ENV ENV TMPDIR'.split(' ');
  const lines = [...needed, 'path', 'PATHS'].map(
    (name, at) => `
exe @f${at}(${name}) = cmd {printf '%s' "\${${name.replace('-', '_')}}"}
show \`${name} @f${at}("/evil").includes("evil")\``,
  );
  const expected = [...needed.map((name) => `${name} false`), 'path true', 'PATHS true'];
  expect(await run(lines.join(''))).toEqual(printed(...expected));
});

inSandbox('a value too large for an environment stays out of it', async () => {
  const ran = await run(`
exe @big(n) = js { return "x".repeat(n) }
var @large = @big(200000)
var @odd = "a\u0000b"
exe @size(text, more) = cmd {printf '%s' "\${#text} $more"}
show @size(@large, "kept")
show @size(@odd, "kept")
var @some = @big(100000)
exe @many(a, b, c, d, e, f, g, h) = cmd {printf '%s' "\${#a} \${#h}"}
show @many(@some, @some, @some, @some, @some, @some, @some, @some)`);
  expect(ran).toEqual(printed('0 kept', '0 kept', '100000 0'));
});

inSandbox('what is nearest to a process wins', async () => {
  const ran = await run(`
output "all" to env:x
exe @a() = cmd {printf '%s' "$x"}
exe @b(x) = cmd {printf '%s' "$x"}
exe @c(x) = sh {printf '%s' "$x"}
var @u = "used"
exe @d(x) = cmd {printf '%s' "$x"} using @u as x
show \`@a() @b("own") @c("own") @d("own")\``);
  expect(ran).toEqual(printed('all own own used'));
});

inSandbox('they count as inputs whether the command reads them or not', async () => {
  const ran = await run(
    `
var secret @k = "k-1"
var untrusted @u = "u-1"
exe @deaf(x, y) = cmd {printf 'nothing'}
var @r = @deaf(@k, @u)
var @s = run cmd (@k) {printf 'nothing'}
exe @inner(x) = [ let @c = cmd {printf 'in'}  => @c ]
var @i = @inner(@k)
show \`@r.mx.labels @s.mx.labels @i.mx.labels\``,
  );
  expect(ran).toEqual(printed('["secret","untrusted"] ["secret"] ["secret"]'));
});

inSandbox('a command stage in a function sees its parameters', async () => {
  const ran = await run(`
exe @find(word) = "tea\\nmilk" | cmd {grep "$word"}
show @find("mi")
var secret @w = "te"
var @r = @find(@w)
show @r.mx.labels`);
  expect(ran).toEqual(printed('milk', '["secret"]'));
});

inSandbox('guards and policies see them', async () => {
  const guard = `guard @no before op:run = when [ @input.any.mx.labels.includes("secret") => deny "no"  * => allow ]\n`;
  const listed = await run(`${guard}var secret @k = "k"\nrun cmd (@k) {echo hi}`);
  expect(listed.code).toBe(4);
  const policy = `policy @p = { labels: { secret: { deny: ["op:cmd"] } } }\n`;
  const captured = await run(
    `${policy}var secret @k = "k"\nexe @f() = cmd (@k) {echo hi}\nshow @f()`,
  );
  expect(captured.code).toBe(4);
  const stage = await run(
    `${policy}var secret @k = "k"\nexe @f(k) = [ let @x = "a" | cmd {cat}  => @x ]\nshow @f(@k)`,
  );
  expect(stage.code).toBe(4);
  expect((await run(`${policy}exe @f(k) = cmd {echo "$k"}\nshow @f("plain")`)).code).toBe(0);
});

inSandbox('what a guard replaced is what the environment holds', async () => {
  const ran = await run(`
guard @mask before secret = when [ @mx.op.type == "run" => allow "***"  * => allow ]
var secret @k = "k-1"
run cmd (@k) {printf '%s' "$k @k"}`);
  expect(ran).toEqual(printed('*** ***'));
});

inSandbox('in a module, an arm, a loop and markdown they are the same', async () => {
  const files = {
    'lib.mld': `exe @hi(who) = cmd {printf '%s' "hi $who"}\nexport { hi }`,
    'doc.md': `/exe @hi(who) = cmd {printf '%s' "hi $who"}\n/var @n = "d"\n/run cmd (@n) {printf '%s' "$n"}\n/show @hi("md")\n`,
  };
  const ran = await run(
    `
import { @hi } from "./lib.mld"
show @hi("a b")
exe @pick(x) = when [ @x == "y" => cmd {printf 'arm %s' "$x"}  * => "none" ]
show @pick("y")
exe @each(list, tail) = for @n in @list => cmd (@n) {printf '%s%s' "$n" "$tail"}
var @all = @each(["1", "2"], "!")
show @all.join(" ")`,
    files,
  );
  expect(ran).toEqual(printed('hi a b', 'arm y', '1! 2!'));
  expect(await project(files).script('doc.md')).toEqual(printed('d', 'hi md'));
});

test('names, folders and words are read and written back', () => {
  const text =
    'run cmd (@a, @b.c):@root/out {echo}\nrun sh (@a):out {ls}\nrun node:x {1}\nvar @x = @a | cmd (@b) {cat}\n';
  const { script, problems } = parseScript(text, { mode: 'strict', file: 'a.mld' });
  expect(problems).toEqual([]);
  expect(script && printScript(script)).toBe(text);
  const { problems: open } = parseScript('run cmd (@a {echo}', { mode: 'strict', file: 'a.mld' });
  expect(open).toHaveLength(1);
});

test('a check knows the names before a command', async () => {
  const { root, env } = project({
    'a.mld':
      'var @a = 1\nrun cmd (@a, @nobody) {echo}\nexe @f(x) = cmd {echo "${x:-none}"}\nshow @f()',
  });
  const { output } = await runCommand(['check', 'a.mld'], root, env);
  expect(output).toContain('nothing binds `@nobody`');
  expect(output).not.toContain('`@a`');
  expect(output).not.toContain('gets no `x`');
  expect(existsSync(join(root, 'a.mld'))).toBe(true);
});

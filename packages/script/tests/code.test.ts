// Commands and code of scripts: variables, helpers, streams and formats, with real processes and the real
// command line.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { probeSandboxNow } from '@kernmantle/core/kernel';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { printScript } from '@kernmantle/test-support/print-script';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';
import { runScriptIn } from '../src/runtime/run-script.ts';
import { parseScript } from '../src/syntax/parse.ts';

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

/** Runs a strict script in a new project with these other files. */
const run = (text: string, files: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  project({ ...files, 'main.mld': text }).script('main.mld');

const printed = (...lines: readonly string[]): Ran => ({
  code: 0,
  output: lines.map((line) => `${line}\n`).join(''),
});

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

inSandbox('the folder that a value chose goes in with its labels', async () => {
  const files = { 'out/a.txt': '' };
  const ran = await run(
    `
var secret @d = "out"
var untrusted @u = "out"
var @n = "x"
var @a = run sh (@n):@d { ls }
var @b = run cmd (@n):@u {printf '%s' "$n"}
var @c = run py (@n):@root/@d { return n }
exe @in(d) = node:@d { return process.cwd().split("/").pop() }
var @e = @in("out")
show \`@a.mx.labels @b.mx.labels @c.mx.labels @e @e.mx.labels\``,
    files,
  );
  expect(ran).toEqual(printed('["secret"] ["untrusted"] ["secret"] out []'));
  const rule =
    'guard @g before op:run = when [ @input.any.mx.labels.includes("secret") => deny "no"  * => allow ]';
  const denied = await run(`${rule}\nvar secret @d = "out"\nrun sh:@d { ls }`, files);
  expect(denied.code).toBe(4);
});

inSandbox('a command that is a text has the parameters too, missing ones empty', async () => {
  const ran = await run(`
exe @said(who) = run "printf '[%s]' \\"$who\\""
show \`@said("a b") @said()\``);
  expect(ran).toEqual(printed('[a b] []'));
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
  expect(output).toContain('`@nobody` is not defined');
  expect(output).not.toContain('`@a`');
  expect(output).not.toContain('gets no `x`');
  expect(existsSync(join(root, 'a.mld'))).toBe(true);
});

inSandbox('python may begin behind its brace, whatever the next lines are set in by', async () => {
  const ran = await run(`
run py { x = 1
print(x)
}
exe @next(n) = py { y = n
    return y + 1
}
show @next(3)
run py { if True:
    print(5)
}`);
  expect(ran).toEqual(printed('1', '4', '5'));
});

inSandbox('python functions help python blocks, and return', async () => {
  const ran = await run(`
exe @half(n) = py { return n / 2 }
exe @quarter(n) = py { return half(half(n)) }
exe py = { half, quarter }
run py { print(quarter(20)) }
show @half(9)`);
  expect(ran).toEqual(printed('5.0', '4.5'));
});

inSandbox(
  'node functions help node blocks; `global` is the object all js blocks share',
  async () => {
    const ran = await run(`
exe @twice(n) = node { return n * 2 }
exe nodejs = { twice }
run nodejs { console.log(await twice(21)) }
exe @count() = js { global.c = (global.c ?? 0) + 1; return global.c }
show @count()
show @count()
run js { return global === globalThis && globalThis.c }`);
    expect(ran).toEqual(printed('42', '1', '2', '2'));
  },
);

inSandbox(
  'helpers call each other, also in a circle, and repeating the statement adds',
  async () => {
    const ran = await run(`
exe @even(n) = js { return n === 0 ? true : odd(n - 1) }
exe @odd(n) = js { return n === 0 ? false : even(n - 1) }
exe javascript = { even }
exe @js = { odd }
exe node = { even, odd }
run js { return [even(10), typeof odd(1)] }
run node { return [odd(7), even(7)] }
exe @down(n) = py {
  return "end" if not n else down(n - 1)
}
exe @up-per(t, tail) = py { return t.upper() + (tail or "?") }
exe python = { down, up-per }
run py { print(down(3), up_per("a"), up_per("b", "!", "ignored"), up_per(t="c")) }`);
    expect(ran).toEqual(printed('[true,"boolean"]', '[true,false]', 'end A? B! C?'));
  },
);

inSandbox(
  'what a python helper prints is printed by the block; its own names stay its own',
  async () => {
    const ran = await run(`
exe @loud(x) = py {
  inner = x
  print("loud", inner)
}
exe py = { loud }
exe @all(inner) = py {
  loud(1)
  print(inner, loud(2))
}
show @all("mine")`);
    expect(ran).toEqual(printed('loud 1\nloud 2\nmine None'));
  },
);

inSandbox('helpers are there in stages and have what blocks of their kind have', async () => {
  const ran = await run(
    `
exe @size(p) = node { return require("fs").readFileSync(p, "utf8").length }
exe @half(n) = py { return n / 2 }
exe @up(t) = js { return t.toUpperCase() }
exe node = { size, up }
exe py = { half }
exe js = { up }
show 9 | py { return half(input) }
show "a" | js { return up(input) + "!" }
show "note.txt" | node { return up(input) + size(input) }
exe @twice(t) = js { return up(t) + up(t) }
show \`@twice("b")\``,
    { 'note.txt': '12345' },
  );
  expect(ran).toEqual(printed('4.5', 'A!', 'NOTE.TXT5', 'BB'));
});

inSandbox('functions see the helpers that are defined when they are called', async () => {
  const files = {
    'lib.mld': 'exe @late(x) = py { return "late " + x }\nexe py = { late }\nexport { late }',
  };
  const ran = await run(
    `
exe @use(x) = py { return late(x) }
import { @late } from "./lib.mld"
show @use("a")`,
    files,
  );
  expect(ran).toEqual(printed('late a'));
  const early = await run('exe @use(x) = py { return late(x) }\nshow @use("a")', files);
  expect(early.code).toBe(1);
  expect(early.output).toContain("name 'late' is not defined");
});

test.each([
  ['js', 'exe @h(x) = `hi @x`'],
  ['js', 'exe @h(x) = node { return x }'],
  ['js', 'exe @h(x) = sh { echo "$x" }'],
  ['node', 'exe @h(x) = py { return x }'],
  ['py', 'exe @h(x) = js { return x }'],
  ['py', 'exe @h(x) = cmd {echo @x}'],
  ['node', 'var @h = 1'],
  ['node', 'exe @h(x) = node:out { return x }'],
  ['node', 'exe @h(x) = node { return x } using @x as X'],
  ['js', 'exe @h(x) = js (@x.name) { return name }'],
])('what cannot be a helper of %s is refused where it is said: %s', async (language, made) => {
  const { code, output } = await run(`show "before"\n${made}\nexe ${language} = { h }`);
  expect(code).toBe(1);
  expect(output).toContain('before\nmain.mld:3:1: error: `h` ');
  expect(output).toContain('helper');
});

test('a check says so before anything runs', async () => {
  const { root, env } = project({
    'a.mld':
      'exe @h(x) = `hi @x`\nexe @g(x) = py { return x } with { timeout: 5 }\nvar @v = 1\nexe py = { h, g, v, nobody }',
  });
  const { output, code } = await runCommand(['check', 'a.mld'], root, env);
  expect(output).toContain('`h` cannot be a helper of py blocks');
  expect(output).toContain('`v` cannot be a helper of py blocks');
  expect(output).toContain('`@nobody` is not defined');
  expect(output).not.toContain('`g`');
  expect(code).toBe(3);
});

inSandbox('an object that a function named like a language gives is an object', async () => {
  const ran = await run(`exe @py = { "a": 1 }\nvar @o = @py()\nshow @o.a`);
  expect(ran).toEqual(printed('1'));
});

inSandbox.each([
  ['js', 'return x + k', 'return key("b")'],
  ['node', 'return x + k', 'return key("b")'],
  ['py', 'return x + k', 'return key("b")'],
])(
  'what a helper of %s captured, and its labels, count for the block',
  async (lang, inner, outer) => {
    const ran = await run(`
var secret @k = "k-1"
var untrusted @u = "u-1"
exe pii @key(x) = ${lang} (@k) { ${inner} }
exe @plain(x) = ${lang} { return x }
exe ${lang} = { plain, key }
exe @a() = ${lang} { return plain("a") }
exe @b() = ${lang} { ${outer} }
exe @c(x) = ${lang} { return plain(x) }
var @ra = @a()
var @rb = @b()
var @rc = @c(@u)
show \`@ra @ra.mx.labels\`
show \`@rb @rb.mx.labels.sort()\`
show \`@rc @rc.mx.labels.includes("untrusted")\``);
    expect(ran).toEqual(printed('a []', 'bk-1 ["pii","secret"]', 'u-1 true'));
  },
);

inSandbox('a helper of a module knows what stands there, with its labels', async () => {
  const ran = await run(
    `
import { @sign } from "./lib.mld"
exe node = { sign }
var @k = "mine"
var @r = run node (@k) { return sign(k) }
show \`@r @r.mx.labels\``,
    { 'lib.mld': 'var secret @k = "theirs"\nexe @sign(x) = node (@k) { return x + "/" + k }' },
  );
  expect(ran).toEqual(printed('mine/theirs ["secret"]'));
});

inSandbox('what a js block got from a helper and left behind keeps its labels', async () => {
  const ran = await run(`
exe secret @key() = js { return "k" }
exe js = { key }
exe @put() = js { globalThis.stash = key(); return 1 }
exe @get() = js { return globalThis.stash }
var @a = @put()
var @b = @get()
show \`@b @b.mx.labels\``);
  expect(ran).toEqual(printed('k ["secret"]'));
});

inSandbox('guards, hooks and policies of a helper judge the block that mentions it', async () => {
  const functions = `
exe net:w @post(x) = node { require("fs").writeFileSync("sent.txt", x); return "sent " + x }
exe node = { post }
exe @pass(x) = node { return post(x) }
var secret @k = "k"
show @pass("plain")
`;
  const byName = `guard @no before @post = when [ @input.any.mx.labels.includes("secret") => deny "stays"  * => allow ]`;
  const byLabel = `guard @no before op:net:w = when [ @input.any.mx.labels.includes("secret") => deny "stays"  * => allow ]`;
  const policy = `policy @p = { labels: { secret: { deny: ["net:w"] } } }`;
  for (const rule of [byName, byLabel, policy]) {
    const { code, output } = await run(`${rule}${functions}show @pass(@k)`);
    expect(output).toContain('sent plain\n');
    expect(code).toBe(4);
  }
  const captured = await run(
    `${byName}\nvar secret @k = "k"\nexe @post(x) = node (@k) { return k }\nexe node = { post }\nrun node { post() }`,
  );
  expect(captured.code).toBe(4);
  const masked = await run(
    `guard @mask before @post = when [ * => allow ["***"] ]${functions.replace('var secret', 'var')}`,
  );
  expect(masked).toEqual(printed('sent ***'));
  const after = await run(
    `guard @look after @post = when [ * => deny "not this" ]${functions}show "never"`,
  );
  expect(after.code).toBe(4);
});

inSandbox('a python block returns data; what it printed then goes to stderr', async () => {
  const ran = await run(`
exe @facts(n) = py {
  import sys
  total: int = 0
  def add(more):
    global total
    total += more
  for i in range(n):
    add(i)
  try:
    print("on the way")
    return { "total": total, "list": [i for i in range(2)], 3: (1, None, True), "~t": "~x" }
  except:
    return "caught"
  finally:
    add(1)
}
var @f = @facts(4)
show \`facts @f\`
show @f.total + 1
show @f["~t"]`);
  expect(ran.code).toBe(0);
  expect(ran.output.split('\n').toSorted()).toEqual(
    [
      'on the way',
      'facts {"3":[1,null,true],"total":6,"list":[0,1],"~t":"~x"}',
      '7',
      '~x',
      '',
    ].toSorted(),
  );
});

inSandbox('without a value, or where none is reached, what it prints is the result', async () => {
  const ran = await run(`
exe @early(n) = py {
  if n > 1:
    return
  print("went on")
  return None
}
show @early(1)
show @early(2)
exe @inner() = py {
  def f():
    return 1
  print("f", f())
}
show @inner()
exe @word() = py { print("return is a word") }
show @word()
exe @star() = py {
  from math import *
  return floor(2.5)
}
show @star()
exe @none() = py { return None }
var @n = @none()
show @n ?? "nothing"
exe @empty() = py { return "" }
var @e = @empty()
show \`[@e] [@e.length]\``);
  expect(ran).toEqual(printed('went on', 'f 1', 'return is a word', '2', 'nothing', '[] [0]'));
});

inSandbox('what is no data is an error of the block', async () => {
  const { code, output } = await run('run py { return object() }');
  expect(code).toBe(1);
  expect(output).toContain('a py block cannot return a object; return data');
  const circle = await run('run py { x = [1]; x.append(x); return x }');
  expect(circle.output).toContain('cannot return data that contains itself');
  const long = await run(`
exe @n() = py { return 12345678901234567890 }
exe @t() = py { return ["tea", 1.5, "\\u2028"] }
var @odd = run py { return float("inf") }
show @n()
show @t().length
show @odd > 1`);
  expect(long).toEqual(printed('12345678901234567890', '3', 'true'));
});

inSandbox('what python returns keeps labels, in a stage and in a branch too', async () => {
  const ran = await run(`
exe @double(xs) = py { return [x * 2 for x in xs] }
var secret @list = [1, 2]
var untrusted @one = [3]
var @d = @list | @double | py { return sum(input) }
var @o = @one | @double
show \`@d @d.mx.labels @o @o.mx.labels\`
var @all = for parallel @x in [[1], [2]] => @double(@x)
show \`all @all\``);
  expect(ran).toEqual(printed('6 ["secret"] [6] ["untrusted"]', 'all [[2],[4]]'));
});

test('helpers of every language are read and written back', () => {
  const said = (text: string) => {
    const { script } = parseScript(text, { mode: 'strict', file: 'a.mld' });
    return script && printScript(script);
  };
  for (const word of ['js', '@javascript', 'javascript', '@js'])
    expect(said(`exe ${word} = { a, @b }`)).toBe('exe js = { a, b }\n');
  for (const word of ['node', '@nodejs', 'nodejs'])
    expect(said(`exe ${word} = { a }`)).toBe('exe node = { a }\n');
  for (const word of ['py', '@python', 'python'])
    expect(said(`exe ${word} = { a }`)).toBe('exe py = { a }\n');
  expect(said('exe sh = { a }')).toBeUndefined();
});

inSandbox('bodies whose lines end as on Windows', async () => {
  const text = `var @s = "a b"
run sh (@s) {
  if true; then
    echo "$s"
  fi
}
exe @half(n) = py {
  if n > 1:
    return n / 2
  print("small")
}
exe py = { half }
run py {
  print(half(5))
}
show @half(1)`;
  expect(await run(text.replaceAll('\n', '\r\n'))).toEqual(printed('a b', '2.5', 'small'));
});

inSandbox('what streams is shown once', async () => {
  const ran = await run(`
exe @tick() = stream sh {echo 1; sleep 1; echo 2}
show @tick()`);
  expect(ran).toEqual(printed('1', '2'));
});

/** Prints a line and continues after the reader has received it. */
const WAITS = 'echo one; while [ ! -e go.txt ]; do sleep 0.02; done; echo two';

inSandbox.each([
  ['on a function', `exe @f() = stream sh {${WAITS}}\nshow @f()`],
  ['before a call', `exe @f() = sh {${WAITS}}\nrun stream @f()`],
  ['as a statement', `exe @f() = sh {${WAITS}}\nstream @f()`],
  ['as a statement of a name', `exe @f = sh {${WAITS}}\nstream @f`],
  ['before a block', `stream sh {${WAITS}}`],
  ['in a right-hand side', `exe @f() = sh {${WAITS}}\nvar @x = null ?? stream @f()`],
  ['in a block', `exe @f() = [\n  stream sh {${WAITS}}\n  => "end"\n]\nvar @x = @f()`],
  ['in an arm', `exe @f() = sh {${WAITS}}\nwhen [ * => stream @f() ]`],
  ['as a stage', `var @x = "in" | stream sh {${WAITS}}`],
  ['as a function in a stage', `exe @f(x) = sh {${WAITS}}\nvar @x = "in" | stream @f`],
  ['with other options inside', `exe @f() = sh {${WAITS}} with { timeout: "20s" }\nstream @f()`],
  ['in markdown', `/exe @f() = sh {${WAITS}}\n/stream @f()\n`],
])('it is shown as it comes: %s', async (_where, text) => {
  const fixture = project({});
  const runtime = await fixture.open();
  let heard = '';
  const done = await runScriptIn(runtime, {
    text,
    ...(text.startsWith('/') && { name: 'a.md', mode: 'markdown' }),
    onOutput(piece) {
      heard += piece;
      if (heard === 'one\n') fixture.write('go.txt', '');
    },
  });
  await runtime.close();
  expect(heard).toBe('one\ntwo\n');
  expect(done).toMatchObject({ ok: true, output: { text: 'one\ntwo\n' } });
});

test('what is not a function is shown, and guards are asked before', async () => {
  const guard =
    'guard before secret = when [ @mx.op.type == "show" => deny "not shown"  * => allow ]';
  const ran = await run(`${guard}\nvar secret @k = "k1"\nstream "a"\nstream @k`);
  expect(ran.code).toBe(4);
  expect(ran.output).toMatch(/^a\n/);
  expect(ran.output).toContain('not shown');
  expect(ran.output).not.toContain('k1');
});

inSandbox('before every kind of block, and before what cannot stream', async () => {
  const ran = await run(
    `
stream cmd {echo cmd}
stream { echo braces }
stream js { console.log("js") }
stream nodejs { console.log("node") }
stream py { print("py") }
stream "a text"
stream <note.txt>
exe @t(x) = \`t @x\`
stream @t(1)
for @i in [2, 3] => stream @t(@i)
var @v = "variable"
stream @v
show stream @t(4)
exe @block() = [
  stream "in a block"
  stream @t(5)
  => stream @t(6)
]
show @block()
var @list = [stream @t(7), stream @t(8)]
show @list.join(" ")`,
    { 'note.txt': 'a file' },
  );
  expect(ran).toEqual(
    printed(
      ...'cmd,braces,js,node,py,a text,a file,t 1,t 2,t 3,variable,t 4,in a block,t 5,t 6,t 7 t 8'.split(
        ',',
      ),
    ),
  );
});

inSandbox('what streams keeps labels, and a function that streams is judged once', async () => {
  const ran = await run(`
var secret @k = "k"
var untrusted @u = "u"
exe @f(x) = stream sh {echo "$x"}
var @r = @f(@k)
var @s = "in" | stream @f
var @t = @u | stream sh {cat}
show \`@r.mx.labels @s.mx.labels @t.mx.labels\`
guard @g before op:sh = when [ @mx.op.type == "run" => deny "asked twice"  * => allow ]
show @f("again")`);
  expect(ran).toEqual(printed('k', 'in', 'u', '["secret"] [] ["untrusted"]', 'again'));
});

inSandbox(
  'guards see what is streamed, and nothing streams that one judges afterwards',
  async () => {
    const functions = 'exe @f(x) = sh {echo "$x"}\n';
    const before = 'guard @g before op:run = when [ * => deny "no" ]\n';
    for (const way of ['stream @f(1)', 'run stream @f(1)', 'stream sh {echo 1}'])
      expect(await run(`${before}${functions}${way}`)).toMatchObject({
        code: 4,
        output: expect.stringContaining('no'),
      });
    const show = await run(`guard @g before op:show = when [ * => deny "no" ]\nstream "x"`);
    expect(show.code).toBe(4);
    const after = 'guard @g after @f = when [ * => allow ]\n';
    for (const way of ['stream @f(1)', 'var @x = "a" | stream @f', 'show stream @f(1)']) {
      const { code, output } = await run(`${after}${functions}${way}`);
      expect(output).toContain('cannot stream while a guard judges its result');
      expect(code).toBe(1);
    }
    const made = await run(`${after}exe @f(x) = stream sh {echo "$x"}\nshow @f(1)`);
    expect(made.code).toBe(1);
  },
);

inSandbox('in a module nothing is streamed, and in markdown other lines are text', async () => {
  const ran = await run('import { @f } from "./lib.mld"\nshow @f()', {
    'lib.mld': 'exe @f() = stream sh {echo f}\nstream @f()\nstream "x"',
  });
  expect(ran).toEqual(printed('f'));
  const { script } = project({
    'a.md':
      '/stream of words (and more)\n/stream\n/stream "shown"\nstream @f()\n/stream js { 1 + 1 }\n',
  });
  expect(await script('a.md')).toEqual(
    printed('/stream of words (and more)', '/stream', 'shown', 'stream @f()', '2'),
  );
});

test.each([
  ['stream', 'after `stream`'],
  ['stream of words', 'after `stream`'],
  ['if true [ stream 1 ]', 'after `stream`'],
  ['show stream sh {echo}', '`show` cannot execute anything'],
  ['exe @f() = [ => /stream @g() ]', '`/stream` is not allowed here'],
])('is no statement: %s', (text, message) => {
  const { problems } = parseScript(text, { mode: 'strict', file: 'a.mld' });
  expect(problems[0]?.message).toContain(message);
});

test('streams are read and written back', () => {
  const text = `run @f() with { stream: true }
var @x = @a | stream @f | stream sh (@b):out {cat}
show "x" with { stream: true }
exe @f() = sh {ls} with { stream: true }
`;
  const { script, problems } = parseScript(
    text
      .replace('run @f() with { stream: true }', 'stream @f()')
      .replace('show "x" with { stream: true }', 'stream "x"')
      .replace('sh {ls} with { stream: true }', 'stream sh {ls}'),
    { mode: 'strict', file: 'a.mld' },
  );
  expect(problems).toEqual([]);
  expect(script && printScript(script)).toBe(text);
});

inSandbox('csv is read into rows before the first stage', async () => {
  const ran = await run(`
exe @table() = cmd {printf 'item,qty\\n"nuts, mixed",3\\nfigs,12\\n'}
exe @list(rows) = js { return rows.slice(1).map(r => r[0] + "=" + r[1]).join("; ") }
show @table() with { format: "csv", pipeline: [@list] }
var @v = run cmd {printf 'a,b\\n1,2\\n'} with { format: "csv", pipeline: [@list] }
show @v
show @table() | @list with { format: "csv" }`);
  expect(ran).toEqual(printed('nuts, mixed=3; figs=12', '1=2', 'nuts, mixed=3; figs=12'));
});

test('quotes, line breaks, empty cells and empty texts', async () => {
  const ran = await run(
    `
exe @json(rows) = js { return "rows " + JSON.stringify(rows) }
show <a.csv> with { format: "csv", pipeline: [@json] }
show "" with { format: "csv", pipeline: [@json] }
var @none = null
show @none with { format: "csv", pipeline: [@json] }
show "one" with { format: "csv", pipeline: [@json] }
show "," with { format: "csv", pipeline: [@json] }`,
    {
      'a.csv': '\ufeffa,"b ""q"""\r\n"x\ny, z",\r\n\r\n"",2\rlast ,"quoted"more\n',
    },
  );
  const rows = [
    ['a', 'b "q"'],
    ['x\ny, z', ''],
    ['', '2'],
    ['last ', 'quotedmore'],
  ];
  expect(ran).toEqual(
    printed(
      `rows ${JSON.stringify(rows)}`,
      'rows []',
      'rows []',
      'rows [["one"]]',
      'rows [["",""]]',
    ),
  );
});

test("the own text stays the source's, and without stages the value is read all the same", async () => {
  const ran = await run(`
exe @tagged(x) = \`tag @x\`
exe @own(x) = js { return x.toString() + "|" + x.length }
show "a,b" with { format: "csv", pipeline: [show, @tagged] }
show "a,b" with { format: "csv", pipeline: [@own] }
var @rows = "a,b\\nc,d" with { format: "csv" }
exe @made() = [ => "e,f" with { format: "csv" } ]
show \`made @made()\`
show @rows
show @rows[1][0]
for @row in @rows => show @row.join("-")`);
  expect(ran).toEqual(
    printed('a,b', 'tag [["a","b"]]', 'a,b|1', 'made [["e","f"]]', 'a,b\nc,d', 'c', 'a-b', 'c-d'),
  );
});

test('xml hands on what `@xml` makes, json data, text the text', async () => {
  const ran = await run(`
exe @kind(x) = js { return typeof x + " " + (typeof x === "string" ? x : JSON.stringify(x)) }
var @o = { "k": [1] }
show @o with { format: "xml", pipeline: [@kind] }
var @same = @xml(@o)
show \`string @same\`
show "words" with { format: "xml", pipeline: [@kind] }
show '{"a": 1}' with { format: "json", pipeline: [@kind] }
show '{"a": 1}' with { format: "text", pipeline: [@kind] }`);
  const xml = 'string <K>\n  <ITEM>1</ITEM>\n</K>';
  expect(ran).toEqual(
    printed(xml, xml, 'string <DOCUMENT>\nwords\n</DOCUMENT>', 'object {"a":1}', 'string {"a": 1}'),
  );
});

test.each([
  ['"yaml"', '"a"', '`yaml` is not a format'],
  ['"CSV"', '"a"', '`CSV` is not a format'],
  ['""', '"a"', '`` is not a format'],
  ['"json"', '"{a"', 'the source is not JSON'],
  ['"json"', '""', 'the source is not JSON'],
  ['"csv"', `'a,"b'`, 'a quote is not closed'],
])('is an error: format %s of %s', async (format, source, message) => {
  for (const form of [`, pipeline: [@upper]`, '']) {
    const { code, output } = await run(`show ${source} with { format: ${format}${form} }`);
    expect(output).toContain(message);
    expect(code).toBe(1);
  }
});

test('rows keep labels, also those of the word that says how they are read', async () => {
  const ran = await run(`
var secret @csv = "a,b\\nc,d"
var untrusted @json = '[1, 2]'
var pii @how = "csv"
exe @first(rows) = js { return rows[0][0] }
var @rows = @csv with { format: "csv" }
var @one = @csv with { format: "csv", pipeline: [@first] }
var @two = @json with { format: "json", pipeline: [@sort] }
var @x = @csv with { format: "xml", pipeline: [@trim] }
var @h = "a,b" with { format: @how, pipeline: [@sort] }
show \`@rows[1][1].mx.labels @one.mx.labels @two.mx.labels @x.mx.labels @h.mx.labels\`
guard @g before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]
show @rows[0][0]`);
  expect(ran.output).toContain('["secret"] ["secret"] ["untrusted"] ["secret"] ["pii"]\n');
  expect(ran.code).toBe(4);
});

// Guards: the operations that they judge, and the changes of labels that they may make.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { play } from '@kernmantle/test-support/script-world';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { diagnose } from '../src/index.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let fixture: Fixture;
let worker: ChildProcessWithoutNullStreams;
const waiting = new Map<string, (answer: Ran) => void>();

beforeAll(() => {
  fixture = makeFixture({});
  worker = spawn(process.execPath, ['--no-warnings', LAUNCHER, 'script', '--worker'], {
    cwd: fixture.root,
    env: { ...fixture.env, KERNMANTLE_SRC: '1' },
  });
  createInterface({ input: worker.stdout }).on('line', (line) => {
    const { id, ...answer } = JSON.parse(line) as Ran & { id: string };
    waiting.get(id)?.(answer);
  });
});
afterAll(() => {
  worker.kill();
  fixture.remove();
});

let jobs = 0;

/** Runs a script in a new folder; `name` decides the mode. */
function run(
  text: string,
  files: Readonly<Record<string, string>> = {},
  name = 'main.mld',
): Promise<Ran> {
  jobs += 1;
  const id = String(jobs);
  const work = join(fixture.root, `job-${id}`);
  for (const [path, content] of Object.entries({ ...files, [name]: text })) {
    mkdirSync(dirname(join(work, path)), { recursive: true });
    writeFileSync(join(work, path), content);
  }
  return new Promise((done) => {
    waiting.set(id, done);
    worker.stdin.write(`${JSON.stringify({ id, work, file: join(work, name) })}\n`);
  });
}

const lines = ({ out }: Pick<Ran, 'out'>): string[] => out.trimEnd().split('\n');
const show = (text: string): string[] => text.trimEnd().split('\n');

const SEND = `guard before net:w = when [
  @mx.op.type == "exe" && @mx.taint.includes("secret") => deny "stays here"
  * => allow
]
exe net:w @send(x) = when [
  denied => \`not sent: @mx.guard.reason\`
  * => [ output \`@x\` to "sent.txt"
    => "sent" ]
]
var secret @k = "k1"
`;

describe('a label filter and operations that have the label', () => {
  test('a call is judged before it happens, and its denied arm carries no label of the function', async () => {
    const ran = await run(`${SEND}var @r = @send(@k)
show \`@r @r.mx.labels\`
show @exists("sent.txt")
`);
    expect(ran).toMatchObject({ code: 0, out: 'not sent: stays here ["secret"]\nfalse\n' });
  });

  test('in markdown mode and from an imported module too', async () => {
    const module = `${SEND.replace('var secret @k = "k1"\n', '')}export { @send }\n`;
    const ran = await run(
      '/import { @send } from "./net.mld"\n/var secret @k = "k1"\n/show @send(@k)\n/show @send("open")\n',
      { 'net.mld': module },
      'main.md',
    );
    expect(ran.code).toBe(0);
    expect(lines(ran).filter((line) => line !== '')).toEqual(['not sent: stays here', 'sent']);
  });

  test('once for a call, with all inputs as a list, and in a pipeline for stage and call alike', async () => {
    const guard = `guard @g before net:w = when [
  let @told = \`@mx.op.type @input.length\`
  @say(@told) => allow
]
exe @say(x) = [ show @x  => true ]
exe net:w @f(a, b) = \`@a @b\`
`;
    const one = await play(`${guard}show @f("x", "y")`);
    expect([one.fault, show(one.text)]).toEqual(['', ['exe 2', 'show 3', 'x y']]);
    const piped = await play(`${guard}var @r = "x" | @f("y")\nshow "end"`);
    expect(piped.fault).toBe('');
    expect(show(piped.text).filter((line) => line.startsWith('exe'))).toEqual(['exe 2']);
  });

  test('a guard that was asked for an input is not asked for the operation as well', async () => {
    const { text, fault } = await play(`
guard @g before net = when [
  let @told = \`@mx.op.type @input\`
  @say(@told) => allow
]
exe @say(x) = [ show @x  => true ]
exe net:w @f(a, b) = "done"
var net:r @a = "A"
var @r = @f(@a, "b")
var net:q @b = "B"
var @s = @f(@a, @b)`);
    expect(fault).toBe('');
    expect(show(text).filter((line) => line.startsWith('exe'))).toEqual([
      'exe A',
      'exe A',
      'exe B',
    ]);
  });

  test('without inputs, and inside the function, `op:LABEL` is the filter', async () => {
    const inside = await play(`
guard before net:w = when [ @mx.op.type != "exe" && @mx.op.type != "var" => deny "inside"  * => allow ]
exe net:w @f(a) = [ log @a  => "done" ]
exe net:w @g() = [ log "x"  => "done" ]
show @f("x").length
show @g().length`);
    expect([inside.fault, inside.text]).toEqual([
      expect.stringMatching(/^permission_denied: show was denied/),
      '',
    ]);
    const none = await play(`
guard before net:w = when [ @mx.op.type == "exe" => deny "asked"  * => allow ]
exe net:w @g() = [ log "x"  => "done" ]
var @x = @g()
show "went"`);
    expect([none.fault, none.text]).toEqual(['', 'went\n']);
    const keyed = await play(`
guard before op:net:w = when [ @mx.op.type == "log" => deny "no logs"  * => allow ]
exe net:w @g() = [ log "x"  => "done" ]
var @x = @g()`);
    expect(keyed.fault).toMatch(/^permission_denied: log was denied/);
  });

  test('labels that `operations` of a policy gives count, and a wider filter covers them', async () => {
    const policy = 'policy @p = { operations: { "out:loud": ["op:cmd:echo"] } }\n';
    const guard = 'guard before out = when [ * => deny `not @input[0]` ]\n';
    const denied = await run(`${policy}${guard}var @x = "hi"\nrun cmd {echo "@x"}\n`);
    expect(denied).toMatchObject({ code: 4, out: '' });
    expect(denied.err).toContain('not hi');
    const other = await run(`${policy}${guard}var @x = "hi"\nrun cmd {printf '%s' "@x"}\n`);
    expect(other).toMatchObject({ code: 0, out: 'hi\n' });
  });

  test('a command that is the whole body of a function is known by what is really run', async () => {
    const f = 'exe @f(x) = cmd {echo "@x"}\nexe @g(p, x) = cmd {@p "@x"}\n';
    const labelled = `policy @p = { operations: { loud: ["op:cmd:echo"] } }
guard @quiet before loud = when [ * => deny "no noise" ]
`;
    const keyed = 'guard @quiet before op:cmd:echo = when [ * => deny "no noise" ]\n';
    for (const rules of [labelled, keyed]) {
      for (const call of ['show @f("a")', 'show @g("echo", "a")', 'show "a" | @f']) {
        const { fault, world } = await play(`${rules}${f}${call}`);
        expect(fault).toMatch(/denied by @quiet/);
        expect(world.commands).toEqual([]);
      }
      const free = await play(`${rules}${f}show @f("a") with { guards: false }`);
      expect(free.fault).toBe('');
    }
  });

  test('a tool has the labels and risks that it declares', async () => {
    const write = `exe @w(p) = [ => @tool("fs/write_file", { path: @p, content: "x" }) ]
`;
    const ran =
      await run(`guard before destructive = when [ @mx.args.path == "b.txt" => deny "not b"  * => allow ]
${write}var @a = @w("a.txt")
show "one"
var @b = @w("b.txt")
`);
    expect(ran).toMatchObject({ code: 4, out: 'one\n' });
    expect(ran.err).toContain('not b');
  });

  test('who was asked about the call is not asked again about its body', async () => {
    const { fault, text } = await play(`
policy @p = { operations: { loud: ["op:cmd"] } }
guard @a before loud = when [ @say("label") => allow ]
guard @b before op:cmd = when [ @say("kind") => allow ]
guard @c before op:cmd:echo = when [ @say("words") => allow ]
guard @d before pii = when [ @say("input") => allow ]
exe @say(x) = [ show @x  => true ]
exe @f(x) = cmd {echo "@x"}
var pii @v = "a"
var @r = @f(@v)
show "end"`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['input', 'input', 'label', 'kind', 'words', 'input', 'end']);
  });

  test('what code of a function calls is no part of that function', async () => {
    const { fault } = await play(`
guard @g before @inner = when [ * => deny "not inside" ]
exe @inner(x) = js { return x }
exe @outer(x) = js { return x }
var @r = @outer(@inner("a"))`);
    expect(fault).toMatch(/exe inner was denied by @g/);
  });

  test('an empty argument is an input, and an error in the guard denies', async () => {
    const { fault, text } = await play(`
guard before net:w = when [ @input[0] == "" => deny "empty"  @input.nobody() => allow ]
exe net:w @f(a) = when [ denied => \`no: @mx.guard.reason\`  * => "sent" ]
show @f("")
show @f("x")`);
    expect(fault).toBe('');
    expect(show(text)).toEqual([
      'no: empty',
      expect.stringMatching(/^no: .*could not be evaluated/),
    ]);
  });

  test('what it makes of the inputs keeps their labels, and the same data is replaced once', async () => {
    const { fault, text } = await play(`
guard @wrap before net:w = when [ @mx.op.type == "exe" => allow \`-@input[0]-\`  * => allow ]
exe net:w @inner(x) = [ show \`@x @x.mx.labels\`  => "in" ]
exe net:w @outer(x) = [ show @inner(@x)  => "out" ]
exe @mixed(x) = js { return x + "!" }
exe net:w @again(x) = [ show @inner(@mixed(@x))  => "out" ]
var secret @k = "k"
var @a = @outer(@k)
var @b = @again("o")`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['-k- ["secret"]', 'in', '--o-!- []', 'in']);
  });

  test('a list replaces inputs by position', async () => {
    const { fault, text } = await play(`
guard @up before net:w = when [ @mx.op.type == "exe" => allow @both(@input)  * => allow ]
exe @both(list) = js { return list.map((one) => one.toUpperCase()) }
exe net:w @f(a, b) = [ show \`@a @b\`  => "done" ]
var @r = @f("x", "y")`);
    expect([fault, text]).toEqual(['', 'X Y\n']);
  });

  test('hooks have the same filters', async () => {
    const { fault, text } = await play(`
hook before net:w = [ show \`before @mx.op.type @input\` ]
hook after secret = [ show \`after @mx.op.type\` ]
exe net:w @f(x) = [ => "done" ]
exe net:w @none() = [ => "done" ]
var @r = @f("a")
var @n = @none()
var secret @s = "s"
show "x"`);
    expect(fault).toBe('');
    expect(show(text)).toEqual([
      'before exe ["a"]',
      'before var done',
      'before var done',
      'after var',
      'x',
    ]);
  });

  test('`with { guards: false }` leaves it out, a privileged one never', async () => {
    const call = `exe net:w @f(a) = [ => "sent" ]
var @r = @f("x") with { guards: false }
show "went"`;
    const free = await play(`guard @g before net:w = when [ * => deny "no" ]\n${call}`);
    expect([free.fault, show(free.text).at(-1)]).toEqual(['', 'went']);
    const held = await play(`guard privileged @g before net:w = when [ * => deny "no" ]\n${call}`);
    expect(held.fault).toMatch(/^permission_denied: exe f was denied by @g/);
  });
});

describe('effects have no result', () => {
  const ok = `guard after @ok for draft = when [
  @output != "good" && @mx.guard.try < 2 => retry "again"
  * => allow
]
`;
  test('a retry of an assignment is not asked again at the show', async () => {
    const ran =
      await run(`${ok}exe @make() = js { globalThis.k = (globalThis.k ?? 0) + 1; return globalThis.k > 1 ? "good" : "bad" }
var draft @v = @make()
show \`result: @v\`
`);
    expect(ran).toMatchObject({ code: 0, out: 'result: good\n' });
  });

  test.each([
    'show @s',
    'log @s',
    'output @s to "o.txt"',
    'append @s to "o.txt"',
    'var @t = @s | show | @upper',
  ])('a label filter judges no effect after the fact: %s', async (effect) => {
    const { fault } = await play(`
guard after secret = when [ @mx.op.type == "var" || @mx.op.type == "pipeline-stage" => allow  * => deny "after" ]
var secret @s = "k"
${effect}`);
    expect(fault).toBe('');
  });

  test('`after op:show` does, and before it is judged by its label', async () => {
    const after = await play(
      'guard after op:show = when [ * => deny "no" ]\nvar secret @s = "k"\nshow @s',
    );
    expect([after.fault, after.text]).toEqual([expect.stringMatching(/^permission_denied/), '']);
    const before = await play(
      'guard before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]\nvar secret @s = "k"\nshow @s',
    );
    expect([before.fault, before.text]).toEqual([expect.stringMatching(/^permission_denied/), '']);
  });

  test('a pipeline does not stream while a guard judges what comes of it', async () => {
    const { fault } = await play(
      `${ok}exe @f(v) = js { return v }\nvar draft @r = "bad" with { pipeline: [@f], stream: true }`,
    );
    expect(fault).toMatch(/^invalid_input: .*cannot stream/);
  });
});

const CLEAN = `guard privileged @clean after pii = when [
  @output.startsWith("ok") => trusted!,!pii @output
  * => allow with { addLabels: ["checked"] }
]
exe @a() = [ => pii,untrusted "ok 1" ]
exe @b() = [ => pii "no 2" ]
var @x = @a()
var @y = @b()
show \`@x.mx.labels @y.mx.labels\`
`;

describe('changes of labels', () => {
  test('as a list, and in the long form without a value', async () => {
    expect(await run(CLEAN)).toMatchObject({ code: 0, out: '["trusted"] ["pii","checked"]\n' });
  });

  test('without `privileged` the removal is refused where it is reached, and check reports it', async () => {
    const text = CLEAN.replace('privileged ', '');
    const ran = await run(text);
    expect(ran).toMatchObject({ code: 4, out: '' });
    expect(ran.err).toContain('main.mld:7:');
    expect(diagnose(text, 'main.mld', 'strict')).toMatchObject([
      { line: 2, code: 'script_label_removed', severity: 'error' },
    ]);
    expect(diagnose(CLEAN, 'main.mld', 'strict')).toEqual([]);
    const unreached = await run(text.replaceAll('"ok 1"', '"no 1"'));
    expect(unreached).toMatchObject({
      code: 0,
      out: '["pii","untrusted","checked"] ["pii","checked"]\n',
    });
  });

  test.each([
    ['=> !pii @input[0]', 'a,b'],
    ['=> !pii', 'a,b'],
    ['=> !pii,!a @input[0]', 'b'],
    ['=> c,!pii @input[0]', 'a,b,c'],
    ['=> c,d @input[0]', 'pii,a,b,c,d'],
    ['=> clear! @input[0]', ''],
    ['=> clear!', ''],
    ['=> clear!,c @input[0]', 'c'],
    ['=> !pii,pii @input[0]', 'a,b,pii'],
    ['=> allow @input[0] with { removeLabels: ["pii", "b"] }', 'a'],
    ['=> allow with { removeLabels: ["pii"], addLabels: ["c"] }', 'a,b,c'],
    ['=> allow with { removeLabels: [] }', 'pii,a,b'],
    ['=> allow with { removeLabels: ["src:user", "nobody"] }', 'pii,a,b'],
  ])('before an operation: %s', async (arm, labels) => {
    const { fault, text } = await play(`
guard privileged @g before op:exe = when [
  @mx.op.name == "f" ${arm}
  * => allow
]
exe @f(x, y) = [ show \`(@x.mx.labels.join(",")) @y.mx.labels\` => "" ]
var pii,a,b @v = "v"
var pii @w = "w"
run @f(@v, @w)`);
    expect(fault).toBe('');
    // Only the first input has a name.
    expect(text).toBe(`(${labels}) ["pii"]\n`);
  });

  test('a label that came through the container goes too, and other elements keep exactly theirs', async () => {
    const { fault, text } = await play(`
guard privileged @g after op:exe = when [ @mx.op.name == "f" => !pii @output  * => allow ]
guard privileged @h after op:var = when [ @mx.op.name == "l" => allow with { removeLabels: ["pii"] }  * => allow ]
exe @f(x) = [ => @x.name ]
var pii @box = { "name": "Ann" }
var @n = @f(@box)
var secret @s = "k"
var pii @q = "p"
var @l = [@s, @q, "o"]
show \`@n.mx.labels @l.mx.labels @l[0].mx.labels @l[1].mx.labels @l[2].mx.labels\``);
    expect([fault, text]).toEqual(['', '[] ["secret"] ["secret"] [] []\n']);
  });

  test('from an imported module of the project, and in a pipeline', async () => {
    const module = `guard privileged @clean after pii = when [ @mx.op.type == "pipeline-stage" => !pii,checked  * => allow ]
exe @mark(x) = [ => pii,known @x ]
exe @drop(x) = [ => !known @x ]
`;
    const ran = await run(
      `import { @mark, @drop } from "./labels.mld"
var secret @k = "k"
var @a = @k | @mark
var @b = @mark(@k)
show \`@a.mx.labels.sort() @b.mx.labels.sort()\`
show @drop(@a)
`,
      { 'labels.mld': module },
    );
    expect(ran).toMatchObject({
      code: 4,
      out: '["checked","known","secret"] ["known","pii","secret"]\n',
    });
  });

  test('where data came from is never removed', async () => {
    const ran = await run(
      `guard privileged @g after op:var = when [ * => clear! @output ]
var @f = <private/a.txt>
show @f.mx.taint
`,
      { 'private/a.txt': 'x' },
    );
    expect(ran.code).toBe(0);
    expect(ran.out).toContain('src:file');
    expect(ran.out).toContain('dir:');
  });

  test.each([
    ['`t`', 't'],
    ['5', '5'],
    ['-3', '-3'],
    ['true', 'true'],
    ['null', 'null'],
    ['@x.length', '2'],
    ['!@x', 'false'],
    ['(1 + 2)', '3'],
    ['["a"]', '["a"]'],
    ['{ "k": 1 }', '{"k":1}'],
    ['when [ * => "w" ]', 'w'],
    ['cmd {echo hi}', 'hi'],
    ['js { return 7 }', '7'],
    ['@x | @upper', 'XY'],
  ])('`=> l1,l2 VALUE` takes any value: %s', async (value, shown) => {
    const { fault, text } = await play(`exe @f(x) = [ => one,two:b ${value} ]
var secret,untrusted @x = "xy"
var @r = @f(@x)
show \`@r @r.mx.labels.sort()\``);
    expect([fault, text]).toEqual(['', `${shown} ["one","secret","two:b","untrusted"]\n`]);
  });

  test('a removal in a function is refused where it is reached, whoever calls it', async () => {
    const text = `exe @drop(x) = [ if @x [ => !pii @x ]
  => "kept" ]
var @v = ""
show @drop(@v)
var pii @w = "w"
show @drop(@w)
`;
    expect(await run(text)).toMatchObject({ code: 4, out: 'kept\n' });
    expect(diagnose(text, 'main.mld', 'strict')).toMatchObject([
      { line: 1, code: 'script_label_removed', severity: 'error' },
    ]);
    const guard =
      'guard privileged @g after op:var = when [ @drop(@output) => allow  * => allow ]\n';
    const inGuard = await run(`${guard}${text}`);
    expect(inGuard).toMatchObject({ code: 4, out: 'kept\n' });
    expect(inGuard.err).toContain('var w was denied by @g');
  });

  test.each([
    ['=> denny "no"', /`denny` is not a decision/],
    ['=> checked', /not a value|must decide/],
    ['=> pii! @output', /`pii!` is not a change of labels/],
    ['=> trusted!, @output', /trusted/],
  ])('a slip is no label: %s', async (arm, message) => {
    const { fault } = await play(`guard after pii = when [ * ${arm} ]`);
    expect(fault).toMatch(/^invalid_item/);
    expect(fault).toMatch(message);
  });

  test('check says which labels nobody removes', () => {
    const text =
      'guard privileged after pii = when [ * => allow with { removeLabels: ["src:js"] } ]';
    expect(diagnose(text, 'main.mld', 'strict')).toMatchObject([
      { code: 'script_label_removed', severity: 'warning' },
    ]);
  });
});

describe('what a guard made', () => {
  test('has the source `guard:NAME`', async () => {
    const ran = await run(`guard @tidy before raw = when [
  @mx.op.type == "exe" => allow @input.trim()
  * => allow
]
exe @origin(v) = \`[@v] @v.mx.sources\`
var raw @x = "  a "
show @origin(@x)
`);
    expect(ran).toMatchObject({ code: 0, out: '[a] ["guard:tidy"]\n' });
  });

  test.each([
    ['raw', 'guard:raw'],
    ['op:exe', 'guard:op:exe'],
    ['@origin', 'guard:@origin'],
  ])('without a name it is known by its filter: %s', async (filter, source) => {
    const { fault, text } = await play(`
guard before ${filter} = when [ @mx.op.name == "origin" => allow "b"  * => allow ]
exe @origin(v) = \`[@v] @v.mx.sources\`
var raw @x = "a"
show @origin(@x)`);
    expect([fault, text]).toEqual(['', `[b] ["${source}"]\n`]);
  });
});

describe('what a guard can know', () => {
  const RELEASE = `guard before release = when [
  @mx.op.type == "exe" && !@mx.tools.history[*].name.includes("check") => deny \`unchecked @mx.args.names\`
  * => allow
]
exe @load() = \`text\`
exe @check(t) = \`checked @t\`
exe release @publish(t) = when [
  denied => \`no: @mx.guard.reason\`
  * => \`out: @t\`
]
`;

  test('who made what is judged, and how the arguments are called', async () => {
    const ran = await run(
      `${RELEASE}var @raw = @load()\nshow @publish(@raw)\nshow @publish(@check(@raw))\n`,
    );
    expect(ran).toMatchObject({ code: 0, out: 'no: unchecked ["t"]\nout: checked text\n' });
  });

  test('a literal has no history; a pipeline has that of its stages', async () => {
    const { fault, text } = await play(
      `${RELEASE}show @publish("mine")\nshow "x" | @check | @publish`,
    );
    expect(fault).toBe('');
    expect(show(text)).toEqual(['no: unchecked ["t"]', 'out: checked x']);
  });

  test('what merely decided about a value has not made it', async () => {
    const { fault, text } = await play(
      `${RELEASE}var @r = when [ @check("x") => @publish("mine")  * => "" ]\nshow @r`,
    );
    expect([fault, text]).toEqual(['', 'no: unchecked ["t"]\n']);
  });

  test('for an operation filter it is that of all inputs, each entry once; after, of the result', async () => {
    const { fault, text } = await play(`
guard always @f = when [
  let @told = @mx.tools.history[*].name.join("+")
  @say(@told) => allow
]
exe @say(x) = [ show @x  => true ]
exe @a() = "a"
exe @b(x) = \`b @x\`
exe @f(x, y, z) = "f"
var @r = @f(@a(), @b(@a()), "z")
show @mx.tools.history`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['a+b', 'a+b+f', '[]']);
  });

  test('where something is logged or shown, they are those of the call', async () => {
    const ran = await run(`guard @g before @f = when [
  * => [ log \`@mx.args.names @mx.args.t\`
    allow ]
]
exe @f(t) = [
  show \`@mx.args.names @mx.args.t\`
  => @shown(@mx.args.t)
]
exe @shown(v) = \`@v.mx.labels\`
guard @no before secret = when [ @mx.op.type == "show" => deny "hidden"  * => allow ]
show @f("a")
var secret @k = "k"
show @f(@k)
`);
    expect(ran).toMatchObject({ code: 4, out: '["t"] a\n[]\n' });
    expect(ran.err).toContain('["t"] a\n["t"] k');
    expect(ran.err).toContain('hidden');
  });

  test('an argument called `names` is reached in brackets', async () => {
    const { fault, text } = await play(`
exe @f(names, t) = \`@mx.args.names @mx.args["names"] @mx.args.t\`
exe @j(a, b) = js { return mx.args.names.join("+") + ctx.args.a }
exe @none() = \`@mx.args.names\`
show @f(1, 2)
show @j(1, 2)
show @none()`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['["names","t"] 1 2', 'a+b1', '[]']);
  });

  test('names and history carry the labels of what they tell about', async () => {
    const { fault, effects } = await play(`
guard before @f = when [
  let @names = \`@mx.args.names\`
  let @history = \`@mx.tools.history\`
  @say(@names) && @say(@history) => allow
]
exe @say(x) = [ show @x  => true ]
exe @f(x) = "f"
var secret,untrusted @k = "k"
var @r = @f(@k)`);
    expect(fault).toBe('');
    const told = effects.filter(({ kind }) => kind === 'show');
    expect(told).toHaveLength(2);
    for (const { labels } of told) expect(labels).toEqual(['secret', 'untrusted']);
  });

  test('`@mx.guard` elsewhere is an error', async () => {
    expect(await run('show `why: @mx.guard.reason`\n')).toMatchObject({ code: 1, out: '' });
    for (const text of [
      'show @mx.guard',
      'var @x = @ctx.guard.name',
      'exe @f() = `@mx.guard.reason`\nshow @f()',
      'show @mx["guard"].reason',
      'show `why: @ctx["guard"].reason`',
    ]) {
      const { fault } = await play(text);
      expect(fault).toMatch(/only in guards and denied arms/);
    }
  });

  test('in conditions and `?` forms it is undefined, and in what guards and denied arms call it is there', async () => {
    const { fault, text } = await play(`
exe @why() = \`@mx.guard.name\`
guard @g before @f = when [ @why() == "@g" || @why() == "g" => deny @why()  * => allow ]
exe @f(x) = when [ denied => \`@mx.guard.reason by @why()\`  * => "went" ]
if @mx.guard [ show "no" ] else [ show "none" ]
when @mx.guard.reason == "x" => show "no"
show @mx.guard.reason ?? "nothing"
show \`a@mx.guard.reason??"b"\`
show @f(1)`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['none', 'nothing', 'ab', expect.stringMatching(/ by /)]);
  });
});

describe('denied arms', () => {
  const F = `guard before @f = when [ @input.any.text.includes("no") => deny "refused"  * => allow ]
exe net:w,untrusted @f(x, y) = when [
  !denied => \`went @x\`
  denied => \`@mx.guard.reason @x @mx.args.names @mx.denied\`
]
`;
  test('`!denied` matches when nothing was denied', async () => {
    const { fault, text } = await play(`${F}show @f("yes", 1)\nshow @f("no", 1)`);
    expect(fault).toBe('');
    expect(show(text)).toEqual(['went yes', 'refused no ["x","y"] true']);
  });

  test('the answer carries the labels of the arguments, also of those it did not use', async () => {
    const { fault, text } = await play(`${F}var secret @s = "no"
var untrusted,pii @u = "u"
var @r = @f(@s, @u)
show \`@r.mx.labels @r.mx.taint\`
var @q = "no" | @f(@s)
show @q.mx.labels
var secret @t = "t"
var @w = @f("yes", @t)
show @w.mx.labels.sort().join(" ")`);
    expect(fault).toBe('');
    expect(show(text)).toEqual([
      '["secret","untrusted","pii"] ["secret","untrusted","pii"]',
      '["secret"]',
      'net:w secret untrusted',
    ]);
  });

  test('what was denied inside a body that had begun carries all of it', async () => {
    const { fault, text } = await play(`
guard before op:log = when [ * => deny "no logs" ]
exe net:w @f(x) = when [
  denied => "quiet"
  * => [ log @x  => "went" ]
]
var secret @s = "s"
var @r = @f(@s)
show \`@r @r.mx.labels\``);
    expect([fault, text]).toEqual(['', 'quiet ["secret","net:w"]\n']);
  });

  test('a reason carries what it was made of and what chose it, and so does a replacement', async () => {
    const { fault, text } = await play(`
var secret @k = "key"
var pii @who = "Ann"
guard before @f = when [ @who == "Ann" => deny \`because @k\`  * => allow ]
guard before @g = when [ @who == "Ann" => allow @k  * => allow ]
exe net:w @f(x) = when [ denied => @mx.guard.reason  * => "went" ]
exe @g(x) = [ => @x ]
var @r = @f("a")
var @s = @g("a")
show \`@r.mx.labels @s.mx.labels\``);
    expect([fault, text]).toEqual(['', '["secret","pii"] ["secret","pii"]\n']);
  });

  test('what was denied while an argument was made is on the answer too', async () => {
    const { fault, text } = await play(`
guard before @make = when [ * => deny "not made" ]
exe pii @make(x) = \`made @x\`
exe net:w @f(x) = when [ denied => @mx.guard.reason  * => "went" ]
var secret @s = "s"
var @r = @f(@make(@s))
show \`@r @r.mx.labels\``);
    expect(fault).toBe('');
    expect(text).toMatch(/^not made \["secret"/);
    expect(text).not.toContain('net:w');
  });
});

// Property: an unprivileged guard never removes a label.

const LABELS = ['secret', 'untrusted', 'pii', 'net:w', 'a'];
const change = fc.record({
  add: fc.subarray(['checked', 'untrusted', 'trusted', 'pii']),
  remove: fc.subarray([...LABELS, 'src:js', 'dir:x']),
  clear: fc.boolean(),
  long: fc.boolean(),
  value: fc.constantFrom('', '"new"', '@kept(@V)'),
});

function armOf(
  {
    add,
    remove,
    clear,
    long,
    value: given,
  }: typeof change extends fc.Arbitrary<infer T> ? T : never,
  name: string,
): string {
  const value = given.replace('@V', name);
  const list = [...(clear ? ['clear!'] : []), ...remove.map((one) => `!${one}`), ...add];
  const quoted = (items: readonly string[]) => JSON.stringify(items);
  if (long || list.length === 0 || (value === '' && !list.some((one) => one.includes('!'))))
    return `allow ${value} with { addLabels: ${quoted(add)}, removeLabels: ${quoted(remove)} }`;
  return `${list.join(',')} ${value}`;
}

test('no guard without privilege and no function takes a label away, and nobody `src:` or `dir:`', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.subarray(LABELS, { minLength: 1 }),
      fc.constantFrom('pii', 'secret', 'op:exe', 'op:var', '@f', 'a', 'net'),
      fc.constantFrom('before', 'after', 'always'),
      fc.boolean(),
      change,
      async (labels, filter, timing, privileged, edit) => {
        const name = timing === 'after' ? '@output' : '@input';
        const { fault, effects } = await play(`
exe @kept(x) = [ => @x ]
guard ${privileged ? 'privileged ' : ''}@g ${timing} ${filter} = when [ * => ${armOf(edit, name)} ]
exe net:w @f(x, y) = js { return String(x) + y }
var ${labels.join(',')} @v = "v"
var @r = @f(@v, "w") with { guards: { only: ["@g"] } }
show @r`);
        if (fault !== '') {
          expect(fault).toMatch(/^permission_denied: .*only a privileged guard may remove labels/);
          expect(privileged).toBe(false);
          return;
        }
        const shown = effects.find(({ kind }) => kind === 'show');
        expect(shown?.taint).toContain('src:js');
        if (privileged) return;
        // Adding `untrusted` removes `trusted`; no other label is removed.
        expect(shown?.labels).toEqual(expect.arrayContaining([...labels, 'net:w']));
      },
    ),
    { numRuns: runs(60) },
  );
});

test('a label filter sees an operation that has the label and inputs, once and before it is performed', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.subarray(['net:r', 'pii']), { maxLength: 3 }),
      fc.constantFrom('net:w', 'net', 'net:w:x'),
      fc.constantFrom('declared', 'policy'),
      fc.boolean(),
      async (inputs, filter, by, isStage) => {
        const names = inputs.map((_, at) => `p${at}`);
        const label = filter === 'net:w:x' ? 'net:w:x:y' : 'net:w';
        const { fault, text } = await play(`
${by === 'policy' ? `policy @pol = { operations: { "${label}": ["op:js"] } }` : ''}
guard @g before ${filter} = when [
  let @told = \`asked @input.length @mx.op.name\`
  @mx.op.type == "exe" && @say(@told) => allow
]
exe @say(x) = [ show @x  => true ]
exe ${by === 'declared' ? label : ''} @f(${names.join(', ')}) = js { return "body" }
${inputs.map((labels, at) => `var ${labels.join(',')} @v${at} = "v${at}"`).join('\n')}
var @r = ${
          isStage && inputs.length > 0
            ? `@v0 | @f(${names
                .slice(1)
                .map((_, at) => `@v${at + 1}`)
                .join(', ')})`
            : `@f(${inputs.map((_, at) => `@v${at}`).join(', ')})`
        }
show "end"`);
        expect(fault).toBe('');
        const asked = show(text).filter((line) => line.startsWith('asked'));
        const carrying = inputs.filter((labels) => filter === 'net' && labels.includes('net:r'));
        if (carrying.length > 0) expect(asked).toHaveLength(carrying.length);
        else expect(asked).toEqual(inputs.length === 0 ? [] : [`asked ${inputs.length} f`]);
      },
    ),
    { numRuns: runs(60) },
  );
});

describe('what guards and hooks put in is judged by policies as well', () => {
  const ECHO = 'policy @p = { deny: ["cmd:echo:bad"] }\n';

  test.each([
    ['a guard on operations', 'guard before op:run = when [ * => allow "bad" ]'],
    [
      'a guard on a label',
      'guard before pii = when [ @mx.op.type == "run" => allow "bad"  * => allow ]',
    ],
    ['a hook', 'hook before op:run = [ => "bad" ]'],
  ])('%s makes no other command past a policy', async (_, rule) => {
    const ran = await run(`${ECHO}${rule}\nvar pii @x = "ok"\nrun cmd {echo @x}`);
    expect(ran).toMatchObject({ code: 4, out: '' });
    expect(ran.err).toContain('denied by `cmd:echo:bad`');
  });

  test('nor a dangerous one; what is allowed is done once', async () => {
    const rule = 'policy @p = { allow: ["cmd:*"] }\nhook before op:run = [ => `@input[0]f` ]\n';
    const ran = await run(`${rule}var @x = "-r"\nrun cmd {rm @x none}`);
    expect(ran).toMatchObject({ code: 4, out: '' });
    expect(ran.err).toContain('is dangerous');
    const echo = await run(`${rule}var @x = "a"\nrun cmd {echo @x}`);
    expect(echo).toMatchObject({ code: 0, out: 'af\n', err: '' });
  });

  test('a secret that a guard puts into the arguments does not leave', async () => {
    const text = (value: string) => `var secret @k = "KEY"
guard before @send = when [ * => allow ${value} ]
exe exfil @send(x, y) = when [ denied => \`kept: @mx.guard.reasons\`  * => \`sent @x @y\` ]
show @send("a", "b")`;
    const kept = 'kept: ["secrets do not leave"]\n';
    expect(await run(text('@k'))).toMatchObject({ code: 0, out: kept });
    expect(await run(text('["c", @k]'))).toMatchObject({ code: 0, out: kept });
    expect(await run(text('["c", "d"]'))).toMatchObject({ code: 0, out: 'sent c d\n' });
  });
});

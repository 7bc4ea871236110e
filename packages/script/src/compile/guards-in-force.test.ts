// A guard judges the real inputs of an operation before it happens. A mistake in a guard denies.
import { createWorldFixture, play } from '@kernmantle/test-support/script-world';
import { describe, expect, test } from 'vitest';
import { unboundIn } from '../execute-script.ts';
import { parseScript } from '../syntax/parse.ts';

const TOKEN = 'var secret @tok = "ran.txt"\n';
const MODULE =
  'var secret @tok = "ran.txt"\nexe @s() = cmd {cp a.txt @tok}\nexe @one(x) = cmd {cp a.txt @x}\nexport { s, one }\n';

/** Returns everything that left the script, and the fault. */
async function tried(script: string) {
  const world = createWorldFixture({ 'a.txt': 'A', 'm.mld': MODULE });
  const reached: string[] = [];
  const { fault } = await play(script, {
    world: {
      ...world,
      code(request) {
        reached.push(request.source);
        return world.code(request, undefined as never);
      },
      model(request, frame) {
        reached.push(request.prompt.text);
        return world.model(request, frame);
      },
      tool(id, parameters, frame) {
        reached.push(id);
        return world.tool(id, parameters, frame);
      },
      writeFile(request, frame) {
        reached.push(request.path);
        return world.writeFile(request, frame);
      },
    },
  });
  return { reached: [...reached, ...world.commands], fault };
}

const CAPTURED: readonly (readonly [body: string, script: string])[] = [
  ['a command', 'exe @s() = cmd {cp a.txt @tok}\n@s()'],
  ['a command in quotes', 'exe @s() = cmd {sh -c "cp a.txt @tok"}\n@s()'],
  ['a command beside a parameter', 'exe @s(x) = cmd {cp @x @tok}\n@s("a.txt")'],
  ['a command that runs', 'exe @s() = run cmd {cp a.txt @tok}\n@s()'],
  ['stdin', 'exe @s() = cmd {tee a.txt} with { stdin: @tok }\n@s()'],
  ['`using`', 'exe @s() = sh {cp a.txt $T} using @tok as T\n@s()'],
  ['a folder', 'exe @s() = cmd:@tok {touch x}\n@s()'],
  ['sh', 'exe @s() = sh (@tok) {cp a.txt $tok}\n@s()'],
  ['node', 'exe @s() = node (@tok) {require("fs").writeFileSync(tok, "x")}\n@s()'],
  ['py', 'exe @s() = py (@tok) {open(tok, "w")}\n@s()'],
  ['js', 'exe @s() = js (@tok) {return tok.length}\nshow @s()'],
  ['a template', 'exe @s() = `it is @tok`\nrun cmd {echo @s()}'],
  ['prose', 'exe @s() = prose {say @tok}\n@s()'],
  ['llm beside a parameter', 'exe @s(x) = llm "say @x @tok"\n@s("a")'],
  ['prose in an assignment', 'var @x = prose {say @tok}'],
  ['another function', 'exe @t() = cmd {cp a.txt @tok}\nexe @s() = @t()\n@s()'],
  ['a loop', 'exe @s() = for @i in [1, 2] => cmd {cp a.txt @tok}\n@s()'],
  ['a block', 'exe @s() = [\n  let @y = "@tok"\n  => cmd {touch @y}\n]\n@s()'],
  ['`when`', 'exe @s() = when [ 1 == 1 => cmd {cp a.txt @tok} ]\n@s()'],
  ['a condition', 'exe @s() = when [ @tok == "ran.txt" => cmd {touch b} ]\n@s()'],
  ['a pipeline', 'exe @s() = @tok | cmd {xargs touch}\n@s()'],
  ['a stage', 'exe @t(x) = cmd {cp @x @tok}\nshow "a.txt" | @t'],
  ['a method', 'exe @t() = cmd {cp a.txt @tok}\nvar @o = { send: @t }\n@o.send()'],
  ['a tool', 'exe @s() = @tool("fs/x", { path: @tok })\n@s()'],
  ['a file', 'exe @s() = [ output "x" to "@tok"\n => 1 ]\n@s()'],
  ['a file to append to', 'exe @s() = [ append "x" to @tok\n => 1 ]\n@s()'],
  ['`foreach`', 'exe @t(x) = cmd {cp @x @tok}\nshow foreach @t(["a.txt"])'],
  ['a parallel loop', 'exe @t(x) = cmd {cp @x @tok}\nfor parallel(2) @x in ["a", "b"] => @t(@x)'],
  ['an imported function', 'import { s } from "./m.mld"\n@s()'],
];

describe('a label guard comes before the effect for what is captured from outside', () => {
  const GUARD = 'guard @g before secret = when [ @mx.op.type == "var" => allow  * => deny "no" ]\n';

  test.each(CAPTURED)('%s', async (_body, script) => {
    const { reached, fault } = await tried(`${TOKEN}${GUARD}${script}`);
    expect(reached).toEqual([]);
    expect(fault).toMatch(/^permission_denied: .*no$/);
  });

  test('a guard that lets the argument pass is asked about what is captured beside it', async () => {
    const only = 'guard @g before secret = when [ @input == "ran.txt" => deny "no"  * => allow ]\n';
    const script = `var @tok = "ran.txt"\nvar secret @s = [@tok]\n${only}var secret @ok = "fine"\nexe @f(x) = cmd {cp @x @s[0]}\n@f(@ok)`;
    const { reached, fault } = await tried(script);
    expect(reached).toEqual([]);
    expect(fault).toContain('no');
  });

  test('it is asked once about an argument', async () => {
    const count = 'guard @g before secret = when [ * => [ log "asked @mx.op.type"\n => allow ] ]\n';
    const script = `${TOKEN}${count}exe @f(x) = cmd {echo @x}\nshow @f(@tok).length`;
    const { effects } = await play(script);
    const asked = effects.flatMap((effect) => ('text' in effect ? [effect.text.trim()] : []));
    expect(asked.filter((text) => text.startsWith('asked exe'))).toHaveLength(1);
    expect(asked.filter((text) => text.startsWith('asked run'))).toHaveLength(0);
  });
});

describe('a policy judges what a function with a label takes from outside like an argument', () => {
  const RULES = `policy @p = { defaults: { rules: ["no-secret-exfil"] } }\n${TOKEN}var @cfg = { url: "u", key: @tok }\n`;

  test.each([
    '`@tok`',
    '@tok',
    '{ a: @tok }',
    '@cfg.key',
    'for @i in [1, 2] => `@tok @i`',
    'for parallel(2) @i in [1, 2] => @tok',
    'for @i in [1, 2] => @t()',
    'foreach @id([@tok])',
    'loop(2) [ => @tok ]',
    'when [ 1 == 1 => @tok ]',
    'when [ @tok == "K" => 1  * => 2 ]',
    'if 1 == 1 [ => @tok ]',
    '[ let @y = @tok\n => @y ]',
    '[ for @i in [1] => show "@tok"\n => 1 ]',
    '1 == 1 ? @tok : 2',
    '@tok | @trim',
    '@t()',
    'run @t()',
    '"@tok" with { timeout: "2s" }',
    'cmd {echo @tok}',
    'js (@tok) {return 1}',
    'prose {say @tok}',
  ])('%s', async (body) => {
    const functions = 'exe @id(x) = @x\nexe @t() = `@tok`\n';
    const { text, fault } = await play(
      `${RULES}${functions}exe exfil @s() = ${body}\nvar @x = @s()\nshow "out"`,
    );
    expect(text).toBe('');
    expect(fault).toContain('secrets do not leave');
  });

  test('what carries no such label is let in, also a field beside one', async () => {
    const body = 'for @i in [1] => `@cfg.url @i`';
    const { text, fault } = await play(`${RULES}exe exfil @s() = ${body}\nshow @s()`);
    expect(fault).toBe('');
    expect(text).toContain('u 1');
  });
});

describe('`@mx.op.type == "run"` sees everything that a `run` runs', () => {
  const GUARD = 'guard before secret = when [ @mx.op.type == "run" => deny "no"  * => allow ]\n';
  const SEND = 'exe @send(t) = cmd {touch @t}\n';

  test.each([
    'run @send(@tok)',
    'run @send("@tok")',
    'run @send(@tok) | @trim',
    'run @tok | @send',
    'run @send(@tok) with { timeout: "5s" }',
    'var @x = run @send(@tok)',
    'exe @w() = run @send(@tok)\n@w()',
    'exe @w(x) = run @send(@x)\n@w(@tok)',
    'exe @w() = [ run @send(@tok)\n => 1 ]\n@w()',
    'for @t in [@tok] => run @send(@t)',
    'when [ 1 == 1 => run @send(@tok) ]',
    'var @o = { f: @send }\nrun @o.f(@tok)',
    'exe @t(x) = @tool("fs/x", { path: @x })\nrun @t(@tok)',
    'exe @t(x) = prose {say @x}\nrun @t(@tok)',
    'import { one } from "./m.mld"\nrun @one(@tok)',
    'run {touch @tok}',
  ])('%s', async (script) => {
    const { reached, fault } = await tried(`${TOKEN}${GUARD}${SEND}${script}`);
    expect(reached).toEqual([]);
    expect(fault).toMatch(/^permission_denied: .*no$/);
  });

  test('a call outside `run` has its own type, and a `denied` arm answers for the call', async () => {
    const arm = 'exe @m(t) = when [ denied => `no: @mx.guard.reason`  * => @send(@t) ]\n';
    const { text } = await play(`${TOKEN}${GUARD}${SEND}${arm}run @m(@tok)`);
    expect(text.trim()).toBe('no: no');
    const { fault } = await play(`${TOKEN}${GUARD}${SEND}var @x = @send(@tok)`);
    expect(fault).toBe('');
  });
});

describe('a guard with a mistake in it denies, and `check` says where', () => {
  const diagnosed = (text: string): string[] => {
    const { script } = parseScript(text, { mode: 'strict', file: 'a.mld' });
    return script
      ? unboundIn(script, {}).map(({ severity, message }) => `${severity}: ${message}`)
      : [];
  };
  const around = (condition: string) =>
    `guard @g before op:show = when [ ${condition} => deny "x"  * => allow ]\nshow "a"`;

  test.each([
    ['@inptu.any.mx.labels.includes("secret")', '@inptu'],
    ['@inptu', '@inptu'],
    ['!@inptu', '@inptu'],
    ['@inptu == "a"', '@inptu'],
    ['@inptu == null && 1 == 2', '@inptu'],
    ['1 == 2 || @inptu', '@inptu'],
    ['(@inptu ?? "b") == "a"', '@inptu'],
    ['"@inptu" == "a"', '@inptu'],
    ['`:@inptu` == "a"', '@inptu'],
    ['@input.includes(@inptu)', '@inptu'],
    ['@mx.op.tpye == "show"', 'tpye'],
    ['@ctx.oop.type == "show"', 'oop'],
  ])('%s', async (condition, name) => {
    const { text, fault } = await play(around(condition));
    expect(text).toBe('');
    expect(fault).toContain('the guard could not be evaluated');
    expect(fault).toContain(name);
    expect(diagnosed(around(condition)).join('\n')).toMatch(new RegExp(`error: .*${name}.*`));
  });

  test('a mark that no value has', async () => {
    const { text, fault } = await play(around('@input[0].mx.lables == "a"'));
    expect(text).toBe('');
    expect(fault).toContain('lables');
  });

  test.each([
    'exe @bad(x) = when [ @xx == "a" => true ]\n',
    'exe @inner(x) = `@xx`\nexe @bad(x) = when [ @inner(@x) == "a" => true ]\n',
  ])('in what it calls: %s', async (functions) => {
    const script = `${functions}${around('@bad(@input)')}`;
    const { text, fault } = await play(script);
    expect(text).toBe('');
    expect(fault).toContain('`@xx` is not defined');
    expect(diagnosed(script).join('\n')).toContain('error: `@xx` is not defined');
  });

  test.each([
    '@none?',
    '@none.isDefined()',
    '@exists(@none)',
    '@input[0] == "bob@example.org"',
    '@mx.checkpoint?',
    '@p.try > 1',
  ])('what it asks about may be missing: %s', async (condition) => {
    const { text, fault } = await play(around(condition));
    expect(fault).toBe('');
    expect(text.trim()).toBe('a');
    expect(diagnosed(around(condition))).toEqual([]);
  });
});

test('the hint of a guard is in the stage that runs again', async () => {
  const stage = 'exe @st(x) = `@x @ctx.pipe.try @ctx.pipe.hint`\n';
  const guard = (timing: string) =>
    `guard @g ${timing} @st = when [ @mx.guard.try < 2 => retry "again"  * => allow ]\n`;
  expect((await play(`${stage}${guard('after')}show "a" | @st`)).text.trim()).toBe('a 2 again');
  expect((await play(`${stage}${guard('before')}show "a" | @st`)).text.trim()).toBe('a 2 again');
  const asking = 'exe @ask(x) = when [ @mx.try < 2 => retry "own"  * => `@x @ctx.pipe.hint` ]\n';
  expect((await play(`${asking}exe @s() = "s"\nshow @s() | @ask`)).text.trim()).toBe('s null');
});

test('the labels of a function are in its context', async () => {
  const { text } = await play(
    'exe net:w,paid @f() = `x`\nexe @g() = `x`\nshow `@f.ctx.labels @f.mx.labels @g.ctx.labels`',
  );
  expect(text.trim()).toBe('["net:w","paid"] ["net:w","paid"] []');
});

// Conditions, loops and pipelines of scripts: their output, exit code and labels.
import { probeSandboxNow } from '@kernmantle/core/kernel';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { printScript } from '@kernmantle/test-support/print-script';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { play } from '@kernmantle/test-support/script-world';
import { afterEach, describe, expect, test } from 'vitest';
import { parseScript } from '../src/syntax/parse.ts';

const sandbox = await probeSandboxNow();

const fixtures: Fixture[] = [];
afterEach(() => {
  for (const fixture of fixtures.splice(0)) fixture.remove();
});

/** Runs a script in a new project. */
function run(text: string, files: Readonly<Record<string, string>> = {}): Promise<Ran> {
  const name = text.startsWith('/') ? 's.md' : 's.mld';
  const fixture = makeFixture({ [name]: text, ...files });
  fixtures.push(fixture);
  return runCommand(['script', name], fixture.root, fixture.env);
}

const printed = async (text: string): Promise<string[]> => {
  const { text: output, fault } = await play(text);
  expect(fault).toBe('');
  return output.trimEnd().split('\n');
};

const problemOf = (text: string, mode: 'strict' | 'markdown' = 'strict') =>
  parseScript(text, { mode, file: 'x' }).problems[0];

/** A parsed script stays the same after it was printed and parsed again. */
function roundTrip(text: string): void {
  const { script, problems } = parseScript(text, { mode: 'strict', file: 'x' });
  expect(problems).toEqual([]);
  const once = script ? printScript(script) : '';
  const { script: again } = parseScript(once, { mode: 'strict', file: 'x' });
  expect(again ? printScript(again) : 'broken').toBe(once);
}

const KEPT = 'var secret @k = 2\nvar untrusted @u = 3\n';

describe('slips found when a script is read', () => {
  test('a block as an element of an array', async () => {
    const { code, output } = await run(
      'show "before"\nvar @rows = [[let @n = 2  let @m = 3  => @n * @m]]\n',
    );
    expect(code).toBe(3);
    expect(output).toContain('s.mld:2:14: error: a block is not allowed here');
    expect(output).toContain('bind it to a name first');
  });

  test.each([
    'var @r = [[1, 2], [let @x = 1 => @x]]',
    'var @r = [1, [let secret @x = 1 => @x]]',
    'var @r = [\n  [\n    let @x = 1\n    => @x\n  ]\n]',
    'var @r = [[ [[let @x = 1 => @x]] ]]',
    'var @r = [[=> 1]]',
    'var @r = [[when @a => 1\n=> 2]]',
    'var @r = [[@a], [@f()\n=> 1], 3]',
    'var @r = [[\n  let @x = ]]',
    'var @r = { rows: [[let @x = 1 => @x]] }',
    'exe @f(x) = @x\nshow @f([[let @x = 1 => @x]])',
    'exe @f() = [ let @y = [[let @x = 1 => @x]]  => @y ]',
  ])('also as in %j', (text) => {
    expect(problemOf(text)).toMatchObject({
      message: 'a block is not allowed here',
      hint: 'bind it to a name first: `let @x = [ … ]`',
    });
  });

  test('a text in double brackets may begin with the same words', async () => {
    expect(
      await printed('var @a = [[let me see]]\nshow @a\nvar @b = [[=> there]]\nshow @b'),
    ).toEqual(['let me see', '=> there']);
  });

  test('braces alone behind a bar', async () => {
    const { code, output } = await run('var @t = "b"\n@t | { sort }\n');
    expect(code).toBe(3);
    expect(output).toContain('s.mld:2:6: error: braces alone are not a stage');
    expect(output).toContain('cmd { sort }');
  });

  test.each([
    'var @x = "b" | @upper || {sort}',
    'var @x = "b" with { pipeline: [@upper, {sort}] }',
    'var @x = for @y in [1] => @y => | {cat}',
    'exe @f(x) = @x\nrun @f("a" | {cat})',
    'exe @f(x) = @x | {sort}',
    'show "b" | {sort}',
  ])('also as in %j', (text) => {
    expect(problemOf(text)).toMatchObject({ message: 'braces alone are not a stage' });
  });

  test('the same in a markdown file, where it may stand on the next line', () => {
    expect(problemOf('/var @x = "b"\n/@x\n| {sort}', 'markdown')).toMatchObject({
      hint: 'write `| cmd {sort}`',
    });
  });

  test('`run VALUE | {…}` stays what it was', () => {
    expect(problemOf('run @x | {sort}\nvar @y = run "a" | @upper | { cat }')).toBe(undefined);
  });

  test.each([
    'loop(endless) [ show "x" ]',
    'loop(endless, 5ms) [ continue ]',
    'loop [ show "x" ]',
    'loop(endless) [ for @x in [1] [ done ] ]',
    'loop(endless) [ loop(3) [ done ] ]',
    'loop(endless) [ let @y = [ let @z = 1 => @z ] ]',
    'loop(endless) [ when @a => show "x" ]',
    'loop(endless) [ when @a => "printed" ]',
  ])('a loop that can never end: %j', (text) => {
    expect(problemOf(text)).toMatchObject({
      message: 'this loop can never end',
      at: 0,
      end: 4,
    });
  });

  test.each([
    'loop(endless) until @input > 3 [ continue 4 ]',
    'loop(endless) [ when @a => done ]',
    'loop(endless) [ if @a [ bail "x" ] else [ continue ] ]',
    'exe @f() = [ loop(endless) [ for @x in [1] [ => @x ] ] ]',
    'loop( endless ,5ms) [ when [ @a => [ done 1 ]  * => continue ] ]',
    'var @v = loop(endless) [ when @mx.loop.iteration > 3 => "x" ]',
    'loop(3) [ show "x" ]',
    'loop(@n) [ show "x" ]',
  ])('one that can: %j', (text) => {
    expect(problemOf(text)).toBe(undefined);
    roundTrip(text);
  });

  test('`km check` and an import find them too', async () => {
    const files = { 'lib.mld': 'exe @f() = [ loop(endless) [ show "x" ] ]\n' };
    const { code, output } = await run('import { @f } from "./lib.mld"\nshow "no"\n', files);
    expect(output).toContain('this loop can never end');
    expect(code).not.toBe(0);
    expect(output).not.toMatch(/^no$/m);
  });
});

describe('patterns of `when V`', () => {
  const BAND = `exe @band(t) = when @t [
  < 0 || > 40 => "off"
  >= 18 && <= 24 => "fine"
  !30 => "other"
]
for @t in [-3, 21, 26] => show @band(@t)
`;

  test('joined, turned round and without a left side', async () => {
    expect(await run(BAND)).toEqual({ code: 0, output: 'off\nfine\nother\n' });
  });

  test('in a markdown file and in a module', async () => {
    const inMarkdown = BAND.replace(/^(?=exe|for)/gm, '/');
    expect(await run(inMarkdown)).toEqual({ code: 0, output: 'off\nfine\nother\n' });
    const files = { 'lib.mld': BAND };
    const text = 'import { @band } from "./lib.mld"\nshow `@band(41) @band(18) @band(30)`\n';
    expect(await run(text, files)).toEqual({ code: 0, output: 'off fine null\n' });
  });

  const match = async (value: string, pattern: string): Promise<string> =>
    (await printed(`var @v = ${value}\nshow when @v [ ${pattern} => "yes"  * => "no" ]`)).join('');

  test.each([
    ['"a"', '"a" || "b"', 'yes'],
    ['"b"', '"a" || "b"', 'yes'],
    ['"c"', '"a" || "b"', 'no'],
    ['"b"', '!"a" && !"c"', 'yes'],
    ['"c"', '!"a" && !"c"', 'no'],
    ['5', '> 3 && < 7 && !6', 'yes'],
    ['6', '> 3 && < 7 && !6', 'no'],
    ['9', '1 || > 3 && < 7', 'no'],
    ['1', '1 || > 3 && < 7', 'yes'],
    ['1', '(1 || > 3) && < 7', 'yes'],
    ['9', '(1 || > 3) && < 7', 'no'],
    ['6', '(1 + 2) * 2', 'yes'],
    ['6', '!(> 3 && < 7)', 'no'],
    ['7', '!(> 3 && < 7)', 'yes'],
    ['3', '!!3', 'yes'],
    ['3', '!(!= 3)', 'yes'],
    ['3', '* && > 2', 'yes'],
    ['3', '!*', 'no'],
    ['null', 'null || ""', 'yes'],
    ['null', '> 3 || < 3', 'no'],
    ['[]', '[] && !null', 'yes'],
    ['true', '@v && !false', 'yes'],
    ['7', '@missing ?? 7', 'yes'],
    ['2', '@v > 1 ? 2 : 3', 'yes'],
    ['"A"', '"a" | @upper', 'yes'],
    ['"A"', '("a" | @upper) || "b"', 'yes'],
    ['"tea, milk"', '!~= ["milk", "tea"] || ~= ["gin"]', 'no'],
    ['"tea, milk"', '~= ["milk", "tea", "jam"] && !"tea"', 'yes'],
    ['"tea"', '!(~= ["milk"])', 'yes'],
  ])('%s with %s: %s', async (value, pattern, answer) => {
    expect(await match(value, pattern)).toBe(answer);
    roundTrip(`var @x = when @v [\n${pattern} => 1\n* => 2\n]`);
  });

  test('one arm behind the other on a line', async () => {
    expect(
      await printed(
        'var @r = for @v in [1, "a", "b", 9] => when @v [ 1 => skip "a" || "b" => "ab"; > 5 => "big" ]\nshow @r.join("+")\nexe @f(v) = when @v [ 1 => continue !2 && !3 => done "x" * => done "y" ]\nshow 5 | while(1) @f',
      ),
    ).toEqual(['ab+ab+big', 'x']);
  });

  test.each([
    ['when @v [ !none => 1 ]', '`none` cannot be used with operators'],
    ['when @v [ 1 || none => 1 ]', '`none` cannot be used with operators'],
    ['when @v [ (none) => 1 ]', '`none` cannot be used with operators'],
    ['when @v [ > => 1 ]', 'expected a value'],
    ['when @v [ 1 && => 1 ]', 'expected a value'],
    ['when @v [ (1 || 2 => 1 ]', 'expected `)` after the pattern'],
    ['when [ > 3 => 1 ]', 'expected a value'],
  ])('%s is refused', (text, message) => {
    expect(problemOf(text)?.message).toContain(message);
  });

  test('the second side is asked only where the first does not decide', async () => {
    expect(
      await printed(`exe @say(x) = [ show \`asked @x\`  => @x ]
show when 1 [ @say(1) || @say(2) => "or" ]
show when 1 [ @say(2) && @say(1) => "and"  * => "neither" ]`),
    ).toEqual(['asked 1', 'or', 'asked 2', 'neither']);
  });

  test('what they read stays on what they chose', async () => {
    expect(
      await printed(`${KEPT}var @n = 9
var @a = when @n [ 1 || !@k => "a" ]
var @b = when @n [ > @u && < 20 => "b" ]
var @c = when @k [ < 5 || @u => "c" ]
var @d = when @n [ 9 || @k => "d" ]
show \`@a.mx.labels @b.mx.labels @c.mx.labels @d.mx.labels\``),
    ).toEqual(['["secret"] ["untrusted"] ["secret"] []']);
  });

  test('`check` knows the names in them', async () => {
    const fixture = makeFixture({
      's.mld': 'var @v = 1\nshow when @v [ !@nobody && > @noone => "x"  * => "y" ]\n',
    });
    fixtures.push(fixture);
    const { output } = await runCommand(['check', 's.mld'], fixture.root, fixture.env);
    expect(output).toContain('`@nobody` is not defined');
    expect(output).toContain('`@noone` is not defined');
  });
});

describe('a `when` arm with a value', () => {
  test('ends a round and a block that are values', async () => {
    expect(
      await run(`var @r = for @n in [4, 5, 6] [
  when @n % 5 == 0 => "five"
  => @n * 10
]
show @r.join(" ")
var @w = [
  let @a = 1
  when @a > 0 => "plus"
  => "minus"
]
show @w
`),
    ).toEqual({ code: 0, output: '40 five 60\nplus\n' });
  });

  test('in lists, blocks of arms, `if`, parallel loops and rounds of `loop`', async () => {
    expect(
      await printed(`var @a = for parallel @n in [1, 2] [
  when [ @n == 1 => "one"  @n == 2 => [ => "two" ] ]
  => "never"
]
var @b = [
  if true [ when true => "inner" ]
  => "outer"
]
var @c = when [ true => [
  when false => "no"
  when true => "yes"
  => "last"
] ]
var @d = loop(5) [
  when @input >= 3 => \`at @input\`
  continue (@input ?? 0) + 1
]
exe @f(xs) = [
  let @r = for @x in @xs [ when @x > 1 => "big"  => "small" ]
  => @r
]
show \`@a @b @c @d @f([1, 2])\``),
    ).toEqual(['["one","two"] inner yes at 3 ["small","big"]']);
  });

  test('effects, blocks without a value and what does not match do not', async () => {
    expect(
      await printed(`var @r = for @n in [1, 2] [
  when @n == 1 => show "one"
  when @n == 2 => [ show "two" ]
  when @n == 3 => "three"
  => @n
]
show @r.join("+")`),
    ).toEqual(['one', 'two', '1+2']);
  });

  test('as a statement of the script it is printed and ends nothing', async () => {
    expect(
      await printed('for @n in [1, 2] [\n  when @n == 1 => "text"\n  show `after @n`\n]'),
    ).toEqual(['text', 'after 1', 'after 2']);
  });

  test('what stands behind it knows about the condition', async () => {
    expect(
      await printed(`${KEPT}var @a = for @n in [1] [ when @k == 9 => "x"  => "y" ]
exe @f() = [ when @u == 9 => "x"  => "y" ]
exe @g() = [ if true [ when @u == 9 => "x" ]  => "y" ]
var @b = @f()
var @c = @g()
var @d = "untouched"
show \`@a.mx.labels @b.mx.labels @c.mx.labels @d.mx.labels\``),
    ).toEqual(['["secret"] ["untrusted"] ["untrusted"] []']);
  });

  test('guards judge what it gives like any other value', async () => {
    const { code, output } = await run(
      'var secret @k = "s"\nguard @g before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]\nvar @r = for @n in [1] [ when @n => @k  => "x" ]\nshow @r\n',
    );
    expect(code).toBe(4);
    expect(output).toContain('show was denied by @g');
  });
});

describe('`for … when [ arms ]`', () => {
  test('what no arm matches is dropped', async () => {
    expect(
      await run(`var @r = for @n in [5, -1, 12] when [
  @n > 10 => \`big @n\`
  @n > 0 => \`small @n\`
]
show @r.join(", ")
`),
    ).toEqual({ code: 0, output: 'small 5, big 12\n' });
  });

  test('an arm that gives null keeps its item; nothing matched gives nothing', async () => {
    expect(
      await printed(`var @a = for @n in [1, 2] when [ @n == 1 => null ]
var @b = for @n in [1, 2] when [ @n == 1 => when [ false => 1 ] ]
var @c = for @n in [1, 2] when [ @n == 3 => 1 ]
var @d = for @n in [] when [ * => 1 ]
var @e = for @k, @v in { "a": 1, "b": 2 } when [ @v > 1 => @k ]
show \`@a.length @b.length @c @d @e\``),
    ).toEqual(['1 1 [] [] ["b"]']);
  });

  test('with `first`, in parallel, with lines between the arms, and piped on', async () => {
    expect(
      await printed(`exe @count(xs) = js { return xs.length }
var @a = for @n in [1, 2, 3] when first [ @n > 2 => "c"  @n > 1 => "b" ]
var @b = for parallel @n in [1, 2, 3] when [ let @m = @n * 2  @m > 3 => @m ]
var @c = for @n in [1, 2, 3] when [ @n > 1 => @n ] => | @count
var @d = for @n in [1, 2, 3] when [ @n == 1 => skip; @n == 3 => done "x"; * => [ => @n ] ]
show \`@a @b @c @d\``),
    ).toEqual(['["b","c"] [4,6] 2 [2]']);
    roundTrip('var @c = for @n in [1] when [\n@n > 1 => @n\n] => | @count');
  });

  test('as a statement it does what the arms say', async () => {
    expect(
      await printed('for @n in [1, 2] when [ @n == 2 => show `two`  @n == 3 => show "three" ]'),
    ).toEqual(['two']);
    const { code, output } = await run('/for @n in [1, 2] when [\n  @n == 2 => show "two"\n]\n');
    expect({ code, output }).toEqual({ code: 0, output: 'two\n' });
  });

  test('which items there are depends on what the conditions read', async () => {
    expect(
      await printed(`${KEPT}var @a = for @n in [1, 2] when [ @n > @k => "x" ]
var @b = for @n in [1, 2] when [ @n == 1 => @u ]
var @c = @b[0]
show \`@a @a.mx.labels @a.length.mx.labels @c.mx.labels\``),
    ).toEqual(['[] ["secret"] ["secret"] ["untrusted"]']);
  });
});

describe('batch pipelines', () => {
  const DEFINED = `exe @sq(n) = js { return n * n }
exe @sum(xs) = js { return xs.reduce((a, b) => a + b, 0) }
exe @down(xs) = js { return [...xs].reverse() }
var @xs = [1, 2, 3]
`;

  test('behind `foreach`, with a separator behind them', async () => {
    expect(
      await run(`${DEFINED}show foreach @sq(@xs) => | @sum
show foreach @sq(@xs) => | @down with { separator: " > " }
`),
    ).toEqual({ code: 0, output: '14\n9 > 4 > 1\n' });
  });

  test('into a group, into several stages, of nothing', async () => {
    expect(
      await printed(`${DEFINED}var @a = foreach @sq(@xs) => || @sum || @down
var @b = foreach @sq(@xs) => | @down | @sum
var @c = foreach @sq([]) => | @sum
var @d = for @x in @xs [ => @x + 1 ] => | @sum
var @e = for @x in @xs => @x => || @sum() || @down()
show \`@a @b @c @d @e\`
show foreach @sq(@xs) => | @sum with { separator: ", " }
show foreach @sq(@xs) => | @down with { separator: ", ", template: "{{index}}={{result}}" }`),
    ).toEqual(['[14,[9,4,1]] 14 0 9 [6,[3,2,1]]', '14', '0=9, 1=4, 2=1']);
    for (const text of [
      'show foreach @sq(@xs) => | @down | @up with { separator: ", " }',
      'var @a = foreach @sq(@xs) => || @sum || @down',
      'var @d = for @x in @xs [\n=> @x\n] => | @sum',
    ])
      roundTrip(text);
  });

  test('in a function, a module and a markdown file', async () => {
    const files = {
      'lib.mld': `${DEFINED}exe @all(xs) = foreach @sq(@xs) => | @sum\n`,
    };
    expect(await run('/import { @all } from "./lib.mld"\n/show @all([1, 2])\n', files)).toEqual({
      code: 0,
      output: '5\n',
    });
  });

  test('as a statement it collects, and prints what its last stage gives or shows', async () => {
    expect(
      await printed(`${DEFINED}for @x in @xs [ => @x ] => | @sum
for @x in @xs => @sq(@x) => | @sum
for @x in @xs => @x => | @sum | show \`shown @input\`
for @x in @xs when [ @x > 1 => @x ] => | @sum
when true => for @x in @xs => @x => | @sum
if true [ for @x in @xs [ => @x ] => | @sum ]
exe @f() = [ for @x in @xs [ => @x ] => | @sum
=> "f" ]
show @f()`),
    ).toEqual(['6', '14', 'shown 6', '5', '6', '6', 'f']);
  });

  test('a failing stage fails the statement', async () => {
    const { code, output } = await run(
      `${DEFINED}exe @bad(xs) = js { throw new Error("broken") }\nshow foreach @sq(@xs) => | @bad\n`,
    );
    expect(code).toBe(1);
    expect(output).toContain('stage 1 (`bad`)');
  });

  test('labels of items, of the lists and of the separator stay', async () => {
    expect(
      await printed(`${DEFINED}${KEPT}var secret @ks = []
var @c = foreach @sq([@u]) => | @down
exe @same(x) = @x
var @a = foreach @same([@k, 1]) => | @same
var @b = foreach @sq(@ks)
show \`@a.mx.labels @b.mx.labels @c.mx.labels\``),
    ).toEqual(['["secret"] ["secret"] ["untrusted"]']);
    const { effects } = await play(
      `${DEFINED}var secret @s = "-"\nshow foreach @sq(@xs) with { separator: @s }`,
    );
    expect(effects.at(-1)).toMatchObject({ text: '1-4-9', labels: ['secret'] });
  });

  test('stages are operations that guards judge', async () => {
    const { code, output } = await run(
      `${DEFINED}guard @g before op:pipeline-stage = when [ @mx.op.name == "sum" => deny "no sums"  * => allow ]\nshow foreach @sq(@xs) => | @sum\n`,
    );
    expect(code).toBe(4);
    expect(output).toContain('no sums');
  });

  test('`check` counts the arguments of a stage with what comes in', async () => {
    const fixture = makeFixture({
      's.mld': `${DEFINED}show foreach @sq(@xs) => | @sum\nshow foreach @sq(@xs) => | @nobody\n`,
    });
    fixtures.push(fixture);
    const { output } = await runCommand(['check', 's.mld'], fixture.root, fixture.env);
    expect(output).not.toContain('has no argument');
    expect(output).toContain('`@nobody` is not defined');
  });
});

describe('command and code blocks as actions', () => {
  test('print like `run`; where their value is used they are that value', async () => {
    const { code, output } = await run(`for @w in ["a", "b"] => cmd {echo "[@w]"}
exe @up(t) = when [ * => cmd {printf '%s' "@t" | tr a-z A-Z} ]
show @up("ok")
`);
    if (sandbox.kind === 'none') expect(code).not.toBe(0);
    else expect({ code, output }).toEqual({ code: 0, output: '[a]\n[b]\nOK\n' });
  });

  test('of every kind, in arms, lists and nested loops', async () => {
    expect(
      await printed(`for @w in ["a"] => sh { echo "sh" }
when true => js { return [1, 2] }
when [ false => cmd {echo no}  * => cmd {echo yes} ]
when "x" [ "x" => js { return "matched" } ]
for @a in [1] => for @b in [2] => js { return "nested" }
for @a in [1] => when [ @a == 1 => js { return "chosen" } ]
for @a in [1] when [ @a == 1 => js { return "sifted" } ]
for parallel @a in [1] => js { return "parallel" }
if true [ when true => js { return "in a block" } ]
for @a in [1] => js { return null }
when true => js { return "piped" } | @upper
when true => cmd {cat} with { stdin: "given" }`),
    ).toEqual([
      'sh',
      '[1,2]',
      'yes',
      'matched',
      'nested',
      'chosen',
      'sifted',
      'parallel',
      'in a block',
      'PIPED',
      'given',
    ]);
  });

  test('as a value they print nothing', async () => {
    expect(
      await printed(`var @a = for @w in ["a"] => js { return "x" }
var @b = when [ * => cmd {echo y} ]
exe @f() = [ for @w in ["a"] => js { return "no" }  => "z" ]
exe @g() = for @w in ["a"] => js { return "v" }
show \`@a @b @f() @g()\``),
    ).toEqual(['["x"] y z ["v"]']);
  });

  test('a module that is imported does not run them', async () => {
    const world = await play('import { @x } from "./lib.mld"\nshow @x', {
      files: {
        'lib.mld':
          'var @x = 1\nexe @f() = "called"\nwhen true => cmd {echo no}\nfor @a in [1] => js { return "no" }\nwhen true => @f()\nexe @g() = [ show "no"  => 1 ]\nif true [ @g() ]\nfor @a in [1] [ @g() ]\nwhen true => [ @g() ]\nwhen true => @g() | @upper | show\nif true [ loop(1) [ @g() | @upper ] ]\nfor @a in [1] => @g() => | @upper\n',
      },
    });
    expect(world.fault).toBe('');
    expect(world.text).toBe('1\n');
    expect(world.world.commands).toEqual([]);
  });

  test('guards judge them as `run`, and what they print keeps its labels', async () => {
    const { code, output } = await run(
      'guard @g before op:js = when [ * => deny "no code" ]\nfor @a in [1] => js { return 1 }\n',
    );
    expect(code).toBe(4);
    expect(output).toContain('no code');
    const { effects } = await play(
      `${KEPT}for @a in [@u] => cmd {echo @a}\nwhen @k == 2 => js { return "x" }`,
    );
    expect(effects.map(({ text, labels }) => [text, labels])).toEqual([
      ['3', ['untrusted']],
      ['x', ['secret']],
    ]);
  });
});

describe('loop and while', () => {
  test('rounds without a number, and the rounds of a stage', async () => {
    expect(
      await run(`show loop(endless, 1ms) until @input >= 3 [ continue (@input ?? 0) + 1 ]
exe @grow(n) = when [
  @n >= 30 => done \`@n after @mx.while.iteration\`
  * => continue @n * 3
]
show 4 | while(9) @grow
`),
    ).toEqual({ code: 0, output: '3\n36 after 3\n' });
  });

  test('what is known about the rounds', async () => {
    expect(
      await printed(`var @a = loop(endless) [
  when @mx.loop.iteration == 2 => done \`@mx.loop.limit @mx.loop.active\`
  continue
]
show @a
exe @f(n) = when [
  @mx.while.iteration == 3 => done \`@n: @mx.while.iteration of @mx.while.limit, @mx.while.active\`
  * => continue
]
show "x" | while(5, 1ms) @f
show \`@mx.while\``),
    ).toEqual(['null true', 'x: 3 of 5, true', 'null']);
  });

  test('without a value the current one goes on', async () => {
    expect(
      await printed(`show loop(4) [
  when @mx.loop.iteration == 1 => continue "kept"
  when @mx.loop.iteration < 4 => continue
  done \`@input\`
]
exe @once(n) = when [ @mx.while.iteration < 3 => continue  * => done ]
show "same" | while(4) @once`),
    ).toEqual(['kept', 'same']);
  });

  test('more rounds than a hundred thousand are made', async () => {
    expect(
      await printed('show loop(endless) until @input >= 100001 [ continue (@input ?? 0) + 1 ]'),
    ).toEqual(['100001']);
  });

  test('rounds of a stage that run out are an error', async () => {
    const { code, output } = await run(
      'exe @f(n) = when [ * => continue @n + 1 ]\nshow 1 | while(3, 1ms) @f\n',
    );
    expect(code).toBe(5);
    expect(output).toContain('did not finish in 3 rounds');
  });

  test('a limit that is neither a number nor the word', async () => {
    const { fault } = await play('var @e = "endless"\nloop(@e) [ done ]');
    expect(fault).toContain('`loop(endless)` needs a whole number of rounds');
  });

  test('a script that is ended ends in a pause', async () => {
    const stop = new AbortController();
    const onEffect = () => stop.abort();
    const { fault, text } = await play(
      'loop(endless, 1h) [ show "round"  when @mx.loop.iteration > 5 => done ]',
      { signal: stop.signal, onEffect },
    );
    expect(text).toBe('round\n');
    expect(fault).toBe('cancelled: the script was cancelled');
  });

  test('labels stay', async () => {
    expect(
      await printed(`${KEPT}
exe @step(n) = when [ @n > 4 => done "over"  * => continue @n + 1 ]
var @b = @u | while(9) @step
var @a = loop(endless) until @input >= @k [ continue (@input ?? 0) + 1 ]
exe @until(n, m) = when [ @mx.while.iteration >= @m => done  * => continue ]
var @c = "plain" | while(9) @until(@k)
show \`@a.mx.labels @b.mx.labels @c.mx.labels\``),
    ).toEqual(['["secret"] ["untrusted"] ["secret"]']);
  });

  test('every round of a stage is an operation for guards', async () => {
    const { text, fault } = await play(`guard @g before @step = when [
  @mx.while.iteration > 2 => deny \`round @mx.while.iteration\`
  * => allow
]
exe @step(n) = when [ denied => done \`stopped: @mx.guard.reason\`  * => continue @n + 1 ]
show 1 | while(9) @step`);
    expect(fault).toBe('');
    expect(text).toBe('stopped: round 3\n');
  });
});

describe('pipelines', () => {
  test('the name of a function as a source is called, and run again', async () => {
    expect(
      await run(`exe @draft() = \`d@mx.try\`
exe @pick(d) = when [
  @mx.try < 3 => retry
  * => \`@d of @p.tries\`
]
show @draft | @pick
`),
    ).toEqual({ code: 0, output: 'd3 of ["d2","d3"]\n' });
  });

  const RETRIED = `exe @first() = \`f@mx.try\`
exe @second(x) = \`s@mx.try\`
exe @ask(x) = when [
  @mx.try < 3 => retry "again"
  * => \`@x\`
]
`;

  test('a bare name in every place a source has', async () => {
    expect(
      await printed(`${RETRIED}var @tools = { f: @first }
exe @call(op) = @op | @ask
show @tools.f | @ask
show @first with { pipeline: [@ask] }
show @call(@first)
run @first | @ask
show \`@first|@upper\`
var @x = @first | show | @ask
exe @both() = [ => { x: \`x@mx.try\` } ]
show @both().x | @ask
var @v = "text"
show @v | @ask`),
    ).toEqual(['f3', 'f3', 'f3', 'f3', 'F1', 'f1', 'f2', 'f3', 'x3', 'text']);
  });

  test('a module gives the function', async () => {
    const files = { 'lib.mld': RETRIED };
    expect(
      await run(
        'import { @first, @ask } from "./lib.mld"\nimport "./lib.mld" as @lib\nshow @first | @ask\nshow @lib.first | @lib.ask\n',
        files,
      ),
    ).toEqual({ code: 0, output: 'f3\nf3\n' });
  });

  test('outputs of re-runs: flat where they happen, by context where they are over', async () => {
    expect(
      await printed(`exe @made(x) = [
  log \`made: @p.tries\`
  => \`b@mx.try\`
]
exe @ask(x) = when [
  @mx.try < 3 => retry
  * => \`@x @p.tries @p.retries.all\`
]
exe @after(x) = \`@x then @p.tries @p.retries.all\`
exe @plain(x) = \`@x @p.tries\`
show "s" | @made | @ask | @after
show "s" | @plain`),
    ).toEqual(['b3 ["b2","b3"] [["b2","b3"]] then [["b2","b3"]] [["b2","b3"]]', 's []']);
    const { effects } = await play(`exe @made(x) = [ log \`@p.tries\`  => \`b@mx.try\` ]
exe @ask(x) = when [ @mx.try < 3 => retry  * => @x ]
show "s" | @made | @ask`);
    expect(effects.filter(({ kind }) => kind === 'log').map(({ text }) => text)).toEqual([
      '[]',
      '[]',
      '["b2"]',
    ]);
  });

  test('bare pipelines print what comes out, or their effects', async () => {
    expect(
      await run(`exe @gen() = js { return "raw" }
var @x = @gen() | show \`got @mx.input\` | @upper
"line" | append "log.txt"
@x | append "log.txt"
show <log.txt>
`),
    ).toEqual({ code: 0, output: 'got raw\nline\nRAW\n\n' });
  });

  test('of texts, calls and variables, with and without an effect at their end', async () => {
    expect(
      await printed(`exe @f(x) = \`f @x\`
var @v = "v"
"one" | @upper
'two' | show
\`three @v\` | @f | show
::four:: | @upper
@f("five") | @upper
@v | show "six @input"
@v with { pipeline: [@upper, show] }
@f("x") with { pipeline: [show] }
if true [
  "seven" | show
  @v | log
]
for @n in [8] => \`n@n\` | show
when true => "nine" | show
/"ten" | show`),
    ).toEqual([
      'ONE',
      'two',
      'f three v',
      'FOUR',
      'F FIVE',
      'six v',
      'V',
      'f x',
      'seven',
      'n8',
      'nine',
      'ten',
    ]);
  });

  test('as the first line of a block; alone in brackets it is an element unless it is an effect', async () => {
    expect(
      await printed(`var @v = "v"
exe @f() = [
  "first" | show
  \`second @v\` | show
  => "end"
]
show @f()
var @b = [ "third" | show  => "b" ]
var @c = ["c" | @upper]
var @d = ["d" | @upper, "e"]
exe @g() = ["g" | @upper]
show \`@b @c @d @g()\`
if true [ 'fourth' | show ]
when true => [ ::fifth:: | show ]
for @n in [1] [
  "sixth"
    | show
]`),
    ).toEqual([
      'first',
      'second v',
      'end',
      'third',
      'b ["C"] ["D","e"] ["G"]',
      'fourth',
      'fifth',
      'sixth',
    ]);
  });

  test('in markdown with a slash; without one it is text', async () => {
    expect(await run('/var @x = "b"\n/@x | show\n/@x | @upper\n@x | show\n"x" | show\n')).toEqual({
      code: 0,
      output: 'b\nB\n@x | show\n"x" | show\n',
    });
  });

  test.each([
    ['"alone"', 'a value alone is not a statement'],
    ['var @x = 1\n@x', 'a value alone is not a statement'],
    ['if true [ "alone" ]', 'expected a statement, found only a text'],
  ])('%j is refused', (text, message) => {
    expect(problemOf(text)?.message).toBe(message);
  });

  test('`@mx.input` in an effect is what passes, wherever the effect stands', async () => {
    expect(
      await printed(`exe @f(x) = \`f @x\`
"src" | show \`a @mx.input @input\` | @f | show \`b @mx.input\` | log \`@mx.input\` | @upper | show \`c @mx.input\`
show "r" | show \`d @mx.input\`
exe @g(x) = @x | show \`e @mx.input\` | @upper
show "y" | @g`),
    ).toEqual(['a src src', 'b f src', 'c F SRC', 'd r', 'r', 'e y', 'Y']);
  });

  test('an imported module does not run them', async () => {
    const { text, fault } = await play('import { @x } from "./lib.mld"\nshow @x', {
      files: { 'lib.mld': 'var @x = 1\n"no" | show\n@x | show\n' },
    });
    expect({ text, fault }).toEqual({ text: '1\n', fault: '' });
  });

  test('labels stay on what they print, on re-runs and on called sources', async () => {
    const { effects, fault } = await play(`${KEPT}@k | show \`k @mx.input\`
@u | @upper
exe @src() = @k
exe @ask(x) = when [ @mx.try < 2 => retry  * => @p.tries ]
var @tried = @src | @ask
show @tried`);
    expect(fault).toBe('');
    expect(effects.map(({ text, labels }) => [text, labels])).toEqual([
      ['k 2', ['secret']],
      ['3', ['untrusted']],
      ['[2]', ['secret']],
    ]);
  });

  test('guards judge the call of a bare source and the effects', async () => {
    const called = await run(
      'guard @g before @src = when [ * => deny "not called" ]\nexe @src() = "x"\nshow @src | @upper\n',
    );
    expect(called.code).toBe(4);
    expect(called.output).toContain('not called');
    const shown = await run(
      'guard @g before op:append = when [ * => deny "not written" ]\n"x" | append "f.txt"\n',
    );
    expect(shown.code).toBe(4);
    expect(shown.output).toContain('not written');
  });
});

describe('where lines end and begin', () => {
  test('a call or a pipeline prints in a block as on a line of its own', async () => {
    expect(
      await printed(`exe @f(x) = \`f @x\`
var @v = "V"
if true [ @f(1)
  @v | @lower
  "t" | @upper
  "q" | show ]
for @i in [2, 3] [ @f(@i) ]
loop(1) [ @f(4) ]
exe @g() = [ @f("unseen")  => "g" ]
if true [ @g() ]
var @list = for @i in [5] [ @f(@i) ]
show @list[0]`),
    ).toEqual(['f 1', 'v', 'T', 'q', 'f 2', 'f 3', 'f 4', 'g', 'f 5']);
  });

  test('what a block prints keeps its labels', async () => {
    const { effects } = await play(`${KEPT}if true [ @k | @json ]\nif true [ @json(@u) ]`);
    expect(effects.map(({ text, labels }) => [text, labels])).toEqual([
      ['2', ['secret']],
      ['3', ['untrusted']],
    ]);
  });

  test('a batch may begin on the next line', async () => {
    expect(
      await printed(`exe @sum(xs) = js { return xs.reduce((a, b) => a + b, 0) }
exe @sq(n) = js { return n * n }
show foreach @sq([1, 2]) =>
  | @sum
var @a = for @n in [1, 2] => @n =>
  | @sum
show @a`),
    ).toEqual(['5', '3']);
  });

  test('a comparison needs no blank before a variable', async () => {
    expect(
      await printed(
        'var @hi = 7\nshow when 3 [ <@hi => "a" ]\nshow when 3 [ <@hi && >2 => "b" ]\nshow when 3 [ <(@hi) => "c" ]',
      ),
    ).toEqual(['a', 'b', 'c']);
  });

  test('in markdown a name behind a slash is text unless it is called or piped on', async () => {
    const text = '/@user hello\n/@scope/pkg is text\n/@x.y[0]\n/@x\n| a | b |\n';
    expect(
      await run(
        `/var @x = "Ab"\n${text}/@x\n| @lower\n/@x.length | @json\n/@upper("q")\n/var @l = ["a"]\n/var @i = [0]\n/@l[@i[0]] | @upper\n`,
      ),
    ).toEqual({ code: 0, output: `${text}ab\n2\nQ\nA\n` });
  });

  test('options of `foreach`: stages, and a policy that holds for its calls', async () => {
    const functions = `exe @sq(n) = js { return n * n }
exe @id(xs) = @xs
exe @sum(xs) = js { return xs.reduce((a, b) => a + b, 0) }
`;
    expect(
      await printed(`${functions}show foreach @sq([1, 2]) with { pipeline: [@sum] }
show foreach @sq([1, 2]) => | @id with { separator: ",", pipeline: [@id] }
var @v = foreach @sq([1, 2]) => | @id with { pipeline: [@sum] }
show @v`),
    ).toEqual(['5', '1,4', '5']);
    const { code, output } = await run(
      `${functions}var @strict = { deny: ["js"] }\nshow foreach @sq([1, 2]) with { policy: @strict }\n`,
    );
    expect(code).toBe(4);
    expect(output).toContain('denied');
  });

  test.each([
    'loop(null) [ done 1 ]',
    'loop("") [ done 1 ]',
    'var @l = [3]\nloop(@l) [ done 1 ]',
    'for parallel(true) @x in [1] => show @x',
    'exe @f(n) = when [ * => done ]\nshow 1 | while(true) @f',
  ])('%j has no number of rounds', async (text) => {
    const { fault } = await play(text);
    expect(fault).toMatch(/number of/);
  });

  test.each(['skip', 'done 3', 'continue'])(
    '`%s` is nothing an effect could show',
    async (word) => {
      const { fault, text } = await play(`exe @s(n) = when [ * => ${word} ]\nshow @s(1)`);
      expect(fault).toContain('cannot be used here');
      expect(text).toBe('');
    },
  );

  test('a result that looks like a slot stays as it is', async () => {
    expect(
      await printed(
        'exe @id(x) = @x\nshow foreach @id(["{{index}}", "b"]) with { template: "{{result}}/{{index}}" }',
      ),
    ).toEqual(['{{index}}/0', 'b/1']);
  });
});

import { expect, test } from 'vitest';
import { unboundIn } from '../execute-script.ts';
import { parseScript } from './parse.ts';

const treeOf = (text: string) => {
  const { script, problems } = parseScript(text, { mode: 'strict', file: 'a.mld' });
  expect(problems).toEqual([]);
  return script ?? expect.fail('it does not parse');
};

const MODULE = 'var @known = 1\nexe @join(a, b) = `@a-@b`\nvar @own = 2\nexport { known, join }\n';

/** Returns severity, underlined text and message, one finding per line. */
const found = (text: string, inputs: string[] = []): string[] =>
  unboundIn(treeOf(text), {
    inputs,
    module: (path) => (path === './m.mld' ? treeOf(MODULE) : undefined),
  }).map(({ severity, at, end, message, hint }) =>
    [severity, text.slice(at, end), message, ...(hint === undefined ? [] : [hint])].join(' | '),
  );

const unbound = (name: string, hint: string) =>
  `error | @${name} | \`@${name}\` is not defined | ${hint}`;

test.each([
  'show @nmae',
  'var @x = @nmae.first',
  'exe @f(a) = @a\nshow @f(@nmae)',
  'var @x = { ...@nmae }',
  'for @x in @nmae => show @x',
  'show @name | @upper(@nmae)',
  'show `@name|@upper(@nmae)`',
  'run cmd {cat} with { stdin: @nmae }',
  'exe @f(a) = when [ @a == 1 => @nmae   * => 2 ]',
  'guard before secret = when [ @input == 1 => deny @nmae ]',
  'output @nmae to "x.txt"',
])('where a run needs a value it is an error: %s', (line) => {
  const text = `var @name = 1\n${line}`;
  expect(found(text)).toContain(unbound('nmae', 'did you mean `@name`?'));
});

test('a stage, a rebinding, a helper and an export need what they name', () => {
  expect(found('var @total = 1\nshow 1 | @uper')).toEqual([
    unbound('uper', 'did you mean `@upper`?'),
  ]);
  expect(found('var @total = 1\nvar @x = [ @totl += 1 => 2 ]')[0]).toContain('`@total`?');
  expect(found('exe @up(x) = js { x }\nexe js = { upp }')[0]).toContain('did you mean `@up`?');
  expect(found('var @total = 1\nexport { totl }')[0]).toContain('did you mean `@total`?');
});

test('in conditions and texts it is a warning, and a condition in doubt makes all below it one', () => {
  expect(found('var @name = 1\nshow "hi @nmae"')).toEqual([
    'warning | @nmae | `@nmae` is not defined, so the text stays unchanged | did you mean `@name`?',
  ]);
  expect(found('if @nobody > 1 [ show @neither ]')).toEqual([
    'warning | @nobody | `@nobody` is not defined, so the value is always undefined',
    'warning | @neither | `@neither` is not defined',
  ]);
});

test.each([
  [
    'what is asked for',
    'show @a ?? 1\nvar @l = [@b?]\nif @c.isDefined() [ show 1 ]\nshow @exists(@d)',
  ],
  ['what is compared with null', 'if @a == null [ show 1 ]\nshow "@b??"x" @c?"y""'],
  ['open slots', 'var @t = :::Hi {{who}}:::\nshow @t'],
  ['mail addresses and packages', 'show "ann@example.com"\nrun cmd {npm view @scope/name}'],
  [
    'names of the language',
    'show @mx.op.type\nshow @payload\nshow @root\nshow @now\nshow 1 | @UPPER',
  ],
  ['loops', 'for @k, @v in {a: 1} => show `@k @v`\nfor @x in [1] => show `@x_key @x`'],
  ['functions that come later', 'exe @f() = @later\nvar @later = 1\nshow @f()'],
  [
    'arms and blocks',
    'var @x = when [ let @y = 1\n @y == 1 => @y ]\nvar @z = [ let @q = 1 => @q ]',
  ],
  ['a variable of an arm', 'var @c = true\nwhen @c => var @late = 1\nshow @late'],
  ['rules', 'guard after op:exe = when [ @output == 1 => deny `no @output` ]'],
  ['imports', 'import { a as @b } from "./x.mld"\nimport "./y.mld" as @c\nshow `@b @c.d`'],
  ['a folder of templates', 'import templates from "./t" as @t(a)\nshow @t.x("1")'],
  ['a namespace by its path', 'import "./my-lib.mld"\nshow @my_lib.x'],
  ['a path of the run', 'var @d = "x"\nimport "./@d/lib.mld"\nshow @lib'],
  ['payload and input', 'import { x } from @payload\nimport { y } from @input\nshow `@x @y`'],
  ['guards by name', 'show 1 with { guards: { except: ["@other"] } }'],
  ['a file as a template', 'show <*.md> as "- <>.mx.filename"'],
  ['what shadows', 'exe @f(a) = @a\nexe @g(f) = @f(1, 2)\nshow @g(@f)'],
  ['parameters that may be absent', 'exe @f(a, b) = when [ @b => `@a @b`   * => @a ]\nshow @f(1)'],
  ['the same in code', 'exe @f(a, b) = js { return b === undefined ? a : a + b }\nshow @f(1)'],
  ['stages', 'exe @f(a, b) = `@a @b`\nexe @g() = `@input`\nshow 1 | @f(2) | @g\nshow @g() | @f(1)'],
  ['functions as values', 'exe @f(a, b) = `@a @b`\nvar @h = @f\nshow @h(1)'],
])('nothing is said of %s', (_what, text) => {
  expect(found(text)).toEqual([]);
});

test('inputs are bound', () => {
  expect(found('show @topic', ['topic'])).toEqual([]);
  expect(found('show @tpoic', ['topic'])).toEqual([unbound('tpoic', 'did you mean `@topic`?')]);
});

test.each([
  ['show @f(1)', '@f', 'the call of `@f` has no argument for `b`'],
  ['show @f()', '@f', 'the call of `@f` has no argument for `a`, `b`'],
  ['run @f', '@f', 'the call of `@f` has no argument for `a`, `b`'],
  ['show 1 | @f', '@f', 'the call of `@f` has no argument for `b`'],
  ['show 1 with { pipeline: [@f] }', '@f', 'the call of `@f` has no argument for `b`'],
  ['show `x @f(1)`', '@f', 'the call of `@f` has no argument for `b`'],
  ['var @x = foreach @f([1])', '@f', 'the call of `@f` has no argument for `b`'],
  ['show @f(1, 2, 3, 4)', '3, 4', '`@f` takes 2 arguments, but gets 4 arguments'],
  ['show 1 | @f(2, 3)', '3', '`@f` takes 1 argument besides the input, but gets 2 arguments'],
])('arguments that do not fit are a warning: %s', (line, place, message) => {
  const [only, ...others] = found(`exe @f(a, b) = \`@a @b\`\n${line}`);
  expect(others).toEqual([]);
  expect(only?.split(' | ').slice(0, 3)).toEqual(['warning', place, message]);
});

test('imports are looked up where the module is known', () => {
  expect(found('import { knwon, join } from "./m.mld"\nshow @join(1)')).toEqual([
    'error | knwon | `./m.mld` does not export `knwon` | did you mean `@known`?',
    'warning | @join | the call of `@join` has no argument for `b` | write `@join(a, b)`',
  ]);
  expect(found('import "./m.mld" as @lib\nshow @lib.join(1, 2, 3)')).toEqual([
    'warning | 3 | `@join` takes 2 arguments, but gets 3 arguments | additional arguments are ignored',
  ]);
});

import { printStatement } from '@kernmantle/test-support/print-script';
import { describe, expect, test } from 'vitest';
import { parseScript } from '../src/syntax/parse.ts';

/** Returns the printed statement, or its problem. */
function read(text: string): string {
  const { script, problems } = parseScript(text, { mode: 'strict', file: 'x' });
  const [statement] = script?.body ?? [];
  if (statement === undefined || statement.kind === 'text') return `! ${problems[0]?.message}`;
  return printStatement(statement).replaceAll('\n', ' ');
}
const value = (text: string): string => read(`var @x = ${text}`).replace('var @x = ', '');
const tree = (text: string): unknown => {
  const [statement] =
    parseScript(`var @x = ${text}`, { mode: 'strict', file: 'x' }).script?.body ?? [];
  return statement?.kind === 'var' ? statement.value : undefined;
};

describe('operators', () => {
  test.each([
    ['@a || @b && @c', { operator: '||', right: { operator: '&&' } }],
    ['@a ?? @b || @c', { operator: '??', right: { operator: '||' } }],
    ['1 + 2 * 3 - 4', { operator: '-', left: { operator: '+', right: { operator: '*' } } }],
    ['@a == 1 && @b != 2', { operator: '&&', left: { operator: '==' } }],
    ['!@a && @b', { operator: '&&', left: { kind: 'unary' } }],
    ['@a-b - @c', { operator: '-', left: { name: 'a-b' } }],
    ['@a ? 1 : @b ? 2 : 3', { kind: 'ternary', else: { kind: 'ternary' } }],
    ['* && @x', { operator: '&&', left: { isWildcard: true } }],
    ['@a < 3', { operator: '<' }],
    ['-2.5', { kind: 'literal', value: -2.5 }],
  ])('%s', (text, expected) => {
    expect(tree(text)).toMatchObject(expected);
  });

  test('a comment is no comparison', () => {
    expect(value('@a >> 3')).toBe('@a');
    expect(value('@a << 3')).toBe('@a');
  });

  test('a pipe in a branch of a ternary is a problem, in parentheses it is not', () => {
    expect(value('@c ? @a | @f : 1')).toBe('! a pipe is not allowed in a branch of `? :`');
    expect(value('@c ? (@a | @f) : 1')).toBe('@c ? (@a | @f) : 1');
  });
});

describe('references', () => {
  test.each([
    '@a.b[0]["k"][@i].0',
    '@a[1:-1]',
    '@a[:2]',
    '@a[-1:]',
    '@a[*].name',
    '@o.f(1, "x").y(@z | @g)',
  ])('%s', (text) => {
    expect(value(text)).toBe(text);
  });

  test('@x? is left out of a list, and a ternary needs something behind it', () => {
    expect(tree('[@a?, @b]')).toMatchObject({
      items: [{ isOptional: true }, { isOptional: false }],
    });
    expect(tree('@a? 1 : 2')).toMatchObject({ kind: 'ternary' });
  });
});

describe('pipelines', () => {
  test.each([
    ['@x | @a || @b | @c', '@x | || @a || @b | @c'],
    ['@x || @a || @b', '@x || @a || @b'],
    ['|| @a() || @b() (2, 5ms) | @c', '|| @a() || @b() (2, 5ms) | @c'],
    ['@x | || @a || @b', '@x | || @a || @b'],
    ['5 | while(20, 1s) @step', '5 | while(20, 1000ms) @step'],
    [
      '@x | show "got @input" | log | output to "f" | append "g"',
      '@x | show "got @input" | log | output to "f" | append to "g"',
    ],
    ['@x | cmd {tr a b} | js { 1 }', '@x | cmd {tr a b} | js { 1 }'],
    [
      '@x with { pipeline: [@a, [@b, @c], show, @d(1)], format: "json" }',
      '@x with { format: "json", pipeline: [@a, [@b, @c], show, @d(1)] }',
    ],
  ])('%s', (text, printed) => {
    expect(value(text)).toBe(printed);
  });

  test('a stage without @ and an unknown option are problems', () => {
    expect(value('@x | json')).toBe('! `json` is not a stage');
    expect(value('@x with { foo: 1 }')).toBe('! `with` has no option `foo`');
  });
});

describe('arrays, objects and blocks', () => {
  test.each([
    [
      '{ "a": 1, b?: @n, ...@d, 3: run {x}, "c d": when [ * => 1 ] }',
      '{ a: 1, b?: @n, ...@d, 3: run cmd {x}, "c d": when [ * => 1 ] }',
    ],
    ['[1, ...@xs, [2], ]', '[1, ...@xs, [2]]'],
    ['[ let @a = 1 => @a + 1 ]', '[ let @a = 1 => @a + 1 ]'],
    ['[@f(@x)]', '[@f(@x)]'],
    ['[ @f() => @x ]', '[ @f() => @x ]'],
    ['[run {a}, 2]', '[run cmd {a}, 2]'],
  ])('%s', (text, printed) => {
    expect(value(text)).toBe(printed);
  });

  test('a block as a value ends in =>, and is no argument', () => {
    expect(value('[ let @a = 1 ]')).toBe('! a block that is a value must end in `=>`');
    expect(value('@f([ let @a = 1 => @a ])')).toBe('! a block is not allowed here');
  });

  test('comments inside literals are problems', () => {
    expect(value('[1, >> one\n2]')).toBe('! a comment is not allowed between elements');
    expect(value('[@a >> one\n, 2]')).toBe('! a comment is not allowed between elements');
    expect(value('{ a: 1 >> one\n}')).toBe('! a comment is not allowed between entries');
    expect(value('[@a, 2')).toBe('! `[` is not closed');
  });

  test('a brace without a key is a command that lacks its word', () => {
    const { problems } = parseScript('exe @f() = { echo hi }', { mode: 'strict', file: 'x' });
    expect(problems[0]?.hint).toContain('cmd { … }');
  });
});

describe('files', () => {
  test.each([
    '<a b/@c.md>',
    '<a.md # Part 1: x (y)>',
    '<a.md # "A, b", C?; !# d, "E">',
    '<a.md # ??>',
    '<a.md # ##??>',
    '<a.json>?.k[0]',
    '<a.ts { greet, *Service }>',
    '<*.md> as "- <>.mx.filename: <>"',
  ])('%s', (text) => {
    expect(value(text)).toBe(text);
  });

  test('exclusions need their semicolon, names and listings are not mixed', () => {
    expect(value('<a.md # A !# B>')).toBe('! `!#` needs a `;` before it');
    expect(value('<a.md # a;b>')).toContain('only `!#` may follow');
    expect(value('<a.ts { a, fn?? }>')).toBe('! names and `??` cannot be mixed');
  });
});

describe('definitions', () => {
  test.each([
    ['var secret,pii @k = 1', 'var secret,pii @k = 1'],
    [
      'exe net:w,paid @post(@url, body: string) = cmd {a}',
      'exe net:w,paid @post(url, body: string) = cmd {a}',
    ],
    ['exe @f = "x"', 'exe @f() = "x"'],
    ['exe @js = { up, clean }', 'exe js = { up, clean }'],
    ['exe @f() = template "./a.att"', 'exe @f() = template "./a.att"'],
    [
      'exe @f(x) = run {a} with { stdin: @x, description: "d" }',
      'exe @f(x) = run cmd {a} with { stdin: @x, description: "d" }',
    ],
    ['exe @f(x) = llm:fast "hi @x"', 'exe @f(x) = llm:fast "hi @x"'],
  ])('%s', (text, printed) => {
    expect(read(text)).toBe(printed);
  });

  test.each([
    ['var @a.b = 1', 'binds a name'],
    ['exe @a.b() = 1', 'binds a name'],
    ['var @x = @y += 1', '`+=` is not allowed in a value'],
    ['var @now = 1', 'cannot be assigned'],
    ['let @x = 1', 'is allowed only in blocks'],
    ['run echo hi', 'expected a command in braces'],
  ])('%s', (text, message) => {
    expect(read(text)).toContain(message);
  });
});

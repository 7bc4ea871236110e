import { describe, expect, test } from 'vitest';
import type { Expression, Statement } from './ast.ts';
import { parseScript } from './parse.ts';

function first(text: string): Statement | undefined {
  const [statement] = parseScript(text, { mode: 'strict', file: 'x' }).script?.body ?? [];
  return statement?.kind === 'text' ? undefined : statement;
}
function action(text: string): Expression | undefined {
  const statement = first(text);
  return statement?.kind === 'run' ? statement.action : undefined;
}
const problem = (text: string): string | undefined =>
  parseScript(text, { mode: 'strict', file: 'x' }).problems[0]?.message;

/** Returns the lines of a command, with inserted values as `‹quote:raw›`. */
function commandLines(text: string): string[] | undefined {
  const command = action(text);
  if (command?.kind !== 'command') return undefined;
  return command.lines.map((line) =>
    line
      .map((part) => {
        if (typeof part === 'string') return part;
        return part.kind === 'repeat' ? '' : `‹${part.quote}:${part.raw}›`;
      })
      .join(''),
  );
}

describe('commands', () => {
  test('the quotes around what is put in are known', () => {
    expect(commandLines('run {a @x "b @y" \'c @z\'}')).toEqual([
      'a ‹none:@x› "b ‹double:@y›" \'c @z\'',
    ]);
  });

  test('escapes, files and fragments', () => {
    expect(commandLines('run {echo "a\\nb" c@@d <f.txt> @t?`--t @t`}')).toEqual([
      'echo "a\nb" c@d ‹none:<f.txt>› ‹none:@t?`--t @t`›',
    ]);
  });

  test('each line is a command, unless a pipe or a backslash carries it on', () => {
    expect(commandLines('run {\n  a\n\n  b |\n  c\n  d \\\n  e\n  f\n  | g\n}')).toEqual([
      'a',
      'b | c',
      'd    e',
      'f | g',
    ]);
  });

  test('all ways to write one', () => {
    expect(commandLines('run {echo hi}')).toEqual(['echo hi']);
    expect(commandLines('run cmd { echo hi }')).toEqual(['echo hi']);
    expect(commandLines('run "echo \\"hi @x\\""')).toEqual(['echo "hi ‹double:@x›"']);
  });

  test.each(['&&', '||', ';', '&', '>', '<'])('`%s` outside quotes is refused', (operator) => {
    expect(problem(`run {a ${operator} b}`)).toBe(`\`${operator}\` is not allowed in a command`);
    expect(problem(`run {a "${operator}" '${operator}'}`)).toBeUndefined();
  });

  test('braces in quotes and balanced braces belong to the command', () => {
    expect(commandLines('run {echo "}" ${HOME} \'{\'}')).toEqual(['echo "}" ${HOME} \'{\'']);
    expect(problem("run {echo it's}")).toBe("the quote `'` in the command is not closed");
  });

  test('folder, environment and options', () => {
    expect(action('run cmd:@root/sub {ls} using @t as T with { timeout: 5 }')).toMatchObject({
      kind: 'with',
      value: {
        kind: 'command',
        folder: { style: 'bare' },
        using: { value: { name: 't' }, name: 'T' },
      },
    });
  });
});

describe('code', () => {
  test.each([
    ['js { return "}" }', ' return "}" '],
    ['js { return `}${ {a: 1}.a }` }', ' return `}${ {a: 1}.a }` '],
    ['js { return /[}/]}/.test(x) }', ' return /[}/]}/.test(x) '],
    ['js { // }\n return 4 / 2 /* } */ }', ' // }\n return 4 / 2 /* } */ '],
    ["py { x = '''}''' # }\n}", " x = '''}''' # }\n"],
    ['sh { echo "}" # it\'s }\n}', ' echo "}" # it\'s }\n'],
  ])('%s', (code, body) => {
    expect(action(`run ${code}`)).toMatchObject({ kind: 'code', body });
  });

  test('names are listed before the body', () => {
    expect(action('run javascript (@a, @b.c) { 1 }')).toMatchObject({
      language: 'js',
      names: [{ name: 'a' }, { name: 'b' }],
    });
  });

  test('@name in js is a slip, in its texts it is not', () => {
    expect(problem('exe @f(x) = js { return @x }')).toBe('`@x` is not a name in js code');
    expect(problem('exe @f(x) = js { return "@x" + `@x` }')).toBeUndefined();
    expect(problem('exe @f(x) = sh { echo @x }')).toBeUndefined();
  });

  test('a body that never ends is a problem', () => {
    expect(problem('exe @f() = js { if (a) {')).toBe('the brace of `js` is not closed');
  });
});

import { printStatement } from '@kernmantle/test-support/print-script';
import { describe, expect, test } from 'vitest';
import type { Mode } from '../src/syntax/ast.ts';
import { parseScript, parseTemplateFile } from '../src/syntax/parse.ts';

/** Returns the lines of a script: texts unchanged, statements printed. */
function lines(text: string, mode: Mode = 'markdown'): string[] {
  const { script, problems } = parseScript(text, { mode, file: 'x' });
  if (script === undefined) return problems.map(({ message }) => `! ${message}`);
  return script.body.map((line) =>
    line.kind === 'text' ? `"${line.text}"` : printStatement(line),
  );
}
const strict = (text: string): string[] => lines(text, 'strict');

describe('markdown mode', () => {
  test('only lines with a slash and a statement word are statements', () => {
    expect(lines('# Hi @x\n/show @x\n//show\n/comment x\n@x\n  /show @y\n')).toEqual([
      '"# Hi @x\n"',
      'show @x',
      '"//show\n/comment x\n@x\n"',
      'show @y',
    ]);
  });

  test('a statement word needs a blank, a bracket or the end behind it', () => {
    expect(lines('/shower\n/for-each\n/loop(2) [ done ]\n')).toEqual([
      '"/shower\n/for-each\n"',
      'loop(2) [\ndone\n]',
    ]);
  });

  test('a bare call takes a slash', () => {
    expect(lines('/@f(1)\n@f(1)\n')).toEqual(['@f(1)', '"@f(1)\n"']);
  });

  test('fenced code is text, of whatever length its fence is', () => {
    const text = '````\n```\n/show @x\n```\n````\n~~~js\n/show @x\n~~~\n';
    expect(lines(text)).toEqual([`"${text}"`]);
  });

  test('a fence that is not closed reaches to the end', () => {
    expect(lines('```\n/show @x')).toEqual(['"```\n/show @x"']);
  });

  test('a fence of kind mlld-run holds a strict script', () => {
    const { script } = parseScript('a\n```mlld-run\nvar @x = 1\n\nshow @x\n```\nb', {
      mode: 'markdown',
      file: 'x',
    });
    expect(script?.body).toMatchObject([
      { kind: 'text', text: 'a\n' },
      { kind: 'fence', body: [{ kind: 'var' }, { kind: 'effect' }] },
      { kind: 'text', text: 'b' },
    ]);
  });

  test('comments leave no line behind', () => {
    expect(lines('a\n>> one\n>>\nb\n/show @x >> two\n/show @y << three\n')).toEqual([
      '"a\n"',
      '"b\n"',
      'show @x',
      'show @y',
    ]);
  });

  test('a table below a statement stays text, stages carry the statement on', () => {
    expect(lines('/show @x\n| a | b |\n')).toEqual(['show @x', '"| a | b |\n"']);
    expect(lines('/show @x\n  | @a\n  || @b\n  | show\n')).toEqual([
      'show @x | || @a || @b | show',
    ]);
  });

  test('front matter is kept as it is written and is no text', () => {
    const { script } = parseScript('---\na: 1\nb: "2"\n---\nx\n', { mode: 'markdown', file: 'x' });
    expect(script?.frontMatter).toBe('a: 1\nb: "2"');
    expect(script?.body).toMatchObject([{ text: 'x\n' }]);
    expect(parseScript('---\n---\nx', { mode: 'markdown', file: 'x' }).script?.frontMatter).toBe(
      '',
    );
  });
});

describe('strict mode', () => {
  test('the slash is optional and blank lines mean nothing', () => {
    expect(strict('\n/var @x = 1\n\n  show @x\n@f()\n=> @x\n')).toEqual([
      'var @x = 1',
      'show @x',
      '@f()',
      '=> @x',
    ]);
  });

  test('text is an error, and so is a name alone', () => {
    expect(strict('hello there')).toEqual(['! expected a statement, found `hello`']);
    expect(strict('@x')).toEqual(['! a value alone is not a statement']);
  });
});

describe('where a statement ends', () => {
  test.each([
    ['var @x = [\n1,\n2\n]', 'var @x = [1, 2]'],
    ['var @x = @a &&\n @b', 'var @x = @a && @b'],
    ['var @x = @a\n  .trim()\n  .length()', 'var @x = @a.trim().length()'],
    ['var @x = @a\n  | @b\n  | @c', 'var @x = @a | @b | @c'],
    ['var @x =\n  1', 'var @x = 1'],
    ['show `a\nb`', 'show `a\nb`'],
  ])('%j is one statement', (text, printed) => {
    expect(strict(text)).toEqual([printed]);
  });

  test('what follows a complete statement on its line is an error', () => {
    expect(strict('var @x = 1 2')).toEqual(['! unexpected `2` after the statement']);
    expect(strict('show @a @b')).toEqual(['! `show` takes one argument, found `@b` after it']);
  });
});

describe('problems', () => {
  test('each statement reports its first one, and the others are still read', () => {
    const text = 'var @a = \nvar @b = [1 2]\nshow @ok\nif @c => 1\n';
    const { script, partial, problems } = parseScript(text, { mode: 'strict', file: 'x' });
    expect(script).toBeUndefined();
    expect(problems.map(({ at }) => text.slice(at).split('\n')[0])).toEqual([
      'var @b = [1 2]',
      '=> 1',
    ]);
    expect(partial.body).toMatchObject([{ kind: 'effect', value: { name: 'ok' } }]);
  });

  test('a statement that never ends does not hide the ones behind it', () => {
    const { problems } = parseScript('/var @x = [\n/show\n/show @y @z\n', {
      mode: 'markdown',
      file: 'x',
    });
    expect(problems.length).toBeGreaterThan(1);
  });

  test('code that holds a slip is skipped as a whole', () => {
    const text = 'exe @f(x) = js {\nif (@x) {\nreturn 1\n}\n}\nshow @y @z';
    const { problems } = parseScript(text, { mode: 'strict', file: 'x' });
    expect(problems.map(({ message }) => message)).toEqual([
      '`@x` is not a name in js code',
      '`show` takes one argument, found `@z` after it',
    ]);
  });

  test('nesting is bounded', () => {
    for (const open of ['[', '(', '{a:', '!', 'for @x in @y => ', 'when @a => ', '`@f(']) {
      const { problems } = parseScript(`var @x = ${open.repeat(5000)}`, {
        mode: 'strict',
        file: 'x',
      });
      expect(problems.length).toBeGreaterThan(0);
    }
  });
});

describe('template files', () => {
  test('.att reads like ::, without its final line break', () => {
    expect(parseTemplateFile('Hi @name.\n{{x}}\n', 'att').parts).toMatchObject([
      'Hi ',
      { kind: 'insert', raw: '@name' },
      '.\n{{x}}',
    ]);
  });

  test('.mtt fills braces only', () => {
    expect(parseTemplateFile('@a {{ b.c }}\n', 'mtt').parts).toMatchObject([
      '@a ',
      { raw: '{{ b.c }}' },
    ]);
  });

  test('a fence of kind mlld stays literal, other fences do not', () => {
    expect(parseTemplateFile('```mlld\n@a\n```\n@b', 'att').parts).toMatchObject([
      '```mlld\n@a\n```\n',
      { raw: '@b' },
    ]);
    expect(parseTemplateFile('```mlld-run\n@a\n```', 'att').parts).toMatchObject([
      '```mlld-run\n',
      { raw: '@a' },
      '\n```',
    ]);
  });

  test('a text with braces becomes a template of its own', () => {
    expect(parseTemplateFile('- {{result}}', 'mtt').parts).toMatchObject([
      '- ',
      { value: { name: 'result' } },
    ]);
  });
});

test.each([
  ['/var @a = {"k": 1\n/show "next"\n', '{', '`{` is not closed before the next statement'],
  ['var @a = [\n  1,\n  2\nshow "next"\n', '[', '`[` is not closed before the next statement'],
  ['exe @f(a,\nshow "next"\n', '(', '`(` is not closed before the next statement'],
  ['var @a = { "b": [1,\n  exe @f() = 1', '[', '`[` is not closed before the next statement'],
  [
    'when [\n  @x == 1 => show "a"\nshow "next"\n',
    '[',
    'the list of `when` is not closed before the next statement',
  ],
  ['for @x in @l => [\n  show @x\nshow "next"\n', '[', 'the block is not closed'],
])('what is not closed is pointed at: %j', (text, opener, message) => {
  const mode = text.startsWith('/') ? 'markdown' : 'strict';
  const [problem] = parseScript(text, { mode, file: 'x' }).problems;
  expect(problem).toMatchObject({
    at: text.lastIndexOf(opener, problem?.at),
    message,
    code: 'unclosed',
  });
  expect(text[problem?.at ?? 0]).toBe(opener);
});

test('keys that are words of statements, and divisions over lines, are read as before', () => {
  expect(
    parseScript('var @a = {\n  show: 1,\n  var: 2,\n  log : 3\n}', { mode: 'strict', file: 'x' })
      .problems,
  ).toEqual([]);
  expect(parseScript('var @a = (8\n  / 2)', { mode: 'strict', file: 'x' }).problems).toEqual([]);
});

import { describe, expect, test } from 'vitest';
import type { TemplatePart } from './ast.ts';
import { parseScript } from './parse.ts';

/** Returns strings unchanged, and inserted parts as raw text in angle quotes. */
function parts(text: string): string[] {
  const { script, problems } = parseScript(`var @x = ${text}`, { mode: 'strict', file: 'x' });
  const [statement] = script?.body ?? [];
  if (statement?.kind !== 'var') return problems.map(({ message }) => `! ${message}`);
  if (statement.value.kind === 'literal') return ['literal', String(statement.value.value)];
  if (statement.value.kind !== 'template') return [`! ${statement.value.kind}`];
  return statement.value.parts.map(shown);
}
const shown = (part: TemplatePart): string => {
  if (typeof part === 'string') return part;
  return part.kind === 'repeat' ? `«repeat ${part.parts.map(shown).join('')}»` : `«${part.raw}»`;
};

describe('the forms', () => {
  test.each([
    ['"a @b"', ['a ', '«@b»']],
    ['"a\\n\\t\\"\\\'\\\\\\@\\$\\{\\.\\d"', ['a\n\t"\'\\@${.\\d']],
    ['`a <b.md> \\` @c`', ['a ', '«<b.md>»', ' ` ', '«@c»']],
    ["'a @b \\' \\\\ \\n'", ['literal', "a @b ' \\ \\n"]],
    ['::a `b` : \\n @c::', ['a `b` : \\n ', '«@c»']],
    ['::\na\n::', ['a']],
    [':::\n@a <b.md> {{ c.d[0] }} \\n\\t\\\\\n:::', ['@a <b.md> ', '«{{ c.d[0] }}»', ' \n\t\\']],
    ['[[a "b\' \\\\ ]]', ['a "b\' \\ ']],
    ['""', []],
  ])('%s', (text, expected) => {
    expect(parts(text)).toEqual(expected);
  });

  test('"…" and \'…\' end on their line', () => {
    expect(parts('"a\nb"')).toEqual(['! the text that begins with `"` is not closed']);
    expect(parts("'a\nb'")).toEqual(["! the text that begins with `'` is not closed"]);
  });

  test('[[ … ]] is an array when it reads as one', () => {
    expect(parts('[[1, 2], [3]]')).toEqual(['! array']);
  });
});

describe('what is put in', () => {
  test.each([
    ['@user.name[0].trim()!', ['«@user.name[0].trim()»', '!']],
    ['@name. And', ['«@name»', '. And']],
    ['user@example.com', ['user', '«@example.com»']],
    ['@dir/@name\\.txt', ['«@dir»', '/', '«@name»', '.txt']],
    ['@a\\-b', ['«@a»', '-b']],
    ['@a-b-@c', ['«@a-b»', '-', '«@c»']],
    ['@@a \\@b', ['@a @b']],
    ['@ 5', ['@ 5']],
    ['@f(1, "x").y @f (1)', ['«@f(1, "x").y»', ' ', '«@f»', ' (1)']],
    ['@f(what now)', ['«@f»', '(what now)']],
    ['@a[x] @a[1:2] @a["k"]', ['«@a»', '[x] ', '«@a[1:2]»', ' ', '«@a["k"]»']],
    ['@a|@up|@cut(2) | @b', ['«@a|@up|@cut(2)»', ' | ', '«@b»']],
    ['${x} $x', ['${x} $x']],
    ['@a? @b?`--x @b` @c??"d"', ['«@a?»', ' ', '«@b?`--x @b`»', ' ', '«@c??"d"»']],
  ])('::%s::', (text, expected) => {
    expect(parts(`::${text}::`)).toEqual(expected);
  });

  test('a fragment in "…" keeps its own quotes, a closed text does not become one', () => {
    expect(parts('"Hi @t?"@t "@n@k?" (@k)""')).toEqual([
      'Hi ',
      '«@t?"@t "»',
      '«@n»',
      '«@k?" (@k)"»',
    ]);
    expect(parts('"Hi @t?"')).toEqual(['Hi ', '«@t?»']);
    expect(parts('["a @t?", "b"]')).toEqual(['! array']);
    expect(parts('`a @t?`')).toEqual(['a ', '«@t?»']);
  });
});

describe('files in text', () => {
  test.each([
    ['<a.md> <*.ts> <@x>', ['«<a.md>»', ' ', '«<*.ts>»', ' ', '«<@x>»']],
    ['<div> </p> <70% a <b a="x.y"> < a.b>', ['<div> </p> <70% a <b a="x.y"> < a.b>']],
    ['<a.json>.k[0]|@json', ['«<a.json>.k[0]|@json»']],
    ['<a.md # Part 1>', ['«<a.md # Part 1>»']],
  ])('`%s`', (text, expected) => {
    expect(parts(`\`${text}\``)).toEqual(expected);
  });

  test('"…" holds a file only when it holds nothing else', () => {
    expect(parts('"<a.txt>"')).toEqual(['«<a.txt>»']);
    expect(parts('"<a.json>|@json"')).toEqual(['«<a.json>|@json»']);
    expect(parts('"see <a.txt>"')).toEqual(['see <a.txt>']);
  });
});

describe('/for in text', () => {
  test('repeats the lines up to /end', () => {
    expect(parts('::\nA\n/for @x in @xs\n- @x\n/end\nB\n::')).toEqual([
      'A\n',
      '«repeat - «@x»\n»',
      'B',
    ]);
  });

  test('needs /end, the start of a line, and a list', () => {
    expect(parts('`/for @x in @xs\n- `')).toEqual(['/for ', '«@x»', ' in ', '«@xs»', '\n- ']);
    expect(parts('`a /for @x in @xs\n/end\n`').join('')).toContain('/for');
    expect(parts('`\n/show @x\n`')).toEqual(['\n/show ', '«@x»', '\n']);
  });
});

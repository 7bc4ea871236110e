import { describe, expect, test } from 'vitest';
import type { Mode, Statement } from './ast.ts';
import {
  bodyKindOf,
  keysOf,
  literalAt,
  namesIn,
  namesReadBy,
  staticText,
  typeOf,
} from './outline.ts';
import { parseScript } from './parse.ts';

const read = (text: string, mode: Mode = 'strict') =>
  parseScript(text, { mode, file: 'a.mld' }).partial;

/** Returns each name with its kind and the text in which it is visible. */
function listed(text: string): string[] {
  return namesIn(read(text)).map(({ name, kind, place, seen }) => {
    const written = text.slice(place.at, place.end);
    const where =
      seen.end === text.length && seen.at === 0 ? 'file' : text.slice(seen.at, seen.end);
    return `${kind} ${name} as ${written} in ${where}`;
  });
}

const rightOf = (text: string) => {
  const [statement] = read(`var @x = ${text}`).body as Statement[];
  return statement?.kind === 'var' ? statement.value : undefined;
};

test('variables and functions are seen in the whole file, parameters in their function', () => {
  expect(listed('var secret @secret = 1\nexe net:w @f(a, @b: string) = `@a`')).toEqual([
    'variable secret as secret in file',
    'function f as f in file',
    'parameter a as a in exe net:w @f(a, @b: string) = `@a`',
    'parameter b as b in exe net:w @f(a, @b: string) = `@a`',
  ]);
});

test('names of blocks and loops are seen inside them', () => {
  const text =
    'exe @f() = [\n  let @n = 1\n  => @n\n]\nfor @k, @v in @o => show @k\nfor @x in @o => show 1';
  expect(listed(text).slice(1)).toEqual([
    'variable n as n in [\n  let @n = 1\n  => @n\n]',
    'loop variable k as k in for @k, @v in @o => show @k',
    'loop variable v as v in for @k, @v in @o => show @k',
    'loop variable x_key as x in for @x in @o => show 1',
    'loop variable x as x in for @x in @o => show 1',
  ]);
});

test('imported names know their file and what they are called there', () => {
  const names = namesIn(
    read(
      'import { a, c as @b, b as @d } from "./m.mld"\nimport "@root/lib.mld" as @lib\nimport "./my-lib.mld"',
    ),
  );
  const seen = names.map(({ kind, name, source, place }) => [
    kind,
    name,
    source?.name,
    source && staticText(source.path),
    place.end - place.at,
  ]);
  expect(seen).toEqual([
    ['import', 'a', 'a', './m.mld', 1],
    ['import', 'b', 'c', './m.mld', 1],
    ['import', 'd', 'b', './m.mld', 1],
    ['namespace', 'lib', undefined, '@root/lib.mld', 3],
    ['namespace', 'my_lib', undefined, './my-lib.mld', 14],
  ]);
});

test('a path that holds a variable is known only at run time', () => {
  const [bound] = namesIn(read('import "./@which.mld" as @lib'));
  expect(bound?.source && staticText(bound.source.path)).toBeUndefined();
});

test('names of loops inside templates, guards, hooks and policies are found', () => {
  const text =
    'var @t = ::\n/for @x in @xs\n@x\n/end\n::\nguard @g before secret = when [ * => allow ]\nhook @h after op:run = [ log 1 ]\npolicy @p = { deny: ["sh"] }';
  const found = namesIn(read(text)).map(({ kind, name }) => `${kind} ${name}`);
  expect(found).toEqual([
    'variable t',
    'loop variable x_key',
    'loop variable x',
    'guard g',
    'hook h',
    'policy p',
  ]);
});

describe('what the form of a value says', () => {
  test.each([
    ['1', 'number'],
    ['"a"', 'string'],
    ['`a @b`', 'string'],
    ['true', 'boolean'],
    ['null', 'null'],
    ['[1]', 'array'],
    ['{ a: 1 }', 'object'],
    ['for @x in @xs => @x', 'array'],
    ['@a == 1', 'boolean'],
    ['@a * 2', 'number'],
    ['!@a', 'boolean'],
    ['@a', undefined],
    ['@a ?? 1', undefined],
    ['run {ls}', undefined],
  ])('%s is %s', (text, type) => expect(typeOf(rightOf(text))).toBe(type));

  test('fields of literals can be followed', () => {
    const value = rightOf('{ a: [{ b: { c: 1 } }], d: "x" }');
    expect(keysOf(value)).toEqual(['a', 'd']);
    expect(keysOf(literalAt(value, ['a', '0', 'b']))).toEqual(['c']);
    expect(literalAt(value, ['none', 'at', 'all'])).toBeUndefined();
  });
});

test('what is read is found in templates, pipelines, calls and bodies', () => {
  const text =
    'var @x = `a @b.c` | @f(@d)\nexe @g(p) = [ let @l = @p\n => @l ]\nfor @i in @list => show @i';
  const reads = namesIn(read(text)).map(({ name, ...bound }) => [
    name,
    namesReadBy({ name, ...bound })
      .map((one) => one.name)
      .toSorted(),
  ]);
  expect(Object.fromEntries(reads)).toMatchObject({
    x: ['b', 'd', 'f'],
    g: ['l', 'p'],
    l: ['p'],
    i: ['list'],
    p: [],
  });
});

test('kinds of bodies are those of operation filters', () => {
  const kinds = ['cmd {ls}', 'js { 1 }', 'bash {ls}', '`x`', '@g(1)', 'run {ls}', 'llm "hi"'];
  const found = kinds.map((body) => {
    const [statement] = read(`exe @f() = ${body}`).body as Statement[];
    return statement?.kind === 'exe' ? bodyKindOf(statement.body) : statement;
  });
  expect(found).toEqual(['cmd', 'js', 'sh', 'template', 'exe', 'cmd', 'llm']);
});

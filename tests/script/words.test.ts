// Values and text: tolerant comparison, patterns, maps of replacements, questions whether something is
// there, comments and front matter, and a null that was read.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeValue } from '../../src/flow/index.ts';
import { type Fixture, makeFixture } from '../support/project.ts';
import { type PlayOptions, play } from '../support/script-world.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/km.js', import.meta.url));

let fixture: Fixture;
beforeAll(() => {
  fixture = makeFixture({
    'notes.md':
      '---\ntitle: Notes\n---\n<< for the author only\n/show `@frontmatter.title = @fm.title`\n',
  });
});
afterAll(() => fixture.remove());

/** On the real command line: what was printed, and the exit code. */
function km(...words: string[]): { code: number | null; out: string; err: string } {
  const done = spawnSync(process.execPath, [LAUNCHER, ...words], {
    cwd: fixture.root,
    env: { ...fixture.env, KERNMANTLE_SRC: '1' },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: done.status, out: done.stdout, err: done.stderr };
}

/** What a script printed, without the last line break; it must come to its end. */
async function said(text: string, options: PlayOptions = {}): Promise<string> {
  const played = await play(text, options);
  expect(played.fault).toBe('');
  return played.text.replace(/\n$/, '');
}

describe('the examples, on the command line', () => {
  test.each([
    [
      'tolerant comparison',
      `var @got = "tea, milk"
show @got ~= ["milk", "tea", "jam"]
var @two = ["tea", "gin"]
show @two ~= ["tea"]
show "null" ~= []
show "12" !~= 12`,
      'true\nfalse\ntrue\nfalse\n',
    ],
    [
      'a map of replacements',
      `var @t = "Dear WHO, see you in WHERE."
show @t.replaceAll({ "WHO": "Mia", "WHERE": "Rome" })
var @u = "ab"
show @u.replaceAll({ "a": "b", "b": "c" })`,
      'Dear Mia, see you in Rome.\ncc\n',
    ],
  ])('%s', (_name, text, out) => {
    expect(km('script', '-e', text)).toEqual({ code: 0, out, err: '' });
  });

  test('front matter under its long name, and a comment', () => {
    expect(km('script', 'notes.md')).toEqual({ code: 0, out: 'Notes = Notes\n', err: '' });
  });
});

describe('tolerant comparison', () => {
  test.each([
    ['"b, a"', '["a", "b", "c"]', true],
    ['"7"', '[7]', true],
    ['["a", "x"]', '["a"]', false],
    ['[]', '["a"]', false],
    // Nothing at all.
    ['null', '[]', true],
    ['@nobody', 'null', true],
    ['" NULL "', '@nobody', true],
    ['""', '[]', true],
    ['" , ,"', '[]', true],
    ['"a"', '[]', false],
    ['"a"', 'null', false],
    ['[null]', '[]', false],
    ['[null]', '[null, 1]', true],
    ['"null, a"', '["a", "null"]', true],
    // Texts are split on a whole side only, and are otherwise what they are.
    ['"a,,b ,"', '"b,a"', true],
    ['["a, b"]', '["a", "b"]', false],
    ['["a "]', '["a"]', false],
    ['"A"', '"a"', false],
    // Numbers and booleans.
    ['12', '"12, 13"', true],
    ['"12.0"', '12', true],
    ['"12.0"', '"12"', false],
    ['true', '[true]', true],
    ['"true"', 'true', false],
    ['0', 'null', false],
    ['1 / 0', '[1 / 0]', true],
    // Each has one of its own.
    ['["a", "a"]', '["a", "b"]', false],
    ['["a", "a"]', '["a", "b", "a"]', true],
    ['[7, "7"]', '["7.0", 7]', true],
    ['["7", "7"]', '["7.0", 7]', false],
    ['["7", "7"]', '[7, 7.0]', true],
    ['[7, 7, 7]', '[7, "7"]', false],
    // Lists and objects within, by `==`.
    ['[[1, 2]]', '[[2], [1, "2"]]', true],
    ['[{ "a": 1 }]', '[{ "a": 2 }]', false],
    ['[[7], ["7"]]', '[[7], ["7.0"]]', true],
    ['[["7"], ["7"]]', '[[7], ["7.0"]]', false],
    ['[[1], "a"]', '["a", [1]]', true],
    ['[[1]]', '[1]', false],
    // An object as a whole.
    ['{ "a": "1" }', '{ "a": 1 }', true],
    ['{ "a": 1 }', '[{ "a": 1 }]', false],
    ['{}', '[]', false],
    ['null', '{}', false],
  ])('%s ~= %s is %s', async (left, right, isTolerated) => {
    const text = `var @yes = ${left} ~= ${right}\nvar @no = ${left} !~= ${right}\nshow \`@yes @no\``;
    expect(await said(text)).toBe(`${isTolerated} ${!isTolerated}`);
  });

  test('binds like `==`, goes on over the line, and stands wherever a value does', async () => {
    const text = `
var @a = 1 + 1 ~= "2" && true
var @b = "x" ~=
  ["x"]
exe @f(v) = [ => @v ~= ["a", "b"] ]
var @c = [@f("b, a"), @f("c")]
var @d = { "k": "a" ~= "a" }
var @e = for @v in ["a", "c"] when @v ~= "a,b" => @v
show \`@a @b @c @d @e @f("a")\`
if "a" !~= "b" [ show "if" ]
show @missing? ~= null ? "none" : "some"`;
    expect(await said(text)).toBe('true true [true,false] {"k":true} ["a"] true\nif\nnone');
  });

  test('is a pattern of `when V`', async () => {
    const text = `
exe @kind(v) = when @v [
  ~= ["tea", "milk"] => "drinks"
  !~= "gin, rum" => "other"
  none => "spirits"
]
for @v in ["milk, tea", ["bread"], "rum", null] => show @kind(@v)`;
    expect(await said(text)).toBe('drinks\nother\nspirits\nother');
  });

  test('many elements are compared in one go, too many lists are refused', async () => {
    const many = Array.from({ length: 50_000 }, (_, at) => at).join(',');
    expect(await said(`var @l = "${many}"\nshow @l ~= @l`)).toBe('true');
    const lists = makeValue(Array.from({ length: 600 }, (_, at) => [at]));
    const inputs = new Map([['l', lists]]);
    const { fault } = await play('show @l ~= @l', { inputs });
    expect(fault).toMatch(/too many lists or objects to compare with `~=`/);
  });

  test('the answer has the labels of both sides', async () => {
    const text = `
var secret @key = "a"
var untrusted @text = "a, b"
var @one = @key ~= @text
var @two = "a" !~= [1, @key]
var @three = when @text [ ~= ["a"] => "x"  * => "y" ]
show \`@one.mx.labels @two.mx.labels @three.mx.labels\``;
    expect(await said(text)).toBe('["secret","untrusted"] ["secret"] ["untrusted"]');
  });

  test('`check` knows that it asks', () => {
    const found = km('check', '--json', fixture.write('asks.mld', 'show @nobody ~= null\n'));
    expect(found).toMatchObject({ code: 0, out: '[]\n' });
  });
});

describe('a map of replacements', () => {
  test.each([
    ['{}', 'a-b'],
    ['{ "x": "y" }', 'a-b'],
    ['{ "a": null, "b": [1, { "k": 2 }] }', 'null-[1,{"k":2}]'],
    ['{ "-": "$&$1" }', 'a$&$1b'],
    ['{ "a": "aa", "aa": "b" }', 'b-b'],
    ['{ ".": "x", "a": 1.5 }', '1.5-b'],
    ['@map', 'A-b'],
  ])('%s', async (map, out) => {
    const text = `var @map = { "a": "A" }\nvar @t = "a-b"\nshow @t.replaceAll(${map})`;
    expect(await said(text)).toBe(out);
  });

  test('works in templates, functions and modules, and on the text of a file', async () => {
    const files = {
      'a.json': '{"n":1}',
      'lib.mld': 'exe @fill(t, m) = @t.replaceAll(@m)\nexport { fill }',
    };
    const text = `
import { fill } from "./lib.mld"
var @t = "Hi WHO"
show \`<@t.replaceAll({ "WHO": "Bo" })>\`
show @fill(@t, { "WHO": "Al" })
show <a.json>.replaceAll({ "1": "2" })
show @t.replaceAll({ "Hi": "Ho" }).replaceAll({ "WHO": "ho" }) | @upper`;
    expect(await said(text, { files })).toBe('<Hi Bo>\nHi Al\n{"n": 2}\nHO HO');
  });

  test('keeps labels of the text and of the map', async () => {
    const text = `
var secret @key = "k"
var untrusted @text = "a b"
var @one = @text.replaceAll({ "a": @key })
var @t = "t"
var @three = @t.replaceAll({ "t": "u", "z": @key })
show \`@one.mx.labels @three.mx.labels\``;
    expect(await said(text)).toBe('["untrusted","secret"] ["secret"]');
  });

  test('does not grow without end', async () => {
    const { fault } = await play(`
var @t = "a"
var @big = @t.repeat(5000)
show @big.replaceAll({ "a": @big })`);
    expect(fault).toMatch(/the result would be longer than 16777216 characters/);
  });
});

describe('comments and front matter', () => {
  test('a line that begins with `<<` and a blank is a comment, in blocks too', async () => {
    const text = `
<< one
  <<
var @x = [
  << two
  let @a = 1 <<behind
  => @a << three
]
show when [
  << four
  @x => "yes" << five
]
show @x | show << six`;
    expect(await said(text)).toBe('yes\n1\n1');
  });

  test('in markdown the line is gone, and what has no blank behind it is text', async () => {
    const text =
      '<< gone\n<<stays\n  <<\n\t<< gone\na << stays\n```\n<< stays\n```\n/show 1 << gone\n';
    const { text: out } = await play(text, { mode: 'markdown' });
    expect(out).toBe('<<stays\na << stays\n```\n<< stays\n```\n1\n');
  });

  test('without the blank it is no statement', () => {
    const { code, err } = km('script', '-e', 'show 1\n<<x');
    expect(code).toBe(3);
    expect(err).toContain('expected a statement');
  });

  test('`@frontmatter` is `@fm`, of the file it stands in, and cannot be assigned', async () => {
    const files = { 'lib.md': '---\nt: inner\n---\n/exe @f() = `@frontmatter.t @fm.t`\n' };
    const text = '---\nt: outer\n---\nimport { f } from "./lib.md"\nshow `@f() @frontmatter.t`';
    expect(await said(text, { files })).toBe('inner inner outer');
    expect(await said('show @frontmatter.t ?? "none"')).toBe('none');
    expect(km('script', '-e', 'var @frontmatter = 1').code).toBe(3);
  });
});

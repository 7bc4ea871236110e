// Values and text: tolerant comparison, patterns, maps of replacements, tests of existence, comments, front
// matter, and a null that was read.
import { makeValue } from '@kernmantle/core/flow';
import { runStreams } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { type PlayOptions, play } from '@kernmantle/test-support/script-world';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let fixture: Fixture;
beforeAll(() => {
  fixture = makeFixture({
    'notes.md':
      '---\ntitle: Notes\n---\n<< for the author only\n/show `@frontmatter.title = @fm.title`\n',
  });
});
afterAll(() => fixture.remove());

/** Runs a script on the command line. Returns the printed text and the exit code. */
async function km(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, out, err } = await runStreams(words, fixture.root, fixture.env);
  return { code, out, err };
}

/** Returns the printed text without the last line break. The script must succeed. */
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
      'patterns',
      `var @s = "order 17, order 230"
show @s.replace(/[0-9]+/g, "#$&")
show @s.match(/order ([0-9]+)/)[1]
show @s.match(/refund/) ?? "none"`,
      'order #17, order #230\n17\nnone\n',
    ],
    [
      'whether something is there',
      `var @o = { "a": { "b": "no-such.txt" }, "n": null }
show @exists(@o.a.b)
show @exists("no-such.txt")
show @exists(@o.n)
show @exists(@nobody.x[3])
show @fileExists(@o.a.b)`,
      'true\nfalse\nfalse\nfalse\nfalse\n',
    ],
    [
      'a null that was read',
      `var @r = "nothing in here" | @parse.llm
show @r
show @r ?? "none"`,
      'null\nnone\n',
    ],
    [
      'a map of replacements',
      `var @t = "Dear WHO, see you in WHERE."
show @t.replaceAll({ "WHO": "Mia", "WHERE": "Rome" })
var @u = "ab"
show @u.replaceAll({ "a": "b", "b": "c" })`,
      'Dear Mia, see you in Rome.\ncc\n',
    ],
  ])('%s', async (_name, text, out) => {
    expect(await km('script', '-e', text)).toEqual({ code: 0, out, err: '' });
  });

  test('front matter under its long name, and a comment', async () => {
    expect(await km('script', 'notes.md')).toEqual({ code: 0, out: 'Notes = Notes\n', err: '' });
  });
});

describe('tolerant comparison', () => {
  test.each([
    ['"b, a"', '["a", "b", "c"]', true],
    ['"7"', '[7]', true],
    ['["a", "x"]', '["a"]', false],
    ['[]', '["a"]', false],
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
    // Only a text that is a whole side is split.
    ['"a,,b ,"', '"b,a"', true],
    ['["a, b"]', '["a", "b"]', false],
    ['["a "]', '["a"]', false],
    ['"A"', '"a"', false],
    ['12', '"12, 13"', true],
    ['"12.0"', '12', true],
    ['"12.0"', '"12"', false],
    ['true', '[true]', true],
    ['"true"', 'true', false],
    ['0', 'null', false],
    ['1 / 0', '[1 / 0]', true],
    // Each item needs its own partner.
    ['["a", "a"]', '["a", "b"]', false],
    ['["a", "a"]', '["a", "b", "a"]', true],
    ['[7, "7"]', '["7.0", 7]', true],
    ['["7", "7"]', '["7.0", 7]', false],
    ['["7", "7"]', '[7, 7.0]', true],
    ['[7, 7, 7]', '[7, "7"]', false],
    // Nested lists and objects are compared with `==`.
    ['[[1, 2]]', '[[2], [1, "2"]]', true],
    ['[{ "a": 1 }]', '[{ "a": 2 }]', false],
    ['[[7], ["7"]]', '[[7], ["7.0"]]', true],
    ['[["7"], ["7"]]', '[[7], ["7.0"]]', false],
    ['[[1], "a"]', '["a", [1]]', true],
    ['[[1]]', '[1]', false],
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

  test('stands in patterns with `!`, `&&`, `||` and parentheses', async () => {
    const text = `
exe @k(v) = when @v [
  !~= "a, b, c" => "not"
  ~= "a" || ~= ["b", "c"] => "some"
  !(~= ["a", "b"]) => "other"
  ~= "a,b" && !~= "b" => "ab"
]
for @v in ["x", "a", "c, b", "a,c", "a, b"] => show @k(@v)`;
    expect(await said(text)).toBe('not\nsome\nsome\nother\nab');
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

  test('`check` knows that it asks', async () => {
    const found = await km('check', '--json', fixture.write('asks.mld', 'show @nobody ~= null\n'));
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

  test('without the blank it is no statement', async () => {
    const { code, err } = await km('script', '-e', 'show 1\n<<x');
    expect(code).toBe(3);
    expect(err).toContain('expected a statement');
  });

  test('`@frontmatter` is `@fm`, of the file it stands in, and cannot be assigned', async () => {
    const files = { 'lib.md': '---\nt: inner\n---\n/exe @f() = `@frontmatter.t @fm.t`\n' };
    const text = '---\nt: outer\n---\nimport { f } from "./lib.md"\nshow `@f() @frontmatter.t`';
    expect(await said(text, { files })).toBe('inner inner outer');
    expect(await said('show @frontmatter.t ?? "none"')).toBe('none');
    expect((await km('script', '-e', 'var @frontmatter = 1')).code).toBe(3);
  });
});

describe('patterns', () => {
  test.each([
    ['@s.match(/o(r)(x)?d/)', '["ord","r",null]'],
    ['@s.match(/ORDER/gi)', '["order","order"]'],
    ['@s.match(/refund/g) ?? "none"', 'none'],
    ['@s.match(/^b$/m)', 'null'],
    ['@lines.match(/^b$/m)', '["b"]'],
    ['@lines.match(/a.b/)', 'null'],
    ['@lines.match(/a.b/s)[0].length', '3'],
    ['@s.match(/\\p{Lu}/u)', 'null'],
    ['@s.match("[0-9]+")', '["17","230"]'],
    ['@s.match("x")', '[]'],
    ['@s.replace("[0-9]+", "$&")', 'order 17, order 230'],
    ['@s.replaceAll("order", "$&")', '$& 17, $& 230'],
    ['@s.replace(/[0-9]/, "$&$&")', 'order 117, order 230'],
    ['@s.replaceAll(/order /, "")', '17, 230'],
    ['@s.replaceAll(/order /g, "")', '17, 230'],
    ['@s.replaceAll(/(\\w)(\\w+) (\\d+)/, "$3$2$1")', '17rdero, 230rdero'],
    ['@s.replace(/(?<n>\\d+)/, "$<n>-$<x>-")', 'order 17--, order 230'],
    ['@s.replace(/(\\d+)/, "$<n>$$1$2$10$0")', 'order $<n>$1$2170$0, order 230'],
    ["@s.replace(/,/, '$`')", 'order 17$` order 230'],
    ['@s.replace(/(x)?,/, "[$1]")', 'order 17[] order 230'],
    ['@s.replace(/\\d+/g, 5)', 'order 5, order 5'],
    ['@s.split(/,\\s*/)', '["order 17","order 230"]'],
    ['@s.split(/,\\s*/, 1)', '["order 17"]'],
    ['@s.split(/(,)\\s*|x/)', '["order 17",",","order 230"]'],
    ['@url.split(/\\//)', '["a","b\\"c"]'],
    ['@url.replace(/[/"]/g, "-")', 'a-b-c'],
    ['@url.replace( /\\/b/ , "|" )', 'a|"c'],
  ])('%s', async (value, out) => {
    const text = `
var @s = "order 17, order 230"
var @lines = "a\\nb"
var @url = 'a/b"c'
var @v = ${value}
show \`= @v\``;
    expect(await said(text)).toBe(`= ${out}`);
  });

  test('work in text, conditions, loops, modules, template files, and on files', async () => {
    const files = {
      'a.json': '{"n":12}',
      'page.att': '@t.replace(/<(\\w+)>/g, "[$1]")',
      'lib.mld': 'exe @digits(t) = @t.match(/[0-9]/g) ?? []\nexport { digits }',
    };
    const text = `
import { digits } from "./lib.mld"
exe @page(t) = template "page.att"
var @list = ["a1", "b", "c22"]
show "in: @list[0].replace(/[a-z]/, "$&$&")"
show for @x in @list when @x.match(/[0-9]/) => @x
show when [ @list[1].match(/[0-9]/) => "digit"  * => "none" ]
show @digits("1b2").join("") | @upper
show @page("<p>")
show <a.json>.match(/[0-9]+/)[0]
show @list[*].replace(/[0-9]+/, "#").join(" ")
show @nobody.match(/x/) ? "y" : "n"
show @list[0]
  .replace(/a/, "b")
  .split(/1/)`;
    expect((await said(text, { files })).split('\n')).toEqual(
      'in: aa1|["a1", "c22"]|none|12|[p]|12|a# b c#|n|["b", ""]'
        .replace('["a1", "c22"]', '[|  "a1",|  "c22"|]')
        .replace('["b", ""]', '[|  "b",|  ""|]')
        .split('|'),
    );
  });

  test.each([
    ['show @s.match(/(/)', '`/(/` cannot be compiled: unterminated group'],
    ['show `a @s.match(/(/) b`', '`/(/` cannot be compiled: unterminated group'],
    ['show @s.match(/a/gg)', '`/a/gg` cannot be compiled'],
    ['show @s.match(/a/y)', '`y` is not a flag of a pattern'],
    ['show @s.match(/a', 'the pattern is not closed'],
    ['show @s.match(/[a/)', 'the pattern is not closed'],
    ['show @s.includes(/a/)', 'expected a value, found `/a`'],
    ['show @s.replace("a", /b/)', 'expected a value, found `/b`'],
    ['show @match(/a/)', 'expected a value, found `/a`'],
    ['var @x = /a/', 'expected a value, found `/a`'],
  ])('are refused before anything runs: %s', async (line, message) => {
    const { text, fault } = await play(`show 1\nvar @s = "a"\n${line}`);
    expect(fault).toContain(message);
    expect(fault).toMatch(/^invalid_item/);
    expect(text).toBe('');
  });

  test('are handed to no function', async () => {
    const text = 'exe @f(x) = `@x`\nvar @o = { match: @f }\nshow @o.match(/a/)';
    expect((await play(text)).fault).toContain('a pattern can only be passed to a method');
  });

  test('are bounded in time and in what they make', async () => {
    const slow = `var @s = "${'a'.repeat(60)}b"\n`;
    for (const call of ['match(/^(a+)+$/)', 'replaceAll(/^(a+)+$/, "")', 'split(/^(a+)+$/)']) {
      const { fault } = await play(`${slow}show @s.${call}`);
      expect(fault).toMatch(/^timeout: the pattern `\^\(a\+\)\+\$` took longer than/);
    }
    const { fault } = await play(`
var @s = "a"
var @big = @s.repeat(5000)
show @big.replace(/a/g, @big)`);
    expect(fault).toMatch(/the result would be longer than 16777216 characters/);
    expect(await said('var @s = "a"\nshow @s.replace(/a/, "b")')).toBe('b');
  });

  test('keep labels of the text and of what is put in', async () => {
    const text = `
var secret @key = "k1"
var untrusted @text = "a b"
var @a = @key.match(/[0-9]/)
var @b = @key.match(/x/)
var @c = @text.replace(/a/, @key)
var @d = @text.split(/ /)
var @one = @d[0]
show \`@a.mx.labels @b.mx.labels @c.mx.labels @one.mx.labels\``;
    expect(await said(text)).toBe('["secret"] ["secret"] ["untrusted","secret"] ["untrusted"]');
  });

  test('a guard decides by one, and a slow one denies', async () => {
    const guard = (pattern: string) => `
guard before op:show = when [ @input[0].match(${pattern}) => deny "no digits"  * => allow ]
show "abc"
show "${'a'.repeat(60)}1"`;
    const digits = await play(guard('/[0-9]/'));
    expect([digits.text, digits.fault]).toEqual(['abc\n', expect.stringContaining('no digits')]);
    const slow = await play(guard('/^(a+)+$/'));
    expect([slow.text, slow.fault]).toEqual(['abc\n', expect.stringMatching(/^permission_denied/)]);
  });
});

const FILES = {
  'docs/a.md': '# A\n',
  'bad.json': '{oops',
  'null.json': 'null',
  'path.txt': 'docs/a.md\n',
};
const SETTING = `
exe @fails(x) = js { throw new Error("no") }
exe @nothing() = js { return null }
exe @text() = \`docs/none.md\`
var @o = { "path": "docs/a.md", "n": null, "list": [1], "f": @text }
var @empty = []
var @there = "docs/a.md"
var @loaded = <path.txt>
`;

describe('whether something is there', () => {
  test.each([
    ['@exists("docs/a.md")', true],
    ["@exists('docs/a.md')", true],
    ['@exists(`docs/none.md`)', false],
    ['@exists("@there")', true],
    ['@exists("@o.n")', false],
    ['@exists("@nobody/a.md")', false],
    ['@exists("@fails(1)")', false],
    ['@exists("docs/*.md")', true],
    ['@exists("docs/*.txt")', false],
    ['@exists("")', false],
    ['@exists("@root/docs/a.md")', true],
    ['@exists(<docs/a.md>)', true],
    ['@exists(<docs/none.md>)', false],
    ['@exists(<docs/none.md>?)', false],
    ['@exists(<docs/*.md>)', true],
    ['@exists(<docs/*.txt>)', false],
    ['@exists(<@there>)', true],
    ['@exists(<@nobody>)', false],
    ['@exists("<docs/a.md>")', true],
    ['@exists("<docs/none.md>")', false],
    ['@exists(<docs/a.md # A>)', true],
    ['@exists(<docs/a.md # B>)', false],
    ['@exists(<bad.json>)', true],
    ['@exists(<null.json>)', true],
    ['@exists(<bad.json>.k)', false],
    ['@exists(@there)', true],
    ['@exists(@o.path)', true],
    ['@exists(@o["path"])', true],
    ['@exists(@o.list[0])', true],
    ['@exists(@o.list[7])', false],
    ['@exists(@o.n)', false],
    ['@exists(@o.n.x.y)', false],
    ['@exists(@o.path.x.y)', false],
    ['@exists(@o.path.nosuch())', false],
    ['@exists(@o.none.trim())', false],
    ['@exists(@nobody)', false],
    ['@exists(@nobody.x[3])', false],
    ['@exists(@nobody(1))', false],
    ['@exists(@empty)', true],
    ['@exists(@text)', true],
    ['@exists(@text())', true],
    ['@exists(@o.f())', true],
    ['@exists(@nothing())', false],
    ['@exists(@fails(1))', false],
    ['@exists(@there | @fails)', false],
    ['@exists(@there | @upper)', true],
    ['@exists(null)', false],
    ['@exists(0)', true],
    ['@exists([])', true],
    ['@exists(@o.n ?? @nobody)', false],
    ['@exists(@there ? @o.n : 1)', false],
    ['@exists()', false],
    ['@EXISTS(@there)', true],
    ['@fileExists(@o.path)', true],
    ['@fileExists(@text())', false],
    ['@fileExists("docs/a.md")', true],
    ['@fileExists(<docs/a.md>)', true],
    ['@fileExists(<docs/*.txt>)', false],
    ['@fileExists(@loaded)', true],
    ['@fileExists(@o.n)', false],
    ['@fileExists(@nobody)', false],
    ['@fileExists(@o.list)', false],
    ['@fileExists("")', false],
    ['"docs/none.md" | @exists', false],
    ['<docs/none.md> | @exists', false],
    ['<docs/a.md> | @exists', true],
    ['@there | @exists', true],
    ['@text() | @exists', true],
    ['@text() | @fileExists', false],
    ['@there | @fileExists', true],
    ['"docs/none.md" with { pipeline: [@exists] }', false],
  ])('%s is %s', async (value, isThere) => {
    const text = `${SETTING}var @v = ${value}\nshow \`@v @v.isBoolean()\``;
    expect(await said(text, { files: FILES })).toBe(`${isThere} true`);
  });

  test('is asked in text, conditions, loops, blocks and modules alike', async () => {
    const files = {
      ...FILES,
      'lib/m.mld': 'exe @beside() = @exists("x.txt")\nexe @given(v) = @exists(@v)',
      'lib/x.txt': '',
    };
    const text = `${SETTING}
import { beside, given } from "./lib/m.mld"
show \`@exists("docs/none.md") @exists(@o.path) @beside() @given("no.txt") @given(null)\`
show when [ @exists(@o.x.y) => 1  @exists("docs/a.md") => 2 ]
show for @p in ["docs/a.md", "b.md"] when @fileExists(@p) => @p
if !@exists("none") [ run @exists(@nobody) ]
exe @opt(x) = when [ @exists(@x) => "given"  * => "not given" ]
show \`@opt() @opt("")\`
output "x" to "new.txt"
show @exists("new.txt")`;
    expect(await said(text, { files })).toBe(
      'false true true true false\n2\n["docs/a.md"]\nfalse\nnot given given\ntrue',
    );
  });

  test('a pipeline on a line of its own prints the answer', async () => {
    const text = `${SETTING}"docs/none.md" | @exists\n@there | @exists\n@there | @fileExists`;
    expect(await said(text, { files: FILES })).toBe('false\ntrue\ntrue');
  });

  test('one of your own has the name', async () => {
    const text = 'exe @exists(x) = `mine @x`\nshow @exists("a")\nshow "b" | @exists';
    expect(await said(text)).toBe('mine a\nmine b');
  });

  test('what may not be read is not there', async () => {
    const text = `${SETTING}
policy @closed = { deny: ["fs:r:@root/docs/**"] }
show \`@exists("docs/a.md") @exists(<docs/a.md>) @exists(<docs/*.md>) @exists(<docs/a.md # A>)\`
show \`@fileExists(@there) @exists("bad.json") @exists(@there)\`
show <docs/a.md>`;
    const { text: out, fault } = await play(text, { files: FILES });
    expect(out).toBe('false false false false\nfalse true true\n');
    expect(fault).toMatch(/^permission_denied/);
  });

  test('what was refused, given up or ran out is no answer', async () => {
    const refused = await play(`
guard before op:exe = when [ @mx.op.name == "send" => deny "not here" ]
exe @send(x) = \`sent @x\`
show @exists(@send(1))`);
    expect(refused.fault).toMatch(/^permission_denied: .*not here/);
    expect((await play('exe @f() = [ bail "stop" ]\nshow @exists(@f())')).fault).toMatch(/^bail/);
    const deep = 'exe recursive @f(n) = [ => @f(@n + 1) ]\nshow @exists(@f(1))';
    expect((await play(deep)).fault).toMatch(/^quota_exceeded/);
  });

  test('the answer has the labels of what was asked, also when that failed', async () => {
    const text = `${SETTING}
var secret @key = "docs/a.md"
var untrusted @u = { "a": @key }
var @a = @exists(@key)
var @b = @exists("@key")
var @c = @exists(<@key>)
var @d = @exists(@u.x.y)
var @e = @exists(@fails(@key))
var @f = @exists(@key.nosuch())
var @g = @fileExists(@key)
var @h = @exists("none/@key")
show \`@a.mx.labels @b.mx.labels @c.mx.labels @d.mx.labels\`
show \`@e.mx.labels @f.mx.labels @g.mx.labels @h.mx.labels\``;
    const secret = '["secret"]';
    expect(await said(text, { files: FILES })).toBe(
      `${secret} ${secret} ${secret} ["untrusted"]\n${secret} ${secret} ${secret} ${secret}`,
    );
  });

  test('`check` names the other question where a path is asked about', async () => {
    const script = `var @path = "notes.txt"
var @o = { "a": "x.md" }
var @word = "tea"
exe @load(p, q) = when [ @exists(@p) => <@p>  @exists(@q) => @q ]
show @exists(@path)
show @exists(@word)
show @exists(@o.a)
output "x" to @o.a
show @load(@word, "b")
show @exists("notes.txt") && @fileExists(@path)
for @each in ["a.md", "b/c"] => show @exists(@each)
for @each in ["a.md", "tea"] => show @exists(@each)
exe @ask(v) = @exists(@v) && @fileExists(@v)
`;
    const { code, out } = await km('check', '--json', fixture.write('paths.mld', script));
    const found: unknown = JSON.parse(out);
    expect(code).toBe(0);
    const at = (line: number, name: string) =>
      expect.objectContaining({
        line,
        code: 'script_exists_of_path',
        severity: 'warning',
        hint: `for the file write \`@fileExists(${name})\``,
      });
    expect(found).toEqual([at(4, '@p'), at(5, '@path'), at(7, '@o.a'), at(11, '@each')]);
  });
});

describe('a null that was read', () => {
  const functions = `
exe @kind(v) = js { return v === null ? "null here" : typeof v }
exe @tell(v) = \`told @v\`
exe @outputs(v) = \`@p[0] @p[1] @p[-1] (@mx.input)@p[7]\`
exe @read(t) = [ => @parse.llm(@t) ]
var @r = "no json" | @parse.llm
`;
  test.each([
    ['@r', 'null'],
    ['@r ?? "none"', 'none'],
    ['@r == null', 'true'],
    ['`(@r) @r? @r??"d"`', '(null)  d'],
    ['"null" | @parse', 'null'],
    ['" null " | @json.strict | @kind', 'null here'],
    ['"null" | @parse.loose | @tell | @upper', 'TOLD NULL'],
    ['"x" | @parse.llm | @json | @tell', 'told null'],
    ['"x" | @parse.llm | @typeof', 'null'],
    ['"x" | @parse.llm | show "seen" | @tell', 'seen\ntold null'],
    ['@read("x")', 'null'],
    ['"x" | @parse.llm | @outputs', 'x null null (null)'],
    ['"x" | @read | @tell', 'told null'],
    ['@r.isNull()', 'true'],
    ['@exists(@r)', 'false'],
    // A null that was not read ends a pipeline.
    ['"x" | @kind | js { return null } | @tell', ''],
    ['null | @json | @tell', ''],
  ])('%s', async (value, out) => {
    expect(await said(`${functions}show ${value}`)).toBe(out);
  });

  test('goes into files, lists and code as null', async () => {
    const text = `${functions}
output @r to "r.txt"
show <r.txt>
var @l = [@r, 1]
show \`@l @l[0]\`
run @read("x")
show @kind(@r)`;
    expect(await said(text)).toBe('null\n[null,1] null\nnull\nnull here');
  });

  test('keeps its labels on the way', async () => {
    const text = `${functions}
var secret @s = "x"
var untrusted @u = "null"
var @a = @s | @parse.llm
var @b = @u | @parse | @tell
show \`@a.mx.labels @b.mx.labels\``;
    expect(await said(text)).toBe('["secret"] ["untrusted"]');
  });
});

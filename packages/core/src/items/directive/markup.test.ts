import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { childOf, dataOf, type Element, proseOf, sourceOf } from './element.ts';
import { createFindings } from './findings.ts';
import { readMarkup } from './markup.ts';

function read(text: string) {
  const findings = createFindings(text, 'x.md');
  const { root, end } = readMarkup(text, text.indexOf('<directive'), findings);
  const context = childOf(root, 'context');
  return {
    root,
    end,
    codes: findings.list().map(({ code, line, column }) => `${code} ${line}:${column}`),
    data: context ? dataOf(context) : undefined,
  };
}

const inContext = (content: string) => read(`<directive><context>${content}</context></directive>`);

function when(content: string): string {
  const text = `<directive><metadata><hooks><hook><when>${content}</when></hook></hooks></metadata></directive>`;
  let element: Element | undefined = read(text).root;
  for (const name of ['metadata', 'hooks', 'hook', 'when']) element = childOf(element, name);
  return proseOf(element);
}

test('a condition is raw text: bare comparisons and entities both work', () => {
  expect(when('a < b and c > d')).toBe('a < b and c > d');
  expect(when('a &lt; b and "&amp;" in c')).toBe('a < b and "&" in c');
  expect(when('<![CDATA[a < b]]>')).toBe('a < b');
  expect(when('a <b and c> d')).toBe('a <b and c> d');
});

test('the place of a character behind an entity is the place in the file', () => {
  const text =
    '<directive><metadata><hooks><hook><when>a &lt; b + c</when></hook></hooks></metadata></directive>';
  let element: Element | undefined = read(text).root;
  for (const name of ['metadata', 'hooks', 'hook', 'when']) element = childOf(element, name);
  const source = sourceOf(element as Element);
  expect(text.slice(source.offset(source.text.indexOf('c')))).toMatch(/^c<\/when>/);
  expect(text.slice(source.offset(0))).toMatch(/^a &lt;/);
});

test('free content becomes data: nesting objects, repetition lists, attributes fields', () => {
  expect(inContext('<a>1</a><b><c>x</c><c>y</c></b><d k="v">t</d><e/>').data).toEqual({
    a: '1',
    b: { c: ['x', 'y'] },
    d: { k: 'v', text: 't' },
    e: '',
  });
});

test('a key called __proto__ is an ordinary key', () => {
  const { data } = inContext('<__proto__><polluted>yes</polluted></__proto__>');
  expect(Object.getOwnPropertyNames(data)).toEqual(['__proto__']);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test('comments vanish, CDATA and opaque elements are text as written', () => {
  const { data, codes } = inContext(
    '<a>x<!-- <b> -->y</a><b><![CDATA[<c> & &lt;]]></b><raw><x> &lt; </y></raw>',
  );
  expect(data).toEqual({ a: 'xy', b: '<c> & &lt;', raw: '<x> &lt; </y>' });
  expect(codes).toEqual([]);
});

test('attributes take single and double quotes, blanks and entities', () => {
  const { data, codes } = inContext(`<a one='"x"' two = "&lt;'" >t</a>`);
  expect(data).toEqual({ a: { one: '"x"', two: "<'", text: 't' } });
  expect(codes).toEqual([]);
});

test.each([
  ['<a>x < y</a>', ['stray_lt 1:26'], { a: 'x < y' }],
  ['<a>x <3</a>', ['stray_lt 1:26'], { a: 'x <3' }],
  ['<a>&nope; & &#0;</a>', ['entity_unknown 1:24', 'entity_unknown 1:33'], { a: '&nope; & &#0;' }],
  ['<a></b></a>', ['tag_mismatch 1:24'], { a: '' }],
  ['<a k=v>x</a>', ['attribute_syntax 1:24'], { a: { k: 'v', text: 'x' } }],
  ['<a k>x</a>', ['attribute_syntax 1:24'], { a: 'x' }],
  ['<a k="1" k="2">x</a>', ['attribute_duplicate 1:30'], { a: { k: '1', text: 'x' } }],
  ['<a k="1>x</a>\n<b/>', ['attribute_syntax 1:24'], { a: { k: '1', text: 'x' }, b: '' }],
  ['<a ,>x</a>', ['attribute_syntax 1:24'], { a: 'x' }],
  ['<!-- open', ['tag_unclosed 1:21'], '<!-- open'],
])('%j is read as far as it goes and costs one diagnostic each', (content, codes, data) => {
  const result = inContext(content);
  expect(result.codes).toEqual(codes);
  expect(result.data).toEqual(data);
});

test('reading ends at the closing tag, whatever fences stand inside', () => {
  const text = 'x <directive name="a"><process>```json\n{}\n```</process></directive> tail <b>';
  const { end } = read(text);
  expect(text.slice(end)).toBe(' tail <b>');
});

test('a directive inside a hook does not end the directive', () => {
  const text =
    '<directive><metadata><hooks><hook><directive>a</directive></hook></hooks></metadata></directive>!';
  expect(text.slice(read(text).end)).toBe('!');
});

test.each([
  ['deep nesting', `<directive>${'<a>'.repeat(10_000)}${'</a>'.repeat(10_000)}</directive>`],
  ['deep nesting never closed', `<directive>${'<a>'.repeat(40_000)}`],
  ['stray closers', `<directive>${'<a>'.repeat(20_000)}${'</b>'.repeat(100_000)}`],
  ['stray brackets', `<directive>${'<'.repeat(200_000)}`],
  ['open conditions', `<directive><metadata><hooks>${'<hook><when>'.repeat(40_000)}`],
  ['half tags', `<directive>${'<a x="'.repeat(150_000)}`],
  ['quotes out of step', `<directive>${`<b x="<b x="a="`.repeat(80_000)}`],
  ['open comments', `<directive>${'<!-- '.repeat(150_000)}`],
  ['open closers', `<directive>${'</a '.repeat(200_000)}`],
  ['open CDATA in templates', `<directive>${'<raw><![CDATA[</raw>'.repeat(200_000)}`],
  ['entities', `<directive><context>${'&lt;&x;&'.repeat(100_000)}</context></directive>`],
  [
    'comments in a bare tag',
    `<directive><metadata><permissions><read>${' <!---->'.repeat(200_000)}${'<x/>'.repeat(40_000)}`,
  ],
  ['one long name', `<directive><${'a'.repeat(5_000_000)}>`],
  ['many attributes', `<directive ${'a="1" '.repeat(150_000)}></directive>`],
])('%s are read in one go', (_, text) => {
  expect(read(text).root.name).toBe('directive');
});

test('no text crashes the reader, and it never reads past the end', () => {
  const bit = fc.constantFrom(
    '<',
    '>',
    '/',
    '"',
    "'",
    '=',
    '&',
    ';',
    ' ',
    '\n',
    '\0',
    'a',
    '<a',
    '</a>',
    '<when>',
    '</when>',

    '<!--',
    '-->',
    '<![CDATA[',
    ']]>',
    '<?',
    '<hook>',
    '</hook>',
    '<directive>',
    '</directive>',
    '<metadata>',
    '<read resource="x"',
    '<raw>',
    '</raw>',
    '&lt;',
    '<step name="a">',
  );
  fc.assert(
    fc.property(fc.array(bit, { maxLength: 60 }), (bits) => {
      const text = `<directive${bits.join('')}`;
      const { end } = read(text);
      expect(end).toBeLessThanOrEqual(text.length);
    }),
    { numRuns: runs(1000, 30_000) },
  );
});

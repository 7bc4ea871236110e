import type { Json } from '@kernmantle/core/base';
import {
  describe,
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  type Value,
  withOrigin,
} from '@kernmantle/core/flow';
import { expect, test } from 'vitest';
import { absent, isKept } from './kinds.ts';
import { showText, textOf } from './text.ts';
import { TRANSFORMERS } from './transforms.ts';

const secret = describe({ labels: ['secret'] });
const port = {
  exists: async (path: string) => ({ found: path === 'there.md', descriptor: EMPTY }),
};
const of = (data: Json, text?: string) => makeValue(data, text === undefined ? {} : { text });

function apply(name: string, value: Value): Value {
  const [base = '', variant] = name.split('.');
  const transformer = TRANSFORMERS.get(base);
  const chosen = variant === undefined ? transformer : transformer?.variants?.get(variant);
  return chosen?.call([value], port) as Value;
}
const data = (name: string, input: Json) => apply(name, of(input)).data;

test('every transformer has its name in capitals too', () => {
  const names =
    'parse json pretty xml csv md upper lower trim sort typeof exists fileExists keep keepStructured';
  for (const name of names.split(' ')) {
    expect(TRANSFORMERS.get(name.toUpperCase())).toBe(TRANSFORMERS.get(name));
    expect(TRANSFORMERS.get(name)?.name).toBe(name);
  }
  expect([...(TRANSFORMERS.get('JSON')?.variants?.keys() ?? [])]).toEqual([
    'strict',
    'loose',
    'llm',
    'fromlist',
  ]);
});

test('parse reads JSON and relaxed JSON, and prints it laid out', () => {
  const parsed = apply('parse', of(`{ // note\n a: 'it"s', "b": [1, 2,], }`));
  expect(parsed.data).toEqual({ a: 'it"s', b: [1, 2] });
  expect(textOf(parsed)).toBe('{\n  "a": "it\\"s",\n  "b": [\n    1,\n    2\n  ]\n}');
  expect(data('parse', ' 42 ')).toBe(42);
  expect(textOf(apply('json', of({ a: 1 })))).toBe('{\n  "a": 1\n}');
});

test.each([
  ['parse', 'not json', 'the text is not JSON'],
  ['parse', '', 'it is empty'],
  ['parse', '```json\n{"a":1}\n```', '`@parse.llm`'],
  ['parse.strict', '{a: 1}', 'the text is not JSON'],
  ['json.loose', '{a: }', 'the text is not JSON'],
] as const)('%s refuses %j', (name, text, message) => {
  expect(() => apply(name, of(text))).toThrow(message);
});

test.each([
  ['Sure! ```json\n{"a": 1}\n``` as asked [1]', { a: 1 }],
  ['As in [1]:\n```json\n{"a": [1]}\n```', { a: [1] }],
  ['Here: {name} and then {"a": "}"} done', { a: '}' }],
  ["I'd say {'a': 1,}", { a: 1 }],
  ['[1, 2]', [1, 2]],
  ['no data { here', null],
  ['', null],
] as [string, Json][])('parse.llm finds the JSON in %j', (text, found) => {
  expect(data('parse.llm', text)).toEqual(found);
});

test('parse.llm gives up on a text of brackets', () => {
  expect(data('parse.llm', '{['.repeat(100_000))).toBe(null);
});

test('fromlist makes a list of the lines that are not empty', () => {
  expect(data('json.fromlist', '\napple\n\n  banana \n')).toEqual(['apple', 'banana']);
});

test('pretty is text in two-blank layout, other text stays', () => {
  expect(data('pretty', { a: [] })).toBe('{\n  "a": []\n}');
  expect(data('pretty', '{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(data('pretty', '{"a":12345678901234567890}')).toBe('{"a":12345678901234567890}');
  expect(data('pretty', 'plain')).toBe('plain');
});

test('xml of data: capitals, items, nothing for null', () => {
  expect(data('xml', { 'first name': 'A & B', n: null, tags: ['x', { k: 1 }], e: [] })).toBe(
    `<FIRST_NAME>A &amp; B</FIRST_NAME>
<TAGS>
  <ITEM>x</ITEM>
  <ITEM>
    <K>1</K>
  </ITEM>
</TAGS>
<E></E>`,
  );
  expect(data('xml', [1])).toBe('<ROOT>\n  <ITEM>1</ITEM>\n</ROOT>');
  expect(data('xml', '{"a":1}')).toBe('<A>1</A>');
  expect(data('xml', { '1st': 1 })).toBe('<_1ST>1</_1ST>');
});

test('xml of markdown nests by headings, other text is a document', () => {
  const text =
    'intro\n\n# Products\n\n- A: $1\n\n## Old ones\n```sh\n# no heading\n```\n# Next\nend\n';
  expect(data('xml', text)).toBe(
    `intro
<PRODUCTS>
- A: $1
<OLD_ONES>
\`\`\`sh
# no heading
\`\`\`
</OLD_ONES>
</PRODUCTS>
<NEXT>
end
</NEXT>`,
  );
  expect(data('xml', ' plain ')).toBe('<DOCUMENT>\nplain\n</DOCUMENT>');
});

test('csv of lists, objects and tables', () => {
  expect(
    data('csv', [
      { a: 1, b: 'x,"y"' },
      { b: null, a: 'line\nbreak' },
    ]),
  ).toBe('a,b\n1,"x,""y"""\n"line\nbreak",');
  expect(data('csv', { a: { b: 1 } })).toBe('a\n"{""b"":1}"');
  expect(data('csv', [[1, 2], [3]])).toBe('1,2\n3');
  expect(data('csv', '\n| N | A |\n|---|:-:|\n| x \\| y | 3 |\n\nafter')).toBe('N,A\nx | y,3');
  expect(data('csv', 'plain | text')).toBe('plain | text');
  expect(data('csv', [])).toBe('');
});

test('md drops outer blank lines only', () => {
  expect(data('md', '\n \n  a\n\nb \n\n')).toBe('  a\n\nb ');
  expect(data('md', [1])).toBe('[\n  1\n]');
});

test('upper, lower and trim work on the text', () => {
  expect(data('upper', 'aé')).toBe('AÉ');
  expect(data('LOWER', 'A')).toBe('a');
  expect(data('trim', ' a ')).toBe('a');
  expect(showText(apply('upper', of({ a: 'x' })), 'call')).toBe('{"A": "X"}');
});

test('sort orders lists by text, objects by key, text by line, with exact marks', () => {
  expect(data('sort', ['b', 'B', 'a', 10, 9])).toEqual([10, 9, 'B', 'a', 'b']);
  expect(data('sort', 'b\na\n')).toBe('a\nb');
  const pair = makeContainer(
    new Map([
      ['b', makeValue(1, { descriptor: secret })],
      ['a', of(2)],
    ]),
  );
  const sorted = apply('sort', pair);
  expect(Object.keys(sorted.data as object)).toEqual(['a', 'b']);
  expect(elementOf(sorted, 'a').meta.descriptor).toBe(EMPTY);
  expect(elementOf(sorted, 'b').meta.descriptor).toBe(secret);
});

test('typeof names the type', () => {
  expect(['a', 1, true, null, [], {}].map((input) => data('typeof', input))).toEqual(
    'string number boolean null array object'.split(' '),
  );
});

test('exists asks for values, fileExists for paths', async () => {
  const ask = async (name: string, value: Value, ports = port) =>
    (await TRANSFORMERS.get(name)?.call([value], ports))?.data;
  expect(await ask('exists', of('missing.md'))).toBe(true);
  expect(await ask('exists', of([]))).toBe(true);
  expect(await ask('exists', of(null))).toBe(false);
  expect(await ask('exists', absent())).toBe(false);
  expect(await ask('fileExists', of('there.md'))).toBe(true);
  expect(await ask('fileExists', of(' there.md\n'))).toBe(true);
  const config = makeValue({ path: 'missing.md' }, { origin: { filename: 'a' }, text: '{}' });
  expect(await ask('fileExists', elementOf(config, 'path'))).toBe(false);
  expect(await ask('fileExists', withOrigin(of([]), { files: true }))).toBe(false);
  expect(await ask('fileExists', of(''))).toBe(false);
  expect(await ask('fileExists', absent())).toBe(false);
  const refuses = { exists: () => Promise.reject(new Error('no')) };
  expect(await ask('fileExists', of('x'), refuses)).toBe(false);
});

test('keep marks a value for code', () => {
  expect(isKept(apply('keep', of(1)))).toBe(true);
});

test('data nested 100,000 deep is refused, not a crash', () => {
  let deep: Json[] = [];
  for (let depth = 0; depth < 100_000; depth++) deep = [deep];
  for (const name of ['xml', 'pretty', 'parse', 'upper']) {
    expect(() => apply(name, of(deep))).toThrow('nested too deeply');
  }
});

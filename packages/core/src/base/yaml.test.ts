import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonEqual } from './json.ts';
import type { Json } from './outcome.ts';
import { formatYaml, parseYaml } from './yaml.ts';

test('values and their places', () => {
  const document = parseYaml('a: 1\nlist:\n  - x: yes\n  - {y: 2}\n');
  expect(document.problems).toEqual([]);
  expect(document.value).toEqual({ a: 1, list: [{ x: 'yes' }, { y: 2 }] });
  expect(document.locate(['list', 1, 'y'])).toEqual({ line: 4, column: 9 });
  expect(document.locate(['list', 1, 'y'], 'key')).toEqual({ line: 4, column: 6 });
  expect(document.locate(['list', 9])).toEqual({ line: 3, column: 3 });
});

test('problems have places', () => {
  expect(parseYaml('a: 1\na: 2\n').problems).toMatchObject([{ line: 2, column: 1 }]);
  expect(parseYaml('a: [1\nb: 2').problems.length).toBeGreaterThan(0);
  expect(parseYaml('a: .inf').problems).toMatchObject([{ line: 1, column: 4 }]);
});

test('an alias bomb is refused', () => {
  const lines = ['a0: &a0 [x,x,x,x,x,x,x,x,x,x]'];
  for (let i = 1; i < 12; i++) lines.push(`a${i}: &a${i} [${`*a${i - 1},`.repeat(9)}*a${i - 1}]`);
  const { value, problems } = parseYaml(lines.join('\n'));
  expect(value).toBe(null);
  expect(problems[0]?.message).toMatch(/more than/);
});

test('nesting is bounded, by brackets and by indentation', () => {
  expect(parseYaml(`${'['.repeat(10_000)}${']'.repeat(10_000)}`).problems).not.toEqual([]);
  expect(parseYaml(`a: ${'['.repeat(100)}${']'.repeat(100)}`).problems).not.toEqual([]);
  const indented = Array.from({ length: 3000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n');
  expect(parseYaml(indented).problems).not.toEqual([]);
  expect(parseYaml(`${'- '.repeat(10_000)}a`).problems).not.toEqual([]);
});

test('`__proto__` stays a key and tags make no objects', () => {
  const { value } = parseYaml('__proto__: {a: 1}\nb: !!js/function "x"\n');
  expect(Object.keys(value as object)).toContain('__proto__');
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
});

test('what is written reads back', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>, (value) => {
      const document = parseYaml(formatYaml(value));
      expect(jsonEqual(document.value, JSON.parse(JSON.stringify(value)))).toBe(true);
    }),
  );
});

test('no text makes it throw', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      parseYaml(text);
    }),
  );
});

test('of two equal keys the first counts, and the second is reported', () => {
  const { value, problems } = parseYaml('a: 1\nb: 2\na: 3\n');
  expect(value).toEqual({ a: 1, b: 2 });
  expect(problems).toEqual([{ line: 3, column: 1, message: 'key `a` occurs twice here' }]);
});

test('thousands of keys, anchors and aliases are read in linear time; an alias needs its anchor', () => {
  const lines = Array.from({ length: 5000 }, (_, i) => `k${i}: &a${i} 1\nl${i}: *a${i}`);
  expect(Object.keys(parseYaml(lines.join('\n')).value as object)).toHaveLength(10_000);
  expect(parseYaml('b: *x\n').problems).toMatchObject([{ line: 1, column: 4 }]);
});

const NO_KEY = 'the key is a list or a map; write a text, a number, true, false or null';

test.each([
  ['{{a: 1}: 2, b: 3}', 1, 2, { b: 3 }],
  ['{[a]: 1}', 1, 2, {}],
  ['? {a: 1}\n: 2\nb: 3\n', 1, 3, { b: 3 }],
  ['b: 3\n? - a\n: 2\n', 2, 3, { b: 3 }],
  ['a: &x {b: 1}\n*x : 2\n', 2, 1, { a: { b: 1 } }],
  ['a: &x [b]\n? *x\n: 2\n', 2, 3, { a: ['b'] }],
])('a key that is no scalar is a problem where it stands: %s', (text, line, column, value) => {
  expect(parseYaml(text)).toMatchObject({ value, problems: [{ line, column, message: NO_KEY }] });
});

test('a key may be an alias of a scalar, and an anchor for others', () => {
  expect(parseYaml('a: &x k\n*x : 2\n')).toMatchObject({ value: { a: 'k', k: 2 }, problems: [] });
  expect(parseYaml('&k a: 1\nb: *k\n')).toMatchObject({ value: { a: 1, b: 'a' }, problems: [] });
  expect(parseYaml('*nope : 1\n').problems).toMatchObject([
    { line: 1, column: 1, message: 'alias `*nope` has no anchor above it' },
  ]);
});

test.each([28, 34, 200, 600])('%i levels of keys are one problem, not their text', (levels) => {
  const [open, close] = ['{'.repeat(levels), '}'.repeat(levels)];
  const texts = [
    `${open}${close}`,
    `${open}a${': 1}'.repeat(levels)}`,
    `{${'['.repeat(levels)}a${']'.repeat(levels)}: 1}`,
    `${'? '.repeat(Math.min(levels, 190))}a`,
  ];
  for (const text of texts)
    expect(parseYaml(text)).toMatchObject({ value: {}, problems: [{ message: NO_KEY }] });
});

test('what is read of a text without aliases is no longer than the text', () => {
  const piece = fc.constantFrom('{', '}', '[', ']', ': ', ', ', '? ', '- ', 'a', '1', '"b"', '\n');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 120 }), (pieces) => {
      const text = pieces.join('');
      const { value, problems } = parseYaml(text);
      expect(JSON.stringify(value).length).toBeLessThanOrEqual(8 * text.length + 8);
      const lines = text.split('\n').length;
      for (const { line } of problems) expect(line).toBeLessThanOrEqual(lines + 1);
    }),
    { numRuns: 500 },
  );
});

test('a text that was read before gives the same again, in a value of its own', () => {
  const values = fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue({ maxDepth: 3 }));
  fc.assert(
    fc.property(values, (value) => {
      const text = formatYaml(value as Json);
      const [first, second] = [parseYaml(text), parseYaml(text)];
      const before = JSON.stringify(first.value);
      expect(JSON.stringify(second.value)).toBe(before);
      expect(second.problems).toEqual(first.problems);
      const path = Object.keys(value).slice(0, 1);
      expect(second.locate(path)).toEqual(first.locate(path));
      if (first.value && typeof first.value === 'object') Object.assign(first.value, { more: 1 });
      expect(JSON.stringify(parseYaml(text).value)).toBe(before);
    }),
  );
});

test('more texts than are kept are read correctly, with anchors and without', () => {
  const long = 'x'.repeat(50_000);
  for (const round of [1, 2])
    for (let at = 0; at < 30; at++) {
      expect(parseYaml(`n: ${at}\nt: ${long}\n`).value).toEqual({ n: at, t: long });
      expect(parseYaml(`a: &a [${at}]\nb: *a\n`).value, `round ${round}`).toEqual({
        a: [at],
        b: [at],
      });
    }
});

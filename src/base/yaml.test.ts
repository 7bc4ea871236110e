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
  expect(problems).toEqual([{ line: 3, column: 1, message: 'key `a` stands here twice' }]);
});

test('thousands of keys, anchors and aliases are read in linear time; an alias needs its anchor', () => {
  const lines = Array.from({ length: 5000 }, (_, i) => `k${i}: &a${i} 1\nl${i}: *a${i}`);
  expect(Object.keys(parseYaml(lines.join('\n')).value as object)).toHaveLength(10_000);
  expect(parseYaml('b: *x\n').problems).toMatchObject([{ line: 1, column: 4 }]);
});

import { expect, test } from 'vitest';
import { parseYaml } from './yaml.ts';

test('a key that stands twice is reported where it stands', () => {
  expect(parseYaml('a: 1\nb: 2\na: 3\n').problems).toEqual([
    { line: 3, column: 1, message: 'key `a` stands here twice' },
  ]);
});

test('an alias takes the value of its anchor, and needs one', () => {
  expect(parseYaml('a: &x [1]\nb: *x\n').value).toEqual({ a: [1], b: [1] });
  expect(parseYaml('b: *x\n').problems).toMatchObject([{ line: 1, column: 4 }]);
});

test('thousands of keys, anchors and aliases are read in linear time', () => {
  const lines = Array.from({ length: 5000 }, (_, i) => `k${i}: &a${i} 1\nl${i}: *a${i}`);
  expect(Object.keys(parseYaml(lines.join('\n')).value as object)).toHaveLength(10_000);
});

test('a mistake on every line is reported a hundred times', () => {
  expect(parseYaml('- !foo x\n'.repeat(5000)).problems).toHaveLength(100);
});

import { relative } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isInside } from './inside.ts';

test.each([
  ['/a', '/a', true],
  ['/a/b', '/a', true],
  ['/ab', '/a', false],
  ['/', '/', true],
  ['/a', '/', true],
  ['/', '/a', false],
  ['/b/../a/c', '/a', true],
  ['/a/../b', '/a', false],
  ['/a/b/..', '/a/', true],
  ['//a//b', '/a', true],
  ['/a/..b', '/a', true],
])('`%s` in `%s`: %s', (path, folder, expected) => {
  expect(isInside(path, folder)).toBe(expected);
});

test('it says what the way from one to the other says', () => {
  const path = fc
    .array(fc.constantFrom('a', 'b', '..', '.', '', '..a', 'a.'), { maxLength: 5 })
    .map((steps) => `/${steps.join('/')}`);
  fc.assert(
    fc.property(path, path, (one, other) => {
      const way = relative(other, one);
      expect(isInside(one, other)).toBe(way === '' || !/^\.\.(\/|$)/.test(way));
    }),
  );
});

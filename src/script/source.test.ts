import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSource } from './source.ts';

test('offsets are counted in lines and columns from one', () => {
  const source = createSource('ab\n\ncd');
  expect(source.position(0)).toEqual({ line: 1, column: 1 });
  expect(source.position(3)).toEqual({ line: 2, column: 1 });
  expect(source.position(5)).toEqual({ line: 3, column: 2 });
  expect(source.position(99)).toEqual({ line: 3, column: 3 });
});

test('a line is given without its line break, and one that is not there is empty', () => {
  const source = createSource('ab\r\ncd');
  expect(source.line(1)).toBe('ab');
  expect(source.line(2)).toBe('cd');
  expect(source.line(3)).toBe('');
});

test('every offset comes back from its position', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', '\n', '\r', 'é') }),
      fc.nat(40),
      (text, at) => {
        const source = createSource(text);
        const offset = Math.min(at, text.length);
        expect(source.offset(source.position(at))).toBe(offset);
      },
    ),
  );
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../base/index.ts';
import { shorten, sizeUpTo } from './shorten-value.ts';

const json = fc.jsonValue({ maxDepth: 4 }).map((value) => value as Json);
const large = fc.oneof(
  json,
  fc.string({ minLength: 2000, maxLength: 4000 }),
  fc.array(fc.string({ maxLength: 50 }), { minLength: 50, maxLength: 200 }),
  fc.dictionary(fc.string({ maxLength: 20 }), fc.string({ maxLength: 300 }), { minKeys: 10 }),
);

test('what fits is left as it is', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(shorten(value, sizeUpTo(value, 1e9))).toEqual(value);
    }),
  );
});

test('whatever the value, what is shown is bounded', () => {
  fc.assert(
    fc.property(large, fc.integer({ min: 200, max: 1500 }), (value, room) => {
      const shown = JSON.stringify(shorten(value, room));
      // Escapes can double the length of a text, and every cut adds the full length.
      expect(shown.length).toBeLessThan(7 * room + 2000);
      expect(sizeUpTo(shorten(value, room), 1e9)).toBeLessThan(3 * room + 1000);
    }),
  );
});

test('counting stops at the bound', () => {
  const list = Array.from({ length: 1000 }, () => 'x'.repeat(100));
  expect(sizeUpTo(list, 500)).toBeLessThan(700);
  expect(sizeUpTo(list, 1e9)).toBeGreaterThan(100_000);
});

test('small fields are shown whole beside a large one', () => {
  const value = { path: 'a.txt', content: 'x'.repeat(10_000), lines: 3 };
  const shown = shorten(value, 1000) as Record<string, Json>;
  expect(shown).toMatchObject({ path: 'a.txt', lines: 3 });
  expect(shown.content).toMatch(/^x{500,1000}… \(10000 characters in all\)$/);
});

test('a list says how long it was, and no character is cut in half', () => {
  const shown = shorten(
    Array.from({ length: 500 }, (_, index) => index),
    100,
  ) as Json[];
  expect(shown.at(-1)).toBe('… (500 items in all)');
  expect(shorten('😀'.repeat(100), 11)).toBe('😀😀😀😀😀… (200 characters in all)');
});

import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { includesText } from './text-search.ts';

test('a part is found wherever it stands, in short and in long texts', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 12 });
  const length = fc.constantFrom(0, 10, 70_000);
  fc.assert(
    fc.property(letters, letters, letters, length, (before, part, after, padding) => {
      // Padding of the same letters gives many near misses, and the length that leaves the fast way.
      const text = 'ab'.repeat(padding) + before + part + after;
      for (const sought of [part, `${part}bb`, 'ab'.repeat(9) + part, `aa${part}`]) {
        expect(includesText(text, sought)).toBe(text.includes(sought));
      }
    }),
    { numRuns: runs(200) },
  );
});

test('near misses at every place take linear time', () => {
  // The engine's own search needs about a minute for this one.
  const text = 'a'.repeat(4_000_000);
  const part = `${'a'.repeat(15_000)}b${'a'.repeat(15_000)}`;
  expect(includesText(text, part)).toBe(false);
  expect(includesText(`${text}${part}`, part)).toBe(true);
});

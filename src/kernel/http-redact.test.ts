import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRedactor } from './http-redact.ts';

const secret = fc.oneof(
  fc.string({ minLength: 4, maxLength: 40 }),
  fc.base64String({ minLength: 8, maxLength: 40 }),
  fc.constantFrom('sk-abcQdefghijk', 'aaaaaaaaaaaaaaa', 'QZXJQZXJQZXJ', 'eeee'),
);

test('a secret is found wherever it stands, and what is found is hidden', () => {
  fc.assert(
    fc.property(secret, fc.string(), fc.string(), (value, before, after) => {
      const redact = createRedactor([value]);
      const text = before + value + after;
      expect(redact.finds(text)).toBe(true);
      expect(redact(text)).not.toBe(text);
    }),
    { numRuns: 500 },
  );
});

test('what is not found is not changed, and what is changed was found', () => {
  fc.assert(
    fc.property(fc.array(secret, { maxLength: 3 }), secret, fc.nat(20), (values, other, cut) => {
      const redact = createRedactor(values);
      // The beginning or the end of a secret alone is not one.
      for (const text of [other, ...values.flatMap((v) => [v.slice(0, cut), v.slice(cut)])]) {
        expect(redact.finds(text)).toBe(redact(text) !== text);
      }
    }),
    { numRuns: 500 },
  );
});

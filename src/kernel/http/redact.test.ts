import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../base/index.ts';
import { createRedactor } from './redact.ts';

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

test('every text of a value is masked, the value given stays, and one without a secret is not copied', () => {
  const hidden = 'sk-abcQdefghijk';
  const redact = createRedactor([hidden]);
  const text = fc.oneof(
    fc.constantFrom('__proto__', hidden, `a ${hidden}`, `${hidden}${hidden}`),
    fc.string({ maxLength: 5 }),
  );
  const { value } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.integer(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc
        .array(fc.tuple(text, tie('value')), { maxLength: 4 })
        .map((list) => Object.fromEntries(list)),
    ),
  }));
  fc.assert(
    fc.property(value, (given) => {
      const before = JSON.stringify(given);
      const shown = redact(given);
      expect(JSON.stringify(given)).toBe(before);
      if (before.includes(hidden)) expect(JSON.stringify(shown)).not.toContain(hidden);
      else expect(shown).toBe(given);
      // Masking the text of the whole is the same, where no two keys become one.
      const masked = before.replaceAll(hidden, '[secret]');
      expect(shown).toEqual(JSON.parse(masked));
    }),
    { numRuns: 500 },
  );
});

test('every list of secrets has its own redactor, however many there are', () => {
  for (let round = 0; round < 2; round++) {
    for (let count = 0; count < 40; count++) {
      const [own, other] = [`secret-${count}!`, `secret-${(count + 1) % 40}!`];
      expect(createRedactor([own])(`${own} ${other}`)).toBe(`[secret] ${other}`);
    }
  }
  expect(createRedactor(['long-a', 'long-b'])('long-a","long-b')).toBe('[secret]","[secret]');
  expect(createRedactor(['long-a","long-b'])('long-a')).toBe('long-a');
});

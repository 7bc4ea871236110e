import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../tests/support/soak.ts';
import { createMask } from './mask.ts';

const masked = (chunks: readonly Uint8Array[], secrets: readonly string[]): string => {
  const mask = createMask(secrets);
  return Buffer.concat([...chunks.map((chunk) => mask.push(chunk)), mask.end()]).toString();
};

test('a secret is replaced, also one that contains another', () => {
  const secrets = ['abcdef', 'abcdefghij'];
  expect(masked([Buffer.from('x abcdef y abcdefghij z')], secrets)).toBe('x *** y *** z');
  expect(masked([Buffer.from('abcdef'), Buffer.from('ghij!')], secrets)).toBe('***!');
});

test('text beyond ASCII and values that look like patterns are literal', () => {
  expect(masked([Buffer.from('pässwörd and a.b*c(d')], ['pässwörd', 'a.b*c(d'])).toBe(
    '*** and ***',
  );
});

test('very short values are left alone', () => {
  expect(masked([Buffer.from('1 is a number')], ['1', ''])).toBe('1 is a number');
});

test('the way the bytes are cut does not matter, and no secret survives', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), minLength: 6, maxLength: 9 });
  const piece = fc.oneof(fc.string({ unit: fc.constantFrom('a', 'b', 'é', ' ') }), letters);
  fc.assert(
    fc.property(
      fc.array(letters, { minLength: 1, maxLength: 3 }),
      fc.array(piece, { maxLength: 12 }),
      fc.array(fc.nat(60), { maxLength: 6 }),
      (secrets, pieces, cuts) => {
        const bytes = Buffer.from(pieces.join(''));
        const places = [
          0,
          ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b),
          bytes.length,
        ];
        const chunks = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
        const whole = masked([bytes], secrets);
        expect(masked(chunks, secrets)).toBe(whole);
        for (const secret of secrets) expect(whole.includes(secret)).toBe(false);
      },
    ),
    { numRuns: runs(2000) },
  );
});

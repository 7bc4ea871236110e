import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ForeignBit, foreignBits, openedBits, visibleText } from './untrusted-text.ts';

/** All that somebody sees who opens whatever can be opened. */
const opened = (bits: readonly ForeignBit[]): string =>
  bits
    .map((bit) => (bit.kind === 'fold' || bit.kind === 'run' ? opened(openedBits(bit)) : bit.text))
    .join('');
const sources = (bits: readonly ForeignBit[]): string => bits.map(({ source }) => source).join('');
const shown = (text: string): string[] => foreignBits(text).map((bit) => `${bit.kind} ${bit.text}`);

const NASTY = [
  '\u0000\u0007\u001b[31m\u001b]8;;x\u0007\r\u007f\u0085\u009b',
  '\u202a\u202e\u2066\u2069\u200b\u200d\u200e\ufeff\u00ad\u061c\u180e',
  '\u{e0001}\u{e0041}\u{e007f}\ufe00\ufe0f\u{e0100}\u2028\u2029',
  '\u115f\u3164\u2800\ud800\udc00x\ue000\uffff\u{10ffff}',
  '⚠️ 👨‍👩‍👧 1️⃣ e\u0301\u0301\u0301\u0301\u0301\u0301\u0301',
  `a${' '.repeat(60)}b${'\n'.repeat(60)}c${' \n'.repeat(60)}`,
  'https://xn--e1awd7f.com https://\u0430\u0440\u0440\u04cf\u0435.com/a http://u:p@é.example:80/',
];
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc
    .array(fc.oneof(fc.constantFrom(...NASTY), fc.string({ maxLength: 20 })))
    .map((all) => all.join('')),
);

test('whatever the text: no control and no format character is seen, and nothing is lost', () => {
  fc.assert(
    fc.property(text, (given) => {
      const bits = foreignBits(given);
      expect(sources(bits)).toBe(given);
      expect(opened(bits)).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029](?<![\n\t])/u);
      expect(visibleText(given)).not.toMatch(/[\p{C}\u2028\u2029]/u);
    }),
    { numRuns: 500 },
  );
});

test('plain text is one bit', () => {
  expect(foreignBits('').length).toBe(0);
  const plain = 'Two lines\n\tof 日本語, naïve, Ω, مرحبا and ⚠️ – "quotes"\n';
  expect(foreignBits(plain)).toEqual([{ kind: 'text', text: plain, source: plain }]);
});

test('what is hidden is named, commands to terminals are shown as such', () => {
  expect(shown('a\u202eb')).toEqual(['text a', 'sign U+202E', 'text b']);
  expect(shown('\u001b[1;31mred\u001b[0m\r')).toEqual([
    'ansi ␛[1;31m',
    'text red',
    'ansi ␛[0m',
    'sign ␍',
  ]);
  expect(shown('\u{e0041}')).toEqual(['sign U+E0041']);
  expect(shown('\u200b'.repeat(12))).toEqual(['run 12 hidden signs']);
});

test('stretches that push things out of sight are folded with their size', () => {
  expect(shown(`a${' '.repeat(40)}b`)).toHaveLength(1);
  expect(shown(`a${' '.repeat(41)}b`)).toEqual(['text a', 'run 41 spaces', 'text b']);
  expect(shown(`a\n${' \n'.repeat(41)}b`)).toEqual(['text a\n', 'run 41 blank lines', 'text b']);
  expect(shown('x'.repeat(2_100))).toEqual([
    `text ${'x'.repeat(2_000)}`,
    'fold 100 more in this line',
  ]);
});

test('a host is shown as the network knows it', () => {
  expect(shown('https://\u0430\u0440\u0440\u04cf\u0435.com/a')).toEqual([
    'text https://',
    'host xn--80ak6aa92e.com',
    'text /a',
  ]);
  expect(shown('http://a@é.example:80/')[1]).toBe('host xn--9ca.example');
  expect(shown('see https://example.com… or https://example.com')).toHaveLength(1);
});

test.each([
  ['one line', 'x'.repeat(5e6)],
  ['lines', 'abc def\n'.repeat(6e5)],
  ['signs', '\u202ea'.repeat(2e6)],
  ['spaces', ' '.repeat(5e6)],
  ['short runs', `${' '.repeat(40)}x`.repeat(1e5)],
  ['blank lines', ' \n'.repeat(2.5e6)],
  ['addresses', '://é'.repeat(1e6)],
])('5 MB of %s are bounded', (_name, given) => {
  const bits = foreignBits(given);
  const last = bits.at(-1);
  const inside = last ? openedBits(last) : [];
  expect(Math.max(bits.length, inside.length)).toBeLessThan(2_100);
  const shown = (all: typeof bits) => all.reduce((sum, { text }) => sum + text.length, 0);
  expect(shown(bits)).toBeLessThan(55_000);
  expect(shown(inside)).toBeLessThan(105_000);
  expect(sources(bits) === given).toBe(true);
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatMoney, parseMoney, rateOf } from './money.ts';

const nanoOf = (text: string): bigint | string => {
  const parsed = parseMoney(text);
  return parsed.ok ? parsed.output : parsed.error.code;
};

test.each([
  ['1.00', 1_000_000_000n],
  ['0.1', 100_000_000n],
  ['0.000000001', 1n],
  ['0.1000000000', 100_000_000n],
  [' 12 ', 12_000_000_000n],
  ['999999999999999', 999_999_999_999_999_000_000_000n],
])('`%s` is read exactly', (text, nano) => {
  expect(nanoOf(text)).toBe(nano);
});

test.each(['', '-1', '1,5', '1.', '.5', '1e3', 'NaN', '0.0000000001', '1 2', '٣'])(
  '`%s` is no amount',
  (text) => {
    expect(nanoOf(text)).toBe('invalid_input');
  },
);

test('amounts survive being written and read', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 23n }), (nano) => {
      expect(nanoOf(formatMoney(nano))).toBe(nano);
    }),
  );
  expect(formatMoney(0n)).toBe('0.00');
  expect(formatMoney(1_500_000_000n)).toBe('1.50');
  expect(formatMoney(-1_000_001n)).toBe('-0.001000001');
});

test('rates are exact for numbers as people write them, and rounded up below a nano-unit', () => {
  expect(rateOf(0.075)).toBe(75_000_000n);
  expect(rateOf(18.75)).toBe(18_750_000_000n);
  expect(rateOf(1.5e-7)).toBe(150n);
  expect(rateOf(1e-7)).toBe(100n);
  expect(rateOf('0.0000000001')).toBe(1n);
  expect(rateOf(1e-10)).toBe(1n);
  expect(rateOf(0)).toBe(0n);
  for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e300, 'x', null, true, {}]) {
    expect(rateOf(value)).toBeUndefined();
  }
});

test('every number with up to six decimals is the rate its text says', () => {
  fc.assert(
    fc.property(fc.nat(1e9), fc.nat(999_999), (whole, micro) => {
      const text = `${whole}.${String(micro).padStart(6, '0')}`;
      expect(rateOf(Number(text))).toBe(BigInt(whole) * 1_000_000_000n + BigInt(micro) * 1000n);
    }),
  );
});

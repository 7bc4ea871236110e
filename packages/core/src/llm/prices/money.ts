// Money in whole nano-units of a currency, read and written as decimal text, never as a float.
import { fail, type Outcome, ok } from '../../base/index.ts';

const DIGITS = 9;
const NANO = 10n ** BigInt(DIGITS);
const DECIMAL = /^(\d{1,15})(?:\.(\d{1,30}))?$/;

/** Parses an amount such as `1.50`: not negative, at most nine decimals. */
export function parseMoney(text: string): Outcome<bigint> {
  const [, whole, decimals = ''] = DECIMAL.exec(text.trim()) ?? [];
  if (whole === undefined) {
    return fail('invalid_input', `\`${text.slice(0, 60)}\` must be an amount such as 1.50`);
  }
  const fraction = decimals.replace(/0+$/, '');
  if (fraction.length > DIGITS) {
    return fail(
      'invalid_input',
      `amount \`${text.slice(0, 60)}\` has more than ${DIGITS} decimals`,
    );
  }
  return ok(BigInt(whole) * NANO + BigInt(fraction.padEnd(DIGITS, '0')));
}

/** Formats an amount with at least two decimals, and as many as needed to be exact. */
export function formatMoney(nano: bigint): string {
  const sign = nano < 0n ? '-' : '';
  const digits = String(nano < 0n ? -nano : nano).padStart(DIGITS + 1, '0');
  const decimals = digits.slice(-DIGITS).replace(/0+$/, '').padEnd(2, '0');
  return `${sign}${digits.slice(0, -DIGITS)}.${decimals}`;
}

/** Returns a number such as `1.5e-7` without the exponent. */
function plainDecimal(value: number): string {
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [whole = '', decimals = ''] = mantissa.split('.');
  const shift = Number(exponent);
  if (shift >= 0) {
    const moved = decimals.padEnd(shift, '0');
    return `${whole}${moved.slice(0, shift)}.${moved.slice(shift)}0`;
  }
  return `0.${'0'.repeat(-shift - whole.length)}${whole}${decimals}`;
}

/**
 * Returns a rate of a data file, which is a number or a text, in nano-units. Finer fractions are rounded
 * up, so that a cost is never below the invoice. Returns undefined for any other value.
 */
export function rateOf(value: unknown): bigint | undefined {
  const text = typeof value === 'number' && value >= 0 ? plainDecimal(value) : value;
  const [, whole, decimals = ''] = (typeof text === 'string' && DECIMAL.exec(text)) || [];
  if (whole === undefined) return undefined;
  const nano = BigInt(whole) * NANO + BigInt(decimals.slice(0, DIGITS).padEnd(DIGITS, '0'));
  return /[1-9]/.test(decimals.slice(DIGITS)) ? nano + 1n : nano;
}

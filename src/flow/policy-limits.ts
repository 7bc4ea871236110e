// Ceilings for limits: the lowest one counts. Money is a decimal text and is compared exactly.

const DECIMAL = /^(\d{1,30})(?:\.(\d{1,18}))?$/;

/** In units of 10^-18; undefined for what is no plain decimal. */
function scaled(value: number | string): bigint | undefined {
  const text = typeof value === 'number' ? value.toString() : value.trim();
  const match = DECIMAL.exec(text);
  return match ? BigInt(match[1] + (match[2] ?? '').padEnd(18, '0')) : undefined;
}

export const isLimit = (value: unknown): value is number | string =>
  (typeof value === 'number' || typeof value === 'string') && scaled(value) !== undefined;

/** Zero for what cannot be read: a ceiling nobody understands lets nothing through. */
const amount = (value: number | string): bigint => scaled(value) ?? 0n;

export function lowestLimits(
  ceilings: readonly Readonly<Record<string, number | string>>[],
): Record<string, number | string> {
  const lowest = new Map<string, number | string>();
  for (const ceiling of ceilings) {
    for (const [name, value] of Object.entries(ceiling)) {
      const before = lowest.get(name);
      if (before === undefined || amount(value) < amount(before)) lowest.set(name, value);
    }
  }
  return Object.fromEntries(lowest);
}

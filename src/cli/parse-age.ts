import { fail, type Outcome, ok } from '../base/index.ts';

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** An option such as `30d` or `12h` in milliseconds; days when no unit is given. */
export function parseAge(option: string, text: string): Outcome<number> {
  const [, amount, unit = 'd'] = /^(\d{1,6})\s*([smhdw])?$/.exec(text) ?? [];
  return amount === undefined
    ? fail('usage', `\`--${option} ${text}\` is no time such as 30d, 12h or 2w`)
    : ok(Number(amount) * (UNITS[unit] ?? 0));
}

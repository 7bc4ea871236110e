// Formats numbers and times for people: short, with a unit, the same in the page and in the terminal.
import type { RightUse } from './api.ts';

const grouped = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, ',');

export const count = (value: number): string => {
  const whole = Math.round(value) || 0;
  return `${whole < 0 ? '-' : ''}${grouped(String(Math.abs(whole)))}`;
};
export const counted = (value: number, word: string): string =>
  `${count(value)} ${word}${value === 1 ? '' : 's'}`;

/** Formats a large number, such as a number of tokens: `842`, `88.4 k`, `2.1 M`. */
export function shortCount(value: number): string {
  const size = Math.abs(value);
  for (const [limit, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (size >= limit * 10 || (size >= limit && limit > 1e3)) {
      return `${(value / limit).toFixed(size >= limit * 1000 ? 0 : 1).replace(/\.0$/, '')} ${unit}`;
    }
  }
  return count(value);
}

/** Formats an amount without its currency: `0.2955`, `0.50`, `12.41`, `< 0.0001`. */
export function money(amount: number | string): string {
  const value = Number(amount) || 0;
  if (value !== 0 && Math.abs(value) < 0.0001) return value < 0 ? '> -0.0001' : '< 0.0001';
  const [whole = '0', rest = ''] = value.toFixed(Math.abs(value) >= 10 ? 2 : 4).split('.');
  const sign = whole.startsWith('-') ? '-' : '';
  return `${sign}${grouped(whole.replace('-', ''))}.${rest.replace(/00$/, rest.length > 2 ? '' : '00')}`;
}

/** Formats a size: `412 B`, `4.2 KB`, `5.0 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const [value, unit] = size < 1e6 ? [size / 1e3, 'KB'] : [size / 1e6, 'MB'];
  return `${value < 100 ? value.toFixed(1) : count(value)} ${unit}`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** Formats a duration: `12 ms`, `4.2 s`, `5 m 21 s`, `2 h 10 m`, `3 d 4 h`. */
export function seconds(value: number): string {
  if (value < 0) return '0 s';
  if (value < 0.1 && value > 0) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${Number.isInteger(value) ? value : value.toFixed(1)} s`;
  if (value < 59.5) return `${Math.round(value)} s`;
  const all = Math.round(value);
  const [minutes, hours] = [Math.floor(all / 60), Math.floor(all / 3600)];
  if (minutes < 60) return `${minutes} m ${two(all % 60)} s`;
  return hours < 48
    ? `${hours} h ${two(minutes % 60)} m`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a rough age: `now`, `12 s`, `5 m`, `3 h`, `9 d`. */
export function ago(ms: number): string {
  const total = Math.floor(ms / 1000);
  if (total < 1) return 'now';
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m`;
  return total < 172_800 ? `${Math.floor(total / 3600)} h` : `${Math.floor(total / 86_400)} d`;
}

/** Returns `expires in 10 m 45 s` or `expired`. Empty without an expiry. */
export function expiryWords(expires: number | undefined, at: number): string {
  if (expires === undefined) return '';
  return expires <= at ? 'expired' : `expires in ${seconds(Math.round((expires - at) / 1000))}`;
}

/** Formats `02:00:52`, and with `isExact` `02:00:52.014`, in the local time zone. */
export function clockTime(at: number, isExact = false): string {
  const date = new Date(at);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return isExact ? `${text}.${String(date.getMilliseconds()).padStart(3, '0')}` : text;
}

export function dayTime(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clockTime(at)}`;
}

/** Short name of a limit for a row: `spend`, `turns`, `time`, `calls`. */
export function limitName(name: string): string {
  const short: Readonly<Record<string, string>> = { duration_seconds: 'time', tool_calls: 'calls' };
  return short[name] ?? name.replaceAll('_', ' ');
}

/** Formats a number of a limit as money, time or count. The name of the limit decides. */
export function limitValue(name: string, value: number): string {
  if (name.startsWith('spend')) return money(value);
  if (name.endsWith('_seconds')) return seconds(Math.round(value)).replace(/ 00 [sm]$/, '');
  return name.includes('tokens') ? shortCount(value) : count(value);
}

/** Names the source of a limit: `built in` for `default (bundle)`, `default of the project`, `policy`. */
export function limitOrigin(from: string): string {
  const [, source] = /^default \((\w+)\)$/.exec(from) ?? [];
  if (source === undefined) return from;
  return source === 'bundle' ? 'built in' : `default of the ${source}`;
}

/** Quotes a text for a POSIX shell. Control characters become spaces. */
export const shellWord = (text: string): string =>
  /^[\w./:@%+=-]+$/.test(text)
    ? text
    : `'${text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ' ').replaceAll("'", "'\\''")}'`;

/** Splits a right into name and scope: `fs.read` and `notes/**`. A right to call a tool becomes `tool` and its id. */
export function rightWords({ name, capability, scope }: RightUse): [right: string, of: string] {
  const values = Object.values(scope).filter((one) => typeof one === 'string');
  const of = name.startsWith(capability) ? name.slice(capability.length).trim() : '';
  const right = capability === 'tool.execute' ? 'tool' : capability;
  return [right, of === '' ? values.join(' ') || (right === 'tool' ? name : '') : of];
}

// The print of a call: what of its arguments counts when two calls are compared. Times, and ids beside
// other arguments, differ between calls that are the same to everybody but a computer.
import { hash } from 'node:crypto';
import { canonicalJson, isDeeperThan, isObject, type Json } from '../base/index.ts';

export interface ObservedCall {
  /** So that `learned` finds it again. */
  readonly id?: string;
  readonly tool: string;
  readonly arguments: Json;
  /** Parameters that the tool declares `volatile`. */
  readonly volatile?: readonly string[];
  /** Calls of one turn were all made before any of their results was seen. */
  readonly turn?: number;
}

/** JSON, so that it can be kept over a restart and handed to a child. Holds no argument in the clear. */
export interface CallPrint {
  readonly tool: string;
  readonly key: string;
  /** By argument that counts: a digest of its value. */
  readonly fields: Readonly<Record<string, string>>;
  readonly turn?: number;
}

const TIMES = [
  /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC)$/,
  // Seconds or milliseconds since 1970, from 2001 to about 2096.
  /^[1-3]\d{9}(?:\d{3})?$/,
];

// Hashes of 40 and 64 digits are not here: they name a content, and another one is another thing.
const IDS = [
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  /^(?=.*\d)[0-9A-HJKMNP-TV-Z]{26}$/,
  /^(?:[0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})$/i,
  /^[a-z]{2,12}_(?=[A-Za-z]*\d)[A-Za-z0-9]{16,64}$/,
];

const LONGEST = 100;

const textOf = (value: Json): string | undefined => {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && text.length <= LONGEST ? text : undefined;
};
const fits = (value: Json, formats: readonly RegExp[]): boolean => {
  const text = textOf(value);
  return text !== undefined && formats.some((format) => format.test(text));
};

/** Times and ids further in are all alike; those on top are left out altogether. */
function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, item]) => [key, plain(item)] as const);
    return Object.fromEntries(entries);
  }
  if (fits(value, TIMES)) return '<time>';
  return typeof value === 'string' && fits(value, IDS) ? '<id>' : value;
}

const MAX_DEPTH = 100;

export const digest = (value: Json): string =>
  hash('sha256', isDeeperThan(value, MAX_DEPTH) ? JSON.stringify(value) : canonicalJson(value));

const digestPlain = (value: Json): string =>
  digest(isDeeperThan(value, MAX_DEPTH) ? value : plain(value));

/** An id that is all there is to a call says what the call is about: then it counts. */
function countedFields(call: ObservedCall): Record<string, string> {
  const { arguments: given, volatile = [] } = call;
  if (!isObject(given)) return { '': digestPlain(given) };
  const entries = Object.entries(given).filter(
    ([name, value]) => !volatile.includes(name) && !fits(value, TIMES),
  );
  const others = entries.filter(([, value]) => typeof value !== 'string' || !fits(value, IDS));
  const counted =
    others.length > 0
      ? others.map(([name, value]) => [name, digestPlain(value)])
      : entries.map(([name, value]) => [name, digest(value)]);
  return Object.fromEntries(counted) as Record<string, string>;
}

export function printOf(call: ObservedCall): CallPrint {
  const fields = countedFields(call);
  return {
    tool: call.tool,
    key: digest([call.tool, fields]),
    fields,
    ...(call.turn !== undefined && { turn: call.turn }),
  };
}

/** One tool, the same arguments, at most one of which differs while another does not. */
export function isSimilar(a: CallPrint, b: CallPrint): boolean {
  if (a.tool !== b.tool) return false;
  if (a.key === b.key) return true;
  const names = Object.keys(a.fields);
  if (names.length < 2 || names.length !== Object.keys(b.fields).length) return false;
  if (!names.every((name) => Object.hasOwn(b.fields, name))) return false;
  return names.filter((name) => a.fields[name] !== b.fields[name]).length <= 1;
}

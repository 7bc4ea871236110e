// Secrets of a call never come back out of it: not in a fault, not in an answer that echoes them.
import { type Json, type JsonObject, setOwn } from '../../base/index.ts';

export interface Redactor {
  /** Replaces every secret in every text of a value. */
  <T extends Json>(value: T): T;
  /** Does this text hold one? */
  finds(text: string): boolean;
  /** True when there is nothing to hide. */
  readonly isIdle: boolean;
  /** Does one of the secrets hold a line break? */
  readonly spansLines: boolean;
}

const MASK = '[secret]';
/** Shorter values (`1`, `on`) are in every text and hide nothing. */
const MIN_LENGTH = 4;
/** Encoded forms of short values are in every text too. */
const MIN_ENCODED = 8;

/**
 * Base64 of a text that holds the secret, wherever in it: the characters that depend on nothing but
 * the secret, for each of the three ways its bytes can fall into groups.
 */
function base64Forms(bytes: Buffer): string[] {
  const plain = [0, 1, 2].flatMap((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    const from = Math.ceil((offset * 8) / 6);
    const form = text.slice(from, Math.floor(((offset + bytes.length) * 8) / 6));
    return form.length >= MIN_ENCODED ? [form] : [];
  });
  return [...plain, ...plain.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))];
}

/** The forms in which a value may appear: as it is, inside JSON, in a URL, in base64, in hex. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const encoded = encodeURIComponent(bytes.toString());
  const hex = bytes.length >= MIN_ENCODED ? bytes.toString('hex') : secret;
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encoded,
    encoded.replaceAll('%20', '+'),
    ...base64Forms(bytes),
    hex,
    hex.toUpperCase(),
  ];
}

/** Rarest first, as far as it matters, in what servers send: JSON and English. */
const RARE = 'QZXJKVWYGFBUHPMDLNRCOSTIAE~%+/_=-qzjxkvwy';
const MIN_PROBE = 8;

/**
 * The end of a form, from a character on that is rare: where it is not, the form is not, and a text is
 * searched for it several times as fast as for something that begins like every other word.
 */
function probeOf(form: string): string {
  let [start, best] = [0, RARE.length];
  for (let at = 0; at <= form.length - MIN_PROBE; at++) {
    const rank = RARE.indexOf(form.charAt(at));
    if (rank >= 0 && rank < best) [start, best] = [at, rank];
  }
  return form.slice(start);
}

/** How many lists of secrets are remembered: a process calls few tools that have some, often. */
const MAX_REMEMBERED = 16;
const remembered = new Map<string, Redactor>();

/** A redactor for these secrets. Making one costs more than most answers take to look through. */
export function createRedactor(secrets: readonly string[]): Redactor {
  // As JSON: two different lists never have the same text.
  const key = JSON.stringify(secrets);
  const before = remembered.get(key);
  if (before) return before;
  const made = makeRedactor(secrets);
  for (const oldest of remembered.keys()) {
    if (remembered.size < MAX_REMEMBERED) break;
    remembered.delete(oldest);
  }
  remembered.set(key, made);
  return made;
}

function makeRedactor(secrets: readonly string[]): Redactor {
  const forms = secrets.filter((secret) => secret.length >= MIN_LENGTH).flatMap(formsOf);
  // Longest first: one secret may begin with another.
  const list = [...new Set(forms)].sort((a, b) => b.length - a.length);
  const probes = list.map((form) => [probeOf(form), form] as const);
  const finds = (text: string): boolean => {
    for (const [probe, form] of probes) {
      if (text.includes(probe) && text.includes(form)) return true;
    }
    return false;
  };

  const mask = (text: string): string => {
    if (!finds(text)) return text;
    let result = text;
    for (const form of list) if (result.includes(form)) result = result.replaceAll(form, MASK);
    return result;
  };
  // Most values hold no secret: they are handed back as they are, and nothing is copied.
  const walk = (value: Json): Json => {
    if (typeof value === 'string') return mask(value);
    if (typeof value !== 'object' || value === null) return value;
    return Array.isArray(value) ? walkList(value) : walkObject(value);
  };
  function walkList(list: Json[]): Json[] {
    let copy: Json[] | undefined;
    for (let at = 0; at < list.length; at++) {
      const item = list[at] as Json;
      const shown = walk(item);
      if (shown !== item) copy ??= list.slice();
      if (copy) copy[at] = shown;
    }
    return copy ?? list;
  }
  function walkObject(object: JsonObject): JsonObject {
    const keys = Object.keys(object);
    let copy: JsonObject | undefined;
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at] as string;
      const child = object[key] as Json;
      const name = mask(key);
      const shown = walk(child);
      if (!copy && (name !== key || shown !== child)) {
        copy = {};
        for (const before of keys.slice(0, at)) setOwn(copy, before, object[before] as Json);
      }
      if (copy) setOwn(copy, name, shown);
    }
    return copy ?? object;
  }
  const redact = <T extends Json>(value: T): T => (list.length === 0 ? value : (walk(value) as T));
  const spansLines = list.some((form) => form.includes('\n'));
  return Object.assign(redact, { finds, isIdle: list.length === 0, spansLines });
}

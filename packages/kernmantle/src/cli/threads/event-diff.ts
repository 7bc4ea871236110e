// Finds the first difference of two values and prints both values around it, for a person who compares them.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  plainText,
  shorten,
} from '@kernmantle/core/base';
import { visible } from '../terminal/terminal.ts';

interface Difference {
  path: string;
  recorded: Json | undefined;
  replayed: Json | undefined;
}

/** Returns the first difference in the order of the keys. Undefined if the values are equal. */
export function firstDifference(
  recorded: Json | undefined,
  replayed: Json | undefined,
  path = '',
): Difference | undefined {
  const areBoth = (test: (value: Json | undefined) => boolean) => test(recorded) && test(replayed);
  if (!areBoth((value) => isObject(value)) && !areBoth(Array.isArray)) {
    return recorded === replayed ? undefined : { path, recorded, replayed };
  }
  const [a, b] = [{ ...(recorded as JsonObject) }, { ...(replayed as JsonObject) }];
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [left, right] = [getOwn(a, key), getOwn(b, key)];
    const difference = firstDifference(left, right, path === '' ? key : `${path}.${key}`);
    if (difference) return difference;
  }
  return undefined;
}

const MAX = 200;
/** Number of equal characters that are printed before the difference. */
const BEFORE = 40;

/** Returns the value as text. A long text starts shortly before its difference from the other value. */
export function around(value: Json | undefined, other: Json | undefined): string {
  const areTexts = typeof value === 'string' && typeof other === 'string';
  const words = (one: Json | undefined): string =>
    one === undefined ? 'nothing' : areTexts ? plainText(one) : JSON.stringify(one);
  const [text, against] = [words(value), words(other)];
  let at = 0;
  while (at < text.length && text[at] === against[at]) at += 1;
  const from = text.length <= MAX ? 0 : Math.max(0, at - BEFORE);
  return visible(masked(`${from > 0 ? '…' : ''}${shorten(text.slice(from), MAX)}`));
}

// Where two values depart from each other, and what each looks like there: for people who compare.
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

interface Parted {
  path: string;
  recorded: Json | undefined;
  replayed: Json | undefined;
}

/** The first place where they are not the same, keys in their order. */
export function firstDifference(
  recorded: Json | undefined,
  replayed: Json | undefined,
  path = '',
): Parted | undefined {
  const areBoth = (test: (value: Json | undefined) => boolean) => test(recorded) && test(replayed);
  if (!areBoth((value) => isObject(value)) && !areBoth(Array.isArray)) {
    return recorded === replayed ? undefined : { path, recorded, replayed };
  }
  const [a, b] = [{ ...(recorded as JsonObject) }, { ...(replayed as JsonObject) }];
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [left, right] = [getOwn(a, key), getOwn(b, key)];
    const found = firstDifference(left, right, path === '' ? key : `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

const MAX = 200;
/** How much of what is the same stands before it. */
const BEFORE = 40;

/** A long value from shortly before the place where the other one departs. */
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

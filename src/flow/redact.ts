// Reasons are written by people and may quote what they judge; secrets are taken out again, in the
// forms in which a text usually carries them.
import type { Json } from '../base/index.ts';
import { carries } from './values/labels.ts';
import type { Value } from './values/value.ts';

const MIN_LENGTH = 3;
const MAX_PARTS = 1000;
const SHOWN = '[secret]';

/** The texts inside a secret value: the whole and every string in it. */
function textsIn(value: Value): string[] {
  const texts = [value.text];
  const open: Json[] = [value.data];
  for (let item = open.pop(); item !== undefined && texts.length < MAX_PARTS; item = open.pop()) {
    if (typeof item === 'string') texts.push(item);
    else if (typeof item === 'number') texts.push(String(item));
    else if (typeof item === 'object' && item !== null) open.push(...Object.values(item));
  }
  return texts;
}

function formsOf(text: string): string[] {
  const plain = text.trim();
  const json = JSON.stringify(plain).slice(1, -1);
  const base64 = Buffer.from(plain, 'utf8').toString('base64').replace(/=+$/, '');
  return [plain, json, base64, urlForm(plain)];
}

/** A lone surrogate cannot be written in a URL, so it cannot leak in one. */
function urlForm(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A function that takes every secret among these values out of a text. */
export function redactor(values: readonly Value[]): (text: string) => string {
  const secrets = values.filter((value) => carries(value.meta.descriptor, 'secret'));
  if (secrets.length === 0) return (text) => text;
  const forms = new Set(secrets.flatMap(textsIn).flatMap(formsOf));
  const longestFirst = [...forms]
    .filter((form) => form.length >= MIN_LENGTH)
    .toSorted((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((left, form) => left.replaceAll(form, SHOWN), text);
}

// The host's side of the border of js blocks: JSON data as text and back, in the letters of
// `js-realm-values.ts`.
import { isObject, type Json, parseJson, plainText } from '../base/index.ts';

type Path = readonly string[];

/** Where numbers stand that JSON has no word for. */
function oddNumbers(data: Json, path: Path, found: [string, string][]): [string, string][] {
  if (typeof data === 'number') {
    if (!Number.isFinite(data)) found.push([JSON.stringify(path), String(data)]);
  } else if (typeof data === 'object' && data !== null) {
    for (const [key, part] of Object.entries(data)) {
      if (typeof part === 'number' || (typeof part === 'object' && part !== null)) {
        oddNumbers(part, [...path, key], found);
      }
    }
  }
  return found;
}

export function dataText(data: Json | undefined): string {
  if (data === undefined) return 'u';
  const odd = oddNumbers(data, [], []);
  if (odd.length === 0) return `v${JSON.stringify(data)}`;
  return `o${JSON.stringify({ copy: data, odd })}`;
}

const NUMBERS = new Map([NaN, Infinity, -Infinity].map((number) => [String(number), number]));

/** A list of keys as JSON text, or nothing. */
function readPath(text: Json | undefined): readonly Json[] | undefined {
  const path = typeof text === 'string' ? parseJson(text) : undefined;
  return path?.ok && Array.isArray(path.output) ? path.output : undefined;
}

/** Puts a number where it stood; steps only on what the data itself has, never on prototypes. */
function place(holder: Json, path: readonly Json[], number: number): void {
  let into = holder;
  for (const [step, part] of path.entries()) {
    const key = plainText(part);
    if (typeof into !== 'object' || into === null || !Object.hasOwn(into, key)) return;
    const fields = into as Record<string, Json>;
    if (step === path.length - 1) fields[key] = number;
    else into = fields[key] ?? null;
  }
}

/** Text of our own encoder. Blocks can influence what it says, so nothing in it is believed. */
export function readData(text: string): Json | undefined {
  if (text[0] === 'u') return undefined;
  const data = JSON.parse(text.slice(1)) as Json;
  if (text[0] !== 'o') return data;
  if (!isObject(data)) return null;
  const { copy = null, odd } = data;
  const holder = { copy };
  for (const pair of Array.isArray(odd) ? odd : []) {
    const [where, word] = Array.isArray(pair) ? pair : [];
    const path = readPath(where);
    const number = typeof word === 'string' ? NUMBERS.get(word) : undefined;
    if (path && number !== undefined) place(holder, ['copy', ...path], number);
  }
  return holder.copy;
}

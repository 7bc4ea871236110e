// The host's side of the border of js blocks: JSON data as text and back, in the letters of
// `js-realm-values.ts`.
import type { Json } from '../base/index.ts';

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

const NUMBERS: Readonly<Record<string, number>> = { NaN, Infinity, '-Infinity': -Infinity };

/** Text of our own encoder; blocks can influence what it says, but not that it is JSON. */
export function readData(text: string): Json | undefined {
  if (text[0] === 'u') return undefined;
  const data = JSON.parse(text.slice(1)) as Json;
  if (text[0] !== 'o') return data;
  const holder = data as { copy: Json; odd: [string, string][] };
  for (const [path, number] of holder.odd) {
    const keys = ['copy', ...(JSON.parse(path) as string[])];
    const last = keys.pop() as string;
    let into = holder as unknown as Record<string, Json>;
    for (const key of keys) into = into[key] as Record<string, Json>;
    into[last] = NUMBERS[number] ?? null;
  }
  return holder.copy;
}

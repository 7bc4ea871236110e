// Finding placeholders and putting text in their place. Hand-written scans, not patterns: texts come
// from strangers and are long, and each character must be looked at a fixed number of times.
import { isObject, type Json, type JsonObject, MAX_DEPTH, setOwn } from '../base/index.ts';
import { KEYWORDS, nameEnd } from './syntax.ts';

export interface Placeholder<Content> {
  start: number;
  end: number;
  content: Content;
}

/** Reads the placeholder that begins at `start`, if one does. */
export type ReadPlaceholder<Content> = (
  text: string,
  start: number,
) => Placeholder<Content> | undefined;

/** All placeholders of a text, left to right. */
export function findPlaceholders<Content>(
  text: string,
  opener: string,
  read: ReadPlaceholder<Content>,
): Placeholder<Content>[] {
  const found: Placeholder<Content>[] = [];
  let at = text.indexOf(opener);
  while (at !== -1) {
    const placeholder = read(text, at);
    if (placeholder !== undefined) found.push(placeholder);
    at = text.indexOf(opener, placeholder?.end ?? at + 1);
  }
  return found;
}

// INVARIANT: what a placeholder is replaced by is never looked at again.
export function replaceEach<Content>(
  text: string,
  placeholders: readonly Placeholder<Content>[],
  replacement: (placeholder: Placeholder<Content>, index: number) => string,
): string {
  let filled = '';
  let from = 0;
  for (const [index, placeholder] of placeholders.entries()) {
    filled += text.slice(from, placeholder.start) + replacement(placeholder, index);
    from = placeholder.end;
  }
  return filled + text.slice(from);
}

/** `${a.b}`: names and dots only, no blanks, no keywords. */
export const readPathPlaceholder: ReadPlaceholder<readonly string[]> = (text, start) => {
  const path: string[] = [];
  let at = start + 1;
  do {
    const end = nameEnd(text, at + 1);
    const name = text.slice(at + 1, end);
    if (name === '' || KEYWORDS.has(name)) return undefined;
    path.push(name);
    at = end;
  } while (text[at] === '.');
  return text[at] === '}' ? { start, end: at + 1, content: path } : undefined;
};

/** How much text one call may produce: a placeholder is short, its value may be megabytes. */
export const MAX_TEXT = 16 * 1024 * 1024;

/** Strings as they are, everything else as JSON; undefined for what has no text (too deep, too long). */
export function placeholderText(value: Json): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Undefined stands for "leave it out". */
type MapText = (text: string) => Json | undefined;

/**
 * Maps the strings of lists and objects at any depth, never keys. Below `MAX_DEPTH` the walk ends:
 * `tooDeep` says what becomes of the rest.
 */
export function mapTexts(
  value: Json,
  map: MapText,
  tooDeep: (rest: Json) => Json,
  depth = 0,
): Json | undefined {
  if (typeof value === 'string') return map(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) return tooDeep(value);
  const inside = (item: Json) => mapTexts(item, map, tooDeep, depth + 1);
  if (!isObject(value)) return value.map(inside).filter((item) => item !== undefined);
  const mapped: JsonObject = {};
  for (const key of Object.keys(value)) {
    const item = inside(value[key] as Json);
    if (item !== undefined) setOwn(mapped, key, item);
  }
  return mapped;
}

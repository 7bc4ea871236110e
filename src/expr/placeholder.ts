// Finding placeholders. Hand-written scans, not patterns: texts come from strangers and are long,
// and each character must be looked at a fixed number of times.
import type { Json } from '../base/index.ts';
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

/** All placeholders of a text, left to right. What one is replaced by is never looked at again. */
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

/** `{name}`, unless a `$` stands before it: that is the other form. */
export const readNamePlaceholder: ReadPlaceholder<string> = (text, start) => {
  const end = nameEnd(text, start + 1);
  if (end === start + 1 || text[end] !== '}' || text[start - 1] === '$') return undefined;
  return { start, end: end + 1, content: text.slice(start + 1, end) };
};

/** Strings as they are, everything else as JSON; undefined for what has no text (too deep, too long). */
export function placeholderText(value: Json): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** How much text one call may produce: a placeholder is short, its value may be megabytes. */
export const MAX_TEXT = 16 * 1024 * 1024;

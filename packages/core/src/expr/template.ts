// Finding placeholders and putting text in their place. Hand-written scans, not patterns: texts come
// from strangers and are long, and each character must be looked at a fixed number of times.
import { type Json, type JsonObject, MAX_DEPTH, setOwn } from '../base/index.ts';
import { readPath } from './path.ts';
import { KEYWORDS, nameEnd } from './syntax-tree.ts';

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
const readPathPlaceholder: ReadPlaceholder<readonly string[]> = (text, start) => {
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

/** A value whose texts were looked through. Undefined stands for "leave it out". */
export type Blank<Source> = (source: Source) => Json | undefined;

/**
 * Looks through the strings of lists and objects at any depth, never at keys. Below `MAX_DEPTH` it
 * ends: `tooDeep` says what becomes of the rest.
 */
export function readBlank<Source>(
  value: Json,
  readText: (text: string) => Blank<Source>,
  tooDeep: (rest: Json) => Blank<Source>,
  depth = 0,
): Blank<Source> {
  if (typeof value === 'string') return readText(value);
  if (typeof value !== 'object' || value === null) return () => value;
  if (depth > MAX_DEPTH) return tooDeep(value);
  const inside = (item: Json) => readBlank(item, readText, tooDeep, depth + 1);
  if (Array.isArray(value)) {
    const items = value.map(inside);
    return (source) => items.map((item) => item(source)).filter((item) => item !== undefined);
  }
  const fields = Object.keys(value).map((key) => [key, inside(value[key] as Json)] as const);
  return (source) => {
    const filled: JsonObject = {};
    for (const [key, field] of fields) {
      const item = field(source);
      if (item !== undefined) setOwn(filled, key, item);
    }
    return filled;
  };
}

// `${path}` in hook inputs and directive text. Nothing is ever an error here: what cannot be filled
// stays as it was written, where a person (or the model) can see it.

/**
 * Fills strings at any depth of lists and objects, never keys. The result is new and may share parts
 * with the context. Missing, null and values that would make the text longer than 16 MiB leave the
 * placeholder as written.
 */
export function fillTemplate(input: Json, context: Json): Json {
  let room = MAX_TEXT;

  function fillText(text: string): Json {
    const placeholders = findPlaceholders(text, '${', readPathPlaceholder);
    const [first] = placeholders;
    if (first?.start === 0 && first.end === text.length) {
      return readPath(context, first.content) ?? text;
    }
    return replaceEach(
      text,
      placeholders,
      ({ start, end, content }) => textOf(content) ?? text.slice(start, end),
    );
  }

  function textOf(path: readonly string[]): string | undefined {
    const value = room > 0 ? readPath(context, path) : null;
    const text = value === null ? undefined : placeholderText(value);
    if (text === undefined) return undefined;
    // Once full, full: otherwise every further value would be turned into text only to be refused.
    room = text.length > room ? 0 : room - text.length;
    return room > 0 ? text : undefined;
  }

  const blank = readBlank<null>(
    input,
    (text) => () => fillText(text),
    (rest) => () => rest,
  );
  return blank(null) ?? null;
}

/** The paths a text would read, for checks; offsets point at the `$`. */
export function templatePaths(text: string): { path: readonly string[]; offset: number }[] {
  return findPlaceholders(text, '${', readPathPlaceholder).map(({ content, start }) => ({
    path: content,
    offset: start,
  }));
}

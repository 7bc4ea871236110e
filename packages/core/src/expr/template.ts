// Finds and replaces placeholders. The scans are written by hand, because texts are untrusted and long,
// and each character must be read a bounded number of times.
import { type Json, type JsonObject, MAX_DEPTH, setOwn } from '../base/index.ts';
import { readPath } from './path.ts';
import { KEYWORDS, nameEnd } from './syntax-tree.ts';

export interface Placeholder<Content> {
  start: number;
  end: number;
  content: Content;
}

/** Reads the placeholder that begins at `start`. Undefined if there is none. */
export type ReadPlaceholder<Content> = (
  text: string,
  start: number,
) => Placeholder<Content> | undefined;

/** Returns all placeholders of a text, from left to right. */
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

// INVARIANT: the replacement of a placeholder is never scanned again.
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

/** Reads `${a.b}`: only names and dots, no blanks, no keywords. */
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

/** Maximum text of one call: a placeholder is short, its value may be megabytes. */
export const MAX_TEXT = 16 * 1024 * 1024;

/**
 * Returns strings as they are and everything else as JSON. Undefined for values without a text (too
 * deep, too long).
 */
export function placeholderText(value: Json): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** A value with scanned texts. Undefined means that the value is left out. */
export type Blank<Source> = (source: Source) => Json | undefined;

/**
 * Scans the strings of lists and objects at any depth, never keys. It ends below `MAX_DEPTH`, where
 * `tooDeep` decides about the rest.
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

/**
 * Fills `${path}` in hook inputs and directive text: strings at any depth of lists and objects, never
 * keys. Never fails. The result is new and may share parts with the context. A placeholder stays as
 * written if its value is missing, null or would make the text longer than 16 MiB.
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
    // Once the text is full it stays full, because further values would be serialised only to be refused.
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

/** Returns the paths that a text would read, for checks. Offsets point at the `$`. */
export function templatePaths(text: string): { path: readonly string[]; offset: number }[] {
  return findPlaceholders(text, '${', readPathPlaceholder).map(({ content, start }) => ({
    path: content,
    offset: start,
  }));
}

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

/** Reads the placeholder that begins at `start`. Returns undefined if no placeholder begins there. */
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
  const placeholders: Placeholder<Content>[] = [];
  let at = text.indexOf(opener);
  while (at !== -1) {
    const placeholder = read(text, at);
    if (placeholder !== undefined) placeholders.push(placeholder);
    at = text.indexOf(opener, placeholder?.end ?? at + 1);
  }
  return placeholders;
}

/** Replaces placeholders. INVARIANT: a replacement is never scanned for placeholders. */
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

/** Maximum length of the values that one call inserts. A placeholder is short, but a value may have megabytes. */
export const MAX_TEXT = 16 * 1024 * 1024;

/**
 * Returns a string unchanged and any other value as JSON. Undefined for a value that is too deep or too
 * long for a text.
 */
export function placeholderText(value: Json): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Returns a value with filled placeholders. Undefined: the value is left out. */
export type Blank<Source> = (source: Source) => Json | undefined;

/**
 * Scans the strings of lists and objects, never keys. For a value below `MAX_DEPTH` levels it calls
 * `tooDeep` instead.
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
 * Fills `${path}` in hook inputs and directive text, in the strings of lists and objects, never in keys.
 * Never fails. The result is new and may share parts with the context. A placeholder stays as written if
 * its value is missing or null, or would make the text longer than 16 MiB.
 */
export function fillTemplate(input: Json, context: Json): Json {
  let remaining = MAX_TEXT;

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
    const value = remaining > 0 ? readPath(context, path) : null;
    const text = value === null ? undefined : placeholderText(value);
    if (text === undefined) return undefined;
    // A full text stays full, because further values would be serialized only to be refused.
    remaining = text.length > remaining ? 0 : remaining - text.length;
    return remaining > 0 ? text : undefined;
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

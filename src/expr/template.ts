// `${path}` in hook inputs and directive text. Nothing is ever an error here: what cannot be filled
// stays as it was written, where a person (or the model) can see it.
import { isObject, type Json, type JsonObject, MAX_DEPTH, setOwn } from '../base/index.ts';
import { readPath } from './path.ts';
import { findPlaceholders, MAX_TEXT, placeholderText, readPathPlaceholder } from './placeholder.ts';

/**
 * Fills strings at any depth of lists and objects, never keys. The result is new where something
 * changed and may share parts with the input and the context. Missing, null and values that would
 * make the text longer than 16 MiB leave the placeholder as written.
 */
export function fillTemplate(input: Json, context: Json): Json {
  let room = MAX_TEXT;

  function fill(value: Json, depth: number): Json {
    if (typeof value === 'string') return fillText(value);
    if (depth > MAX_DEPTH) return value;
    if (Array.isArray(value)) return value.map((item) => fill(item, depth + 1));
    if (!isObject(value)) return value;
    const filled: JsonObject = {};
    for (const key of Object.keys(value)) setOwn(filled, key, fill(value[key] as Json, depth + 1));
    return filled;
  }

  function fillText(text: string): Json {
    const placeholders = findPlaceholders(text, '${', readPathPlaceholder);
    const [first] = placeholders;
    if (first === undefined) return text;
    if (first.start === 0 && first.end === text.length) {
      return readPath(context, first.content) ?? text;
    }
    let filled = '';
    let from = 0;
    for (const { start, end, content } of placeholders) {
      filled += text.slice(from, start) + (textOf(content) ?? text.slice(start, end));
      from = end;
    }
    return filled + text.slice(from);
  }

  function textOf(path: readonly string[]): string | undefined {
    const value = room > 0 ? readPath(context, path) : null;
    const text = value === null ? undefined : placeholderText(value);
    if (text === undefined) return undefined;
    // Once full, full: otherwise every further value would be turned into text only to be refused.
    room = text.length > room ? 0 : room - text.length;
    return room > 0 ? text : undefined;
  }

  return fill(input, 0);
}

/** The paths a text would read, for checks; offsets point at the `$`. */
export function templatePaths(text: string): { path: readonly string[]; offset: number }[] {
  return findPlaceholders(text, '${', readPathPlaceholder).map(({ content, start }) => ({
    path: content,
    offset: start,
  }));
}

// `${path}` in hook inputs and directive text. Nothing is ever an error here: what cannot be filled
// stays as it was written, where a person (or the model) can see it.
import type { Json } from '../base/index.ts';
import { readPath } from './path.ts';
import {
  findPlaceholders,
  MAX_TEXT,
  mapTexts,
  placeholderText,
  readPathPlaceholder,
  replaceEach,
} from './placeholder.ts';

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

  return mapTexts(input, fillText, (rest) => rest) ?? null;
}

/** The paths a text would read, for checks; offsets point at the `$`. */
export function templatePaths(text: string): { path: readonly string[]; offset: number }[] {
  return findPlaceholders(text, '${', readPathPlaceholder).map(({ content, start }) => ({
    path: content,
    offset: start,
  }));
}

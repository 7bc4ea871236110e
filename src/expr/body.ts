// `{param}` in tool configs: the caller's parameters, put where the author said.
import {
  fail,
  isObject,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  setOwn,
} from '../base/index.ts';
import { findPlaceholders, MAX_TEXT, placeholderText, readNamePlaceholder } from './placeholder.ts';

/** Stays inside this file: the body cannot be filled, whatever its other parts are. */
class BodyFault extends Error {}

/**
 * Fills strings at any depth, never keys. A missing optional parameter drops the key (in a list: the
 * element; a body that is nothing else becomes null). Missing required ones are `invalid_input`,
 * with all their names in `detail.missing`.
 */
export function fillBody(
  body: Json,
  parameters: JsonObject,
  required: ReadonlySet<string>,
): Outcome<Json> {
  const missing = new Set<string>();
  let room = MAX_TEXT;

  /** Undefined means: leave it out. */
  function fill(value: Json, depth: number): Json | undefined {
    if (typeof value === 'string') return fillText(value);
    if (depth > MAX_DEPTH) throw new BodyFault(`nested deeper than ${MAX_DEPTH} levels`);
    if (Array.isArray(value)) {
      return value.map((item) => fill(item, depth + 1)).filter((item) => item !== undefined);
    }
    if (!isObject(value)) return value;
    const filled: JsonObject = {};
    for (const key of Object.keys(value)) {
      const part = fill(value[key] as Json, depth + 1);
      if (part !== undefined) setOwn(filled, key, part);
    }
    return filled;
  }

  function fillText(text: string): Json | undefined {
    const placeholders = findPlaceholders(text, '{', readNamePlaceholder);
    const [first] = placeholders;
    if (first === undefined) return text;
    const values = placeholders.map(({ content }) => lookUp(content));
    if (values.includes(undefined)) return undefined;
    if (isBlank(text.slice(0, first.start)) && isBlank(text.slice(first.end))) return values[0];
    let filled = '';
    let from = 0;
    for (const [index, { start, end }] of placeholders.entries()) {
      filled += text.slice(from, start) + textOf(values[index] as Json);
      from = end;
    }
    return filled + text.slice(from);
  }

  function lookUp(name: string): Json | undefined {
    const value = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (value === undefined && required.has(name)) missing.add(name);
    return value;
  }

  function textOf(value: Json): string {
    const text = placeholderText(value);
    if (text === undefined) throw new BodyFault(`nested deeper than ${MAX_DEPTH} levels`);
    room -= text.length;
    if (room < 0) throw new BodyFault(`longer than ${MAX_TEXT} characters`);
    return text;
  }

  try {
    const filled = fill(body, 0);
    return missing.size > 0 ? missingParameters([...missing]) : ok(filled ?? null);
  } catch (error) {
    if (!(error instanceof BodyFault)) throw error;
    return fail('invalid_input', `the filled body is ${error.message}`);
  }
}

const isBlank = (text: string): boolean => /^[ \t\r\n]*$/.test(text);

function missingParameters(names: string[]): Outcome<never> {
  const listed = names.map((name) => `\`${name}\``).join(', ');
  const noun = names.length === 1 ? 'parameter' : 'parameters';
  return fail('invalid_input', `missing required ${noun} ${listed}`, { missing: names });
}

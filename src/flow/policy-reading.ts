// How a setting of a policy file is read: the shapes that several settings share.
import {
  globProblem,
  isObject,
  type Json,
  nearest,
  type Position,
  type Severity,
} from '../base/index.ts';
import { normalizePattern } from './operation.ts';
import type { PolicyLevel } from './policy.ts';

export interface Problem {
  message: string;
  hint?: string;
  code?: string;
  severity?: Severity;
}

export interface FieldContext {
  problem(path: readonly (string | number)[], problem: Problem, part?: 'key' | 'value'): void;
  place(path: readonly (string | number)[]): Position;
  file: string;
  level: PolicyLevel;
}

export type FieldReader = (value: Json, context: FieldContext) => unknown;
type Path = readonly (string | number)[];

/** Reports keys that nothing reads, with the nearest one that is read. */
export function onlyKeys(
  value: object,
  known: readonly string[],
  context: FieldContext,
  path: Path = [],
): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    const close = nearest(key, known);
    const hint = close ? `did you mean \`${close}\`?` : `known: ${known.join(', ')}`;
    context.problem([...path, key], { message: `\`${key}\` is unknown here`, hint }, 'key');
  }
}

export function texts(value: Json | undefined, context: FieldContext, path: Path = []): string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : [value];
  return list.flatMap((item, at) => {
    if (typeof item === 'string' && item.trim() !== '') return [item.trim()];
    context.problem(Array.isArray(value) ? [...path, at] : path, { message: 'expected a text' });
    return [];
  });
}

export function oneOf(choices: readonly string[]): FieldReader {
  return (value, context) => {
    if (typeof value === 'string' && choices.includes(value)) return value;
    context.problem([], {
      message: `\`${typeof value === 'string' ? value : JSON.stringify(value)}\` is not possible here`,
      hint: `one of ${choices.join(', ')}`,
    });
    return undefined;
  };
}

export const listOf =
  (choices: readonly string[]): FieldReader =>
  (value, context) =>
    texts(value, context).filter((word, at) => {
      if (choices.includes(word)) return true;
      const close = nearest(word, choices);
      const hint = close ? `did you mean \`${close}\`?` : `one of ${choices.join(', ')}`;
      context.problem([at], { message: `\`${word}\` is unknown`, hint });
      return false;
    });

export function mapping(value: Json, context: FieldContext, path: Path = []): Record<string, Json> {
  if (isObject(value)) return value;
  context.problem(path, { message: 'expected a mapping' });
  return {};
}

export function patterns(value: Json | undefined, context: FieldContext, path: Path): string[] {
  const found = texts(value, context, path);
  for (const [at, pattern] of found.entries()) {
    const wrong = globProblem(normalizePattern(pattern));
    if (wrong) context.problem([...path, at], { message: `pattern \`${pattern}\` ${wrong}` });
  }
  return found;
}

// The elements of a list or object, each with exactly its own marks.
import { elementOf, type Value } from '../flow/index.ts';
import { isExecutable } from './executable.ts';

/** Empty for everything that has no elements. */
export function entriesOf(value: Value): readonly (readonly [string, Value])[] {
  const { data } = value;
  if (typeof data !== 'object' || data === null || isExecutable(data)) return [];
  return Object.keys(data).map((key) => [key, elementOf(value, key)] as const);
}

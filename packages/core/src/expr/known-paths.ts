// Reports unknown names in a condition when it is written. At run time a missing path is null, so the
// condition would never match without an error.
import { getOwn, nearest } from '../base/index.ts';
import type { CompiledExpression } from './expression.ts';
import { parseExpression } from './parse.ts';
import type { Comparison, Node } from './syntax-tree.ts';

/**
 * Names that a context has. An object lists its members. Below `open` any path is valid. `value` has no
 * members. A list contains the only texts that the value, or an element of it, can have.
 */
export type ContextSchema = { readonly [name: string]: KnownPath };
type KnownPath = ContextSchema | 'open' | 'value' | readonly string[];

const isGroup = (entry: KnownPath | undefined): entry is ContextSchema =>
  typeof entry === 'object' && !Array.isArray(entry);

interface UnknownPath {
  path: string;
  column: number;
  /** The whole path as the author probably meant it. Absent: no similar path exists. */
  suggestion?: string;
}

/** Returns the paths that the schema does not have. A whole group (`cost`) is valid, a member of a `value` is not. */
export function unknownPaths(expression: CompiledExpression, schema: ContextSchema): UnknownPath[] {
  const unknown: UnknownPath[] = [];
  for (const { path, column } of expression.paths) {
    const depth = matchingDepth(path, schema);
    if (depth === path.length) continue;
    const suggestion = suggest(path, depth, schema);
    const problem = { path: path.join('.'), column };
    unknown.push(suggestion === undefined ? problem : { ...problem, suggestion });
  }
  return unknown;
}

/** Returns how many leading names of a path the schema has. */
function matchingDepth(path: readonly string[], schema: ContextSchema): number {
  let level: KnownPath = schema;
  for (const [depth, name] of path.entries()) {
    if (level === 'open') return path.length;
    const next: KnownPath | undefined = isGroup(level) ? member(level, name) : undefined;
    if (next === undefined) return depth;
    level = next;
  }
  return path.length;
}

const member = (schema: ContextSchema, name: string): KnownPath | undefined =>
  getOwn(schema, name) as KnownPath | undefined;

function suggest(
  path: readonly string[],
  depth: number,
  schema: ContextSchema,
): string | undefined {
  let level: KnownPath | undefined = schema;
  for (const name of path.slice(0, depth)) {
    if (isGroup(level)) level = member(level, name);
  }
  if (!isGroup(level)) return undefined;
  const name = path[depth] ?? '';
  const group = depth === 0 ? groupWith(name, schema) : undefined;
  const better = group === undefined ? nearest(name, Object.keys(level)) : `${group}.${name}`;
  if (better === undefined) return undefined;
  const whole = [...path.slice(0, depth), ...better.split('.'), ...path.slice(depth + 1)];
  // The schema must have the rest of the path too, or the suggestion is not useful.
  return matchingDepth(whole, schema) === whole.length ? whole.join('.') : undefined;
}

/** Returns the group of a name without one: `turns` for `cost.turns`. */
function groupWith(name: string, schema: ContextSchema): string | undefined {
  return Object.keys(schema).find((group) => {
    const members = member(schema, group);
    return isGroup(members) && member(members, name) !== undefined;
  });
}

/** One side of a comparison: a path as it is written, a number, or something else. */
type Side = string | number | undefined;

/** Two values that an expression compares. */
export interface Compared {
  left: Side;
  operator: Comparison;
  right: Side;
  /** Column of the operator, from 1. */
  column: number;
}

const sideOf = (node: Node): Side => {
  if (node.kind === 'path') return node.read.path.join('.');
  return node.kind === 'constant' && typeof node.value === 'number' ? node.value : undefined;
};

type CompareNode = Extract<Node, { kind: 'compare' }>;

function compareNodes({ source }: CompiledExpression): CompareNode[] {
  const nodes: CompareNode[] = [];
  const walk = (node: Node): void => {
    if (node.kind === 'and' || node.kind === 'or') node.operands.forEach(walk);
    else if (node.kind === 'not') walk(node.operand);
    else if (node.kind === 'compare') {
      nodes.push(node);
      walk(node.left);
      walk(node.right);
    }
  };
  walk(parseExpression(source).root);
  return nodes;
}

/** Returns every comparison of a compiled expression, also nested ones. */
export const comparisonsIn = (expression: CompiledExpression): Compared[] =>
  compareNodes(expression).map(({ operator, left, right, column }) => {
    return { left: sideOf(left), operator, right: sideOf(right), column };
  });

const textsOf = (node: Node): string[] => {
  if (node.kind === 'list') return node.items.flatMap(textsOf);
  return node.kind === 'constant' && typeof node.value === 'string' ? [node.value] : [];
};

interface UnknownValue {
  path: string;
  value: string;
  column: number;
  known: readonly string[];
}

/** Returns compared texts that the value can never have, because its possible texts are listed. */
export function unknownValues(
  expression: CompiledExpression,
  schema: ContextSchema,
): UnknownValue[] {
  const textsAt = (path: readonly string[]): readonly string[] | undefined => {
    let level: KnownPath | undefined = schema;
    for (const name of path) level = isGroup(level) ? member(level, name) : undefined;
    return Array.isArray(level) ? (level as readonly string[]) : undefined;
  };
  const judge = (side: Node, other: Node): UnknownValue[] => {
    if (side.kind !== 'path') return [];
    const { path, column } = side.read;
    const schemaEntry = textsAt(path);
    const wrong = schemaEntry ? textsOf(other).filter((value) => !schemaEntry.includes(value)) : [];
    return wrong.map((value) => ({
      path: path.join('.'),
      value,
      column,
      known: schemaEntry ?? [],
    }));
  };
  return compareNodes(expression).flatMap(({ left, right }) => [
    ...judge(left, right),
    ...judge(right, left),
  ]);
}

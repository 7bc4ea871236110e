// The tree between parser and compiler. Chains (`a and b and c`, `1 + 2 - 3`) are one node with many
// operands, not a tower of pairs: depth then comes from brackets, `not` and `-` alone, which the
// parser counts, so no source can overflow the stack of whoever walks the tree.
import type { Json } from '../base/index.ts';

export type Comparison = '==' | '!=' | '<' | '>' | '<=' | '>=' | 'in' | 'not in';
export type Arithmetic = '+' | '-' | '*' | '/';

export interface PathRead {
  readonly path: readonly string[];
  /** Starts at 1, counts UTF-16 units from the start of the source. */
  readonly column: number;
}

export interface Link {
  operator: Arithmetic;
  operand: Node;
  column: number;
}

export type Node =
  | { kind: 'constant'; value: string | number | boolean | null }
  | { kind: 'list'; items: Node[] }
  | { kind: 'path'; read: PathRead }
  | { kind: 'negate'; operand: Node; column: number }
  | { kind: 'not'; operand: Node }
  | { kind: 'and' | 'or'; operands: Node[] }
  | { kind: 'compare'; operator: Comparison; left: Node; right: Node; column: number }
  | { kind: 'chain'; first: Node; rest: Link[] };

export interface Tree {
  root: Node;
  paths: PathRead[];
  /** What one evaluation costs at most before it touches data that can be large. */
  size: number;
}

export const KEYWORDS: ReadonlySet<string> = new Set([
  'and',
  'or',
  'not',
  'in',
  'true',
  'false',
  'null',
]);

/** Stays inside this room; the door turns it into an `Outcome`. */
export class SyntaxFault extends Error {
  readonly column: number;
  readonly hint: string | undefined;

  constructor(message: string, column: number, hint?: string) {
    super(message);
    this.column = column;
    this.hint = hint;
  }
}

/** The value of a list whose elements are all constants, so that it can be made once. */
export function constantList(node: Node): Json[] | undefined {
  if (node.kind !== 'list') return undefined;
  const values: Json[] = [];
  for (const item of node.items) {
    const value = item.kind === 'constant' ? item.value : constantList(item);
    if (value === undefined) return undefined;
    values.push(value);
  }
  return values;
}

// Character classes shared by the lexer and the template scanners. ASCII on purpose: a name that
// looks like another name must not be another name.
export const isDigit = (code: number): boolean => code >= 48 && code <= 57;

export const isNameStart = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95;

export const isNamePart = (code: number): boolean => isNameStart(code) || isDigit(code);

/** Where the name starting at `from` ends; `from` itself when there is none. */
export function nameEnd(text: string, from: number): number {
  if (!isNameStart(text.charCodeAt(from))) return from;
  let at = from + 1;
  while (isNamePart(text.charCodeAt(at))) at++;
  return at;
}

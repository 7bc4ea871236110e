// Types of the tree between parser and compiler. A chain (`a and b and c`, `1 + 2 - 3`) is one node with
// many operands. Only brackets, `not` and `-` add depth, and the parser limits them, so that no source
// can overflow the stack of code that walks the tree.
import type { Json } from '../base/index.ts';

export type Comparison = '==' | '!=' | '<' | '>' | '<=' | '>=' | 'in' | 'not in';
export type Arithmetic = '+' | '-' | '*' | '/';

export interface PathRead {
  readonly path: readonly string[];
  /** Column in UTF-16 units from the start of the source, from 1. */
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
  /** Maximum number of steps of one evaluation, without operations on large data. */
  size: number;
}

export const WORDS = ['and', 'or', 'not', 'in', 'true', 'false', 'null'] as const;
export const KEYWORDS: ReadonlySet<string> = new Set(WORDS);

/** Fault in a source. The exported functions of this folder turn it into an `Outcome`. */
export class SyntaxFault extends Error {
  readonly column: number;
  readonly hint: string | undefined;

  constructor(message: string, column: number, hint?: string) {
    super(message);
    this.column = column;
    this.hint = hint;
  }
}

/**
 * Returns the value of a list whose elements are all constants, so that the list is created once.
 * Undefined for any other node.
 */
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

// The lexer and the template scanners share these character classes. Names are ASCII only, so that two
// different names never look alike.
const [DIGIT, NAME_START] = [1, 2];
const CLASSES = Uint8Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code);
  if (/[0-9]/.test(char)) return DIGIT;
  return /[A-Za-z_]/.test(char) ? NAME_START : 0;
});

/** True for a digit. False for NaN, which callers pass at the end of the text. */
export const isDigit = (code: number): boolean => CLASSES[code] === DIGIT;
export const isNameStart = (code: number): boolean => CLASSES[code] === NAME_START;
export const isNamePart = (code: number): boolean => (CLASSES[code] ?? 0) > 0;

/** Returns the end of the name that starts at `from`, or `from` itself if there is none. */
export function nameEnd(text: string, from: number): number {
  if (from >= text.length || !isNameStart(text.charCodeAt(from))) return from;
  let at = from + 1;
  // Reading past the end gives NaN, which makes engines treat every code as a float.
  while (at < text.length && isNamePart(text.charCodeAt(at))) at++;
  return at;
}

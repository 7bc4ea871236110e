// Parses expressions by recursive descent, with one function per line of the grammar. The parser counts
// the nesting of brackets, `not` and unary `-`, so that recursion is bounded.
import {
  calledName,
  clipped,
  explainDot,
  explainIndex,
  meantConstant,
  meantOperator,
  NO_INDEX,
} from './common-mistakes.ts';
import { advance, createLexer, type Lexer, type TokenKind } from './lexer.ts';
import {
  type Arithmetic,
  type Comparison,
  KEYWORDS,
  type Link,
  type Node,
  type PathRead,
  SyntaxFault,
  type Tree,
} from './syntax-tree.ts';

const MAX_SOURCE_BYTES = 64 * 1024;
const MAX_NESTING = 100;

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '>', '<=', '>=', 'in']);

const isComparison = (kind: TokenKind): kind is Exclude<Comparison, 'not in'> =>
  COMPARISONS.has(kind);

/** Parses an expression. Throws only `SyntaxFault`. */
export function parseExpression(source: string): Tree {
  checkSize(source);
  const parser: Parser = { lexer: createLexer(source), paths: [], nesting: 0, size: 0 };
  advance(parser.lexer);
  if (isAtEnd(parser)) throw new SyntaxFault('the expression is empty', 1);
  const root = parseOr(parser);
  if (!isAtEnd(parser)) throw unexpectedAfterOperand(parser.lexer);
  return { root, paths: parser.paths, size: parser.size };
}

function checkSize(source: string): void {
  // A UTF-16 unit has at most three bytes, so short sources need no counting.
  if (source.length * 3 <= MAX_SOURCE_BYTES) return;
  const { read } = new TextEncoder().encodeInto(source, new Uint8Array(MAX_SOURCE_BYTES));
  if (read === source.length) return;
  throw new SyntaxFault(`the expression is longer than ${MAX_SOURCE_BYTES} bytes`, read + 1);
}

interface Parser {
  readonly lexer: Lexer;
  readonly paths: PathRead[];
  nesting: number;
  size: number;
}

type Parse = (parser: Parser) => Node;

const parseOr = (parser: Parser): Node => parseOperands(parser, 'or', parseAnd);
const parseAnd = (parser: Parser): Node => parseOperands(parser, 'and', parseNot);

function parseOperands(parser: Parser, kind: 'and' | 'or', parse: Parse): Node {
  const first = parse(parser);
  if (parser.lexer.kind !== kind) return first;
  const operands = [first];
  while (take(parser, kind)) operands.push(parse(parser));
  return count(parser, { kind, operands });
}

function parseNot(parser: Parser): Node {
  if (parser.lexer.kind !== 'not') return parseComparison(parser);
  enter(parser);
  const operand = parseNot(parser);
  parser.nesting--;
  return count(parser, { kind: 'not', operand });
}

function parseComparison(parser: Parser): Node {
  const left = parseAdditive(parser);
  const column = parser.lexer.start + 1;
  const operator = takeComparison(parser);
  if (operator === undefined) return left;
  const right = parseAdditive(parser);
  return count(parser, { kind: 'compare', operator, left, right, column });
}

function takeComparison(parser: Parser): Comparison | undefined {
  const { kind, start } = parser.lexer;
  if (isComparison(kind)) {
    advance(parser.lexer);
    return kind;
  }
  if (!take(parser, 'not')) return undefined;
  if (take(parser, 'in')) return 'not in';
  throw new SyntaxFault(
    'unexpected `not` after a value',
    start + 1,
    'write `a not in b`, or `a and not b`',
  );
}

const parseAdditive = (parser: Parser): Node => parseChain(parser, '+', '-', parseTerm);
const parseTerm = (parser: Parser): Node => parseChain(parser, '*', '/', parseFactor);

function parseChain(parser: Parser, one: Arithmetic, other: Arithmetic, parse: Parse): Node {
  const { lexer } = parser;
  const first = parse(parser);
  if (lexer.kind !== one && lexer.kind !== other) return first;
  const rest: Link[] = [];
  while (lexer.kind === one || lexer.kind === other) {
    const [operator, column] = [lexer.kind, lexer.start + 1];
    advance(lexer);
    parser.size++;
    rest.push({ operator, operand: parse(parser), column });
  }
  return count(parser, { kind: 'chain', first, rest });
}

function parseFactor(parser: Parser): Node {
  const { lexer } = parser;
  switch (lexer.kind) {
    case 'name':
      return parsePath(parser);
    case 'string':
      return constant(parser, lexer.text);
    case 'number':
      return constant(parser, lexer.number);
    case 'true':
      return constant(parser, true);
    case 'false':
      return constant(parser, false);
    case 'null':
      return constant(parser, null);
    case '-':
      return parseNegation(parser);
    case '(':
      return parseGroup(parser);
    case '[':
      return parseList(parser);
    default:
      throw missingOperand(lexer);
  }
}

function constant(parser: Parser, value: string | number | boolean | null): Node {
  advance(parser.lexer);
  return count(parser, { kind: 'constant', value });
}

function parseNegation(parser: Parser): Node {
  const column = parser.lexer.start + 1;
  enter(parser);
  const operand = parseFactor(parser);
  parser.nesting--;
  // The grammar has no negative numbers, so `-1` becomes a constant here. The subtraction avoids a
  // negative zero.
  if (operand.kind === 'constant' && typeof operand.value === 'number') {
    return { kind: 'constant', value: 0 - operand.value };
  }
  return count(parser, { kind: 'negate', operand, column });
}

function parseGroup(parser: Parser): Node {
  const opener = parser.lexer.start;
  enter(parser);
  const inner = parseOr(parser);
  close(parser, ')', opener);
  return inner;
}

function parseList(parser: Parser): Node {
  const opener = parser.lexer.start;
  enter(parser);
  const items: Node[] = [];
  if (parser.lexer.kind !== ']') {
    do items.push(parseOr(parser));
    while (take(parser, ','));
  }
  close(parser, ']', opener);
  return count(parser, { kind: 'list', items });
}

function parsePath(parser: Parser): Node {
  const { lexer } = parser;
  const column = lexer.start + 1;
  const constantName = meantConstant(lexer.text);
  if (constantName !== undefined) {
    throw new SyntaxFault(`unknown name \`${lexer.text}\``, column, `write \`${constantName}\``);
  }
  const path = [lexer.text];
  advance(lexer);
  while (take(parser, '.')) {
    if (lexer.kind !== 'name') throw badSegment(lexer);
    path.push(lexer.text);
    advance(lexer);
    parser.size++;
  }
  const read: PathRead = { path, column };
  parser.paths.push(read);
  return count(parser, { kind: 'path', read });
}

const isAtEnd = ({ lexer }: Parser): boolean => lexer.kind === 'end';

function take(parser: Parser, kind: TokenKind): boolean {
  if (parser.lexer.kind !== kind) return false;
  advance(parser.lexer);
  return true;
}

/** Moves past a token that nests (an opening bracket, `not`, a sign) and counts the level. */
function enter(parser: Parser): void {
  parser.nesting++;
  if (parser.nesting > MAX_NESTING) {
    const message = `the expression is nested deeper than ${MAX_NESTING} levels`;
    throw new SyntaxFault(message, parser.lexer.start + 1);
  }
  advance(parser.lexer);
}

function close(parser: Parser, kind: ')' | ']', opener: number): void {
  const { lexer } = parser;
  if (lexer.kind === 'end') {
    const mark = lexer.source[opener] ?? '';
    throw new SyntaxFault(`\`${mark}\` is never closed`, opener + 1, `add \`${kind}\``);
  }
  if (!take(parser, kind)) throw unexpectedAfterOperand(lexer);
  parser.nesting--;
}

function count(parser: Parser, node: Node): Node {
  parser.size++;
  return node;
}

const tokenText = (lexer: Lexer): string => clipped(lexer.source.slice(lexer.start, lexer.end));

function unexpected(lexer: Lexer, hint?: string): SyntaxFault {
  return new SyntaxFault(`unexpected \`${tokenText(lexer)}\``, lexer.start + 1, hint);
}

/** Returns the fault of a token that cannot begin a value. */
function missingOperand(lexer: Lexer): SyntaxFault {
  const { kind, source, start } = lexer;
  if (kind === 'end') {
    return new SyntaxFault('the expression ends where a value is expected', start + 1);
  }
  if (kind === 'not') {
    return unexpected(lexer, 'put the operand in brackets: `(not a)`');
  }
  if (kind === '.') return unexpected(lexer, explainDot(source, start));
  if (kind === '+')
    return unexpected(lexer, 'a number has no leading `+`, and `++` is not supported');
  if (kind === '*') return unexpected(lexer, 'arithmetic has `+ - * /` only');
  if (kind === '/') return unexpected(lexer, 'comments and `//` are not supported');
  const hint = kind === ']' || kind === ',' ? 'lists are written `[1, 2]`' : undefined;
  return new SyntaxFault(
    `expected a value before \`${tokenText(lexer)}\``,
    start + 1,
    hint ?? 'a value is a path, a number, a "text", a list, true, false, null or (…)',
  );
}

/** Returns the fault of a token that cannot follow a complete value. */
function unexpectedAfterOperand(lexer: Lexer): SyntaxFault {
  const { kind, source, start } = lexer;
  switch (kind) {
    case '(': {
      const name = calledName(source, start);
      if (name === '') break;
      const hint = 'functions are not supported; `in` searches lists, texts and objects';
      return new SyntaxFault(`\`${name}(\` looks like a call`, start + 1, hint);
    }
    case '[':
      return unexpected(lexer, explainIndex(source, start));
    case ')':
    case ']':
      return unexpected(lexer, 'no bracket of this kind is open here');
    case '.':
      return unexpected(lexer, 'only a path can be followed by `.`');
    case ',':
      return unexpected(lexer, 'commas separate the elements of a list, `[a, b]`');
    case 'name':
      return unexpected(lexer, meantOperator(lexer.text) ?? 'an operator is missing before it');
    default:
      if (isComparison(kind)) {
        return unexpected(lexer, 'comparisons do not chain: write `a < b and b < c`');
      }
  }
  return unexpected(lexer, 'an operator is missing before it');
}

function badSegment(lexer: Lexer): SyntaxFault {
  const { kind, start } = lexer;
  if (kind === 'end') return new SyntaxFault('the path ends with `.`', start + 1);
  if (KEYWORDS.has(kind)) {
    return unexpected(lexer, `\`${kind}\` is a keyword and cannot be part of a path`);
  }
  if (kind === 'number') return unexpected(lexer, NO_INDEX);
  return unexpected(lexer, 'a name must follow the `.`');
}

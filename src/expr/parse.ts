// Recursive descent, one function per line of the grammar. Nesting is counted where the grammar
// nests (brackets, `not`, unary `-`), so recursion is bounded before it happens.
import { createLexer, type Lexer, type TokenKind } from './lexer.ts';
import {
  calledName,
  clipped,
  explainDot,
  explainIndex,
  meantConstant,
  meantOperator,
} from './slips.ts';
import {
  type Arithmetic,
  type Comparison,
  KEYWORDS,
  type Link,
  type Node,
  type PathRead,
  SyntaxFault,
  type Tree,
} from './syntax.ts';

export const MAX_SOURCE_BYTES = 64 * 1024;
export const MAX_NESTING = 100;

function isComparison(kind: TokenKind): kind is Exclude<Comparison, 'not in'> {
  switch (kind) {
    case '==':
    case '!=':
    case '<':
    case '>':
    case '<=':
    case '>=':
    case 'in':
      return true;
    default:
      return false;
  }
}

/** Throws `SyntaxFault`, nothing else. */
export function parseExpression(source: string): Tree {
  checkSize(source);
  const parser = createParser(createLexer(source));
  return parser.parse();
}

function checkSize(source: string): void {
  // A UTF-16 unit takes at most three bytes: short sources need no counting.
  if (source.length * 3 <= MAX_SOURCE_BYTES) return;
  const { read } = new TextEncoder().encodeInto(source, new Uint8Array(MAX_SOURCE_BYTES));
  if (read === source.length) return;
  throw new SyntaxFault(`the expression is longer than ${MAX_SOURCE_BYTES} bytes`, read + 1);
}

function createParser(lexer: Lexer) {
  const paths: PathRead[] = [];
  let nesting = 0;
  let size = 0;

  function parse(): Tree {
    lexer.advance();
    if (isAt('end')) throw new SyntaxFault('the expression is empty', 1);
    const root = parseOr();
    if (!isAt('end')) throw unexpectedAfterOperand(lexer);
    return { root, paths, size };
  }

  function parseOr(): Node {
    const first = parseAnd();
    if (lexer.kind !== 'or') return first;
    const operands = [first];
    while (take('or')) operands.push(parseAnd());
    return count({ kind: 'or', operands });
  }

  function parseAnd(): Node {
    const first = parseNot();
    if (lexer.kind !== 'and') return first;
    const operands = [first];
    while (take('and')) operands.push(parseNot());
    return count({ kind: 'and', operands });
  }

  function parseNot(): Node {
    if (lexer.kind !== 'not') return parseComparison();
    enter();
    lexer.advance();
    const operand = parseNot();
    nesting--;
    return count({ kind: 'not', operand });
  }

  function parseComparison(): Node {
    const left = parseAdditive();
    const column = lexer.start + 1;
    const operator = takeComparison();
    if (operator === undefined) return left;
    const right = parseAdditive();
    return count({ kind: 'compare', operator, left, right, column });
  }

  function takeComparison(): Comparison | undefined {
    const operator = lexer.kind;
    if (isComparison(operator)) {
      lexer.advance();
      return operator;
    }
    if (operator !== 'not') return undefined;
    const column = lexer.start + 1;
    lexer.advance();
    if (take('in')) return 'not in';
    throw new SyntaxFault(
      'unexpected `not` after a value',
      column,
      'write `a not in b`, or `a and not b`',
    );
  }

  function parseAdditive(): Node {
    const first = parseTerm();
    if (lexer.kind !== '+' && lexer.kind !== '-') return first;
    const rest: Link[] = [];
    while (lexer.kind === '+' || lexer.kind === '-') rest.push(parseLink(lexer.kind, parseTerm));
    return count({ kind: 'chain', first, rest });
  }

  function parseTerm(): Node {
    const first = parseFactor();
    if (lexer.kind !== '*' && lexer.kind !== '/') return first;
    const rest: Link[] = [];
    while (lexer.kind === '*' || lexer.kind === '/') rest.push(parseLink(lexer.kind, parseFactor));
    return count({ kind: 'chain', first, rest });
  }

  function parseLink(operator: Arithmetic, parseOperand: () => Node): Link {
    const column = lexer.start + 1;
    lexer.advance();
    size++;
    return { operator, operand: parseOperand(), column };
  }

  function parseFactor(): Node {
    switch (lexer.kind) {
      case 'name':
        return parsePath();
      case 'string':
        return constant(lexer.text);
      case 'number':
        return constant(lexer.number);
      case 'true':
        return constant(true);
      case 'false':
        return constant(false);
      case 'null':
        return constant(null);
      case '-':
        return parseNegation();
      case '(':
        return parseGroup();
      case '[':
        return parseList();
      default:
        throw missingOperand(lexer);
    }
  }

  function constant(value: string | number | boolean | null): Node {
    lexer.advance();
    return count({ kind: 'constant', value });
  }

  function parseNegation(): Node {
    const column = lexer.start + 1;
    enter();
    lexer.advance();
    const operand = parseFactor();
    nesting--;
    // `-1` is a number to everyone but the grammar. Subtracting keeps zero free of a sign.
    if (operand.kind === 'constant' && typeof operand.value === 'number') {
      return { kind: 'constant', value: 0 - operand.value };
    }
    return count({ kind: 'negate', operand, column });
  }

  function parseGroup(): Node {
    const opener = lexer.start;
    enter();
    lexer.advance();
    const inner = parseOr();
    close(')', opener);
    return inner;
  }

  function parseList(): Node {
    const opener = lexer.start;
    enter();
    lexer.advance();
    const items: Node[] = [];
    if (lexer.kind !== ']') {
      do items.push(parseOr());
      while (take(','));
    }
    close(']', opener);
    return count({ kind: 'list', items });
  }

  function parsePath(): Node {
    const column = lexer.start + 1;
    const constantName = meantConstant(lexer.text);
    if (constantName !== undefined) {
      throw new SyntaxFault(`unknown name \`${lexer.text}\``, column, `write \`${constantName}\``);
    }
    const path = [lexer.text];
    lexer.advance();
    while (lexer.kind === '.') {
      path.push(parseSegment());
      size++;
    }
    const read: PathRead = { path, column };
    paths.push(read);
    return count({ kind: 'path', read });
  }

  function parseSegment(): string {
    lexer.advance();
    if (lexer.kind !== 'name') throw badSegment(lexer);
    const name = lexer.text;
    lexer.advance();
    return name;
  }

  function isAt(kind: TokenKind): boolean {
    return lexer.kind === kind;
  }

  function take(kind: TokenKind): boolean {
    if (!isAt(kind)) return false;
    lexer.advance();
    return true;
  }

  function close(kind: ')' | ']', opener: number): void {
    if (lexer.kind === 'end') {
      const mark = lexer.source[opener] as string;
      throw new SyntaxFault(`\`${mark}\` is never closed`, opener + 1, `add \`${kind}\``);
    }
    if (!take(kind)) throw unexpectedAfterOperand(lexer);
    nesting--;
  }

  function enter(): void {
    nesting++;
    if (nesting <= MAX_NESTING) return;
    throw new SyntaxFault(
      `the expression is nested deeper than ${MAX_NESTING} levels`,
      lexer.start + 1,
    );
  }

  function count(node: Node): Node {
    size++;
    return node;
  }

  return { parse };
}

const tokenText = (lexer: Lexer): string => clipped(lexer.source.slice(lexer.start, lexer.end));

function unexpected(lexer: Lexer, hint?: string): SyntaxFault {
  return new SyntaxFault(`unexpected \`${tokenText(lexer)}\``, lexer.start + 1, hint);
}

/** A token that cannot begin a value where one must begin. */
function missingOperand(lexer: Lexer): SyntaxFault {
  const { kind, source, start } = lexer;
  if (kind === 'end') {
    return new SyntaxFault('the expression ends where a value is expected', start + 1);
  }
  if (kind === 'not') {
    return unexpected(lexer, 'put it in brackets: `(not a)`');
  }
  if (kind === '.') return unexpected(lexer, explainDot(source, start));
  if (kind === '+') return unexpected(lexer, 'a number has no leading `+`, and there is no `++`');
  if (kind === '*') return unexpected(lexer, 'arithmetic has `+ - * /` only');
  if (kind === '/') return unexpected(lexer, 'there are no comments and no `//`');
  const hint = kind === ']' || kind === ',' ? 'lists are written `[1, 2]`' : undefined;
  return new SyntaxFault(
    `expected a value before \`${tokenText(lexer)}\``,
    start + 1,
    hint ?? 'a value is a path, a number, a "text", a list, true, false, null or (…)',
  );
}

/** A token that cannot follow a complete value. */
function unexpectedAfterOperand(lexer: Lexer): SyntaxFault {
  const { kind, source, start } = lexer;
  switch (kind) {
    case '(': {
      const name = calledName(source, start);
      if (name === '') break;
      const hint = 'there are no functions; `in` looks into lists, texts and objects';
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
  if (kind === 'number') {
    return unexpected(
      lexer,
      'list elements have no address; `x in list` asks whether one is there',
    );
  }
  return unexpected(lexer, 'a name must follow the `.`');
}

// Splits text into tokens, one at a time. The lexer stores only the current token and the end of the
// previous one. The parser never looks further ahead, so nothing is read twice.
import { explainCharacter, explainEscape, explainNumber } from './common-mistakes.ts';
import { isDigit, isNamePart, isNameStart, nameEnd, SyntaxFault, WORDS } from './syntax-tree.ts';

const SYMBOLS = ['+', '-', '*', '/', '(', ')', '[', ']', ',', '.', '<', '>'] as const;
/** Operators of two characters that end in `=`. */
const WITH_EQUALS = ['==', '!=', '<=', '>='] as const;

export type TokenKind =
  | 'number'
  | 'string'
  | 'name'
  | 'end'
  | (typeof WORDS)[number]
  | (typeof SYMBOLS)[number]
  | (typeof WITH_EQUALS)[number];

export interface Lexer {
  readonly source: string;
  kind: TokenKind;
  /** The name, or the value of the string. */
  text: string;
  number: number;
  start: number;
  end: number;
}

/** Kinds of keywords. They are constants and not slices of the source, so that identity comparisons are fast. */
const KEYWORD_KINDS: ReadonlyMap<string, TokenKind> = new Map(WORDS.map((word) => [word, word]));

const byFirstCode = (kinds: readonly TokenKind[]): ReadonlyMap<number, TokenKind> =>
  new Map(kinds.map((kind) => [kind.charCodeAt(0), kind]));
const SYMBOL_KINDS = byFirstCode(SYMBOLS);
const EQUALS_KINDS = byFirstCode(WITH_EQUALS);

const LONGEST_KEYWORD = 5;
const [LESS, EQUALS, MORE] = [60, 61, 62];

const ESCAPES: Readonly<Record<string, string>> = Object.assign(Object.create(null), {
  '"': '"',
  "'": "'",
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
});

const isBlank = (code: number): boolean => code === 32 || code === 10 || code === 9 || code === 13;

/** Returns a lexer before the first token. */
export function createLexer(source: string): Lexer {
  return { source, kind: 'end', text: '', number: 0, start: 0, end: 0 };
}

/** Moves to the next token. Every problem is thrown as a `SyntaxFault`. */
export function advance(lexer: Lexer): void {
  const { source } = lexer;
  const { length } = source;
  let at = lexer.end;
  while (at < length && isBlank(source.charCodeAt(at))) at++;
  lexer.start = at;
  if (at === length) return setSymbol(lexer, 'end', 0);
  const code = source.charCodeAt(at);
  if (isNameStart(code)) readName(lexer);
  else if (isDigit(code)) readNumber(lexer);
  else if (code === 34 || code === 39) readString(lexer, code);
  else readSymbol(lexer);
}

function readName(lexer: Lexer): void {
  lexer.end = nameEnd(lexer.source, lexer.start);
  lexer.text = lexer.source.slice(lexer.start, lexer.end);
  const length = lexer.end - lexer.start;
  lexer.kind = (length <= LONGEST_KEYWORD && KEYWORD_KINDS.get(lexer.text)) || 'name';
}

function digitsEnd(source: string, from: number): number {
  let at = from;
  while (isDigit(source.charCodeAt(at))) at++;
  return at;
}

function readNumber(lexer: Lexer): void {
  const { source, start } = lexer;
  let end = digitsEnd(source, start);
  const isPadded = source[start] === '0' && end > start + 1;
  if (source[end] === '.' && isDigit(source.charCodeAt(end + 1))) end = digitsEnd(source, end + 1);
  if (isPadded || source[end] === '.' || isNamePart(source.charCodeAt(end))) {
    throw explainNumber(source, start);
  }
  lexer.number = Number(source.slice(start, end));
  if (!Number.isFinite(lexer.number)) {
    throw new SyntaxFault('the number is too large', start + 1);
  }
  lexer.end = end;
  lexer.kind = 'number';
}

function readString(lexer: Lexer, quote: number): void {
  const { source, start } = lexer;
  let text = '';
  let from = start + 1;
  for (let at = from; at < source.length; at++) {
    const code = source.charCodeAt(at);
    if (code === quote) {
      lexer.text = text + source.slice(from, at);
      lexer.end = at + 1;
      lexer.kind = 'string';
      return;
    }
    if (code !== 92) continue;
    text += source.slice(from, at) + readEscape(source, at);
    at += source[at + 1] === 'u' ? 5 : 1;
    from = at + 1;
  }
  const mark = source[start] ?? '';
  throw new SyntaxFault(
    'the string is never closed',
    start + 1,
    `end it with ${mark}; inside it, ${mark} is written \\${mark}`,
  );
}

function readEscape(source: string, at: number): string {
  const letter = source[at + 1] ?? '';
  const simple = ESCAPES[letter];
  if (simple !== undefined) return simple;
  const digits = source.slice(at + 2, at + 6);
  if (letter === 'u' && /^[0-9a-fA-F]{4}$/.test(digits)) {
    return String.fromCharCode(Number.parseInt(digits, 16));
  }
  throw explainEscape(source, at);
}

function readSymbol(lexer: Lexer): void {
  const { source, start } = lexer;
  const code = source.charCodeAt(start);
  const next = source.charCodeAt(start + 1);
  const double = next === EQUALS ? EQUALS_KINDS.get(code) : undefined;
  const isTriple = double !== undefined && source.charCodeAt(start + 2) === EQUALS;
  if (double !== undefined && !isTriple) return setSymbol(lexer, double, 2);
  const single = isTriple || (code === LESS && next === MORE) ? undefined : SYMBOL_KINDS.get(code);
  if (single === undefined) throw explainCharacter(source, start);
  setSymbol(lexer, single, 1);
}

function setSymbol(lexer: Lexer, kind: TokenKind, length: number): void {
  lexer.kind = kind;
  lexer.end = lexer.start + length;
}

// Finds the meaning of a `js` or `node` block: an expression, statements that may end in one, or a function
// body with `return`. V8 decides whether a piece parses; it compiles the piece and never runs it.
import { compileFunction } from 'node:vm';
import { type Failure, fail, type Outcome, ok } from '@kernmantle/core/base';
import { isPlainText } from './data.ts';

/** A token of a block. No token decides about rights, so code that misleads the scanner gains no rights. */
interface JsToken {
  readonly kind: 'word' | 'number' | 'string' | 'regex' | 'template' | 'mark';
  readonly text: string;
  readonly at: number;
  /** Number of open brackets around the token. A bracket itself is outside. */
  readonly depth: number;
  /** True if a line break precedes the token. */
  readonly isFirst: boolean;
}

/** Words that a value follows, so that a `/` after them begins a regular expression. */
const BEFORE_VALUE = new Set(
  'return typeof instanceof in of new delete void throw case do else await yield'.split(' '),
);

const BLANK = /(?:\s|\/\/.*|\/\*[\s\S]*?\*\/)+/y;
const WORD = /[\p{ID_Start}$_#\\](?:[\p{ID_Continue}$\\]|\u200c|\u200d)*/uy;
const NUMBER = /(?:0[xob][\da-f_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d+)?)n?/iy;
const STRING = /"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'/y;
const REGEX = /\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const LEXEMES = [
  ['word', WORD],
  ['number', NUMBER],
  ['string', STRING],
  ['regex', REGEX],
] as const;
/** Matches a mark such as `=>` or `(`. A quote alone does not match, because its text is not closed. */
const MARK = /=>|\?\.(?!\d)|\.\.\.|\+\+|--|[=!]==?|[^"']/y;
/** Matches the part of a template up to its end or the next `${`. */
const PIECE = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)/y;

function isValueBefore(last: JsToken | undefined): boolean {
  if (!last) return false;
  if (last.kind === 'mark') return /^[)\]}]$/.test(last.text);
  return !(last.kind === 'word' && BEFORE_VALUE.has(last.text));
}

/** Returns the tokens; `undefined` if brackets, quotes or templates do not match. */
function scanJs(source: string): JsToken[] | undefined {
  const tokens: JsToken[] = [];
  /** Open brackets. `${` means a template that continues after its `}`. */
  const open: string[] = [];
  let at = 0;
  let isFirst = true;

  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const push = (kind: JsToken['kind'], text: string, depth = open.length): void => {
    tokens.push({ kind, text, at, depth, isFirst });
    at += text.length;
    isFirst = false;
  };
  /** Takes a part of a template from a backtick, or from the `}` of an insertion. */
  const template = (): boolean => {
    const start = at;
    at += 1;
    const piece = take(PIECE);
    at = start;
    if (piece === undefined) return false;
    const text = source[start] + piece;
    push('template', text);
    if (piece.endsWith('${')) open.push('${');
    return true;
  };
  const mark = (text: string): boolean => {
    if (text === '') return false;
    if ('([{'.includes(text)) {
      push('mark', text);
      open.push(text);
      return true;
    }
    if (')]}'.includes(text)) {
      const opener = open.pop();
      if (opener === '${') return text === '}' && template();
      if (opener !== ({ ')': '(', ']': '[', '}': '{' } as Record<string, string>)[text])
        return false;
    }
    push('mark', text);
    return true;
  };

  while (at < source.length) {
    const blank = take(BLANK);
    if (blank !== undefined) {
      isFirst ||= /[\n\r\u2028\u2029]/.test(blank);
      at += blank.length;
      continue;
    }
    const [kind, pattern] = LEXEMES.find(([, one]) => take(one) !== undefined) ?? [];
    if (kind && !(kind === 'regex' && isValueBefore(tokens.at(-1))))
      push(kind, take(pattern) ?? '');
    else if (source[at] === '`' ? !template() : !mark(take(MARK) ?? '')) return undefined;
  }
  return open.length === 0 ? tokens : undefined;
}

/** Matches an import of a module, which is refused before the block runs. */
const DYNAMIC_IMPORT = /import\s*(?:[(/<-]|\.\s*[a-z/<])/;

const STATEMENT_WORDS = new Set(
  (
    'break class const continue debugger do export for function if import let return switch throw ' +
    'try var while with'
  ).split(' '),
);
/** Matches a line that continues the expression of the previous line. */
const CONTINUES = /^(?:[([`+\-*/,.?:=&|<>%^]|instanceof\b|in\b|\?\.)/;
const MAX_TRIES = 60;

function errorIn(code: string, names: readonly string[]): Error | undefined {
  try {
    compileFunction(code, names);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

/** Yields the possible starts of statements, the last first. */
function* beginnings(tokens: readonly JsToken[]): Generator<JsToken> {
  for (let index = tokens.length - 1; index > 0; index--) {
    const [token, before] = [tokens[index] as JsToken, tokens[index - 1] as JsToken];
    if (token.depth > 0 || /^[;)\]}]$/.test(token.text)) continue;
    if (before.text === ';') yield token;
    else if ((token.isFirst || before.text === '}') && !CONTINUES.test(token.text)) yield token;
  }
}

/** Returns the block with its last expression returned; `undefined` if it does not end in an expression. */
function returning(
  source: string,
  tokens: readonly JsToken[],
  parses: (code: string) => boolean,
): string | undefined {
  const end = tokens.findLast(({ text }) => text !== ';');
  const first = tokens[0];
  if (!end || !first) return undefined;
  const until = end.at + end.text.length;
  const valueFrom = (at: number): string => `return (${source.slice(at, until)}\n)`;
  if (!STATEMENT_WORDS.has(first.text) && parses(valueFrom(first.at))) {
    return source.slice(0, first.at) + valueFrom(first.at);
  }
  let tries = 0;
  for (const { at, text } of beginnings(tokens)) {
    if (at > until || ++tries > MAX_TRIES) continue;
    if (!parses(source.slice(0, at))) continue;
    if (STATEMENT_WORDS.has(text)) return undefined;
    if (parses(valueFrom(at))) return source.slice(0, at) + valueFrom(at);
  }
  return undefined;
}

function syntaxFault(error: Error): Failure {
  const line = Number(/^[^\n]*:(\d+)\n/.exec(error.stack ?? '')?.[1] ?? 0);
  const where = line > 0 ? { line } : {};
  return fail('invalid_input', `the js block does not parse: ${error.message}`, where);
}

/** Without `async`, `await (x)` parses as a call of a function named await. */
const mayAwaitUnseen = (tokens: readonly JsToken[]): boolean =>
  tokens.some(
    ({ kind, text }, index) =>
      kind === 'word' && text === 'await' && /^[(['"`+\-/]/.test(tokens[index + 1]?.text ?? ''),
  );

/** Returns a function body with the result of the block. Fails with `invalid_input` if it does not parse. */
export function readJsBody(
  source: string,
  names: readonly string[],
  mayImport = false,
): Outcome<string> {
  if (!mayImport && DYNAMIC_IMPORT.test(source)) {
    return fail('invalid_input', '`import(…)` is not available in js blocks; use `node { … }`');
  }
  const tokens = scanJs(source) ?? [];
  const waits = tokens.some(({ kind, text }) => kind === 'word' && text === 'await');
  const isAsync = waits && (errorIn(source, names) !== undefined || mayAwaitUnseen(tokens));
  const wrap = (code: string): string => (isAsync ? `return (async () => {${code}\n})()` : code);
  const parses = (code: string): boolean => errorIn(wrap(code), names) === undefined;
  const code = wrap(returning(source, tokens, parses) ?? source);
  // The error is checked last, because an expression such as `{ a: 1, b: 2 }` does not parse as statements.
  const error = errorIn(code, names);
  return error ? syntaxFault(error) : ok(code);
}

const RESERVED = new Set(
  (
    'break case catch class const continue debugger default delete do else enum export extends false ' +
    'finally for function if import in instanceof new null return super switch this throw true try ' +
    'typeof var void while with arguments eval let static yield await async'
  ).split(' '),
);

/** Returns a JavaScript name for a script name, which may contain `-` or be a reserved word. */
export function identifier(name: string): string {
  const plain = name.replace(/[^\p{ID_Continue}$]/gu, '_').replace(/^(?=\d)/, '_');
  return RESERVED.has(plain) ? `${plain}_` : plain;
}

const OPERATORS = /^(?:[-+*/%<>=!?:;&|^~(),]|[=!]==?)$/;
const PLAIN_WORDS = new Set('return const let typeof null true false undefined'.split(' '));

/** True if the block has only operators on parameters and constants, so that it cannot take long. */
export function isArithmetic(source: string, names: readonly string[]): boolean {
  // Escapes are excluded, so that the result is as plain as the source.
  if (source.length > 1000 || source.includes('\\') || !isPlainText(source)) return false;
  const tokens = scanJs(source);
  if (!tokens) return false;
  const own = new Set(names);
  return tokens.every(({ kind, text }, index) => {
    const before = tokens[index - 1];
    const isAfterValue =
      before !== undefined &&
      (before.kind === 'mark' ? before.text === ')' : !PLAIN_WORDS.has(before.text));
    if (kind === 'word') {
      if (before?.text === 'const' || before?.text === 'let') own.add(text);
      return own.has(text) || PLAIN_WORDS.has(text);
    }
    if (kind === 'number') return !text.endsWith('n');
    if (kind === 'string') return true;
    if (kind === 'template') return text[0] === '}' || !isAfterValue;
    // A parenthesis after a value is a call.
    return kind === 'mark' && OPERATORS.test(text) && !(text === '(' && isAfterValue);
  });
}

// Explains frequent mistakes in expressions. Most mistakes are rows of a table.
import { isDigit, isNamePart, nameEnd, SyntaxFault } from './syntax-tree.ts';

const write = (form: string): string => `write \`${form}\``;

const NO_BLANK = 'use a plain space';
const QUOTES = 'put a string in straight quotes: "text" or \'text\'';
const NO_PATTERNS = 'patterns are not supported; `"text" in name` searches for a part of a text';
const NO_BRANCHES = 'combine conditions with `and` and `or`';
const FOUR_ONLY = 'arithmetic has `+ - * /` only';
export const NO_INDEX = 'list elements cannot be read by position; `x in list` searches the list';
const TURN_AROUND = 'turn it around: `"part" in whole`';

type Slips = readonly (readonly [hint: string, ...slips: string[]])[];

const rowsOf = (slips: Slips): [slip: string, hint: string][] =>
  slips.flatMap(([hint, ...list]) => list.map((slip): [string, string] => [slip, hint]));

/** Symbols with their hints, the longest first, because the first row that matches the source is used. */
const SYMBOLS = rowsOf([
  [write('and'), '&amp;&amp;', '&&', '&', '∧'],
  [write('or'), '||', '|', '∨'],
  [write('not'), '!', '¬'],
  [write('in'), '∈'],
  [write('=='), '==='],
  [write('!='), '!==', '<>', '≠'],
  [write('<='), '&lt;=', '<==', '=<', '≤'],
  [write('>='), '&gt;=', '>==', '=>', '≥'],
  [write('<'), '&lt;'],
  [write('>'), '&gt;'],
  [write('-'), '−', '–'],
  [write('*'), '×'],
  [write('/'), '÷'],
  [QUOTES, '&quot;', '&apos;', '`', '“', '”', '„', '‘', '’', '«', '»'],
  [NO_PATTERNS, '=~'],
  [FOUR_ONLY, '%', '^', '~'],
  [NO_BLANK, '\u00a0', '\u2003', '\u200b', '\ufeff'],
  ['to compare, write `==`; an expression cannot assign', '='],
  ['one expression only: remove the `;`', ';'],
  ['a missing path is null; compare with `== null`, or combine with `or`', '??'],
  ['write `.`: a missing step is null, never an error', '?.'],
  [`an expression has no \`a ? b : c\`; ${NO_BRANCHES}`, '?'],
  ['an expression has no comments', '#'],
  ['a path is written without `${` and `}`', '${'],
  ['a path is written without `$`', '$'],
  ['a path is written without `@`', '@'],
  ['an expression has no object literals; compare the fields one by one', '{', '}'],
]).toSorted(([a], [b]) => b.length - a.length);

/** Words that people write instead of an operator. */
const WORDS: ReadonlyMap<string, string> = new Map(
  rowsOf([
    ['write `==`, or `!=` for `is not`', 'is'],
    [write('=='), 'equals', 'eq'],
    [write('!='), 'ne'],
    [write('<'), 'lt'],
    [write('>'), 'gt'],
    [write('<='), 'le', 'lte'],
    [write('>='), 'ge', 'gte'],
    [TURN_AROUND, 'contains', 'includes', 'has'],
    [NO_PATTERNS, 'matches', 'like'],
    [FOUR_ONLY, 'mod'],
    [write('/'), 'div'],
    ['write `(a and not b) or (b and not a)`', 'xor'],
    [`an expression has no \`if\`; ${NO_BRANCHES}`, 'if', 'then', 'else'],
    ...['and', 'or', 'not', 'in'].map((word) => [write(word), word] as const),
  ]),
);

/** Constants of other languages. As names they would be missing paths, which are null without an error. */
const VALUES: ReadonlyMap<string, string> = new Map(
  rowsOf([
    ['true', 'True', 'TRUE'],
    ['false', 'False', 'FALSE'],
    ['null', 'None', 'NONE', 'Null', 'NULL'],
  ]),
);

/** Returns the right spelling if `name` is a constant of another language. */
export const meantConstant = (name: string): string | undefined =>
  name.charCodeAt(0) < 97 ? VALUES.get(name) : undefined;

/** Returns the replacement of a word where an operator is expected. */
export const meantOperator = (word: string): string | undefined => WORDS.get(word.toLowerCase());

/** Returns a character for a message: control characters and lone surrogates by number. */
function printable(source: string, at: number): string {
  const code = source.codePointAt(at) ?? 0;
  const isInvisible = code < 33 || (code >= 127 && code < 161) || (code >= 0xd800 && code < 0xe000);
  if (isInvisible || /\p{Z}|\p{C}/u.test(String.fromCodePoint(code))) {
    return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  }
  return String.fromCodePoint(code);
}

export function explainCharacter(source: string, at: number): SyntaxFault {
  for (const [slip, hint] of SYMBOLS) {
    if (!source.startsWith(slip, at)) continue;
    const text = hint === NO_BLANK ? printable(source, at) : slip;
    return new SyntaxFault(`unexpected \`${text}\``, at + 1, hint);
  }
  return new SyntaxFault(`unexpected character \`${printable(source, at)}\``, at + 1);
}

/** Returns source text for a message: on one line, without anything that moves a cursor. */
export function clipped(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return short.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ');
}

/**
 * Explains an invalid number. The whole run of characters is quoted, and the hint is about its first mistake.
 */
export function explainNumber(source: string, start: number): SyntaxFault {
  let end = start;
  while (isNamePart(source.charCodeAt(end)) || source[end] === '.') end++;
  const text = source.slice(start, end);
  return new SyntaxFault(`\`${clipped(text)}\` is not a number`, start + 1, numberHint(text));
}

function numberHint(text: string): string {
  if (/^0[xob]/i.test(text)) return 'numbers are decimal';
  if (/^[\d.]+e\d*$/i.test(text)) return 'write the number out, without exponent';
  if (text.includes('_')) return `write \`${clipped(text.replaceAll('_', ''))}\``;
  if (/^\d+\.$/.test(text))
    return `write \`${clipped(text.slice(0, -1))}\` or \`${clipped(text)}0\``;
  if (/^0\d+(\.\d+)?$/.test(text)) {
    return `write \`${clipped(text.replace(/^0+(?=\d)/, ''))}\`, without leading zero`;
  }
  if (/^\d+(\.\d+){2,}$/.test(text)) return 'a version is a text: put it in quotes';
  return 'a number is digits with at most one decimal point, like `12` or `0.5`';
}

export function explainEscape(source: string, at: number): SyntaxFault {
  const letter = source[at + 1];
  if (letter === undefined) return new SyntaxFault('the string is never closed', at + 1);
  const escape = `\\${printable(source, at + 1)}`;
  if (letter === 'u') {
    return new SyntaxFault(`\`${escape}\` needs four hexadecimal digits`, at + 1, 'like `\\u00e9`');
  }
  const hint =
    letter === 'x'
      ? 'write `\\u00` and the two digits'
      : `for a backslash write \`\\\\\`; valid escapes are \\" \\' \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX`;
  return new SyntaxFault(`unknown escape \`${escape}\``, at + 1, hint);
}

/** Explains a bracket after an operand, as in `a[0]` and `a["b"]`. */
export function explainIndex(source: string, at: number): string {
  const name = /^\[\s*(["'])([A-Za-z_][A-Za-z0-9_]*)\1\s*\]/.exec(source.slice(at, at + 200))?.[2];
  return name === undefined ? NO_INDEX : `write \`.${clipped(name)}\``;
}

/** Explains a dot before a digit, as in `.5`. Undefined for any other dot. */
export function explainDot(source: string, at: number): string | undefined {
  if (!isDigit(source.charCodeAt(at + 1))) return undefined;
  let end = at + 1;
  while (isDigit(source.charCodeAt(end))) end++;
  return `write \`0${clipped(source.slice(at, end))}\``;
}

/** Returns the name of a called function, because `len(` is clearer in a message than `(`. */
export function calledName(source: string, at: number): string {
  let start = at;
  while (start > 0 && isNamePart(source.charCodeAt(start - 1))) start--;
  return nameEnd(source, start) === at && start < at ? clipped(source.slice(start, at)) : '';
}

// Finds the end of a body of code: the brace that matches the opening one. Braces in quotes, in comments,
// and in template literals and regular expressions of js do not count. If quotes are not balanced, as with
// an apostrophe in an echo, only braces count.
import type { Reader } from './cursor.ts';

interface RawBody {
  readonly from: number;
  readonly to: number;
  /** Offset of an `@name` in js code outside of its texts; absent if there is none. */
  readonly strayAt: number | undefined;
}

/** Matches a text that ends with its line at the latest. */
const QUOTED = String.raw`"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"?|'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'?`;

/** Patterns that skip plain characters, escapes, texts and comments. */
const PASSED = {
  plain: /[^{}]+/y,
  shell: /[^{}\\'"#]+|\\[\s\S]|'[^']*'?|"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|(?<=\s)#[^\n]*/y,
  py: new RegExp(
    String.raw`[^{}\\'"#]+|\\[\s\S]|#[^\n]*|"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${QUOTED}`,
    'y',
  ),
  js: new RegExp(
    String.raw`[^{}\\'"\x60/@]+|\\[\s\S]|//[^\n]*|/\*[\s\S]*?(?:\*/|$)|${QUOTED}`,
    'y',
  ),
  hole: new RegExp(String.raw`[^{}'"]+|${QUOTED}`, 'y'),
};
/** Matches the part of a template literal up to its end or the next `${`. */
const PIECE = /[^`\\$]*(?:(?:\\[\s\S]|\$(?!\{))[^`\\$]*)*/y;
const PATTERN = /\/(?:[^/\\\n[]|\\[\s\S]|\[(?:[^\]\\\n]|\\[\s\S])*\])+\//y;

/** Takes a body. The reader is at `{` and ends after the matching `}`. */
export function takeRaw(r: Reader, kind: 'js' | 'py' | 'shell' | 'plain', what: string): RawBody {
  const at = r.pos;
  r.expect('{', `before the body of ${what}`);
  const from = r.pos;
  let strayAt: number | undefined;
  const afterCode = (next: number): number => {
    if (/^@[A-Za-z_]/.test(r.text.slice(next, next + 2))) strayAt ??= next;
    return afterScript(r, next);
  };
  const after = kind === 'js' ? afterCode : (next: number) => passed(r, PASSED[kind], next);
  const exact = r.fuel > 0 ? closing(r, from, after) : undefined;
  if (exact === undefined) r.fuel -= r.end - from;
  const to = exact ?? closing(r, from, (next) => passed(r, PASSED.plain, next));
  if (to === undefined) {
    r.far = r.end;
    return r.failUnclosed(at, `the brace of ${what} is not closed`);
  }
  r.pos = to + 1;
  return { from, to, strayAt: exact === undefined ? undefined : strayAt };
}

/** Returns the offset of the brace that closes the one before `from`. */
function closing(r: Reader, from: number, after: (at: number) => number): number | undefined {
  let depth = 0;
  for (let at = from; at < r.end; at = after(at)) {
    const char = r.text[at];
    if (char === '{') depth += 1;
    else if (char === '}') depth -= 1;
    if (depth < 0) return at;
  }
  return undefined;
}

/** Returns the offset after the match at `at`, or after one character if nothing matches. */
function passed({ text }: Reader, pattern: RegExp, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at + 1;
}

function afterScript(r: Reader, at: number): number {
  const char = r.text[at];
  if (char === '`') return afterTemplate(r, at);
  const isPattern = char === '/' && !/[/*]/.test(r.text[at + 1] ?? '') && !isValueBefore(r, at);
  const behind = passed(r, isPattern ? PATTERN : PASSED.js, at);
  // A pattern that closes after the end of the range is not a pattern.
  return isPattern && behind > r.end ? at + 1 : behind;
}

/** Skips the holes of a template literal by counting their braces, without recursion. */
function afterTemplate(r: Reader, at: number): number {
  PIECE.lastIndex = at + 1;
  while (PIECE.test(r.text) && PIECE.lastIndex < r.end) {
    const end = PIECE.lastIndex;
    if (r.text[end] === '`') return end + 1;
    const close = closing(r, end + 2, (next) => passed(r, PASSED.hole, next));
    PIECE.lastIndex = (close ?? r.end) + 1;
  }
  return r.end;
}

/** True if a value precedes `/`. Then it divides; otherwise it opens a regular expression. */
function isValueBefore({ text }: Reader, at: number): boolean {
  let before = at - 1;
  while (text[before] === ' ' || text[before] === '\t') before -= 1;
  if (!/[\w$)\]}"'`]/.test(text[before] ?? '')) return false;
  const word = /(?:^|[^\w$.])(return|typeof|case|in|of|delete|void)$/;
  return !word.test(text.slice(Math.max(0, before - 8), before + 1));
}

// The raw bodies of commands and code: from an opening brace to the one that matches it. Braces inside
// quotes, comments, and in js template literals and regular expressions do not count. That is read
// leniently: when quotes do not add up (an apostrophe in an echo), braces alone decide.
import type { Reader } from './cursor.ts';

interface RawBody {
  readonly from: number;
  readonly to: number;
  /** Where `@name` stands in js code outside its texts. */
  readonly strayAt: number | undefined;
}

/** Texts that end with their line at the latest. */
const QUOTED = String.raw`"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"?|'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'?`;

/** What is passed at once: plain characters, what is escaped, texts, comments. */
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
/** The piece of a template literal up to its end or the next `${`. */
const PIECE = /[^`\\$]*(?:(?:\\[\s\S]|\$(?!\{))[^`\\$]*)*/y;
const PATTERN = /\/(?:[^/\\\n[]|\\[\s\S]|\[(?:[^\]\\\n]|\\[\s\S])*\])+\//y;

/** Stands at `{`; afterwards behind its `}`. */
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
    return r.failUnclosed(at, `the brace of ${what} is never closed`);
  }
  r.pos = to + 1;
  return { from, to, strayAt: exact === undefined ? undefined : strayAt };
}

/** Offset of the brace that closes what was opened before `from`. */
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

/** Offset behind what the pattern matches at `at`, or behind that character. */
function passed({ text }: Reader, pattern: RegExp, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at + 1;
}

function afterScript(r: Reader, at: number): number {
  const char = r.text[at];
  if (char === '`') return afterTemplate(r, at);
  const isPattern = char === '/' && !/[/*]/.test(r.text[at + 1] ?? '') && !isValueBefore(r, at);
  const behind = passed(r, isPattern ? PATTERN : PASSED.js, at);
  // One that is closed further on than can be seen is none.
  return isPattern && behind > r.end ? at + 1 : behind;
}

/** Holes are walked by a stack of their own braces, never by calling oneself. */
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

/** A `/` after a value divides; anywhere else it opens a regular expression. */
function isValueBefore({ text }: Reader, at: number): boolean {
  let before = at - 1;
  while (text[before] === ' ' || text[before] === '\t') before -= 1;
  if (!/[\w$)\]}"'`]/.test(text[before] ?? '')) return false;
  const word = /(?:^|[^\w$.])(return|typeof|case|in|of|delete|void)$/;
  return !word.test(text.slice(Math.max(0, before - 8), before + 1));
}

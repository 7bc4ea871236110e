// The raw bodies of commands and code: from an opening brace to the one that matches it. Braces inside
// quotes, comments, and in js template literals and regular expressions do not count. That is read
// leniently: when quotes do not add up (an apostrophe in an echo), braces alone decide.
import type { Reader } from './scan.ts';

export type RawKind = 'js' | 'py' | 'shell' | 'plain';

export interface RawBody {
  readonly from: number;
  readonly to: number;
  /** Where `@name` stands in js code outside its texts. */
  readonly strayAt: number | undefined;
}

/** Stands at `{`; afterwards behind its `}`. */
export function takeRaw(r: Reader, kind: RawKind, what: string): RawBody {
  const at = r.pos;
  r.expect('{', `before the body of ${what}`);
  const from = r.pos;
  const walker = createWalker(r.text, r.end);
  const exact = r.fuel > 0 ? walker.close(from, kind) : undefined;
  if (exact === undefined) r.fuel -= r.end - from;
  const to = exact ?? createWalker(r.text, r.end).close(from, 'plain');
  if (to === undefined) {
    r.far = r.end;
    return r.fail(`the brace of ${what} is never closed`, { at, end: at + 1, code: 'unclosed' });
  }
  r.pos = to + 1;
  return { from, to, strayAt: exact === undefined ? undefined : walker.strayAt() };
}

function createWalker(text: string, end: number) {
  let stray: number | undefined;

  /** Offset of the brace that closes what was opened before `from`. */
  function close(from: number, kind: RawKind): number | undefined {
    let depth = 0;
    let at = from;
    while (at < end) {
      const char = text[at];
      if (char === '}') {
        if (depth === 0) return at;
        depth -= 1;
      } else if (char === '{') depth += 1;
      at = kind === 'plain' ? at + 1 : after(at, kind);
    }
    return undefined;
  }

  /** Offset behind the character at `at`, or behind the text or comment that it opens. */
  function after(at: number, kind: RawKind): number {
    const char = text[at] ?? '';
    if (char === '\\') return at + 2;
    if (kind === 'shell') return afterShell(at, char);
    if (kind === 'py') return afterPython(at, char);
    return afterScript(at, char);
  }

  function afterShell(at: number, char: string): number {
    if (char === "'") return afterQuote(at, char, { isEscaped: false, isLine: false });
    if (char === '"') return afterQuote(at, char, { isEscaped: true, isLine: false });
    return char === '#' && /\s/.test(text[at - 1] ?? ' ') ? lineEnd(at) : at + 1;
  }

  function afterPython(at: number, char: string): number {
    if (char === '#') return lineEnd(at);
    if (char !== '"' && char !== "'") return at + 1;
    const triple = char.repeat(3);
    if (!text.startsWith(triple, at))
      return afterQuote(at, char, { isEscaped: true, isLine: true });
    const closing = text.indexOf(triple, at + 3);
    return closing < 0 ? end : closing + 3;
  }

  function afterScript(at: number, char: string): number {
    if (char === '"' || char === "'")
      return afterQuote(at, char, { isEscaped: true, isLine: true });
    if (char === '`') return afterTemplate(at);
    if (char === '@' && /[A-Za-z_]/.test(text[at + 1] ?? '')) stray ??= at;
    if (char !== '/') return at + 1;
    if (text[at + 1] === '/') return lineEnd(at);
    if (text[at + 1] === '*') {
      const closing = text.indexOf('*/', at + 2);
      return closing < 0 ? end : closing + 2;
    }
    return isValueBefore(at) ? at + 1 : afterPattern(at);
  }

  function afterQuote(
    at: number,
    quote: string,
    { isEscaped, isLine }: { isEscaped: boolean; isLine: boolean },
  ): number {
    for (let next = at + 1; next < end; next += 1) {
      const char = text[next];
      if (char === quote) return next + 1;
      if (isLine && char === '\n') return next;
      if (isEscaped && char === '\\') next += 1;
    }
    return end;
  }

  function afterTemplate(at: number): number {
    let next = at + 1;
    while (next < end) {
      if (text[next] === '`') return next + 1;
      if (text[next] === '\\') next += 2;
      else if (text.startsWith('${', next)) next = afterHole(next + 2);
      else next += 1;
    }
    return end;
  }

  /** Holes are walked by a stack of their own braces, never by calling oneself. */
  function afterHole(from: number): number {
    let depth = 0;
    let at = from;
    while (at < end) {
      const char = text[at];
      if (char === '}') {
        if (depth === 0) return at + 1;
        depth -= 1;
      } else if (char === '{') depth += 1;
      at =
        char === '"' || char === "'"
          ? afterQuote(at, char, { isEscaped: true, isLine: true })
          : at + 1;
    }
    return end;
  }

  /** A `/` after a value divides; anywhere else it opens a regular expression. */
  function isValueBefore(at: number): boolean {
    let before = at - 1;
    while (before >= 0 && (text[before] === ' ' || text[before] === '\t')) before -= 1;
    const char = text[before] ?? '';
    if (!/[\w$)\]}"'`]/.test(char)) return false;
    const word = /(?:^|[^\w$.])(return|typeof|case|in|of|delete|void)$/;
    return !word.test(text.slice(Math.max(0, before - 8), before + 1));
  }

  function afterPattern(at: number): number {
    let inClass = false;
    for (let next = at + 1; next < end; next += 1) {
      const char = text[next];
      if (char === '\n') return at + 1;
      if (char === '\\') next += 1;
      else if (char === '[') inClass = true;
      else if (char === ']') inClass = false;
      else if (char === '/' && !inClass) return next + 1;
    }
    return at + 1;
  }

  function lineEnd(at: number): number {
    const found = text.indexOf('\n', at);
    return found < 0 || found > end ? end : found;
  }

  return { close, strayAt: () => stray };
}

// The raw bodies of commands and code: from an opening brace to the one that matches it. Braces inside
// quotes, comments, and in js template literals and regular expressions do not count. That is read
// leniently: when quotes do not add up (an apostrophe in an echo), braces alone decide.
import type { Reader } from './cursor.ts';

type RawKind = 'js' | 'py' | 'shell' | 'plain';

interface RawBody {
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
  const walker = new Walker(r.text, r.end);
  const exact = r.fuel > 0 ? walker.close(from, kind) : undefined;
  if (exact === undefined) r.fuel -= r.end - from;
  const to = exact ?? new Walker(r.text, r.end).close(from, 'plain');
  if (to === undefined) {
    r.far = r.end;
    return r.failUnclosed(at, `the brace of ${what} is never closed`);
  }
  r.pos = to + 1;
  return { from, to, strayAt: exact === undefined ? undefined : walker.strayAt };
}

/** Walks over one body; every method answers with the offset behind what stands at `at`. */
class Walker {
  readonly #text: string;
  readonly #end: number;
  /** Where a name of the script stands in js code, outside its texts. */
  strayAt: number | undefined;

  constructor(text: string, end: number) {
    this.#text = text;
    this.#end = end;
  }

  /** Offset of the brace that closes what was opened before `from`. */
  close(from: number, kind: RawKind): number | undefined {
    return this.#closing(from, (at) => (kind === 'plain' ? at + 1 : this.#after(at, kind)));
  }

  #closing(from: number, after: (at: number) => number): number | undefined {
    let depth = 0;
    for (let at = from; at < this.#end; at = after(at)) {
      const char = this.#text[at];
      if (char === '{') depth += 1;
      else if (char === '}') depth -= 1;
      if (depth < 0) return at;
    }
    return undefined;
  }

  /** Offset behind the character at `at`, or behind the text or comment that it opens. */
  #after(at: number, kind: RawKind): number {
    const char = this.#text[at] ?? '';
    if (char === '\\') return at + 2;
    if (kind === 'shell') return this.#afterShell(at, char);
    if (kind === 'py') return this.#afterPython(at, char);
    return this.#afterScript(at, char);
  }

  #afterShell(at: number, char: string): number {
    if (char === "'" || char === '"') return this.#afterQuote(at, char, char === '"', false);
    return char === '#' && /\s/.test(this.#text[at - 1] ?? ' ') ? this.#lineEnd(at) : at + 1;
  }

  #afterPython(at: number, char: string): number {
    if (char === '#') return this.#lineEnd(at);
    if (char !== '"' && char !== "'") return at + 1;
    const triple = char.repeat(3);
    return this.#text.startsWith(triple, at)
      ? this.#behind(triple, at + 3)
      : this.#afterQuote(at, char);
  }

  #afterScript(at: number, char: string): number {
    if (char === '"' || char === "'") return this.#afterQuote(at, char);
    if (char === '`') return this.#afterTemplate(at);
    if (char === '@' && /[A-Za-z_]/.test(this.#text[at + 1] ?? '')) this.strayAt ??= at;
    if (char !== '/') return at + 1;
    if (this.#text[at + 1] === '/') return this.#lineEnd(at);
    if (this.#text[at + 1] === '*') return this.#behind('*/', at + 2);
    return this.#isValueBefore(at) ? at + 1 : this.#afterPattern(at);
  }

  #behind(mark: string, from: number): number {
    const found = this.#text.indexOf(mark, from);
    return found < 0 ? this.#end : found + mark.length;
  }

  /** `isLine`: a text ends with its line at the latest. */
  #afterQuote(at: number, quote: string, isEscaped = true, isLine = true): number {
    for (let next = at + 1; next < this.#end; next += 1) {
      const char = this.#text[next];
      if (char === quote) return next + 1;
      if (isLine && char === '\n') return next;
      if (isEscaped && char === '\\') next += 1;
    }
    return this.#end;
  }

  #afterTemplate(at: number): number {
    let next = at + 1;
    while (next < this.#end) {
      if (this.#text[next] === '`') return next + 1;
      if (this.#text[next] === '\\') next += 2;
      else if (this.#text.startsWith('${', next)) next = this.#afterHole(next + 2);
      else next += 1;
    }
    return this.#end;
  }

  /** Holes are walked by a stack of their own braces, never by calling oneself. */
  #afterHole(from: number): number {
    const closing = this.#closing(from, (at) => {
      const char = this.#text[at];
      return char === '"' || char === "'" ? this.#afterQuote(at, char) : at + 1;
    });
    return closing === undefined ? this.#end : closing + 1;
  }

  /** A `/` after a value divides; anywhere else it opens a regular expression. */
  #isValueBefore(at: number): boolean {
    let before = at - 1;
    while (before >= 0 && (this.#text[before] === ' ' || this.#text[before] === '\t')) before -= 1;
    const char = this.#text[before] ?? '';
    if (!/[\w$)\]}"'`]/.test(char)) return false;
    const word = /(?:^|[^\w$.])(return|typeof|case|in|of|delete|void)$/;
    return !word.test(this.#text.slice(Math.max(0, before - 8), before + 1));
  }

  #afterPattern(at: number): number {
    let inClass = false;
    for (let next = at + 1; next < this.#end; next += 1) {
      const char = this.#text[next];
      if (char === '\n') return at + 1;
      if (char === '\\') next += 1;
      else if (char === '[') inClass = true;
      else if (char === ']') inClass = false;
      else if (char === '/' && !inClass) return next + 1;
    }
    return at + 1;
  }

  #lineEnd(at: number): number {
    const found = this.#text.indexOf('\n', at);
    return found < 0 || found > this.#end ? this.#end : found;
  }
}

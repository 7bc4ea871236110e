// The raw bodies of commands and code: from an opening brace to the one that matches it. Braces inside
// quotes, comments, and in js template literals and regular expressions do not count. That is read
// leniently: when quotes do not add up (an apostrophe in an echo), braces alone decide.
import type { Reader } from './cursor.ts';

export type RawKind = 'js' | 'py' | 'shell' | 'plain';

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
    return r.fail(`the brace of ${what} is never closed`, { at, end: at + 1, code: 'unclosed' });
  }
  r.pos = to + 1;
  return { from, to, strayAt: exact === undefined ? undefined : walker.strayAt };
}

/** Walks over one body; every method answers with the offset behind what stands at `at`. */
class Walker {
  readonly #text: string;
  readonly #end: number;
  #stray: number | undefined;

  constructor(text: string, end: number) {
    this.#text = text;
    this.#end = end;
  }

  /** Where a name of the script stands in js code, outside its texts. */
  get strayAt(): number | undefined {
    return this.#stray;
  }

  /** Offset of the brace that closes what was opened before `from`. */
  close(from: number, kind: RawKind): number | undefined {
    let depth = 0;
    let at = from;
    while (at < this.#end) {
      const char = this.#text[at];
      if (char === '}') {
        if (depth === 0) return at;
        depth -= 1;
      } else if (char === '{') depth += 1;
      at = kind === 'plain' ? at + 1 : this.#after(at, kind);
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
    if (char === "'") return this.#afterQuote(at, char, { isEscaped: false, isLine: false });
    if (char === '"') return this.#afterQuote(at, char, { isEscaped: true, isLine: false });
    return char === '#' && /\s/.test(this.#text[at - 1] ?? ' ') ? this.#lineEnd(at) : at + 1;
  }

  #afterPython(at: number, char: string): number {
    if (char === '#') return this.#lineEnd(at);
    if (char !== '"' && char !== "'") return at + 1;
    const triple = char.repeat(3);
    if (!this.#text.startsWith(triple, at))
      return this.#afterQuote(at, char, { isEscaped: true, isLine: true });
    const closing = this.#text.indexOf(triple, at + 3);
    return closing < 0 ? this.#end : closing + 3;
  }

  #afterScript(at: number, char: string): number {
    if (char === '"' || char === "'")
      return this.#afterQuote(at, char, { isEscaped: true, isLine: true });
    if (char === '`') return this.#afterTemplate(at);
    if (char === '@' && /[A-Za-z_]/.test(this.#text[at + 1] ?? '')) this.#stray ??= at;
    if (char !== '/') return at + 1;
    if (this.#text[at + 1] === '/') return this.#lineEnd(at);
    if (this.#text[at + 1] === '*') {
      const closing = this.#text.indexOf('*/', at + 2);
      return closing < 0 ? this.#end : closing + 2;
    }
    return this.#isValueBefore(at) ? at + 1 : this.#afterPattern(at);
  }

  #afterQuote(
    at: number,
    quote: string,
    { isEscaped, isLine }: { isEscaped: boolean; isLine: boolean },
  ): number {
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
    let depth = 0;
    let at = from;
    while (at < this.#end) {
      const char = this.#text[at];
      if (char === '}') {
        if (depth === 0) return at + 1;
        depth -= 1;
      } else if (char === '{') depth += 1;
      at =
        char === '"' || char === "'"
          ? this.#afterQuote(at, char, { isEscaped: true, isLine: true })
          : at + 1;
    }
    return this.#end;
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

// Defines the reader that every grammar rule uses. There is no list of tokens, because the meaning of a
// character depends on its context: text, command, code or value. INVARIANT: nesting is always bounded
// (`deeper`), so no input overflows the stack. INVARIANT: reading again is always bounded. `attempt` and failed
// statements pay from `fuel` for what they read without success. Without fuel nothing is attempted, so the total
// time is linear.
import { ParseError, type ProblemCode } from '../problem.ts';
import type { ActionExpression, Expression, Mode, NodeOf, Statement } from './ast.ts';

const DEEPEST = 200;
const PRICE_OF_A_TRY = 400;
// Entering two hundred levels is expensive, and no real script has that many.
const PRICE_OF_DEPTH = 20_000;

/** Rules of higher layers that lower layers call. `parseScript` passes them, so that no file imports upwards. */
export interface Rules {
  value(reader: Reader): Expression;
  file(reader: Reader): NodeOf<'file'>;
  /** Parses a `when for if loop foreach`. The reader is at the word. */
  flow(reader: Reader): Expression;
  /** Parses a `show log output append`. The reader is at the word. */
  effect(reader: Reader, isInline: boolean): Statement;
  /** Parses the lines of a block up to and including `]`, after `first`. `opened` is the offset of its `[`. */
  blockRest(reader: Reader, first: readonly ActionExpression[], opened: number): ActionExpression[];
}

/** Constructs that are legal at the current location. */
interface Scope {
  /** True if arms may contain `allow deny retry ask`. */
  readonly inGuard: boolean;
  /** True in a loop, where `retry` is a mistake for `continue`. */
  readonly inLoop: boolean;
  /** True inside of a function, loop or block, where `done`, `continue`, `skip` and `retry` have a meaning. */
  readonly inBody: boolean;
  /** Blocks that `[` can open, besides an array. */
  readonly blocks: 'none' | 'value' | 'action';
}

export const OUTERMOST: Scope = { inGuard: false, inLoop: false, inBody: false, blocks: 'value' };

const BARE_WORD = /[A-Za-z_][\w-]*/y;

/** Matches words that are neither a value nor, with the text after them, a key. */
const STATEMENT =
  /\/[a-z]+[ \t]|(?:var|show|exe|output|append|log|import|export|guard|hook|policy|bail)[ \t]+[^\s:,=)\]}]/y;
const DASH = 45;
const isDigit = (code: number): boolean => code >= 48 && code <= 57;
// The Unicode tables are used only beyond ASCII, because a lookup in them is slow.
const isLetter = (code: number): boolean => {
  if (code < 128) return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95;
  return /[\p{L}\p{N}\p{M}\p{Cs}]/u.test(String.fromCharCode(code));
};

interface Where {
  readonly at?: number;
  readonly end?: number;
  readonly hint?: string | undefined;
  readonly code?: ProblemCode;
}

export class Reader {
  readonly text: string;
  readonly mode: Mode;
  readonly rules: Rules;
  pos = 0;
  /** The reader never reads text at or after this offset. */
  end: number;
  /** True inside of parentheses and literals, where a line break counts as a space. */
  isOpen = false;
  scope: Scope = OUTERMOST;
  /** True for a template file, in which malformed constructs are text instead of errors. */
  isTemplateFile = false;
  /** Furthest offset that was read. It decides the price of a failed attempt. */
  far = 0;
  fuel: number;
  /** A parsed value that turned out to be the condition of the next arm. */
  overrun: Expression | undefined;
  #depth = 0;
  #tries = 0;
  readonly #found = new Map<string, { from: number; at: number }>();

  constructor(text: string, mode: Mode, rules: Rules) {
    this.text = text;
    this.mode = mode;
    this.rules = rules;
    this.end = text.length;
    this.fuel = 4 * text.length + 2_000_000;
  }

  peek(ahead = 0): string {
    const at = this.pos + ahead;
    return at < this.end ? (this.text[at] ?? '') : '';
  }

  get isAtEnd(): boolean {
    return this.pos >= this.end;
  }

  starts(text: string): boolean {
    return this.pos + text.length <= this.end && this.text.startsWith(text, this.pos);
  }

  /** Takes a text, or the match of a sticky pattern. Returns false if there is none. */
  take(expected: string | RegExp): boolean {
    const isText = typeof expected === 'string';
    if (isText ? !this.starts(expected) : !this.sees(expected)) return false;
    this.pos = isText ? this.pos + expected.length : expected.lastIndex;
    return true;
  }

  /** Takes optional blanks and then a text or match. If nothing matches, the blanks are not taken either. */
  takeAfterSpace(expected: string | RegExp): boolean {
    const at = this.pos;
    this.space();
    if (this.take(expected)) return true;
    this.pos = at;
    return false;
  }

  /** True if a sticky pattern matches here. The position does not change. */
  sees(pattern: RegExp): boolean {
    pattern.lastIndex = this.pos;
    return this.pos <= this.end && pattern.test(this.text) && pattern.lastIndex <= this.end;
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.pos;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined || this.pos >= this.end) return undefined;
    const taken = this.pos + found.length > this.end ? this.slice(this.pos, this.end) : found;
    this.pos += taken.length;
    return taken;
  }

  skip(pattern: RegExp): void {
    pattern.lastIndex = this.pos;
    if (pattern.test(this.text)) this.pos = Math.min(pattern.lastIndex, this.end);
  }

  slice(from: number, to: number = this.pos): string {
    return this.text.slice(from, to);
  }

  /** Returns the word at the position without taking it. */
  word(): string | undefined {
    const at = this.pos;
    const found = this.match(BARE_WORD);
    this.pos = at;
    return found;
  }

  /** Takes a word and the blanks after it. */
  takeWord(word: string): boolean {
    if (this.word() !== word) return false;
    this.pos += word.length;
    this.blanks();
    return true;
  }

  blanks(): void {
    for (;;) {
      const char = this.peek();
      if (char !== ' ' && char !== '\t' && !(char === '\r' && this.peek(1) === '\n')) return;
      this.pos += 1;
    }
  }

  /** Parses items between commas up to `close`. The reader is after the opening character. */
  list<T>(close: string, what: string, item: () => T, opened = this.pos - 1): T[] {
    const items: T[] = [];
    let needsComma = false;
    return this.within({ isOpen: true, blocks: 'none' }, () => {
      for (;;) {
        this.space();
        if (this.starts('>>') || this.starts('<<')) {
          this.fail(`a comment is not allowed between ${what}`, {
            hint: 'put it on a line before the statement',
          });
        }
        if (this.take(close)) return items;
        if (this.isAtEnd) {
          this.far = this.end;
          this.failUnclosed(opened, `\`${this.slice(opened, opened + 1)}\` is not closed`);
        }
        if (this.startsStatement()) {
          const opener = this.slice(opened, opened + 1);
          this.failUnclosed(opened, `\`${opener}\` is not closed before the next statement`);
        }
        if (!needsComma) items.push(item());
        else if (!this.take(',')) {
          this.fail(`expected \`,\` or \`${close}\` between ${what}, found ${this.shown()}`);
        }
        needsComma = !needsComma;
      }
    });
  }

  /** True if a statement begins with this line. An open bracket should then have been closed before it. */
  startsStatement(): boolean {
    if (!this.sees(STATEMENT)) return false;
    const line = this.text.lastIndexOf('\n', this.pos - 1) + 1;
    // An indented slash is a mistake inside of the open construct and gets its own error.
    if (this.text[this.pos] === '/' && line !== this.pos) return false;
    return line > 0 && this.slice(line).trim() === '';
  }

  /** Fails with the code `unclosed` at the opening text, which has `length` characters. */
  failUnclosed(at: number, message: string, length = 1): never {
    return this.fail(message, { at, end: at + length, code: 'unclosed' });
  }

  /** Skips blanks. Inside of an open bracket it also skips line breaks. */
  space(): void {
    if (this.isOpen) this.breakAfter();
    else this.blanks();
  }

  /** True at `>> …` or `<< …`. At the start of a line `<<` needs a blank after it. */
  startsComment(): boolean {
    const sign = this.peek();
    if (sign !== '>' && sign !== '<') return false;
    if (this.starts('>>')) return true;
    if (!this.starts('<<')) return false;
    const line = this.text.lastIndexOf('\n', this.pos - 1) + 1;
    return /^\s?$/.test(this.peek(2)) || this.slice(line).trim() !== '';
  }

  /** Skips blanks, line breaks and comments between the lines of a block or the arms of a list. */
  gap(): void {
    for (;;) {
      this.blanks();
      if (this.startsComment()) this.pos = this.lineEnd();
      if (this.peek() !== '\n') return;
      this.pos += 1;
    }
  }

  /** Skips blanks and line breaks: after an operator, `=` or `=>` the value may be on the next line. */
  breakAfter(): void {
    this.blanks();
    while (this.peek() === '\n') {
      this.pos += 1;
      this.blanks();
    }
  }

  lineEnd(): number {
    const at = this.find('\n');
    return at < 0 ? this.end : at;
  }

  /** Returns the next offset of `text` before the end, or -1. It never scans a part of the text twice. */
  find(text: string, from: number = this.pos): number {
    const cached = this.#found.get(text);
    let at = cached?.at ?? -1;
    if (cached === undefined || from < cached.from || (cached.at >= 0 && from > cached.at)) {
      at = this.text.indexOf(text, from);
      this.#found.set(text, { from, at });
    }
    return at >= 0 && at + text.length <= this.end ? at : -1;
  }

  fail(message: string, { at = this.pos, end, hint, code = 'unexpected' }: Where = {}): never {
    const stop = Math.max(at + 1, end ?? Math.min(this.pos, this.end));
    this.far = Math.max(this.far, this.pos);
    throw new ParseError({ at, end: stop, message, code, ...(hint === undefined ? {} : { hint }) });
  }

  shown(): string {
    if (this.isAtEnd) return 'the end of the script';
    if (this.peek() === '\n') return 'the end of the line';
    const found = /[@/]?[\w-]+|\S/uy;
    const at = this.pos;
    const text = this.match(found) ?? this.peek();
    this.pos = at;
    return `\`${text.slice(0, 40)}\``;
  }

  expect(text: string, after: string): void {
    if (!this.take(text)) this.fail(`expected \`${text}\` ${after}, found ${this.shown()}`);
  }

  /** Takes a name: letters, digits, `_`, and `-` between them. The first character is not a digit. */
  takeName(): string | undefined {
    const from = this.pos;
    if (!isLetter(this.text.charCodeAt(from)) || this.isAtEnd) return undefined;
    let at = from + 1;
    for (; at < this.end; at += 1) {
      const code = this.text.charCodeAt(at);
      if (isLetter(code) || isDigit(code)) continue;
      const next = at + 1 < this.end ? this.text.charCodeAt(at + 1) : 0;
      if (code !== DASH || !(isLetter(next) || isDigit(next))) break;
    }
    this.pos = at;
    return this.slice(from);
  }

  name(what: string): string {
    return this.takeName() ?? this.fail(`expected a name ${what}, found ${this.shown()}`);
  }

  /** Runs a rule that can contain itself. Fails with `too_deep` beyond the maximum depth. */
  deeper<T>(rule: () => T): T {
    if (this.#depth >= DEEPEST) {
      this.fail(`the script is nested more than ${DEEPEST} levels deep`, { code: 'too_deep' });
    }
    this.#depth += 1;
    try {
      return rule();
    } finally {
      this.#depth -= 1;
    }
  }

  /** Runs a rule with changed settings. The old settings are restored, also after a failure. */
  within<T>(changes: Partial<Scope> & { isOpen?: boolean; end?: number }, rule: () => T): T {
    const { scope, isOpen, end } = this;
    const { isOpen: opened = isOpen, end: stop = end, ...rest } = changes;
    this.scope = { ...scope, ...rest };
    this.isOpen = opened;
    this.end = Math.min(stop, end);
    try {
      return rule();
    } finally {
      this.scope = scope;
      this.isOpen = isOpen;
      this.end = end;
    }
  }

  /**
   * Runs a rule. If it fails, returns `undefined` and takes nothing. Without fuel no rule is attempted, and
   * a running attempt fails as a whole instead of level by level.
   */
  attempt<T>(rule: () => T): T | undefined {
    if (this.fuel <= 0) {
      if (this.#tries > 0) this.fail('too much of the text does not parse', { code: 'too_deep' });
      return undefined;
    }
    const at = this.pos;
    const before = this.far;
    this.far = at;
    this.#tries += 1;
    try {
      return rule();
    } catch (error) {
      if (!(error instanceof ParseError)) throw error;
      const price = error.problem.code === 'too_deep' ? PRICE_OF_DEPTH : PRICE_OF_A_TRY;
      this.fuel -= price + Math.max(0, this.far - at);
      if (this.fuel <= 0 && this.#tries > 1) throw error;
      this.pos = at;
      return undefined;
    } finally {
      this.#tries -= 1;
      this.far = Math.max(this.far, before);
    }
  }
}

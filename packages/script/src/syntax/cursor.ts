// The cursor every rule of the grammar reads through. There is no list of tokens, because what a
// character means depends on where it stands (text, command, code, value); the reader offers the few
// steps all rules share and keeps the promises that make any input end:
//
// INVARIANT: nesting is bounded (`deeper`), so no input overflows the stack.
// INVARIANT: reading twice is bounded. `attempt` and a failed statement pay for what they read in
// vain out of `fuel`; once it is used up nothing is tried any more, so the whole is linear.
import { ParseError, type ProblemCode } from '../problem.ts';
import type { ActionExpression, Expression, Mode, NodeOf, Statement } from './ast.ts';

const DEEPEST = 200;
const PRICE_OF_A_TRY = 400;
// Two hundred levels are costly to enter and no script has them.
const PRICE_OF_DEPTH = 20_000;

/** Rules that lower ones need from higher ones; the door brings them, so that no file imports up. */
export interface Rules {
  value(reader: Reader): Expression;
  file(reader: Reader): NodeOf<'file'>;
  /** `when for if loop foreach`, standing at the word. */
  flow(reader: Reader): Expression;
  /** `show log output append`, standing at the word. */
  effect(reader: Reader, isInline: boolean): Statement;
  /** The lines of a block up to and with its `]`, after those already read; `opened`: where its `[` stands. */
  blockRest(reader: Reader, first: readonly ActionExpression[], opened: number): ActionExpression[];
}

/** What the place allows. */
interface Scope {
  /** Arms decide: `allow deny retry ask`. */
  readonly inGuard: boolean;
  /** `retry` is a slip for `continue` here. */
  readonly inLoop: boolean;
  /** Inside a function, loop or block: `done`, `continue`, `skip`, `retry` have a meaning. */
  readonly inBody: boolean;
  /** What `[` may open besides an array. */
  readonly blocks: 'none' | 'value' | 'action';
}

export const OUTERMOST: Scope = { inGuard: false, inLoop: false, inBody: false, blocks: 'value' };

const BARE_WORD = /[A-Za-z_][\w-]*/y;

/** Words that are no value and, with what follows them, no key. */
const STATEMENT =
  /\/[a-z]+[ \t]|(?:var|show|exe|output|append|log|import|export|guard|hook|policy|bail)[ \t]+[^\s:,=)\]}]/y;
const DASH = 45;
const isDigit = (code: number): boolean => code >= 48 && code <= 57;
// Beyond ASCII the tables decide; asking them first would cost every name.
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
  /** Nothing at or past this is seen. */
  end: number;
  /** Inside parentheses and literals a line break is a blank. */
  isOpen = false;
  scope: Scope = OUTERMOST;
  /** Nothing is a mistake: what is not well formed is text. */
  isTemplateFile = false;
  /** The furthest offset looked at, for the price of a failure. */
  far = 0;
  fuel: number;
  /** A value that turned out to be the condition of the next arm. */
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

  /** A text, or what a sticky pattern matches. */
  take(wanted: string | RegExp): boolean {
    const isText = typeof wanted === 'string';
    if (isText ? !this.starts(wanted) : !this.sees(wanted)) return false;
    this.pos = isText ? this.pos + wanted.length : wanted.lastIndex;
    return true;
  }

  /** The same behind blanks, which are not taken alone. */
  takeAfterSpace(wanted: string | RegExp): boolean {
    const at = this.pos;
    this.space();
    if (this.take(wanted)) return true;
    this.pos = at;
    return false;
  }

  /** Whether a sticky pattern matches here; looking does not move. */
  sees(pattern: RegExp): boolean {
    pattern.lastIndex = this.pos;
    return this.pos <= this.end && pattern.test(this.text) && pattern.lastIndex <= this.end;
  }

  /** Takes what a sticky pattern matches. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.pos;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined || this.pos >= this.end) return undefined;
    const taken = this.pos + found.length > this.end ? this.slice(this.pos, this.end) : found;
    this.pos += taken.length;
    return taken;
  }

  /** Moves past what a sticky pattern matches. */
  skip(pattern: RegExp): void {
    pattern.lastIndex = this.pos;
    if (pattern.test(this.text)) this.pos = Math.min(pattern.lastIndex, this.end);
  }

  slice(from: number, to: number = this.pos): string {
    return this.text.slice(from, to);
  }

  /** The word that stands here, if any. */
  word(): string | undefined {
    const at = this.pos;
    const found = this.match(BARE_WORD);
    this.pos = at;
    return found;
  }

  /** With the blanks behind it. */
  takeWord(word: string): boolean {
    if (this.word() !== word) return false;
    this.pos += word.length;
    this.blanks();
    return true;
  }

  /** Blanks of this line. */
  blanks(): void {
    for (;;) {
      const char = this.peek();
      if (char !== ' ' && char !== '\t' && !(char === '\r' && this.peek(1) === '\n')) return;
      this.pos += 1;
    }
  }

  /** Things separated by commas up to `close`; a last comma is fine. Stands behind what opened them. */
  list<T>(close: string, what: string, item: () => T, opened = this.pos - 1): T[] {
    const items: T[] = [];
    let needsComma = false;
    return this.within({ isOpen: true, blocks: 'none' }, () => {
      for (;;) {
        this.space();
        if (this.starts('>>') || this.starts('<<')) {
          this.fail(`a comment cannot stand between ${what}`, {
            hint: 'put it on a line before the statement',
          });
        }
        if (this.take(close)) return items;
        if (this.isAtEnd) {
          this.far = this.end;
          this.failUnclosed(opened, `\`${this.slice(opened, opened + 1)}\` is never closed`);
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

  /** Does a statement begin with this line? Whatever is open was meant to be closed before it. */
  startsStatement(): boolean {
    if (!this.sees(STATEMENT)) return false;
    const line = this.text.lastIndexOf('\n', this.pos - 1) + 1;
    // An indented slash is a slip inside of what is open, and is told as such.
    if (this.text[this.pos] === '/' && line !== this.pos) return false;
    return line > 0 && this.slice(line).trim() === '';
  }

  /** `at`: what opened it, `length` characters long. */
  failUnclosed(at: number, message: string, length = 1): never {
    return this.fail(message, { at, end: at + length, code: 'unclosed' });
  }

  /** Blanks, and line breaks where something is open. */
  space(): void {
    if (this.isOpen) this.breakAfter();
    else this.blanks();
  }

  /** `>> …` or `<< …`; at the start of a line `<<` needs a blank behind it. */
  startsComment(): boolean {
    const sign = this.peek();
    if (sign !== '>' && sign !== '<') return false;
    if (this.starts('>>')) return true;
    if (!this.starts('<<')) return false;
    const line = this.text.lastIndexOf('\n', this.pos - 1) + 1;
    return /^\s?$/.test(this.peek(2)) || this.slice(line).trim() !== '';
  }

  /** Blanks, line breaks and comments: between the lines of a block or the arms of a list. */
  gap(): void {
    for (;;) {
      this.blanks();
      if (this.startsComment()) this.pos = this.lineEnd();
      if (this.peek() !== '\n') return;
      this.pos += 1;
    }
  }

  /** After an operator, `=` or `=>` the value may stand on the next line. */
  breakAfter(): void {
    this.blanks();
    while (this.peek() === '\n') {
      this.pos += 1;
      this.blanks();
    }
  }

  /** Offset of the line break that ends this line, or of the end. */
  lineEnd(): number {
    const at = this.find('\n');
    return at < 0 ? this.end : at;
  }

  /** Next place of `text` from here on, before the end; -1 when there is none. Never scans a stretch twice. */
  find(text: string, from: number = this.pos): number {
    const known = this.#found.get(text);
    let at = known?.at ?? -1;
    if (known === undefined || from < known.from || (known.at >= 0 && from > known.at)) {
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

  /** What stands here, for a message. */
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

  /** Letters, digits, `_`, and `-` between them; no digit in front. */
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

  /** Every rule that may contain itself goes through here. */
  deeper<T>(rule: () => T): T {
    if (this.#depth >= DEEPEST) {
      this.fail(`nested more than ${DEEPEST} levels deep`, { code: 'too_deep' });
    }
    this.#depth += 1;
    try {
      return rule();
    } finally {
      this.#depth -= 1;
    }
  }

  /** Runs a rule where `changes` hold; what held before holds again afterwards, failed or not. */
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
   * Undefined, and nothing taken, when the rule does not fit here. Without fuel nothing is tried, and
   * what is being tried already is given up as a whole, not level by level.
   */
  attempt<T>(rule: () => T): T | undefined {
    if (this.fuel <= 0) {
      if (this.#tries > 0) this.fail('too much could not be read', { code: 'too_deep' });
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

// Parses commands and code. A command is parsed part by part, because the quotes around an inserted value
// decide how it is written, and because operators that start a second command are legal only in `sh { }`.
// Code is not changed.
import type { Language, NodeOf, TemplatePart, Using } from './ast.ts';
import type { Reader } from './cursor.ts';
import { takeRaw } from './raw-body.ts';
import { parseReference } from './reference.ts';
import {
  createParts,
  FORMS,
  parseBareMatch,
  parseFilePart,
  parseInsert,
  parseText,
} from './text.ts';

const ALIASES: Readonly<Record<string, Language>> = {
  javascript: 'js',
  nodejs: 'node',
  python: 'py',
};
const BODIES = { sh: 'shell', bash: 'shell', js: 'js', node: 'js', py: 'py' } as const;

/** Words that are followed by a body in braces. */
export const CODE_WORDS = 'cmd|sh|bash|javascript|js|nodejs|node|python|py';
const FOLDER = String.raw`(?::(?:"[^"\n]*"|\x60[^\x60\n]*\x60|[^\s{]+))?`;
const OPENS_CODE = new RegExp(
  String.raw`(?:${CODE_WORDS})${FOLDER}[ \t]*(?:\([^()\n]*\)${FOLDER}[ \t\r\n]*)?\{`,
  'y',
);

/** True at `cmd {`, `js (@a) {`, `sh (@a):out {` and similar starts. */
export const isCodeStart = (r: Reader): boolean => r.sees(OPENS_CODE);

export function parseCode(r: Reader): NodeOf<'command' | 'code'> {
  const at = r.pos;
  const word = r.word() ?? '';
  r.pos += word.length;
  const leading = parseFolder(r);
  r.blanks();
  const names = r.take('(') ? r.list(')', 'names', () => parseReference(r)) : [];
  const folder = leading ?? parseFolder(r);
  r.breakAfter();
  if (word === 'cmd') return parseCommand(r, at, { names, folder });
  const language = ALIASES[word] ?? (word as Language);
  const { from, to, strayAt } = takeRaw(r, BODIES[language], `\`${word}\``);
  if (strayAt !== undefined) {
    const name = /@[\w.]+/.exec(r.slice(strayAt, to))?.[0] ?? '@';
    r.fail(`\`${name}\` is not a name in ${word} code`, {
      at: strayAt,
      end: strayAt + name.length,
      hint: `write \`${name.slice(1)}\` and pass it as a parameter`,
    });
  }
  // A shell and Python would treat a carriage return as part of the line.
  const body = r.slice(from, to).replaceAll('\r\n', '\n');
  const using = parseUsing(r);
  return { kind: 'code', language, names, body, folder, using, at, end: r.pos };
}

/** Parses `:DIR` after `cmd` or after the names. */
function parseFolder(r: Reader): NodeOf<'template'> | undefined {
  if (!r.take(':')) return undefined;
  if (/["`]/.test(r.peek())) {
    const text = parseText(r);
    return text.kind === 'template' ? text : undefined;
  }
  return parseBareMatch(r, /[^\s{]+/y) ?? r.fail('expected a folder after `:`');
}

/** Parses `using @v as NAME`; absent if there is none. */
function parseUsing(r: Reader): Using | undefined {
  if (r.sees(/[ \t]*using[ \t]+auth:/y)) {
    r.blanks();
    r.fail('`using auth:…` is not part of this version', {
      end: r.pos + 'using auth:'.length,
      hint: 'pass a value with `using @value as NAME`',
      code: 'unsupported',
    });
  }
  if (!r.takeAfterSpace(/using[ \t]+(?=@)/y)) return undefined;
  const value = parseReference(r);
  r.space();
  if (!r.takeWord('as')) r.fail('expected `as NAME` after `using`');
  r.space();
  const name = r.match(/[A-Za-z_]\w*/y) ?? r.fail('expected the name of an environment variable');
  return { value, name };
}

type CommandHead = Pick<NodeOf<'command'>, 'names' | 'folder'>;

const NO_HEAD: CommandHead = { names: [], folder: undefined };

export function parseCommand(r: Reader, at: number, head = NO_HEAD): NodeOf<'command'> {
  const { from, to } = takeRaw(r, 'shell', 'a command');
  return finishCommand(r, at, from, to, '{', head);
}

/** Parses the command text of `run "echo hi"`. The reader is at the quote. */
export function parseCommandString(r: Reader): NodeOf<'command'> {
  const at = r.pos;
  const quote = r.peek();
  if (r.match(/"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'|`[^`]*`/y) === undefined)
    r.failUnclosed(at, 'the text of the command is not closed');
  return finishCommand(r, at, at + 1, r.pos - 1, quote);
}

/** Parses a command from `from` to `to`. In `"…"` a `\"` is a quote; in `'…'` no value is inserted. */
function finishCommand(
  r: Reader,
  at: number,
  from: number,
  to: number,
  quote: string,
  head = NO_HEAD,
): NodeOf<'command'> {
  const isString = quote === '"';
  const behind = r.pos;
  r.pos = from;
  const lines = r.within({ end: to }, () => readLines(r, isString, quote === "'"));
  r.pos = behind;
  if (lines.length === 0) r.fail('the command is empty', { at, end: behind });
  const raw = isString ? r.slice(from, to).replaceAll('\\"', '"') : r.slice(from, to);
  return { kind: 'command', ...head, lines, raw, using: parseUsing(r), at, end: r.pos };
}

type OpenQuote = '' | '"' | "'";

// INVARIANT: the part of an inserted value always has the quotes around it, also inside of a fragment. A text
// that is inserted under a condition never contains an operator and never ends the quotes around it.
function readFragment(r: Reader, quote: '' | '"'): TemplatePart[] {
  const parts = createParts();
  readText(r, { isString: false, isLiteral: false, stop: '`', quote }, parts, () =>
    r.fail('a fragment of a command is one line'),
  );
  return parts.done();
}

function readLines(r: Reader, isString: boolean, isLiteral: boolean): TemplatePart[][] {
  const lines: TemplatePart[][] = [];
  const parts = createParts();
  const finish = (): void => {
    const line = trimmed(parts.done());
    if (line.length > 0) lines.push(line);
  };
  readText(r, { isString, isLiteral, stop: '', quote: '' }, parts, finish);
  finish();
  return lines;
}

interface Rules {
  readonly isString: boolean;
  readonly isLiteral: boolean;
  /** Character that ends the text; empty if the text ends with the range of the reader. */
  readonly stop: '' | '`';
  /** Quote that is open around the text. */
  readonly quote: OpenQuote;
}

function readText(
  r: Reader,
  { isString, isLiteral, stop, quote: outer }: Rules,
  parts: ReturnType<typeof createParts>,
  finish: () => void,
): void {
  let quote = outer;
  let opened = r.pos;
  let isInTicks = false;
  // The quotes around each open `$(`. They have no effect inside of it.
  const around: OpenQuote[] = [];
  const isClosed = (): boolean =>
    stop !== '' && quote === outer && around.length === 0 && r.starts(stop);
  const take = (text: string): void => {
    parts.add(text);
    r.pos += text.length;
  };
  while (!r.isAtEnd && !isClosed()) {
    if (isString && r.starts('\\"')) r.pos += 1;
    const char = r.peek();
    if (quote === '' && char === '\n') {
      if (around.length > 0)
        r.fail('`$( … )` in a command is one line', { hint: 'use `sh { … }`' });
      if (joinsLines(r)) parts.add(' ');
      else finish();
      r.match(/\n[ \t]*/y);
    } else if ((char === '"' || char === "'") && (quote === '' || quote === char)) {
      quote = quote === '' ? char : '';
      opened = r.pos;
      take(char);
    } else if (quote !== "'" && r.starts('$(')) {
      around.push(quote);
      quote = '';
      take('$(');
    } else if (quote === '' && around.length > 0 && (char === '(' || char === ')')) {
      if (char === '(') around.push('');
      else quote = around.pop() ?? '';
      take(char);
    } else if (quote !== "'" && char === '`') {
      isInTicks = !isInTicks;
      take(char);
    } else {
      const at = r.pos;
      const piece = quote === "'" ? undefined : parsePiece(r, quote);
      if (piece === undefined) take(char);
      else if (isLiteral) parts.add(r.slice(at));
      else if (typeof piece !== 'string' && isInTicks)
        r.fail('a value cannot be inserted in backticks', { at, hint: 'write `$( … )`' });
      else parts.add(piece);
    }
  }
  if (around.length > 0) r.fail('`$(` in the command is not closed', { code: 'unclosed' });
  if (quote !== outer) {
    r.failUnclosed(opened, `the quote \`${quote || outer}\` in the command is not closed`);
  }
}

/** Takes an escape, a reference, a file or a comment. Returns `undefined` for an ordinary character. */
function parsePiece(r: Reader, quote: '' | '"'): TemplatePart | undefined {
  const kind = quote === '' ? 'none' : 'double';
  const next = r.peek(1);
  switch (r.peek()) {
    case '\\':
      return takeEscape(r, quote, next);
    case '@':
      if (r.take('@@')) return '@';
      return parseInsert(r, {
        ...FORMS.bare,
        quote: kind,
        fragment: (inner) => readFragment(inner, quote),
      });
    case '<':
      return parseFilePart(r, kind) ?? refuseOperator(r, quote);
    case '#':
      if (quote !== '' || !/\s/.test(r.text[r.pos - 1] ?? ' ')) return undefined;
      return r.match(/#[^\n]*/y);
    default:
      return refuseOperator(r, quote);
  }
}

function takeEscape(r: Reader, quote: '' | '"', next: string): string {
  const isBreak = quote === '' && next === '\n';
  r.pos += next === '' ? 1 : 2;
  if (isBreak) return ' ';
  if (next === '@') return '@';
  return quote === '"' && next === 'n' ? '\n' : `\\${next}`;
}

const OPERATORS = ['||', '&&', '&', ';', '<', '>'];

function refuseOperator(r: Reader, quote: '' | '"'): undefined {
  const operator = quote === '' ? OPERATORS.find((one) => r.starts(one)) : undefined;
  if (operator === undefined) return undefined;
  const isRedirect = operator === '<' || operator === '>';
  return r.fail(`\`${operator}\` is not allowed in a command`, {
    end: r.pos + operator.length,
    hint: isRedirect
      ? 'use `sh { … }`, or `output … to` for files'
      : 'use `sh { … }` for more than one command',
    code: 'shell_operator',
  });
}

/** True if a pipe at the end of this line or at the start of the next one joins them. */
function joinsLines(r: Reader): boolean {
  let before = r.pos - 1;
  while (/[ \t\r]/.test(r.text[before] ?? '')) before -= 1;
  return r.text[before] === '|' || r.sees(/\s*\|/y);
}

function trimmed(parts: readonly TemplatePart[]): TemplatePart[] {
  const line = [...parts];
  const [first] = line;
  if (typeof first === 'string') line[0] = first.trimStart();
  const last = line.at(-1);
  if (typeof last === 'string') line[line.length - 1] = last.trimEnd();
  return line.filter((part) => part !== '');
}

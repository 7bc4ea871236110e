// Parses all text forms with one loop. The table `FORMS` defines which references each form replaces, what it
// escapes and what it trims. `:::…:::` and `.mtt` files replace only `{{name.field}}`; `'…'` replaces nothing.
import type { Expression, NodeOf, PipelineStage, Quote, TemplatePart, TextStyle } from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseBinding, parseTextSteps } from './reference.ts';

/** Characters that a backslash and a letter mean. */
const CONTROL: Readonly<Record<string, string>> = { n: '\n', t: '\t' };

function unclosedText(r: Reader, at: number, length: number): never {
  const quote = r.slice(at, at + length);
  const opener = quote === '`' ? 'a backtick' : `\`${quote}\``;
  return r.failUnclosed(at, `the text that begins with ${opener} is not closed`, length);
}

/** Drops the line break before the closing mark. Repeated lines lose their last line break too. */
function withoutLastBreak(parts: readonly TemplatePart[]): TemplatePart[] {
  const last = parts.at(-1);
  if (typeof last === 'string') {
    const text = last.replace(/\r?\n$/, '');
    return text === '' ? parts.slice(0, -1) : [...parts.slice(0, -1), text];
  }
  if (typeof last === 'object' && last.kind === 'repeat') {
    return [...parts.slice(0, -1), { ...last, trimsEnd: true }];
  }
  return [...parts];
}

/** Collects parts. Adjacent texts are joined. */
export function createParts() {
  const parts: TemplatePart[] = [];
  return {
    add(part: TemplatePart): void {
      const last = parts.at(-1);
      if (typeof part !== 'string' || typeof last !== 'string') {
        if (part !== '') parts.push(part);
      } else parts[parts.length - 1] = last + part;
    },
    done: (): TemplatePart[] => parts.splice(0),
  };
}

function parseSlot(r: Reader): NodeOf<'insert'> | undefined {
  const at = r.pos;
  r.match(/\{\{[ \t]*@?/y);
  const name = r.takeName();
  const steps = name === undefined ? [] : parseTextSteps(r, false);
  const end = r.pos;
  if (name === undefined || r.match(/[ \t]*\}\}/y) === undefined) {
    r.pos = at;
    return undefined;
  }
  const value = { kind: 'reference', name, steps, isOptional: false, at, end } as const;
  const raw = r.slice(at);
  return { kind: 'insert', value, stages: [], raw, mode: { kind: 'plain' }, at, end: r.pos };
}

interface TextForm {
  readonly style: TextStyle;
  /** Text that closes the form; empty if the form ends with the reader's range. */
  readonly stop: string;
  /** Characters that a backslash makes literal. */
  readonly escapes: string;
  readonly takesFiles: boolean;
  readonly takesRepeats: boolean;
  /** Quotes around a value that is inserted into a command. */
  readonly quote?: Quote;
  /** Parses a fragment up to its closing backtick by other rules. Commands need it, because quotes matter there. */
  fragment?(reader: Reader): TemplatePart[];
}

const ESCAPES = 'nt"\'\\@${.';
const ALL = { takesFiles: true, takesRepeats: true };
const NONE = { takesFiles: false, takesRepeats: false };
export const FORMS = {
  double: { style: 'double', stop: '"', escapes: ESCAPES, ...NONE },
  wholeFile: { style: 'double', stop: '"', escapes: ESCAPES, ...NONE, takesFiles: true },
  backtick: { style: 'backtick', stop: '`', escapes: `${ESCAPES}\``, ...ALL },
  colon: { style: 'colon', stop: '::', escapes: '@', ...ALL },
  file: { style: 'file', stop: '', escapes: '@', ...ALL },
  bare: { style: 'bare', stop: '', escapes: '@', ...NONE },
  mustache: { style: 'mustache', stop: ':::', escapes: 'nt\\', ...NONE },
  mtt: { style: 'mustache', stop: '', escapes: '', ...NONE },
} as const satisfies Record<string, TextForm>;

const REPEAT = /[ \t]*\/for[ \t]+@/y;
const REPEAT_END = /[ \t]*\/end[ \t]*\r?(?:\n|$)/y;
const WHOLE_FILE = /"<[^\s/<>"'=][^<>"'=\n]*>(?:\.[\w.[\]]+)?(?:\|@[^"\n]*)?"/y;
const FILE_IN_TEXT = /<(?![\s/])(?=[^<>"'=\n]*[.*@])[^<>"'=\n]+>/y;
const NOT_A_FRAGMENT = /^\s*(?:$|[,)\]};:|?]|=>|==|!=|!?~=|&&|>>|<<|(?:with|to|as|in)\b)/;

/** Parses a text that begins with `"`, `'`, `` ` ``, `::` or `:::`. */
export function parseText(r: Reader): NodeOf<'template' | 'literal'> {
  switch (r.peek()) {
    case "'":
      return parseSingle(r);
    case '"':
      return parseEnclosed(r, r.sees(WHOLE_FILE) ? FORMS.wholeFile : FORMS.double);
    case '`':
      return parseEnclosed(r, FORMS.backtick);
    default:
      return parseEnclosed(r, r.starts(':::') ? FORMS.mustache : FORMS.colon);
  }
}

export const isTextStart = (r: Reader): boolean => /["'`]/.test(r.peek()) || r.starts('::');

/** Parses the text up to `to`, such as a path. Only `@…` is replaced. */
export function parseBare(
  r: Reader,
  to: number,
  name: 'bare' | 'file' | 'mtt' = 'bare',
): NodeOf<'template'> {
  const at = r.pos;
  const form = FORMS[name];
  const parts = r.within({ end: to }, () => parseParts(r, form));
  return { kind: 'template', style: form.style, parts, at, end: r.pos };
}

/** Parses the text between two offsets without the blanks around it. The reader does not move. */
export function parseTrimmed(
  r: Reader,
  from: number,
  to: number,
  name?: 'file',
): NodeOf<'template'> {
  const behind = r.pos;
  const text = r.slice(from, to);
  r.pos = from + (text.length - text.trimStart().length);
  const template = parseBare(r, Math.max(r.pos, from + text.trimEnd().length), name);
  r.pos = behind;
  return template;
}

/** Parses the text that a pattern matches; `undefined` if it does not match. */
export function parseBareMatch(r: Reader, pattern: RegExp): NodeOf<'template'> | undefined {
  const from = r.pos;
  return r.take(pattern) ? parseTrimmed(r, from, r.pos) : undefined;
}

function parseSingle(r: Reader): NodeOf<'literal'> {
  const at = r.pos;
  const found = r.match(/'(?:[^'\\\n]|\\[^\n])*'/y);
  if (found === undefined) return unclosedText(r, at, 1);
  const value = found.slice(1, -1).replace(/\\(['\\])/g, '$1');
  return { kind: 'literal', value, at, end: r.pos };
}

/** Parses a text. The reader is at the mark that opens and closes it. */
function parseEnclosed(r: Reader, form: TextForm): NodeOf<'template'> {
  const at = r.pos;
  const { stop, style } = form;
  r.pos += stop.length;
  const isTrimmed = stop.startsWith(':');
  if (isTrimmed) r.match(/\r?\n/y);
  const end = stop === '"' ? r.lineEnd() : r.end;
  const parts = r.within({ end }, () => parseParts(r, form));
  if (!r.take(stop)) unclosedText(r, at, stop.length);
  return {
    kind: 'template',
    style,
    parts: isTrimmed ? withoutLastBreak(parts) : parts,
    at,
    end: r.pos,
  };
}

/** Characters without a meaning in any form. The loop skips them at once. */
const PLAIN = /[\p{L}\p{N} ,.;!?_=+-]+/uy;

/** Parses parts up to the closing mark, which is not taken, or up to the end. */
function parseParts(r: Reader, form: TextForm, isRepeat = false): TemplatePart[] {
  const parts = createParts();
  const opened = r.pos;
  let from = r.pos;
  while (!r.isAtEnd && !(form.stop !== '' && r.starts(form.stop))) {
    const at = r.pos;
    const mayRepeat = form.takesRepeats && (at === opened || r.text[at - 1] === '\n');
    if (mayRepeat && isRepeat && r.sees(REPEAT_END)) break;
    const special = (mayRepeat ? parseRepeat(r, form) : undefined) ?? parseSpecial(r, form);
    if (special === undefined) {
      r.pos = at + 1;
      if (r.text[at] !== '\n') r.skip(PLAIN);
      continue;
    }
    parts.add(r.slice(from, at));
    parts.add(special);
    const isEnded = typeof special === 'object' && special.kind !== 'repeat';
    if (isEnded && form.style !== 'mustache' && r.peek() === '\\' && /[.-]/.test(r.peek(1))) {
      parts.add(r.peek(1));
      r.pos += 2;
    }
    from = r.pos;
  }
  parts.add(r.slice(from));
  return parts.done();
}

function parseSpecial(r: Reader, form: TextForm): TemplatePart | undefined {
  switch (r.peek()) {
    case '\\': {
      const next = r.peek(1);
      if (next === '' || !form.escapes.includes(next)) return undefined;
      r.pos += 2;
      return CONTROL[next] ?? next;
    }
    case '{':
      return form.style === 'mustache' && r.peek(1) === '{' ? parseSlot(r) : undefined;
    case '@':
      if (form.style === 'mustache') return undefined;
      return r.take('@@') ? '@' : parseInsert(r, form);
    case '<':
      return form.takesFiles ? parseFilePart(r, form.quote) : undefined;
    case '`':
      return form.style === 'file' ? literalFence(r) : undefined;
    default:
      return undefined;
  }
}

/** Takes a fence of kind `mlld` in a template file, which is printed unchanged. */
function literalFence(r: Reader): string | undefined {
  const before = r.text[r.pos - 1];
  if (before !== undefined && before !== '\n') return undefined;
  const at = r.pos;
  if (r.match(/```+mlld[ \t]*\r?\n/y) === undefined) return undefined;
  const close = r.find('\n```', at);
  r.pos = close < 0 ? r.end : close + 4;
  return r.slice(at);
}

/** Parses a reference in a text. The reader is at `@`. Returns `undefined` if no name follows. */
export function parseInsert(r: Reader, form: TextForm): NodeOf<'insert'> | undefined {
  const value = parseTextReference(r);
  if (value === undefined) return undefined;
  const mode = parseInsertMode(r, form);
  const stages = parseTextStages(r);
  return { kind: 'insert', value, mode, stages, ...writtenFrom(r, value.at, form.quote) };
}

function parseTextReference(r: Reader): NodeOf<'reference'> | undefined {
  const at = r.pos;
  r.pos += 1;
  const name = r.takeName();
  if (name === undefined) {
    r.pos = at;
    return undefined;
  }
  const steps = parseTextSteps(r, true);
  return { kind: 'reference', name, steps, isOptional: false, at, end: r.pos };
}

function parseInsertMode(r: Reader, form: TextForm): NodeOf<'insert'>['mode'] {
  if (r.peek() !== '?') return { kind: 'plain' };
  if (r.sees(/\?\?["'`]/y)) {
    const value = r.attempt((): Expression => {
      r.pos += 2;
      return r.deeper(() => parseText(r));
    });
    if (value !== undefined) return { kind: 'default', value };
  }
  if (r.peek(1) === '?') return { kind: 'plain' };
  r.pos += 1;
  const quote = r.peek();
  if (quote !== '`' && !(quote === '"' && form.style === 'double')) return { kind: 'optional' };
  if (quote === form.stop && !isFragment(r, quote)) return { kind: 'optional' };
  const read = (): TemplatePart[] => {
    r.pos += 1;
    const fragment = { ...form, stop: quote, takesRepeats: false };
    const inner = r.deeper(() => form.fragment?.(r) ?? parseParts(r, fragment));
    r.expect(quote, 'after a fragment');
    return inner;
  };
  const parts = form.fragment ? read() : r.attempt(read);
  return parts === undefined ? { kind: 'optional' } : { kind: 'fragment', parts };
}

// `"a @x?"` can close the text or open a fragment. It opens a fragment if two more quotes follow on the
// line and the text between them cannot follow a closed text.
function isFragment(r: Reader, quote: string): boolean {
  return r.within({ end: r.lineEnd() }, () => {
    const second = r.find(quote, r.pos + 1);
    if (second < 0 || r.find(quote, second + 1) < 0) return false;
    return !NOT_A_FRAGMENT.test(r.slice(r.pos + 1, second));
  });
}

function parseTextStages(r: Reader): PipelineStage[] {
  const stages: PipelineStage[] = [];
  while (r.sees(/\|@[A-Za-z_\u0080-\uffff]/y)) {
    r.pos += 1;
    const target = parseTextReference(r) ?? r.fail('expected a name of a stage');
    stages.push({ kind: 'call-stage', target, at: target.at, end: r.pos });
  }
  return stages;
}

/** Parses a file in a text. The reader is at `<`. Returns `undefined` if that is an ordinary character. */
export function parseFilePart(r: Reader, quote?: Quote): NodeOf<'file-part'> | undefined {
  const at = r.pos;
  if (!r.sees(FILE_IN_TEXT)) return undefined;
  const file = r.attempt(() => r.rules.file(r));
  if (file === undefined) return undefined;
  const stages = parseTextStages(r);
  return { kind: 'file-part', file, stages, ...writtenFrom(r, at, quote) };
}

const writtenFrom = (r: Reader, at: number, quote: Quote | undefined) => ({
  raw: r.slice(at),
  ...(quote === undefined ? {} : { quote }),
  at,
  end: r.pos,
});

/** Parses `/for @x in @xs` … `/end`. The reader is at the start of a line. */
function parseRepeat(r: Reader, form: TextForm): NodeOf<'repeat'> | undefined {
  if (!r.sees(REPEAT)) return undefined;
  const at = r.pos;
  return r.attempt(() =>
    r.deeper(() => {
      r.match(/[ \t]*\/for[ \t]+/y);
      const bind = parseBinding(r);
      const collection = r.within({ end: r.lineEnd() }, () => r.rules.value(r));
      r.blanks();
      if (!r.take('\n')) r.fail('expected the end of the line');
      const parts = parseParts(r, form, true);
      if (r.match(REPEAT_END) === undefined) r.fail('`/for` in a template needs `/end`');
      return { kind: 'repeat', bind, collection, parts, at, end: r.pos };
    }),
  );
}

// Reads one opening tag with its attributes. Mistakes are listed and skipped. The returned end is always
// after the start, so that a file is read once from front to back.
import type { Attribute } from './element.ts';
import { decodeEntities } from './entities.ts';
import { quoted } from './findings.ts';

const NAME = /[A-Za-z_][\w.:-]*/y;
const MAX_ATTRIBUTES = 64;
const MAX_PROBLEMS = 10;

interface TagProblem {
  readonly code: string;
  readonly at: number;
  readonly message: string;
  readonly hint?: string;
}

export interface Tag {
  readonly name: string;
  readonly attributes: Attribute[];
  /** Problems that are not reported yet, because an invalid tag may be prose. */
  readonly problems: readonly TagProblem[];
  readonly selfClosing: boolean;
  /** False: another `<` or the end of the file came before `>`. */
  readonly finished: boolean;
  readonly end: number;
}

export function nameAt(text: string, at: number): string | undefined {
  NAME.lastIndex = at;
  return NAME.exec(text)?.[0];
}

const BLANKS = /\s*/y;
function skipBlanks(text: string, at: number): number {
  BLANKS.lastIndex = at;
  BLANKS.test(text);
  return BLANKS.lastIndex;
}

/** Reads the value after `=`. A value whose quote is never closed ends with its line. */
function valueAt(text: string, at: number): { value: string; end: number; problem?: string } {
  const quote = text[at];
  if (quote !== '"' && quote !== "'") {
    const bare = /[^\s<>"']*/y;
    bare.lastIndex = at;
    const value = bare.exec(text)?.[0] ?? '';
    // In `<read path=src/**/>` the slash belongs to the tag.
    const clean =
      value.endsWith('/') && text[at + value.length] === '>' ? value.slice(0, -1) : value;
    return { value: clean, end: at + clean.length, problem: 'needs quotes around its value' };
  }
  const close = text.indexOf(quote, at + 1);
  const inside = text.slice(at + 1, close === -1 ? text.length : close);
  const firstLine = /^[^\r\n]*/.exec(inside)?.[0] ?? '';
  const isOpen = close === -1 || (firstLine.length < inside.length && inside.includes('<'));
  if (!isOpen) return { value: inside, end: close + 1 };
  const bracket = firstLine.search(/\/?>/);
  const value = bracket === -1 ? firstLine : firstLine.slice(0, bracket);
  return { value, end: at + 1 + value.length, problem: `has no closing ${quote}` };
}

/** Reads the tag whose `<` is at `at`. A name must follow the `<`. */
export function readTag(text: string, at: number): Tag {
  const name = nameAt(text, at + 1) as string;
  const attributes: Attribute[] = [];
  const problems: TagProblem[] = [];
  const names = new Set<string>();
  const tag = (end: number, selfClosing = false, finished = true): Tag => ({
    name,
    attributes,
    problems,
    selfClosing,
    finished,
    end,
  });
  const garbage = (place: number): void => {
    const [tagText, character] = [quoted(name).slice(1, -1), quoted(text[place] ?? '')];
    const message = `expected \`name="value"\` or \`>\` in tag \`<${tagText}>\`, found ${character}`;
    // Only the first problem counts, because one mistake makes several invalid parts.
    if (problems.length === 0) problems.push({ code: 'attribute_syntax', at: place, message });
  };

  let i = at + 1 + name.length;
  for (;;) {
    i = skipBlanks(text, i);
    if (i >= text.length || text[i] === '<') return tag(i, false, false);
    if (text[i] === '>') return tag(i + 1);
    if (text[i] === '/' && text[i + 1] === '>') return tag(i + 2, true);
    const key = nameAt(text, i);
    if (key === undefined) {
      garbage(i++);
      continue;
    }
    const { value, end, problem } = attributeAt(text, i, key);
    if (problems.length >= MAX_PROBLEMS) {
      // This tag has a reported problem already.
    } else if (problem) problems.push(problem);
    else if (names.has(key)) {
      const message = `attribute ${quoted(key)} occurs twice`;
      problems.push({ code: 'attribute_duplicate', at: i, message });
    } else if (attributes.length >= MAX_ATTRIBUTES) garbage(i);
    if (value !== undefined && !names.has(key) && attributes.length < MAX_ATTRIBUTES) {
      attributes.push({ name: key, value: decodeEntities(value, end).text, at: i });
    }
    names.add(key);
    i = end;
  }
}

/** Returns the value and the end of the attribute `key` at `at`. An attribute without a value is a problem. */
function attributeAt(
  text: string,
  at: number,
  key: string,
): { value?: string; end: number; problem?: TagProblem } {
  const problem = (message: string, hint: string): TagProblem => ({
    code: 'attribute_syntax',
    at,
    message: `attribute ${quoted(key)} ${message}`,
    hint,
  });
  const equals = skipBlanks(text, at + key.length);
  if (text[equals] !== '=') {
    const hint = `write ${quoted(`${key}="…"`)}, e.g. ${quoted(`${key}="true"`)}`;
    return { end: at + key.length, problem: problem('has no value', hint) };
  }
  const { value, end, problem: wrong } = valueAt(text, skipBlanks(text, equals + 1));
  if (!wrong) return { value, end };
  return { value, end, problem: problem(wrong, `write ${quoted(`${key}="${value.trim()}"`)}`) };
}

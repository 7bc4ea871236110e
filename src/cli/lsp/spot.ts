// What stands at a place of a script, as written: a name with its fields, or a word of the language.
// Read from the line, not from the tree, because a statement that is being typed is in no tree.

const WORD = '[A-Za-z_\\u0080-\\uffff](?:[\\w\\u0080-\\uffff-]*[\\w\\u0080-\\uffff])?';
const STEP = `\\.(?:${WORD}|\\d+)|\\[\\d+\\]|\\["[^"\\n]*"\\]|\\([^()\\n]*\\)`;
const REFERENCE = new RegExp(`(?:(?<!@)@|\\{\\{\\s*)(${WORD})((?:${STEP})*)`, 'g');
const STEPS = new RegExp(STEP, 'g');

export interface NameSpot {
  readonly kind: 'name';
  readonly name: string;
  /** Fields up to the one that was asked about; none: the name itself. */
  readonly fields: readonly string[];
  readonly at: number;
  readonly end: number;
}

export interface WordSpot {
  readonly kind: 'word';
  readonly word: string;
  readonly at: number;
  readonly end: number;
}

const lineAround = (text: string, offset: number): { start: number; line: string } => {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const end = text.indexOf('\n', offset);
  return { start, line: text.slice(start, end === -1 ? text.length : end) };
};

/** A step as a field: `.a`, `[0]`, `["k"]`; calls are none. */
export const fieldOf = (step: string): string | undefined =>
  step.startsWith('(') ? undefined : step.replace(/^\.|^\["?|"?\]$/g, '');

function nameIn(match: RegExpExecArray, start: number, offset: number): NameSpot | undefined {
  const [whole, name = '', steps = ''] = match;
  const first = start + match.index + whole.length - steps.length;
  const at = first - name.length;
  if (offset <= first) return { kind: 'name', name, fields: [], at, end: first };
  const fields: string[] = [];
  for (const step of steps.matchAll(STEPS)) {
    const from = first + step.index;
    const end = from + step[0].length;
    const field = fieldOf(step[0]);
    // Between the parentheses of a call stand other names.
    if (offset < from || (field === undefined && offset < end)) return undefined;
    if (field === undefined) continue;
    fields.push(field);
    if (offset <= end) return { kind: 'name', name, fields, at: from + 1, end };
  }
  return undefined;
}

export function spotAt(text: string, offset: number): NameSpot | WordSpot | undefined {
  const { start, line } = lineAround(text, offset);
  const names = new RegExp(REFERENCE);
  for (let match = names.exec(line); match !== null; match = names.exec(line)) {
    const from = start + match.index;
    if (from > offset) break;
    const found = offset <= from + match[0].length ? nameIn(match, start, offset) : undefined;
    if (found) return found;
    // Arguments of a call are looked at on their own.
    names.lastIndex = match.index + match[0].length - (match[2] ?? '').length;
  }
  for (const match of line.matchAll(/(^[ \t]*\/?|=>?[ \t]*)([a-z]+)(?![\w-])/g)) {
    const [, lead = '', word = ''] = match;
    const at = start + match.index + lead.length;
    if (at <= offset && offset <= at + word.length) {
      return { kind: 'word', word, at, end: at + word.length };
    }
  }
  return undefined;
}

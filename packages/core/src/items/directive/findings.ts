// Collects the problems of one file up to a maximum number, because a hostile file can contain a mistake per
// byte, and people read the first few.
import {
  compact,
  createLines,
  type Diagnostic,
  type Position,
  type Severity,
} from '../../base/index.ts';

const MAX_FINDINGS = 100;
/** Maximum length of a source line in a diagnostic. A longer line is left out. */
const MAX_LINE = 2000;

/** An offset into the file, or a function that computes it. A location in YAML is computed only if needed. */
export type LazyOffset = number | (() => number);

export const offsetOf = (place: LazyOffset): number =>
  typeof place === 'number' ? place : place();

/** Adds a finding and returns undefined, so that a reader can return it as its missing value. */
type Add = (
  code: string,
  place: LazyOffset | Position,
  message: string,
  hint?: string,
) => undefined;

export type Findings = ReturnType<typeof createFindings>;

/** Quotes text of the file for a message: one line, bounded, no control characters. */
export function quoted(text: string): string {
  return `\`${clip(text).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')}\``;
}

export function createFindings(
  text: string,
  file: string,
  form: Form = 'xml',
  most = MAX_FINDINGS,
) {
  const lines = createLines(text);
  const collected: Diagnostic[] = [];
  let more = 0;
  const position = (place: LazyOffset): Position => lines.at(offsetOf(place));
  const add =
    (severity: Severity): Add =>
    (code, place, message, hint) => {
      if (collected.length >= most) {
        more++;
        return;
      }
      const { line, column } = typeof place === 'object' ? place : position(place);
      const source = lines.line(line);
      const sourceLine = source.length > MAX_LINE ? undefined : source;
      collected.push(
        compact<Diagnostic>({
          file,
          line,
          column,
          code,
          severity,
          message,
          hint,
          text: sourceLine,
        }),
      );
    };
  return {
    file,
    text,
    words: WORDS[form],
    error: add('error'),
    warning: add('warning'),
    note: add('note'),
    position,
    /** Returns the findings in file order. */
    list(): Diagnostic[] {
      const sorted = collected.toSorted((a, b) => a.line - b.line || a.column - b.column);
      const last = sorted.at(-1);
      if (more === 0 || !last) return sorted;
      const { line, column } = last;
      const message = `${more} more problems are not listed`;
      // The finding is an error, because an unlisted problem may be one.
      return [...sorted, { file, line, column, code: 'too_many', severity: 'error', message }];
    },
  };
}

/** Form of a directive, which its messages use: `<limits>` is a tag in XML, `limits:` is a key in YAML. */
export type Form = 'xml' | 'yaml';

interface DirectiveWords {
  readonly form: Form;
  readonly tagKind: string;
  /** Returns the quoted tag or key of this name. */
  tag(name: string): string;
  /** Returns the quoted source text of an attribute with this value. */
  attribute(name: string, value: string): string;
}

const clip = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

const WORDS: Readonly<Record<Form, DirectiveWords>> = {
  xml: {
    form: 'xml',
    tagKind: 'tag',
    tag: (name) => `\`<${clip(name)}>\``,
    attribute: (name, value) => `\`${name}="${clip(value)}"\``,
  },
  yaml: {
    form: 'yaml',
    tagKind: 'key',
    tag: (name) => `\`${clip(name)}\``,
    attribute: (name, value) => `\`${name}: ${clip(value)}\``,
  },
};

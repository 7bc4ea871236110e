// Collects what is wrong with one file. Everything is reported, in file order, up to a bound: a
// hostile file can hold a mistake per byte, and people read the first few.
import { createLines, type Diagnostic, type Position, type Severity } from '../../base/index.ts';

export const MAX_FINDINGS = 100;
/** Lines longer than this are not repeated in a diagnostic. */
const MAX_LINE = 2000;

/** An offset into the file, or a way to find it: places in YAML are looked up only when needed. */
export type Place = number | (() => number);

export const offsetOf = (place: Place): number => (typeof place === 'number' ? place : place());

export interface Findings {
  readonly file: string;
  readonly text: string;
  error(code: string, place: Place, message: string, hint?: string): void;
  warning(code: string, place: Place, message: string, hint?: string): void;
  note(code: string, place: Place, message: string, hint?: string): void;
  position(place: Place): Position;
  line(number: number): string;
  list(): Diagnostic[];
}

/** What a message repeats from the file: one line, not too long, no control characters. */
export function quoted(text: string): string {
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return `\`${shown.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')}\``;
}

export function createFindings(text: string, file: string): Findings {
  const lines = createLines(text);
  const found: Diagnostic[] = [];
  let more = 0;
  const add =
    (severity: Severity) => (code: string, place: Place, message: string, hint?: string) => {
      if (found.length >= MAX_FINDINGS) {
        more++;
        return;
      }
      const { line, column } = lines.at(offsetOf(place));
      const source = lines.line(line);
      found.push({
        file,
        line,
        column,
        code,
        severity,
        message,
        ...(hint === undefined ? {} : { hint }),
        ...(source.length > MAX_LINE ? {} : { text: source }),
      });
    };
  return {
    file,
    text,
    error: add('error'),
    warning: add('warning'),
    note: add('note'),
    position: (place) => lines.at(offsetOf(place)),
    line: (number) => lines.line(number),
    list() {
      const sorted = found.toSorted((a, b) => a.line - b.line || a.column - b.column);
      const last = sorted.at(-1);
      // An error, because one of those left out may be one.
      if (more > 0 && last) {
        sorted.push({
          file,
          line: last.line,
          column: last.column,
          code: 'too_many',
          severity: 'error',
          message: `${more} more problems are not listed`,
        });
      }
      return sorted;
    },
  };
}

// How messages name things in the two forms: `<limits>` is a tag, `limits:` a key.

export type Form = 'xml' | 'yaml';

export interface DirectiveWords {
  readonly form: Form;
  /** "tag" or "key". */
  readonly tagKind: string;
  readonly attributeKind: string;
  /** A tag by its name, quoted. */
  tag(name: string): string;
  /** An attribute with a value, as it is written. */
  attribute(name: string, value: string): string;
}

const clip = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

export const WORDS: Readonly<Record<Form, DirectiveWords>> = {
  xml: {
    form: 'xml',
    tagKind: 'tag',
    attributeKind: 'attribute',
    tag: (name) => `\`<${clip(name)}>\``,
    attribute: (name, value) => `\`${name}="${clip(value)}"\``,
  },
  yaml: {
    form: 'yaml',
    tagKind: 'key',
    attributeKind: 'key',
    tag: (name) => `\`${clip(name)}\``,
    attribute: (name, value) => `\`${name}: ${clip(value)}\``,
  },
};

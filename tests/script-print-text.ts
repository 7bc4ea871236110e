// Text forms as they are written: the way back from parts to quotes and escapes.
import type { RepeatPart, TemplateExpression, TemplatePart } from '../src/script/ast.ts';

type Show = (part: RepeatPart) => string;

const escaped = (text: string, pattern: RegExp): string =>
  text.replace(pattern, (char) => ({ '\n': '\\n', '\t': '\\t' })[char] ?? `\\${char}`);

/** `'…'` */
export const printSingle = (text: string): string => `'${escaped(text, /['\\]/g)}'`;

/** A `"key"` of an object. */
export const printKey = (key: string): string =>
  /^[\w$\u0080-\uffff-]+$/.test(key) ? key : `"${escaped(key, /["\\\n\t]/g)}"`;

/** `repeat` prints the head of a `/for` in text. */
export function printTemplate({ style, parts }: TemplateExpression, repeat: Show): string {
  const inner = parts
    .map((part, index) => printPart(part, parts[index - 1], style, repeat))
    .join('');
  switch (style) {
    case 'double':
      return `"${inner}"`;
    case 'backtick':
      return `\`${inner}\``;
    case 'colon':
      return enclosed('::', inner, parts);
    case 'mustache':
      return enclosed(':::', inner, parts);
    case 'single':
      return printSingle(parts.filter((part) => typeof part === 'string').join(''));
    case 'bracket':
      return `[[${inner}]]`;
    default:
      return inner;
  }
}

/** A line break next to the marks is dropped by the parser, so one is added where it would be missed. */
function enclosed(mark: string, inner: string, parts: readonly TemplatePart[]): string {
  const last = parts.at(-1);
  const opening = /^(?::|\r?\n)/.test(inner) || inner === '' ? '\n' : '';
  const closing = typeof last === 'string' && /[:\n]$/.test(last) ? '\n' : '';
  return `${mark}${opening}${inner}${closing}${mark}`;
}

const ESCAPED = {
  double: /["\\@\n\t]/g,
  backtick: /[`\\@]/g,
  colon: /@/g,
  bare: /@/g,
  file: /@/g,
  mustache: /\\(?=[nt\\])/g,
  bracket: /\\/g,
  single: /(?!)/g,
} as const;

function printPart(
  part: TemplatePart,
  before: TemplatePart | undefined,
  style: TemplateExpression['style'],
  repeat: Show,
): string {
  if (typeof part !== 'string') return part.kind === 'repeat' ? repeat(part) : part.raw;
  const text = escaped(part, ESCAPED[style]);
  // Right behind a reference these two would carry it on.
  const ends = typeof before === 'object' && style !== 'mustache' && /^[.-]/.test(text);
  return ends ? `\\${text}` : text;
}

/** The lines of a repetition, for whoever prints its head. */
export const printLines = (
  part: RepeatPart,
  style: TemplateExpression['style'],
  repeat: Show,
): string =>
  part.parts.map((inner, index) => printPart(inner, part.parts[index - 1], style, repeat)).join('');

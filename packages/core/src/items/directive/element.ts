// The elements of a directive, the same for both forms, and attributes with structured values.
import { didYouMean, isObject, type Json, type JsonObject, setOwn } from '../../base/index.ts';
import { offsetIn, type TextPiece } from './entities.ts';
import { type Findings, type LazyOffset, offsetOf, quoted } from './findings.ts';
import { type Shape, takesAttribute } from './shape.ts';

export interface Attribute {
  readonly name: string;
  readonly value: string;
  readonly at: LazyOffset;
}

export interface Element {
  readonly kind: 'element';
  readonly name: string;
  readonly at: LazyOffset;
  readonly attributes: Attribute[];
  readonly children: (Element | TextPiece)[];
  /** Undefined if the table of shapes does not contain the tag. */
  readonly shape: Shape | undefined;
  /** True for text from YAML: its first line is indented like the others. */
  readonly yaml?: boolean;
  /** The value of free content in YAML, which has its own lists and objects. */
  readonly data?: Json;
  unclosed?: boolean;
  /** True if its tag was reported already. A missing closing tag is then not reported. */
  readonly isReported?: boolean;
}

export const elementsOf = (parent: Element, name?: string): Element[] =>
  parent.children.filter(
    (child): child is Element =>
      child.kind === 'element' && (name === undefined || child.name === name),
  );

export const childOf = (parent: Element | undefined, name: string): Element | undefined =>
  parent && elementsOf(parent, name)[0];

export const attributeOf = (element: Element | undefined, name: string): Attribute | undefined =>
  element?.attributes.find((attribute) => attribute.name === name);

/** True if something in it has an unknown name, which explains why another name is missing. */
export const hasTypo = ({ attributes, children, shape }: Element): boolean =>
  attributes.some(({ name }) => !shape || !takesAttribute(shape, name)) ||
  children.some((child) => child.kind === 'element' && child.shape === undefined);

const piecesOf = (element: Element): TextPiece[] =>
  element.children.filter((child): child is TextPiece => child.kind === 'text');

/** Returns the element's own text as it is written. */
export const textIn = (element: Element): string =>
  piecesOf(element)
    .map((piece) => piece.text)
    .join('');

/** Returns the lines without their common indentation and without blank lines around them. */
export function dedent(text: string, isFirstLineIndented: boolean): string {
  if (!text.includes('\n')) return text.trim();
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const isBlank = (line: string) => /^[ \t]*$/.test(line);
  const measured = lines.slice(isFirstLineIndented ? 0 : 1).filter((line) => !isBlank(line));
  const indent = measured.reduce(
    (least, line) => Math.min(least, (/^[ \t]*/.exec(line)?.[0] ?? '').length),
    Number.POSITIVE_INFINITY,
  );
  const shifted = lines.map((line, index) => {
    if (isBlank(line)) return '';
    return index === 0 && !isFirstLineIndented ? line : line.slice(indent);
  });
  return shifted.join('\n').trim();
}

/** Returns the element's own text without the indentation of the file. */
export function proseOf(element: Element | undefined): string {
  if (!element) return '';
  return dedent(textIn(element), element.yaml === true);
}

/** Returns the same text with the file offset of every character. Only the ends are trimmed. */
export function sourceOf(element: Element) {
  const pieces = piecesOf(element);
  const whole = textIn(element);
  const lead = whole.length - whole.trimStart().length;
  return {
    text: whole.trim(),
    offset(index: number): number {
      let rest = index + lead;
      for (const piece of pieces) {
        if (rest < piece.text.length) return offsetIn(piece, rest);
        rest -= piece.text.length;
      }
      const last = pieces.at(-1);
      return last ? offsetIn(last, last.text.length) : offsetOf(element.at);
    },
  };
}

/**
 * Returns free content as data: nested elements become objects, repeated ones lists, attributes fields,
 * and text beside them the field `text`. The reader bounds the nesting.
 */
export function dataOf(element: Element): Json {
  if (element.data !== undefined) return element.data;
  const elements = elementsOf(element);
  const text = proseOf(element);
  if (elements.length === 0 && element.attributes.length === 0) return text;
  const parts = [
    ...element.attributes,
    ...elements.map((child) => ({ name: child.name, value: dataOf(child) })),
  ];
  const result: JsonObject = {};
  if (text !== '') setOwn(result, 'text', text);
  for (const [name, group] of Map.groupBy(parts, (part) => part.name)) {
    const [first = '', ...more] = group.map(({ value }) => value);
    setOwn(result, name, more.length === 0 ? first : [first, ...more]);
  }
  return result;
}

/** Returns free content that must be an object. Plain text becomes its field `text`. */
export function objectOf(element: Element | undefined): JsonObject {
  if (!element) return {};
  const data = dataOf(element);
  if (isObject(data)) return data;
  return data === '' || data === null ? {} : { text: data };
}

export function readFlag(element: Element, name: string, findings: Findings): boolean | undefined {
  const attribute = attributeOf(element, name);
  if (!attribute) return undefined;
  if (attribute.value === 'true' || attribute.value === 'false') return attribute.value === 'true';
  const message = `\`${name}\` is ${quoted(attribute.value)}, but must be \`true\` or \`false\``;
  return findings.error('value_invalid', attribute.at, message);
}

/** Returns one of a closed set. Undefined if it is absent or, after a report, if it is invalid. */
export function readChoice<T extends string>(
  element: Element,
  name: string,
  choices: readonly T[],
  findings: Findings,
  code = 'value_invalid',
): T | undefined {
  const attribute = attributeOf(element, name);
  if (!attribute) return undefined;
  const found = choices.find((choice) => choice === attribute.value);
  if (found !== undefined) return found;
  const wanted = choices.map((choice) => `\`${choice}\``).join(', ');
  const message = `\`${name}\` is ${quoted(attribute.value)}, but must be one of ${wanted}`;
  return findings.error(code, attribute.at, message, didYouMean(attribute.value, choices));
}

// Defines the elements of a directive, which both forms share, and reads their texts, data and attributes.
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
  /** Shape of the element. Undefined if the table of shapes does not contain the tag. */
  readonly shape: Shape | undefined;
  /** True for text from YAML, whose first line has the same indentation as the others. */
  readonly yaml?: boolean;
  /** Value of free content in YAML, which has its own lists and objects. Absent for other elements. */
  readonly data?: Json;
  unclosed?: boolean;
  /** True if the tag has a reported problem, so that a missing closing tag is not reported too. */
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

/** True if an attribute or child has an invalid name, which explains why another name is missing. */
export const hasTypo = ({ attributes, children, shape }: Element): boolean =>
  attributes.some(({ name }) => !shape || !takesAttribute(shape, name)) ||
  children.some((child) => child.kind === 'element' && child.shape === undefined);

const piecesOf = (element: Element): TextPiece[] =>
  element.children.filter((child): child is TextPiece => child.kind === 'text');

/** Returns the element's own text, without the text of nested elements, as it is written. */
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

/** Returns the element's own text, trimmed at its ends, with the file offset of every character. */
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
 * Returns free content as data. Nested elements become objects, repeated elements lists, attributes
 * fields, and text beside them the field `text`. The reader bounds the nesting.
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

/** Returns the value of an attribute with a closed set of values. Undefined if it is absent or invalid. */
export function readChoice<T extends string>(
  element: Element,
  name: string,
  choices: readonly T[],
  findings: Findings,
  code = 'value_invalid',
): T | undefined {
  const attribute = attributeOf(element, name);
  if (!attribute) return undefined;
  const chosen = choices.find((choice) => choice === attribute.value);
  if (chosen !== undefined) return chosen;
  const names = choices.map((choice) => `\`${choice}\``).join(', ');
  const message = `\`${name}\` is ${quoted(attribute.value)}, but must be one of ${names}`;
  return findings.error(code, attribute.at, message, didYouMean(attribute.value, choices));
}

// Values as text: in templates, for processes, as arguments of template stages.
import { type Json, parseJson } from '../base/index.ts';
import { elementOf, type Value } from '../flow/index.ts';
import { isAbsent } from './absent.ts';
import { isExecutable } from './executable.ts';
import { raise } from './fault.ts';
import { isFileList, isStructure } from './value-kinds.ts';

function stringify(data: Json, indent: number): string {
  try {
    return JSON.stringify(data, null, indent);
  } catch (error) {
    // Deeper or longer than the engine can write.
    if (!(error instanceof RangeError)) throw error;
    return raise(
      'invalid_input',
      'the value is nested too deeply or too long to be written as text',
    );
  }
}

/** Functions as `"<function(a, b)>"`; a number or a function alone as it prints alone. */
export function compactJson(data: Json): string {
  if (typeof data === 'number') return String(data);
  return isExecutable(data) ? data.toJSON() : stringify(data, 0);
}

/** Two blanks per level. */
export const prettyJson = (data: Json): string =>
  isStructure(data) ? stringify(data, 2) : compactJson(data);

/** Each file's text, a blank line between. */
function fileListText(value: Value): string {
  const texts = (value.data as readonly Json[]).map((_, index) => textOf(elementOf(value, index)));
  return texts
    .map((text, index) => (index < texts.length - 1 ? text.replace(/[\r\n]+$/, '') : text))
    .join('\n\n');
}

/** A value inside a text; what does not exist is nothing. */
export function textOf(value: Value): string {
  const { data } = value;
  if (value.hasOwnText) return value.text;
  if (typeof data === 'string') return data;
  if (isAbsent(value)) return '';
  return isFileList(value) ? fileListText(value) : compactJson(data);
}

/** As a parameter of a template stage: lists and objects compactly, whatever text they came from. */
export const argumentText = (value: Value): string =>
  isStructure(value.data) && !isFileList(value) ? compactJson(value.data) : textOf(value);

/** For a process (stdin, shell variables): lists of plain values as lines. */
export function stageText(value: Value): string {
  const { data } = value;
  if (value.hasOwnText || isFileList(value)) return textOf(value);
  const isLines = Array.isArray(data) && !data.some((item) => typeof item === 'object' && item);
  return isLines ? data.map((item) => plain(item)).join('\n') : textOf(value);
}

const plain = (data: Json): string => (typeof data === 'string' ? data : compactJson(data));

const OPENERS = /^\s*[[{]/;

/** The list or object that a text is; undefined when it is something else. */
export function structureIn(text: string): Json | undefined {
  if (!OPENERS.test(text)) return undefined;
  const parsed = parseJson(text);
  return parsed.ok ? parsed.output : undefined;
}

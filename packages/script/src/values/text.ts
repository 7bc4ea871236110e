// Converts values to text for templates, processes, `show`, `run` and files. `show` formats data, and text
// that is JSON, over several lines.
import { formatYaml, type Json, parseJson, plainText } from '@kernmantle/core/base';
import type { Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { elementsOf, isAbsent, isFileList, isFunctionData, isStructure } from './kinds.ts';

function stringify(data: Json, indent: number): string {
  try {
    return JSON.stringify(data, null, indent);
  } catch (error) {
    // The engine cannot write data that is nested too deeply or too long.
    if (!(error instanceof RangeError)) throw error;
    return raise(
      'invalid_input',
      'the value is nested too deeply or too long to be written as text',
    );
  }
}

/** Returns compact JSON. A function becomes `"<function(a, b)>"`. */
export function compactJson(data: Json): string {
  if (typeof data === 'number') return String(data);
  return isFunctionData(data) ? plainText(data.toJSON()) : stringify(data, 0);
}

/** Returns JSON with an indentation of two spaces. */
export const prettyJson = (data: Json): string =>
  isStructure(data) ? stringify(data, 2) : compactJson(data);

/** Joins the texts of files with a blank line between them. */
function fileListText(value: Value): string {
  const texts = elementsOf(value).map((element) => textOf(element));
  return texts
    .map((text, index) => (index < texts.length - 1 ? text.replace(/[\r\n]+$/, '') : text))
    .join('\n\n');
}

/** Returns the text of a value inside of a template. An absent value gives an empty text. */
export function textOf(value: Value): string {
  const { data } = value;
  if (value.hasOwnText) return value.text;
  if (typeof data === 'string') return data;
  if (isAbsent(value)) return '';
  return isFileList(value) ? fileListText(value) : compactJson(data);
}

/** Returns the text of a value for stdin and shell variables. A list of plain values has one line for each. */
export function stageText(value: Value): string {
  const { data } = value;
  if (value.hasOwnText || isFileList(value)) return textOf(value);
  const isLines = Array.isArray(data) && !data.some((item) => typeof item === 'object' && item);
  return isLines ? data.map(textOfData).join('\n') : textOf(value);
}

export const textOfData = (data: Json): string =>
  typeof data === 'string' ? data : compactJson(data);

const OPENERS = /^\s*[[{]/;

/** Returns the list or object that a text contains as JSON; `undefined` for other texts. */
export function structureIn(text: string): Json | undefined {
  if (!OPENERS.test(text)) return undefined;
  const parsed = parseJson(text);
  return parsed.ok ? parsed.output : undefined;
}

const ONE_LINE = 60;

const isPlain = (data: Json | undefined): data is Json => data !== undefined && !isStructure(data);

/** Formats data with an indentation of two spaces. One short plain value stays on its line. */
function laidOut(data: Json): string {
  if (!isStructure(data)) return compactJson(data);
  if (Array.isArray(data)) {
    const line = data.length === 1 && isPlain(data[0]) ? compactJson(data) : '';
    return line !== '' && line.length <= ONE_LINE ? line : prettyJson(data);
  }
  const [first, ...others] = Object.entries(data);
  if (!first || others.length > 0 || !isPlain(first[1])) return prettyJson(data);
  return `{${JSON.stringify(first[0])}: ${JSON.stringify(first[1])}}`;
}

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/** True if parsing would change a number. A long number is usually an id, so it is printed unchanged. */
export function losesDigits(text: string): boolean {
  const tokens = /\d{16}/.test(text) ? (text.match(TOKENS) ?? []) : [];
  return tokens.some((token) => /^-?\d*\.?\d{16}/.test(token) && String(Number(token)) !== token);
}

/** Returns the printed form of a module: its front matter and its exports. */
function namespaceIn({ data, meta }: Value): Json | undefined {
  const { namespace, fm = null } = meta.origin;
  if (namespace === undefined) return undefined;
  return fm === null ? { exports: data } : { frontmatter: fm, exports: data };
}

/** Returns what `show` prints; `undefined` if it prints nothing, not even an empty line. */
export function showText(value: Value, origin: 'reference' | 'call' | 'other'): string | undefined {
  if (isAbsent(value)) return origin === 'reference' ? 'undefined' : undefined;
  if (value.data === null && !value.hasOwnText) return origin === 'call' ? 'null' : '';
  const { data } = value;
  if (isStructure(data) && !value.hasOwnText && (!isFileList(value) || data.length === 0))
    return laidOut(namespaceIn(value) ?? data);
  const text = textOf(value);
  const inside = structureIn(text);
  return inside === undefined || losesDigits(text) ? text : laidOut(inside);
}

/** Returns what `run` or a bare call prints; `undefined` if it prints nothing. */
export function runText(value: Value): string | undefined {
  if (value.data === null && !value.hasOwnText) return undefined;
  const text = textOf(value);
  return text === '' ? undefined : text;
}

/** Returns the JSON value of a text if the text is one complete JSON value; otherwise the data. */
function dataIn(value: Value): Json {
  if (typeof value.data !== 'string') return value.data;
  const parsed = parseJson(value.data);
  return parsed.ok ? parsed.output : value.data;
}

function fileJson(value: Value): string {
  const data = dataIn(value);
  if (typeof value.data === 'string' && losesDigits(value.data)) return value.data;
  return isStructure(data) ? prettyJson(data) : JSON.stringify(data);
}

/** Returns what `output` writes. Without a format, the own text of a value is written first. */
export function fileText(value: Value, format: 'json' | 'yaml' | 'text' | undefined): string {
  if (format === 'json') return fileJson(value);
  if (format === 'yaml') return formatYaml(dataIn(value)).replace(/\n$/, '');
  const isLaidOut = format === undefined && !value.hasOwnText && !isFileList(value);
  return isLaidOut && isStructure(value.data) ? prettyJson(value.data) : textOf(value);
}

/** Returns one line of a `.jsonl` file. Fails with `invalid_input` if the value is not JSON. */
export function jsonLine(value: Value): string {
  const { data } = value;
  if (typeof data === 'string') {
    const text = data.trim();
    if (!parseJson(text).ok) return notJson(value);
    if (losesDigits(text) && !text.includes('\n')) return text;
  }
  const isJson = typeof data === 'number' ? Number.isFinite(data) : !isAbsent(value);
  return isJson ? JSON.stringify(dataIn(value)) : notJson(value);
}

const notJson = (value: Value): never =>
  raise(
    'invalid_input',
    `a .jsonl file takes JSON, not \`${textOf(value).slice(0, 60)}\`; append an object or a list`,
  );

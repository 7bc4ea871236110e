// What effects print: `show`, `run`, files. Data is laid out for people at the outermost level only;
// text that happens to be JSON is laid out like data.
import { formatYaml, type Json, parseJson, plainText } from '@kernmantle/core/base';
import type { Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { elementsOf, isAbsent, isFileList, isFunctionData, isStructure } from './kinds.ts';

// Values as text: in templates, for processes, as arguments of template stages.

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
  return isFunctionData(data) ? plainText(data.toJSON()) : stringify(data, 0);
}

/** Two blanks per level. */
export const prettyJson = (data: Json): string =>
  isStructure(data) ? stringify(data, 2) : compactJson(data);

/** Each file's text, a blank line between. */
function fileListText(value: Value): string {
  const texts = elementsOf(value).map((element) => textOf(element));
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

/** For a process (stdin, shell variables): lists of plain values as lines. */
export function stageText(value: Value): string {
  const { data } = value;
  if (value.hasOwnText || isFileList(value)) return textOf(value);
  const isLines = Array.isArray(data) && !data.some((item) => typeof item === 'object' && item);
  return isLines ? data.map(textOfData).join('\n') : textOf(value);
}

/** Text as it is, everything else compactly. */
export const textOfData = (data: Json): string =>
  typeof data === 'string' ? data : compactJson(data);

const OPENERS = /^\s*[[{]/;

/** The list or object that a text is; undefined when it is something else. */
export function structureIn(text: string): Json | undefined {
  if (!OPENERS.test(text)) return undefined;
  const parsed = parseJson(text);
  return parsed.ok ? parsed.output : undefined;
}

const ONE_LINE = 60;

const isPlain = (data: Json | undefined): data is Json => data !== undefined && !isStructure(data);

/** Two blanks per level; one short plain value stays on its line. */
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

/** Long numbers are ids more often than quantities: better as they stand than rounded. */
export function losesDigits(text: string): boolean {
  const tokens = /\d{16}/.test(text) ? (text.match(TOKENS) ?? []) : [];
  return tokens.some((token) => /^-?\d*\.?\d{16}/.test(token) && String(Number(token)) !== token);
}

/** A module shows what stands at its top beside what it exports. */
function namespaceIn({ data, meta }: Value): Json | undefined {
  const { namespace, fm = null } = meta.origin;
  if (namespace === undefined) return undefined;
  return fm === null ? { exports: data } : { frontmatter: fm, exports: data };
}

/** What `show` prints; undefined: nothing, not even a line. */
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

/** What `run` and a bare call print; undefined: nothing. */
export function runText(value: Value): string | undefined {
  if (value.data === null && !value.hasOwnText) return undefined;
  const text = textOf(value);
  return text === '' ? undefined : text;
}

/** Text that is a complete JSON value counts as that value. */
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

/** What `output` writes; a value's own text first when no format is asked for. */
export function fileText(value: Value, format: 'json' | 'yaml' | 'text' | undefined): string {
  if (format === 'json') return fileJson(value);
  if (format === 'yaml') return formatYaml(dataIn(value)).replace(/\n$/, '');
  const isLaidOut = format === undefined && !value.hasOwnText && !isFileList(value);
  return isLaidOut && isStructure(value.data) ? prettyJson(value.data) : textOf(value);
}

/** One line of a `.jsonl` file. */
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

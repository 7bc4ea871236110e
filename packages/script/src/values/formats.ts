// Reads and writes text formats: CSV, relaxed JSON and the XML that prompts use.
import {
  fail,
  isObject,
  type Json,
  MAX_DEPTH,
  type Outcome,
  parseJson,
} from '@kernmantle/core/base';
import { findHeadings, type Heading, linesOf, trimBlankLines } from '../files/sections.ts';
import { isStructure } from './kinds.ts';
import { textOfData } from './text.ts';

function cell(data: Json | undefined): string {
  if (data === undefined || data === null) return '';
  const text = textOfData(data);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const row = (cells: readonly (Json | undefined)[]): string => cells.map(cell).join(',');

/** Returns CSV. The keys of the first object are the columns; an item that is not an object becomes a row. */
export function csvOfData(data: Json[] | { [key: string]: Json }): string {
  const list = Array.isArray(data) ? data : [data];
  const columns = isObject(list[0]) ? Object.keys(list[0]) : undefined;
  const rows = list.map((item) => {
    if (!isObject(item) || !columns) return row(Array.isArray(item) ? item : [item]);
    return row(columns.map((key) => (Object.hasOwn(item, key) ? item[key] : null)));
  });
  return [...(columns ? [row(columns)] : []), ...rows].join('\n');
}

const isRule = (line: string): boolean =>
  line.includes('|') && /^\|?:?-+:?(?:\|:?-+:?)*\|?$/.test(line.replaceAll(/\s/g, ''));

/** Splits a table row into cells. A bar after a backslash is text. */
const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
    .split(/(?<!\\)\|/)
    .map((text) => text.trim().replaceAll('\\|', '|'));

/** Returns the first markdown table of a text as CSV; `undefined` if there is none. */
export function csvOfTable(text: string): string | undefined {
  const lines = linesOf(text);
  const rule = lines.findIndex(
    (line, at) => at > 0 && lines[at - 1]?.includes('|') && isRule(line),
  );
  if (rule < 1) return undefined;
  const after = lines.slice(rule + 1);
  const end = after.findIndex((line) => !line.includes('|'));
  const body = end === -1 ? after : after.slice(0, end);
  return [lines[rule - 1] ?? '', ...body].map((line) => row(cellsOf(line))).join('\n');
}

/** Matches one cell. Text after a closing quote belongs to the cell. */
const CELL = /"([^"]*(?:""[^"]*)*)"([^,\r\n]*)|[^,\r\n]*/y;
const LINE_END = /\r\n|\n|\r/y;

/** Parses CSV and skips empty lines. Returns `undefined` if a quote is not closed. */
export function rowsOfCsv(text: string): string[][] | undefined {
  const rows: string[][] = [];
  let row: string[] = [];
  const end = text.length;
  for (let at = text.startsWith('\ufeff') ? 1 : 0; at < end; ) {
    CELL.lastIndex = at;
    const [written = '', quoted, more = ''] = CELL.exec(text) ?? [];
    if (quoted === undefined && written.startsWith('"')) return undefined;
    row.push(quoted === undefined ? written : quoted.replaceAll('""', '"') + more);
    at += written.length;
    const isComma = text[at] === ',';
    if (isComma) at += 1;
    // A comma at the end of the text is followed by an empty cell.
    if (isComma && at === end) row.push('');
    LINE_END.lastIndex = at;
    const [broken = ''] = isComma ? [] : (LINE_END.exec(text) ?? []);
    at += broken.length;
    if (isComma && at < end) continue;
    if (row.length > 1 || written !== '') rows.push(row);
    row = [];
  }
  return rows;
}

/**
 * Tokens of relaxed JSON: comments, trailing commas, bare keys, single quotes and line breaks in texts.
 * `parseRelaxed` rewrites them as strict JSON, so that `parseJson` applies its limits to them too.
 */
const TOKEN =
  /\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\]*(?:\\[\s\S][^'\\]*)*'|[{}[\],:]|[^\s{}[\],:"'/]+/y;

const CONTROL: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function quoted(token: string): string {
  const inner = token.slice(1, -1).replace(/\\([\s\S])|["\n\r\t]/g, (part, escaped?: string) => {
    if (escaped === undefined) return part === '"' ? '\\"' : (CONTROL[part] ?? part);
    if (escaped === "'") return "'";
    return escaped === '\n' ? '' : part;
  });
  return `"${inner}"`;
}

const isBlank = (token: string): boolean => /^(?:\s|\/[/*])/.test(token);

function tokensOf(text: string): Outcome<string[]> {
  const tokens: string[] = [];
  for (let at = 0; at < text.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined) {
      return fail('invalid_input', `unexpected \`${text.slice(at, at + 10)}\` at ${at}`);
    }
    if (!isBlank(token)) tokens.push(token);
  }
  return { ok: true, output: tokens };
}

/** True if the comma at `at` follows a value and precedes a closing bracket. */
const isTrailing = (tokens: readonly string[], at: number): boolean =>
  /^[\]}]$/.test(tokens[at + 1] ?? '') && !/^[[{,:]?$/.test(tokens[at - 1] ?? '');

function strict(token: string, at: number, tokens: readonly string[]): string {
  const next = tokens[at + 1];
  if (token === ',' && isTrailing(tokens, at)) return '';
  if (/^["']/.test(token)) return quoted(token);
  return next === ':' && !/^[{}[\],:]$/.test(token) ? JSON.stringify(token) : token;
}

/** Parses relaxed JSON. Strict JSON gives the same result as `parseJson`. It never throws. */
export function parseRelaxed(text: string): Outcome<Json> {
  const tokens = tokensOf(text);
  if (!tokens.ok) return tokens;
  return parseJson(tokens.output.map(strict).join(' '));
}

/** Maximum number of brackets that `findJson` examines. */
const BUDGET = 200_000;

/** Returns the end of the bracket at `from`, or -1, and the number of tokens examined. */
function closing(text: string, from: number): { end: number; seen: number } {
  const skipped = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'|[{}[\]]/g;
  skipped.lastIndex = from;
  let [depth, examined] = [0, 0];
  for (let found = skipped.exec(text); found; found = skipped.exec(text)) {
    examined++;
    if (/^["']/.test(found[0])) continue;
    depth += /[{[]/.test(found[0]) ? 1 : -1;
    if (depth === 0) return { end: skipped.lastIndex, seen: examined };
    if (depth > MAX_DEPTH) break;
  }
  return { end: -1, seen: examined };
}

function structure(text: string): Json | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  const parsed = parseJson(text);
  const read = parsed.ok ? parsed : parseRelaxed(text);
  return read.ok && typeof read.output === 'object' ? (read.output ?? undefined) : undefined;
}

const FENCED = /^[^\S\n]*```[^\n]*\n([\s\S]*?)^[^\S\n]*```/gm;

/** Returns the first list or object in a text, from fenced blocks first; `undefined` if there is none. */
export function findJson(text: string): Json | undefined {
  for (const [, block = ''] of text.matchAll(FENCED)) {
    const found = structure(block.trim());
    if (found !== undefined) return found;
  }
  let budget = BUDGET;
  for (const { index } of text.matchAll(/[{[]/g)) {
    if (budget <= 0) return undefined;
    const { end, seen } = closing(text, index);
    budget -= seen;
    const found = end === -1 ? undefined : structure(text.slice(index, end));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the tag of a name: `Getting started!` gives `GETTING_STARTED`. An invalid name gets an underscore. */
function tagOf(name: string): string {
  const tag = name
    .toUpperCase()
    .replace(/[^\p{L}\p{N}\s_.-]/gu, '')
    .trim()
    .replace(/\s+/g, '_');
  return /^[\p{L}_]/u.test(tag) ? tag : `_${tag}`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

const escaped = (text: string): string => text.replace(/[&<>]/g, (char) => ENTITIES[char] ?? char);

function element(tag: string, data: Json, indent: string): string[] {
  if (data === null) return [];
  if (!isStructure(data)) return [`${indent}<${tag}>${escaped(textOfData(data))}</${tag}>`];
  const inside = members(data, `${indent}  `);
  if (inside.length === 0) return [`${indent}<${tag}></${tag}>`];
  return [`${indent}<${tag}>`, ...inside, `${indent}</${tag}>`];
}

const members = (data: Json[] | { [key: string]: Json }, indent: string): string[] =>
  Array.isArray(data)
    ? data.flatMap((item) => element('ITEM', item, indent))
    : Object.entries(data).flatMap(([key, item]) => element(tagOf(key), item, indent));

export function xmlOfData(data: Json[] | { [key: string]: Json }): string {
  return (Array.isArray(data) ? element('ROOT', data, '') : members(data, '')).join('\n');
}

/** Turns headings into elements that are nested by level. Other lines are unchanged. */
export function xmlOfText(text: string): string {
  const lines = linesOf(text);
  const headings = findHeadings(lines);
  if (headings.length === 0) return ['<DOCUMENT>', text.trim(), '</DOCUMENT>'].join('\n');
  const out: string[] = [...trimBlankLines(lines.slice(0, headings[0]?.line))];
  const open: Heading[] = [];
  const closeDownTo = (level: number) => {
    while ((open.at(-1)?.level ?? 0) >= level) out.push(`</${tagOf(open.pop()?.title ?? '')}>`);
  };
  for (const [at, heading] of headings.entries()) {
    closeDownTo(heading.level);
    open.push(heading);
    const body = lines.slice(heading.line + 1, headings[at + 1]?.line ?? lines.length);
    out.push(`<${tagOf(heading.title)}>`, ...trimBlankLines(body));
  }
  closeDownTo(1);
  return out.join('\n');
}

// `@csv`: lists of objects and markdown tables as rows.
import type { Json } from '../base/index.ts';
import { linesOf } from './markdown.ts';
import { compactJson } from './text-of.ts';
import { isStructure } from './value-kinds.ts';

function cell(data: Json | undefined): string {
  if (data === undefined || data === null) return '';
  const text = typeof data === 'string' ? data : compactJson(data);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const row = (cells: readonly (Json | undefined)[]): string => cells.map(cell).join(',');

const isRecord = (data: Json | undefined): data is { [key: string]: Json } =>
  data !== undefined && isStructure(data) && !Array.isArray(data);

/** The columns are the first object's keys; what is no object is a row of its own. */
export function csvOfData(data: Json[] | { [key: string]: Json }): string {
  const list = Array.isArray(data) ? data : [data];
  const columns = isRecord(list[0]) ? Object.keys(list[0]) : undefined;
  const rows = list.map((item) => {
    if (!isRecord(item) || !columns) return row(Array.isArray(item) ? item : [item]);
    return row(columns.map((key) => (Object.hasOwn(item, key) ? item[key] : null)));
  });
  return [...(columns ? [row(columns)] : []), ...rows].join('\n');
}

const isRule = (line: string): boolean =>
  line.includes('|') && /^\|?:?-+:?(?:\|:?-+:?)*\|?$/.test(line.replaceAll(/\s/g, ''));

/** Cells between bars; a bar after a backslash is text. */
const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
    .split(/(?<!\\)\|/)
    .map((text) => text.trim().replaceAll('\\|', '|'));

/** The first markdown table in a text; undefined when there is none. */
export function csvOfTable(text: string): string | undefined {
  const lines = linesOf(text);
  const rule = lines.findIndex(
    (line, at) => at > 0 && lines[at - 1]?.includes('|') && isRule(line),
  );
  if (rule < 1) return undefined;
  const after = lines.slice(rule + 1);
  const end = after.findIndex((line) => !line.includes('|'));
  const body = end === -1 ? after : after.slice(0, end);
  return [lines[rule - 1] as string, ...body].map((line) => row(cellsOf(line))).join('\n');
}

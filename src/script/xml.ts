// `@xml`: data and markdown as elements in capitals, the way prompts like them.
import type { Json } from '../base/index.ts';
import { findHeadings, type Heading, linesOf, trimBlankLines } from './markdown.ts';
import { compactJson } from './text-of.ts';
import { isStructure } from './value-kinds.ts';

/** `Getting started!` is `GETTING_STARTED`; names that would not be names get an underscore. */
function tagOf(name: string): string {
  const tag = name
    .toUpperCase()
    .replace(/[^\p{L}\p{N}\s_.-]/gu, '')
    .trim()
    .replace(/\s+/g, '_');
  return /^[\p{L}_]/u.test(tag) ? tag : `_${tag}`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

const escaped = (text: string): string =>
  text.replace(/[&<>]/g, (char) => ENTITIES[char] as string);

function element(tag: string, data: Json, indent: string): string[] {
  if (data === null) return [];
  if (!isStructure(data)) {
    const text = typeof data === 'string' ? data : compactJson(data);
    return [`${indent}<${tag}>${escaped(text)}</${tag}>`];
  }
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

/** Headings become elements, nested by level; their lines stay as they are. */
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

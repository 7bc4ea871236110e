// Finds the headings and sections of a markdown text. Fenced code and front matter contain no headings.
import { splitFrontMatter } from '@kernmantle/core/base';
import { raise } from '../fault.ts';

export interface Heading {
  readonly level: number;
  readonly title: string;
  readonly line: number;
}

const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

export const linesOf = (text: string): string[] => text.split(/\r?\n/);

export function findHeadings(lines: readonly string[]): Heading[] {
  const headings: Heading[] = [];
  let fence: string | undefined;
  const body = linesOf(splitFrontMatter(lines.join('\n')).rest);
  for (let line = lines.length - body.length; line < lines.length; line++) {
    const text = lines[line] ?? '';
    const mark = FENCE.exec(text)?.[1];
    if (fence !== undefined) {
      if (mark?.startsWith(fence) && text.trim() === mark) fence = undefined;
      continue;
    }
    if (mark !== undefined) fence = mark;
    const [, hashes, title] = HEADING.exec(text) ?? [];
    if (hashes && title) headings.push({ level: hashes.length, title: closed(title), line });
  }
  return headings;
}

/** Drops the `##` that may end a heading. */
const closed = (title: string): string =>
  title
    .trimEnd()
    .replace(/[ \t]#+$/, '')
    .trimEnd();

const sectionEnd = (headings: readonly Heading[], at: number, lines: number): number =>
  headings.slice(at + 1).find(({ level }) => level <= (headings[at]?.level ?? 0))?.line ?? lines;

export function trimBlankLines(lines: readonly string[]): readonly string[] {
  let [from, to] = [0, lines.length];
  while (from < to && lines[from]?.trim() === '') from++;
  while (to > from && lines[to - 1]?.trim() === '') to--;
  return lines.slice(from, to);
}

interface WantedSection {
  readonly name: string;
  readonly isOptional: boolean;
}

interface WantedSections {
  readonly include: readonly WantedSection[];
  readonly exclude: readonly WantedSection[];
  /** Level of the headings to list; 0 lists all levels. Absent: sections are selected. */
  readonly list: number | undefined;
}

/** Returns a title without case and punctuation. */
const folded = (title: string): string =>
  title
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s]/gu, '')
    .replace(/\s+/g, ' ')
    .trim();

/** Returns the index of the heading with this name, or else of the first one that begins with it, or -1. */
function position(headings: readonly Heading[], name: string): number {
  const key = folded(name.replace(/^#+\s+/, ''));
  if (key === '') return headings.findIndex(({ title }) => title === name.trim());
  const titles = headings.map(({ title }) => folded(title));
  const exact = titles.indexOf(key);
  return exact === -1 ? titles.findIndex((title) => title.startsWith(key)) : exact;
}

function rangesOf(
  lines: readonly string[],
  headings: readonly Heading[],
  sections: readonly WantedSection[],
): { from: number; to: number }[] {
  return sections.flatMap(({ name, isOptional }) => {
    const at = position(headings, name);
    const heading = headings[at];
    if (heading) return [{ from: heading.line, to: sectionEnd(headings, at, lines.length) }];
    if (isOptional) return [];
    const titles = headings.map(({ title }) => `\`${title}\``).slice(0, 10);
    const hint =
      titles.length > 0 ? `; the headings are ${titles.join(', ')}` : '; the text has no headings';
    return raise('not_found', `section \`${name}\` not found${hint}`, { section: name });
  });
}

/**
 * Returns the selected sections in document order without the excluded ones, or a list of headings. Without
 * `include` the whole text is selected. Fails with `not_found` if a section does not exist.
 */
export function selectSections(text: string, sections: WantedSections): string | string[] {
  const { list: level } = sections;
  const lines = linesOf(text);
  const headings = findHeadings(lines);
  if (level !== undefined)
    return headings.filter((one) => level === 0 || one.level === level).map(({ title }) => title);
  const included = rangesOf(lines, headings, sections.include);
  const isWhole = sections.include.length === 0;
  const excluded = rangesOf(lines, headings, sections.exclude);
  const within = (at: number) => (range: { from: number; to: number }) =>
    at >= range.from && at < range.to;
  const selection = [...lines.keys()].filter(
    (at) => (isWhole || included.some(within(at))) && !excluded.some(within(at)),
  );
  return trimBlankLines(joined(lines, selection)).join('\n');
}

/** Adds a blank line between lines that were not adjacent before. */
const joined = (lines: readonly string[], selection: readonly number[]): string[] =>
  selection.flatMap((at, index) => {
    const before = selection[index - 1];
    const isJoint = before !== undefined && before !== at - 1 && lines[before]?.trim() !== '';
    return isJoint ? ['', lines[at] ?? ''] : [lines[at] ?? ''];
  });

/** Replaces the heading of a section. A heading without `#` keeps the level. */
export function renameSection(section: string, heading: string): string {
  const [first = '', ...others] = section.split('\n');
  const hashes = /^ {0,3}(#+)/.exec(first)?.[1] ?? '#';
  return [/^\s*#/.test(heading) ? heading : `${hashes} ${heading}`, ...others].join('\n');
}

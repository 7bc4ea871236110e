// Sections of markdown files: `<a.md # Install>`, lists of headings, front matter.
import { type Json, parseYaml, type YamlProblem } from '../base/index.ts';
import { raise } from './fault.ts';
import {
  findHeadings,
  frontMatterLines,
  type Heading,
  linesOf,
  sectionEnd,
  trimBlankLines,
} from './markdown.ts';

export interface WantedSection {
  readonly name: string;
  readonly isOptional: boolean;
}

export interface WantedSections {
  readonly include: readonly WantedSection[];
  readonly exclude: readonly WantedSection[];
  /** All headings of this level instead, 0: of every level. */
  readonly list: number | undefined;
}

/** Titles of all headings (level 0) or of one level, in document order. */
export const headingsOf = (text: string, level: number): string[] =>
  findHeadings(linesOf(text))
    .filter((heading) => level === 0 || heading.level === level)
    .map(({ title }) => title);

/** Without case and punctuation. */
const folded = (title: string): string =>
  title
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s]/gu, '')
    .replace(/\s+/g, ' ')
    .trim();

/** Exactly this heading, else the first that begins so; -1 when there is none. */
function position(headings: readonly Heading[], name: string): number {
  const wanted = folded(name.replace(/^#+\s+/, ''));
  if (wanted === '') return headings.findIndex(({ title }) => title === name.trim());
  const titles = headings.map(({ title }) => folded(title));
  const exact = titles.indexOf(wanted);
  return exact === -1 ? titles.findIndex((title) => title.startsWith(wanted)) : exact;
}

function rangesOf(
  lines: readonly string[],
  headings: readonly Heading[],
  wanted: readonly WantedSection[],
): { from: number; to: number }[] {
  return wanted.flatMap(({ name, isOptional }) => {
    const at = position(headings, name);
    const heading = headings[at];
    if (heading) return [{ from: heading.line, to: sectionEnd(headings, at, lines.length) }];
    if (isOptional) return [];
    const there = headings.map(({ title }) => `\`${title}\``).slice(0, 10);
    const hint =
      there.length > 0 ? `; there are ${there.join(', ')}` : '; there is no heading at all';
    return raise('not_found', `there is no section \`${name}\`${hint}`, { section: name });
  });
}

/**
 * The sections asked for in document order without the excluded ones, a blank line between; a list
 * when headings were asked for. Without an `include` the whole text counts as asked for.
 */
export function selectSections(text: string, wanted: WantedSections): string | string[] {
  if (wanted.list !== undefined) return headingsOf(text, wanted.list);
  const lines = linesOf(text);
  const headings = findHeadings(lines);
  const included = rangesOf(lines, headings, wanted.include);
  const isWhole = wanted.include.length === 0;
  const excluded = rangesOf(lines, headings, wanted.exclude);
  const within = (at: number) => (range: { from: number; to: number }) =>
    at >= range.from && at < range.to;
  const kept = [...lines.keys()].filter(
    (at) => (isWhole || included.some(within(at))) && !excluded.some(within(at)),
  );
  return trimBlankLines(joined(lines, kept)).join('\n');
}

/** Lines that did not follow one another before get a blank one between. */
const joined = (lines: readonly string[], kept: readonly number[]): string[] =>
  kept.flatMap((at, index) => {
    const before = kept[index - 1];
    const isJoint = before !== undefined && before !== at - 1 && lines[before]?.trim() !== '';
    return isJoint ? ['', lines[at] as string] : [lines[at] as string];
  });

/** A section under another heading; one without `#` keeps the level. */
export function renameSection(section: string, heading: string): string {
  const [first = '', ...others] = section.split('\n');
  const hashes = /^ {0,3}(#+)/.exec(first)?.[1] ?? '#';
  return [/^\s*#/.test(heading) ? heading : `${hashes} ${heading}`, ...others].join('\n');
}

export interface FrontMatter {
  /** Null when there is none. */
  readonly fm: Json;
  /** What follows it. */
  readonly body: string;
  /** What is wrong with the YAML, with the line in the whole text. */
  readonly problem: YamlProblem | undefined;
}

/** Dates stay text. */
export function frontMatterOf(text: string): FrontMatter {
  const lines = text.split('\n');
  const count = frontMatterLines(lines);
  if (count === 0) return { fm: null, body: text, problem: undefined };
  const { value, problems } = parseYaml(
    lines
      .slice(1, count - 1)
      .map((line) => line.replace(/\r$/, ''))
      .join('\n'),
  );
  const [first] = problems;
  return {
    fm: value,
    body: lines.slice(count).join('\n'),
    problem: first && { ...first, line: first.line + 1 },
  };
}

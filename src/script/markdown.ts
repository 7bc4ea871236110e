// Headings of a markdown text. Fenced code and front matter hold none, whatever their lines look like.

export interface Heading {
  readonly level: number;
  readonly title: string;
  /** Index of its line. */
  readonly line: number;
}

const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

export const linesOf = (text: string): string[] => text.split(/\r?\n/);

/** The number of lines that the front matter takes, its marks included; 0 when there is none. */
export function frontMatterLines(lines: readonly string[]): number {
  if (lines[0]?.trimEnd() !== '---') return 0;
  const end = lines.findIndex((line, at) => at > 0 && line.trimEnd() === '---');
  return end + 1;
}

export function findHeadings(lines: readonly string[]): Heading[] {
  const headings: Heading[] = [];
  let fence: string | undefined;
  for (let line = frontMatterLines(lines); line < lines.length; line++) {
    const text = lines[line] as string;
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

/** Without the `##` that may end a heading. */
const closed = (title: string): string =>
  title
    .trimEnd()
    .replace(/[ \t]#+$/, '')
    .trimEnd();

/** The line after the last one of a section. */
export const sectionEnd = (headings: readonly Heading[], at: number, lines: number): number =>
  headings.slice(at + 1).find(({ level }) => level <= (headings[at]?.level ?? 0))?.line ?? lines;

/** Without blank lines at either end. */
export function trimBlankLines(lines: readonly string[]): readonly string[] {
  let [from, to] = [0, lines.length];
  while (from < to && lines[from]?.trim() === '') from++;
  while (to > from && lines[to - 1]?.trim() === '') to--;
  return lines.slice(from, to);
}

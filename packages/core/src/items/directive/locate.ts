// Finds the directive in its file, which is YAML front matter or the first directive element, often in an
// `xml` fence. The text around it is kept for search.
import { frontMatterAt } from '../../base/index.ts';
import { createFinder, type Finder } from './markup.ts';

export type Located =
  /** `start` is the offset of `<directive`, `lead` that of the fence around it. */
  | { form: 'xml'; lead: number; start: number }
  /** The YAML text between the two `---` lines. `lead` and `after` are the offsets around those lines. */
  | { form: 'yaml'; lead: number; start: number; end: number; after: number }
  | { form: 'none'; problem: 'directive_missing' | 'front_matter_unclosed'; at: number };

const OPENER = /<directive(?=[\s>/])/y;
const FENCE = /^[ \t]*(`{3,}|~{3,})([^`\r\n]*)/;
/** Maximum number of characters of a line that are examined for the start of a fence. */
const MAX_FENCE_LINE = 300;

/** Returns the offset after all that may precede a directive: a shebang, comments, instructions, blanks. */
function skipLead(text: string, from: number, find: Finder): number {
  let at = from;
  for (;;) {
    const blanks = /[\s\uFEFF]*/y;
    blanks.lastIndex = at;
    blanks.test(text);
    at = blanks.lastIndex;
    const isShebang = text.startsWith('#!', at) && text.slice(0, at).trim() === '';
    const pair = isShebang ? '\n' : text.startsWith('<!--', at) ? '-->' : '?>';
    if (pair === '?>' && !text.startsWith('<?', at)) return at;
    const end = find(pair, at);
    if (end === -1) return at;
    at = end + pair.length;
  }
}

function opensAt(text: string, at: number): boolean {
  OPENER.lastIndex = at;
  return OPENER.test(text);
}

/** Returns the first directive element. Skips comments, and code fences without a directive. */
function findElement(
  text: string,
  from: number,
  find: Finder,
): { lead: number; start: number } | undefined {
  let fence: string | undefined;
  for (let at = from; at < text.length; ) {
    const newline = text.indexOf('\n', at);
    const end = newline === -1 ? text.length : newline + 1;
    const line = text.slice(at, Math.min(end, at + MAX_FENCE_LINE));
    const start = at + (/^[ \t\uFEFF]*/.exec(line)?.[0].length ?? 0);
    const [, ticks = '', info = ''] = FENCE.exec(line) ?? [];
    if (fence !== undefined) {
      if (ticks.startsWith(fence) && info.trim() === '') fence = undefined;
    } else if (ticks !== '') {
      const inside = skipLead(text, end, find);
      if (/^\s*xml\b/i.test(info) && opensAt(text, inside)) return { lead: at, start: inside };
      fence = ticks;
    } else if (opensAt(text, start)) return { lead: start, start };
    else if (text.startsWith('<!--', start)) {
      const close = find('-->', start);
      if (close === -1) return undefined;
      at = close + 3;
      continue;
    }
    at = end;
  }
  return undefined;
}

/** Returns the first directive element anywhere in the text, for a file with unbalanced fences. */
function findAnywhere(text: string, from: number): { lead: number; start: number } | undefined {
  const at = text.slice(from).search(/<directive(?=[\s>/])/);
  return at === -1 ? undefined : { lead: from + at, start: from + at };
}

/** True if the front matter is the directive: it has a name and a version. Other front matter is text. */
const declares = (yaml: string): boolean =>
  /^directive[ \t]*:/m.test(yaml) || (/^name[ \t]*:/m.test(yaml) && /^version[ \t]*:/m.test(yaml));

export function locateDirective(text: string): Located {
  const find = createFinder(text);
  const lead = skipLead(text, 0, find);
  const front = frontMatterAt(text, lead);
  const matter = front === undefined || front === 'open' ? undefined : { lead, ...front };
  if (matter && declares(text.slice(matter.start, matter.end))) return { form: 'yaml', ...matter };
  const from = matter?.after ?? 0;
  const element = findElement(text, from, find) ?? findAnywhere(text, from);
  if (element) return { form: 'xml', ...element };
  if (matter) return { form: 'yaml', ...matter };
  if (front === 'open') return { form: 'none', problem: 'front_matter_unclosed', at: lead };
  return { form: 'none', problem: 'directive_missing', at: 0 };
}

/** Returns the offset of a second directive in the file, which would count as text. Undefined without one. */
export function findAnother(text: string, from: number): number | undefined {
  const another = /^[ \t]*<directive\s+(?:name|version)\s*=/gm;
  another.lastIndex = from;
  const match = another.exec(text);
  return match ? match.index + match[0].indexOf('<') : undefined;
}

/** Returns the text around the directive, without the rest of its fence. */
export function textAround(text: string, lead: number, end: number): string {
  const after = text.slice(end).replace(/^\s*(?:`{3,}|~{3,})[ \t]*(?=\r?\n|$)/, '');
  return `${text.slice(0, lead).trim()}\n${after.trim()}`.trim();
}

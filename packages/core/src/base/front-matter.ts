// The YAML block between two `---` lines at the top of a Markdown file.

interface FrontMatterParts {
  /** The YAML text, empty when there is none. */
  yaml: string;
  /** Lines before the YAML text, to turn its positions into the file's. */
  offset: number;
  /** The text after it, or the whole text. */
  rest: string;
  /** A `---` opens it and nothing closes it. */
  isOpen: boolean;
}

/** Blank lines, a byte order mark, a shebang and one comment line (a signature) may stand before it. */
const LEAD = /^\uFEFF?(?:#![^\n]*\n)?(?:[ \t]*\r?\n|<!--[^\n]{0,4096}-->[ \t]*\r?\n)*/;

/** Where its text begins and ends, and where the rest of the file begins. */
interface FrontMatterPlace {
  start: number;
  end: number;
  after: number;
}

/** The block that opens at `lead`; `open` when nothing closes it. */
export function frontMatterAt(text: string, lead: number): FrontMatterPlace | 'open' | undefined {
  const open = /---[ \t]*\r?\n/y;
  open.lastIndex = lead;
  if (!open.test(text)) return undefined;
  const start = open.lastIndex;
  const close = /^(?:---|\.\.\.)[ \t]*\r?(?:\n|$)/gm;
  close.lastIndex = start;
  const found = close.exec(text);
  return found ? { start, end: found.index, after: found.index + found[0].length } : 'open';
}

export function splitFrontMatter(text: string): FrontMatterParts {
  const found = frontMatterAt(text, LEAD.exec(text)?.[0].length ?? 0);
  if (found === undefined || found === 'open') {
    return { yaml: '', offset: 0, rest: text, isOpen: found === 'open' };
  }
  const offset = text.slice(0, found.start).split('\n').length - 1;
  const { start, end, after } = found;
  return { yaml: text.slice(start, end), offset, rest: text.slice(after), isOpen: false };
}

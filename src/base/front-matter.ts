// The YAML block between two `---` lines at the top of a Markdown file.

export interface FrontMatterParts {
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

export function splitFrontMatter(text: string): FrontMatterParts {
  const lead = LEAD.exec(text)?.[0] ?? '';
  const open = /---[ \t]*\r?\n/y;
  open.lastIndex = lead.length;
  if (!open.test(text)) return { yaml: '', offset: 0, rest: text, isOpen: false };
  const start = open.lastIndex;
  const close = /^(?:---|\.\.\.)[ \t]*\r?(?:\n|$)/gm;
  close.lastIndex = start;
  const found = close.exec(text);
  if (!found) return { yaml: '', offset: 0, rest: text, isOpen: true };
  const offset = text.slice(0, start).split('\n').length - 1;
  return {
    yaml: text.slice(start, found.index),
    offset,
    rest: text.slice(found.index + found[0].length),
    isOpen: false,
  };
}

// Reads top-level fields of a YAML text without parsing it. Ten thousand files are searched by their names and
// descriptions; a document tree for each would take seconds. Only plain one-line forms are read here. For
// anything else the answer is undefined, and the caller parses.

const FIELD = /^([A-Za-z_]+):(?:[ \t]+([^]*))?\r?$/;
const QUOTED = /^(?:"([^"\\]*)"|'((?:[^']|'')*)')(?:[ \t]+#.*)?$/;
/** Words that YAML reads as something other than text, and marks that begin other forms. */
const SPECIAL = /^(?:true|false|null|~|[-+.]?\d.*|[-?:][ \t].*|[-?:]|[[\]{}|>&*!%@`"'#,].*)$/i;

function scalar(text: string): string | undefined {
  const quoted = QUOTED.exec(text);
  if (quoted) return quoted[1] ?? (quoted[2] ?? '').replaceAll("''", "'");
  const plain = text.replace(/[ \t]#.*$/, '').trimEnd();
  return SPECIAL.test(plain) || plain === '' || /:(?:[ \t]|$)/.test(plain) ? undefined : plain;
}

function flowList(text: string): readonly string[] | undefined {
  const inner = /^\[([^[\]{}"'#:]*)\](?:[ \t]+#.*)?$/.exec(text)?.[1];
  if (inner === undefined) return undefined;
  const words = inner.split(',').map((word) => scalar(word.trim()));
  return words.every((word) => word !== undefined) ? words : undefined;
}

/** The named fields, or undefined when one of them is written in a form that needs a parser. */
export function readYamlHeader(text: string, names: ReadonlySet<string>) {
  const fields = new Map<string, string | readonly string[]>();
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    // Quoted keys, documents and tabs: rare at the top level, and not worth a second parser.
    if (/^(?:["'?%\t{[]|---|\.\.\.)/.test(line)) return undefined;
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name === undefined || !names.has(name)) continue;
    // Blank lines in between belong to a text that goes on after them.
    const next = lines.slice(index + 1).find((line) => /[^ \t\r]/.test(line)) ?? '';
    const continued = /^[ \t]+[^ \t#]/.test(next);
    const given = (value ?? '').trim();
    const read = scalar(given) ?? flowList(given);
    if (read === undefined || continued || fields.has(name)) return undefined;
    fields.set(name, read);
  }
  return fields;
}

// Reads top-level fields of a YAML text without parsing it. A search reads names and descriptions of ten
// thousand files, and a document tree for each would take seconds. Only plain one-line forms are
// supported. For any other form the result is undefined, and the caller parses the text.

const FIELD = /^([A-Za-z_]+):(?:[ \t]+([^]*))?\r?$/;
const QUOTED = /^(?:"([^"\\]*)"|'((?:[^']|'')*)')(?:[ \t]+#.*)?$/;
/** Matches words that YAML does not parse as text, and marks that begin other forms. */
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

/** Returns the named fields. Undefined if one of them has a form that needs a parser. */
export function readYamlHeader(text: string, names: ReadonlySet<string>) {
  const fields = new Map<string, string | readonly string[]>();
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    // Quoted keys, document marks and tabs are rare at the top level and not supported.
    if (/^(?:["'?%\t{[]|---|\.\.\.)/.test(line)) return undefined;
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name === undefined || !names.has(name)) continue;
    // A text can continue after blank lines, so the next line with content decides.
    const next = lines.slice(index + 1).find((line) => /[^ \t\r]/.test(line)) ?? '';
    const continued = /^[ \t]+[^ \t#]/.test(next);
    const plainValue = (value ?? '').trim();
    const read = scalar(plainValue) ?? flowList(plainValue);
    if (read === undefined || continued || fields.has(name)) return undefined;
    fields.set(name, read);
  }
  return fields;
}

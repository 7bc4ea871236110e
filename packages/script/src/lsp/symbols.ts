// The outline of a document: names that a script binds, its guards and hooks, headings of markdown, sections of
// a directive. In the order of the text, without nesting.
import type { View } from './view.ts';

interface DocumentSymbol {
  readonly name: string;
  readonly kind: number;
  readonly at: number;
  readonly end: number;
}

/** Numbers of the protocol. */
const KIND = { module: 2, property: 7, function: 12, variable: 13, heading: 15, rule: 24 } as const;

const OF_NAMES: Readonly<Record<string, number>> = {
  variable: KIND.variable,
  function: KIND.function,
  import: KIND.module,
  namespace: KIND.module,
  templates: KIND.module,
  policy: KIND.rule,
  guard: KIND.rule,
  hook: KIND.rule,
};

/** Names that the whole script sees, and guards and hooks without a name by what they are asked about. */
function scriptSymbols({ script }: View): DocumentSymbol[] {
  if (!script) return [];
  const { names, parsed } = script;
  const { body, text } = parsed.partial;
  const named = names.flatMap(({ name, kind, place, seen }) => {
    const number = seen.at === 0 && seen.end === text.length ? OF_NAMES[kind] : undefined;
    return number === undefined ? [] : [{ name: `@${name}`, kind: number, ...place }];
  });
  const unnamed = body.flatMap((node) =>
    (node.kind === 'guard' || node.kind === 'hook') && node.name === undefined
      ? [{ name: `${node.kind} ${node.filter}`, kind: KIND.rule, at: node.at, end: node.end }]
      : [],
  );
  return [...named, ...unnamed];
}

const FENCE = /^[ \t]*(```|~~~)/;
const HEADING = /^#{1,6}[ \t]+(\S[^\r\n]*?)[ \t#]*$/;
const SECTION =
  /<(directive|metadata|limits|permissions|hooks|guards|inputs|process|outputs|context|success_criteria|expect)(?=[\s/>])[^>\n]*>?|<(step|input|output)\b[^>\n]*?\bname="([^"\n]+)"/g;

/** The name of a section: of an element with a name, this name. */
function sectionsIn(line: string, at: number): DocumentSymbol[] {
  return [...line.matchAll(SECTION)].map(({ 0: whole, 1: tag, 2: element, 3: own, index }) => {
    const name = tag === 'directive' ? /\bname="([^"\n]+)"/.exec(whole)?.[1] : own;
    const shown = name === undefined ? `<${tag ?? element}>` : `${tag ?? element} ${name}`;
    const kind = own === undefined ? KIND.module : KIND.property;
    return { name: shown, kind, at: at + index, end: at + index + whole.length };
  });
}

/** Headings outside of fences, and sections of a directive outside of its script. */
function textSymbols({ kind, text, script }: View): DocumentSymbol[] {
  const isDirective = kind === 'directive';
  if (!isDirective && script?.mode !== 'markdown') return [];
  const found: DocumentSymbol[] = [];
  let isFenced = false;
  let at = 0;
  for (const line of text.split('\n')) {
    const isScript = isDirective && script && script.from <= at && at < script.to;
    if (FENCE.test(line)) isFenced = !isFenced;
    else if (!isScript) {
      const title = isFenced ? undefined : HEADING.exec(line)?.[1];
      if (title !== undefined)
        found.push({ name: title, kind: KIND.heading, at, end: at + line.trimEnd().length });
      if (isDirective) found.push(...sectionsIn(line, at));
    }
    at += line.length + 1;
  }
  return found;
}

/** The longest outline that is told. */
const MOST_SYMBOLS = 5000;

export const symbolsOf = (view: View): DocumentSymbol[] =>
  [...textSymbols(view), ...scriptSymbols(view)].sort((a, b) => a.at - b.at).slice(0, MOST_SYMBOLS);

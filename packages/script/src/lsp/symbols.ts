// Builds the outline of a document: names of scripts, guards and hooks, markdown headings, and sections of
// directives. The entries are in text order without nesting.
import type { View } from './view.ts';

interface DocumentSymbol {
  readonly name: string;
  readonly kind: number;
  readonly at: number;
  readonly end: number;
}

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

/** Returns the names visible in the whole script. A guard or hook without a name has its filter. */
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

/** Returns the sections in a line. An element with a name has this name. */
function sectionsIn(line: string, at: number): DocumentSymbol[] {
  return [...line.matchAll(SECTION)].map(({ 0: whole, 1: tag, 2: element, 3: own, index }) => {
    const name = tag === 'directive' ? /\bname="([^"\n]+)"/.exec(whole)?.[1] : own;
    const label = name === undefined ? `<${tag ?? element}>` : `${tag ?? element} ${name}`;
    const kind = own === undefined ? KIND.module : KIND.property;
    return { name: label, kind, at: at + index, end: at + index + whole.length };
  });
}

/** Returns the headings outside of fences, and the sections of a directive outside of its script. */
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

/** Maximum number of symbols in an outline. */
const MOST_SYMBOLS = 5000;

export const symbolsOf = (view: View): DocumentSymbol[] =>
  [...textSymbols(view), ...scriptSymbols(view)].sort((a, b) => a.at - b.at).slice(0, MOST_SYMBOLS);

// Computes the findings for an open document: problems of its script, and of the item around it. They are the
// same as the findings of `check`, with ranges.
import type { Diagnostic } from '@kernmantle/core/base';
import { checkItemText, type Library } from '@kernmantle/core/items';
import { unboundIn } from '../execute-script.ts';
import type { Document, Span } from './document.ts';
import { inputsOfModule, type Modules } from './modules.ts';
import type { View } from './view.ts';

type Finding = { range: Span; severity: 1 | 2 | 3; code: string; source: string; message: string };

const SEVERITY = { error: 1, warning: 2, note: 3 } as const;
/** Maximum number of findings for a document. */
const MOST = 200;

const messageText = (message: string, hint: string | undefined): string =>
  hint === undefined ? message : `${message}\nhint: ${hint}`;

export function findingsOf(
  view: View,
  document: Document,
  modules: Modules,
  library?: Library,
): Finding[] {
  const script = [
    ...scriptFindings(view, document),
    ...nameFindings(view, document, modules, library),
  ];
  const items =
    view.kind === 'directive' || view.kind === 'item' ? itemFindings(view, document, library) : [];
  const keys = new Set<string>();
  return [...script, ...items]
    .filter(({ range, message }) => {
      const key = `${range.start.line}:${range.start.character}:${message}`;
      return !keys.has(key) && keys.add(key);
    })
    .slice(0, MOST);
}

const scriptFindings = ({ script }: View, document: Document): Finding[] =>
  (script?.parsed.problems ?? []).map(({ at, end, message, hint, code }) => ({
    range: document.spanOf(at, Math.max(end, at + 1)),
    severity: 1,
    code: `script_${code}`,
    source: 'kernmantle',
    message: messageText(message, hint),
  }));

/** Checks the names of a script that parses completely, because an unparsed part may bind names. */
function nameFindings(
  { script, file }: View,
  document: Document,
  modules: Modules,
  library: Library | undefined,
): Finding[] {
  const tree = script?.parsed.script;
  if (!tree || script.isOpen) return [];
  const inputs = [
    ...script.inputs.map(({ name }) => name),
    ...(library ? inputsOfModule(file, library) : []),
  ];
  return unboundIn(tree, modules.around(file, inputs)).map((finding) => ({
    range: document.spanOf(finding.at, Math.max(finding.end, finding.at + 1)),
    severity: SEVERITY[finding.severity],
    code: `script_${finding.code}`,
    source: 'kernmantle',
    message: messageText(finding.message, finding.hint),
  }));
}

const itemFindings = ({ text, file }: View, document: Document, library?: Library): Finding[] =>
  (checkItemText(text, file, library) ?? [])
    .filter((diagnostic) => diagnostic.file === file)
    .map((diagnostic) => ({
      range: rangeOf(diagnostic, document),
      severity: SEVERITY[diagnostic.severity],
      code: diagnostic.code,
      source: 'kernmantle',
      message: messageText(diagnostic.message, diagnostic.hint),
    }));

/** Returns the range of an item's finding. The finding has only a start, so the range ends with the word there. */
function rangeOf({ line, column }: Diagnostic, document: Document): Span {
  const at = document.offsetAt({ line: line - 1, character: column - 1 });
  const word = /[\w./:@-]+|[^\s\w]/y;
  word.lastIndex = at;
  const [text = ' '] = word.exec(document.text) ?? [];
  return document.spanOf(at, at + text.length);
}

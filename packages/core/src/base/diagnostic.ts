export type Severity = 'error' | 'warning' | 'note';

/** One finding about a file, as `check --json` prints it. */
export interface Diagnostic {
  file: string;
  line: number;
  column: number;
  /** snake_case and stable, like the codes of faults. */
  code: string;
  severity: Severity;
  message: string;
  /** What to do about it; may hold several lines (a block to paste). */
  hint?: string;
  /** The source line, for the caret. */
  text?: string;
}

export const hasErrors = (diagnostics: readonly Diagnostic[]): boolean =>
  diagnostics.some((diagnostic) => diagnostic.severity === 'error');

const SHOWN = 100;

/** The source line with a caret under the column; long lines are shown around the caret only. */
function caret(line: string, column: number): string {
  const from = Math.max(0, Math.min(column - 1 - SHOWN / 2, line.length - SHOWN));
  // A tab or control character would move the caret, or the reader's terminal.
  const shown = line.slice(from, from + SHOWN).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  const lead = from > 0 ? '…' : '';
  return `${lead}${shown}\n${' '.repeat(lead.length + column - 1 - from)}^`;
}

/** Plain text for people: place, severity, message, the line with a caret, the hint. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  const { file, line, column, severity, code, message, hint, text } = diagnostic;
  const indent = (block: string) => block.replace(/^/gm, '    ');
  const shown = text === undefined || text === '' ? '' : `\n${indent(caret(text, column))}`;
  const help = hint === undefined ? '' : `\n  hint: ${hint.replaceAll('\n', '\n        ')}`;
  return `${file}:${line}:${column}: ${severity}: ${message} [${code}]${shown}${help}`;
}

import { caret } from './text.ts';

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

/** Plain text for people: place, severity, message, the line with a caret, the hint. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  const { file, line, column, severity, code, message, hint, text } = diagnostic;
  const indent = (block: string) => block.replace(/^/gm, '    ');
  const shown = text === undefined || text === '' ? '' : `\n${indent(caret(text, column))}`;
  const help = hint === undefined ? '' : `\n  hint: ${hint.replaceAll('\n', '\n        ')}`;
  return `${file}:${line}:${column}: ${severity}: ${message} [${code}]${shown}${help}`;
}

export type Severity = 'error' | 'warning' | 'note';

/** One finding about a file, as `check --json` prints it. */
export interface Diagnostic {
  file: string;
  line: number;
  column: number;
  /** Stable code in snake_case, in the same form as the code of a fault. */
  code: string;
  severity: Severity;
  message: string;
  /** The remedy, which may have several lines (a block to paste). */
  hint?: string;
  /** The source line, in which the caret marks the column. Absent: no line is printed. */
  text?: string;
}

export const hasErrors = (diagnostics: readonly Diagnostic[]): boolean =>
  diagnostics.some((diagnostic) => diagnostic.severity === 'error');

const WIDTH = 100;

/**
 * Returns the source line with a caret under the column. A long line is cut to the part around the
 * caret.
 */
function caret(line: string, column: number): string {
  const from = Math.max(0, Math.min(column - 1 - WIDTH / 2, line.length - WIDTH));
  // A tab or control character would move the caret, or change the reader's terminal.
  const excerpt = line.slice(from, from + WIDTH).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  const lead = from > 0 ? '…' : '';
  return `${lead}${excerpt}\n${' '.repeat(lead.length + column - 1 - from)}^`;
}

/** Returns plain text for people: location, severity, message, the line with a caret, the hint. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  const { file, line, column, severity, code, message, hint, text } = diagnostic;
  const indent = (block: string) => block.replace(/^/gm, '    ');
  const excerpt = text === undefined || text === '' ? '' : `\n${indent(caret(text, column))}`;
  const help = hint === undefined ? '' : `\n  hint: ${hint.replaceAll('\n', '\n        ')}`;
  return `${file}:${line}:${column}: ${severity}: ${message} [${code}]${excerpt}${help}`;
}

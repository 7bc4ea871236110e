import type { Diagnostic, Severity } from '../base/index.ts';

/** A finding about a file as a whole. */
export const aboutFile = (
  file: string,
  code: string,
  message: string,
  { severity = 'error', hint }: { severity?: Severity; hint?: string | undefined } = {},
): Diagnostic => ({
  file,
  line: 1,
  column: 1,
  code,
  severity,
  message,
  ...(hint === undefined ? {} : { hint }),
});

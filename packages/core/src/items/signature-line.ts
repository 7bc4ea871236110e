// Reads and writes the comment line with a signature at the top of a file, after a shebang. The line repeats
// the whole signed statement, so that a report can name the parts of an item that have changed.
import { extname } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import type { ItemStatement } from '../trust/index.ts';

export interface SignatureLine {
  statement: ItemStatement;
  signature: string;
}

export interface SignedText {
  /** Content of the line. `broken`: signing never writes such a line. Undefined: the text has no line. */
  line: SignatureLine | 'broken' | undefined;
  /** The text without the line. A signature covers its hash. */
  body: string;
}

const MARK = 'kernmantle:signature';
const MAX_LINE = 4096;

type CommentStyle = readonly [open: string, close: string];
const STYLES: Readonly<Record<string, CommentStyle>> = {
  '.md': ['<!-- ', ' -->'],
  '.yaml': ['# ', ''],
  '.yml': ['# ', ''],
};

const FIELDS = ['kind', 'id', 'version', 'sha256', 'rights', 'created', 'key'] as const;

/** Returns the offset at which the line begins: after a byte order mark and a shebang. */
const topOf = (text: string): number => /^\uFEFF?(?:#![^\n]*\n)?/.exec(text)?.[0].length ?? 0;

/** Returns the span of the top line with its line end, if the line looks like a signature. Else undefined. */
function signatureSpan(text: string): { from: number; to: number } | undefined {
  const from = topOf(text);
  const newline = text.indexOf('\n', from);
  const to = newline === -1 ? text.length : newline + 1;
  const isSignature = /^\s*(?:#|<!--)\s*kernmantle:signature\b/.test(text.slice(from, to));
  return isSignature ? { from, to } : undefined;
}

/** Parses the words of a line. The caller checks that the line contains nothing else. */
function decode(line: string): SignatureLine | 'broken' {
  const values = new Map<string, string>();
  try {
    for (const word of line.split(' ')) {
      const [name = '', value = ''] = word.split('=');
      values.set(name, decodeURIComponent(value));
    }
  } catch {
    return 'broken';
  }
  const statement = Object.fromEntries(FIELDS.map((field) => [field, values.get(field) ?? '']));
  const signature = values.get('sig') ?? '';
  return { statement: statement as unknown as ItemStatement, signature };
}

/**
 * Splits a file into its signature line and the rest. Never throws. INVARIANT: an accepted line is
 * always byte for byte what signing writes, so that it contains nothing without a signature.
 */
export function readSignatureLine(text: string, file: string): SignedText {
  const span = signatureSpan(text);
  if (!span) return { line: undefined, body: text };
  const body = stripSignatureLine(text);
  if (span.to - span.from > MAX_LINE) return { line: 'broken', body };
  const line = decode(text.slice(span.from, span.to).trim());
  if (line === 'broken') return { line, body };
  const written = writeSignatureLine(body, line, file);
  return { line: written.ok && written.output === text ? line : 'broken', body };
}

/** Returns the text without its signature line. */
export function stripSignatureLine(text: string): string {
  const span = signatureSpan(text);
  return span ? text.slice(0, span.from) + text.slice(span.to) : text;
}

/** Replaces the signature line with blanks for a parser, so that offsets stay and only signed text is parsed. */
export function blankSignatureLine(text: string): string {
  const span = signatureSpan(text);
  if (!span) return text;
  const line = text.slice(span.from, span.to).replace(/[^\r\n]|\r(?!\n)/g, ' ');
  return text.slice(0, span.from) + line + text.slice(span.to);
}

/** True if a line of a text looks like a signature. Content from a model must not contain such a line. */
export const hasSignatureLine = (text: string): boolean =>
  /^[^\S\r\n\u2028\u2029]*(?:#|<!--|\/\/)\s*kernmantle:signature\b/m.test(text);

/** Returns the text with this signature instead of an earlier one. Fails for a type of file without comments. */
export function writeSignatureLine(
  text: string,
  { statement, signature }: SignatureLine,
  file: string,
): Outcome<string> {
  const style = STYLES[extname(file)];
  if (!style)
    return fail('invalid_input', `files of the type \`${extname(file)}\` cannot be signed`);
  const body = stripSignatureLine(text);
  const pairs = FIELDS.map((field) => `${field}=${encodeURIComponent(statement[field])}`);
  const line = `${style[0]}${MARK} v1 ${pairs.join(' ')} sig=${signature}${style[1]}`;
  if (line.length + 2 > MAX_LINE) return fail('invalid_input', 'the id is too long to be signed');
  const top = topOf(body);
  const newline = /\r\n/.test(body.slice(0, 1000)) ? '\r\n' : '\n';
  return ok(body.slice(0, top) + line + newline + body.slice(top));
}

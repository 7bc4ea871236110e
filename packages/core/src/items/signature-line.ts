// The one comment line that carries a signature: at the top of the file, after a shebang. It repeats
// the whole signed statement, so that nothing in it is unauthenticated and a file that was changed
// can be told what changed.
import { extname } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import type { ItemStatement } from '../trust/index.ts';

export interface SignatureLine {
  statement: ItemStatement;
  signature: string;
}

export interface SignedText {
  /** The line's content; 'broken' when it is not what signing writes; undefined when there is none. */
  line: SignatureLine | 'broken' | undefined;
  /** The text without that line: what is hashed. */
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

/** Where the line stands, or would stand: after a byte order mark and a shebang. */
const topOf = (text: string): number => /^\uFEFF?(?:#![^\n]*\n)?/.exec(text)?.[0].length ?? 0;

/** The top line with its end, when it claims to be a signature, whatever blanks it is padded with. */
function signatureSpan(text: string): { from: number; to: number } | undefined {
  const from = topOf(text);
  const newline = text.indexOf('\n', from);
  const to = newline === -1 ? text.length : newline + 1;
  const isSignature = /^\s*(?:#|<!--)\s*kernmantle:signature\b/.test(text.slice(from, to));
  return isSignature ? { from, to } : undefined;
}

/** What the words of a line say; whether they are all that it holds is for the caller to see. */
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
 * Splits a file into its signature line and the rest. Never throws. INVARIANT: a line that is read is
 * byte for byte what signing writes, so that it holds nothing that no signature covers.
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

/** The text without its signature line. */
export function stripSignatureLine(text: string): string {
  const span = signatureSpan(text);
  return span ? text.slice(0, span.from) + text.slice(span.to) : text;
}

/**
 * What a parser is given: every place in the text stays where it was, and nothing is read that the
 * signature does not cover.
 */
export function blankSignatureLine(text: string): string {
  const span = signatureSpan(text);
  if (!span) return text;
  const line = text.slice(span.from, span.to).replace(/[^\r\n]|\r(?!\n)/g, ' ');
  return text.slice(0, span.from) + line + text.slice(span.to);
}

/** Does any line of a text claim to be a signature? Content from a model must not. */
export const hasSignatureLine = (text: string): boolean =>
  /^[^\S\r\n\u2028\u2029]*(?:#|<!--|\/\/)\s*kernmantle:signature\b/m.test(text);

/** The text with this signature instead of the one it had. */
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
  if (line.length + 2 > MAX_LINE) return fail('invalid_input', 'the name is too long to be signed');
  const top = topOf(body);
  const newline = /\r\n/.test(body.slice(0, 1000)) ? '\r\n' : '\n';
  return ok(body.slice(0, top) + line + newline + body.slice(top));
}

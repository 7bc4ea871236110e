// Building blocks of every text form: parts gathered from runs of characters, the trimming at the end,
// the failure when a text is never closed.
import type { TemplatePart } from './ast.ts';
import type { Reader } from './scan.ts';

/** What a backslash and a letter stand for. */
export const CONTROL: Readonly<Record<string, string>> = { n: '\n', t: '\t' };

export function unclosedText(r: Reader, at: number, length: number): never {
  const quote = r.slice(at, at + length);
  r.far = Math.max(r.far, r.pos);
  const shown = quote === '`' ? 'a backtick' : `\`${quote}\``;
  return r.fail(`the text that begins with ${shown} is never closed`, {
    at,
    end: at + length,
    code: 'unclosed',
  });
}

/** Drops the line break before the closing mark; lines that are repeated lose their last one as well. */
export function withoutLastBreak(parts: readonly TemplatePart[]): TemplatePart[] {
  const last = parts.at(-1);
  if (typeof last === 'string') {
    const text = last.replace(/\r?\n$/, '');
    return text === '' ? parts.slice(0, -1) : [...parts.slice(0, -1), text];
  }
  if (typeof last === 'object' && last.kind === 'repeat') {
    return [...parts.slice(0, -1), { ...last, trimsEnd: true }];
  }
  return [...parts];
}

/** Gathers runs of characters into parts. */
export function createParts() {
  const parts: TemplatePart[] = [];
  let pieces: string[] = [];
  const flush = (): void => {
    if (pieces.length > 0) parts.push(pieces.join(''));
    pieces = [];
  };
  return {
    text(piece: string): void {
      if (piece !== '') pieces.push(piece);
    },
    part(part: Exclude<TemplatePart, string>): void {
      flush();
      parts.push(part);
    },
    /** All of them; it is empty afterwards. */
    done(): TemplatePart[] {
      flush();
      return parts.splice(0);
    },
  };
}

// Decodes entities such as `&lt;` and stores the file offset of each decoded character, so that an error in
// a decoded expression has the right column.

/** A run of text with its offset in the file. */
export interface TextPiece {
  readonly kind: 'text';
  readonly text: string;
  readonly at: number;
  /** Pairs of (index in `text`, offset in the file) at which the two diverge. */
  readonly breaks?: readonly (readonly [number, number])[];
}

const NAMED: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
};

function character(entity: string): string | undefined {
  if (!entity.startsWith('#')) return Object.hasOwn(NAMED, entity) ? NAMED[entity] : undefined;
  const code = /^#x/i.test(entity) ? Number.parseInt(entity.slice(2), 16) : Number(entity.slice(1));
  const isCharacter = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return isCharacter ? String.fromCodePoint(code) : undefined;
}

/** Decodes entities. Text that only looks like an entity stays, and `unknown` is called with it. */
export function decodeEntities(
  source: string,
  at: number,
  unknown?: (entity: string, at: number) => void,
): TextPiece {
  if (!source.includes('&')) return { kind: 'text', text: source, at };
  const breaks: [number, number][] = [];
  let [text, end] = ['', 0];
  for (const match of source.matchAll(/&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{0,30});/g)) {
    const decoded = character(match[1] ?? '');
    if (decoded === undefined) {
      unknown?.(match[0], at + match.index);
      continue;
    }
    text += source.slice(end, match.index) + decoded;
    end = match.index + match[0].length;
    breaks.push([text.length, at + end]);
  }
  return { kind: 'text', text: text + source.slice(end), at, breaks };
}

/** Returns the file offset of a character of a piece. */
export function offsetIn({ at, breaks }: TextPiece, index: number): number {
  const last = breaks?.findLast(([from]) => from <= index);
  return last ? last[1] + index - last[0] : at + index;
}

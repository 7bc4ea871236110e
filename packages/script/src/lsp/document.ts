// Stores the text of an open document and converts between offsets and positions. Lines and characters are
// counted from 0, and characters in UTF-16 units.

export type LspPosition = { readonly line: number; readonly character: number };
export type Span = { readonly start: LspPosition; readonly end: LspPosition };

export interface TextChange {
  readonly range?: Span;
  readonly text: string;
}

export type Document = ReturnType<typeof createDocument>;

function startsOf(text: string): number[] {
  const starts = [0];
  for (const { index, 0: found } of text.matchAll(/\r\n?|\n/g)) starts.push(index + found.length);
  return starts;
}

export function createDocument(uri: string, text: string, version: number) {
  let cachedStarts: number[] | undefined;
  const starts = (): number[] => {
    cachedStarts ??= startsOf(text);
    return cachedStarts;
  };
  const placeAt = (offset: number): LspPosition => {
    const list = starts();
    const at = Math.min(Math.max(0, offset), text.length);
    let [low, high] = [0, list.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((list[middle] ?? 0) <= at) low = middle;
      else high = middle - 1;
    }
    return { line: low, character: at - (list[low] ?? 0) };
  };
  return {
    uri,
    version,
    text,
    /** Returns the offset of a position. A position outside of the text is moved to its nearest end. */
    offsetAt({ line, character }: LspPosition): number {
      const list = starts();
      if (line >= list.length) return text.length;
      const start = list[Math.max(0, line)] ?? 0;
      const end = list[line + 1] ?? text.length;
      const length = text.slice(start, end).replace(/[\r\n]+$/, '').length;
      return start + Math.min(Math.max(0, character), length);
    },
    spanOf: (at: number, end: number): Span => ({ start: placeAt(at), end: placeAt(end) }),
  };
}

/** Returns the document after the changes of an editor, in order. */
export function changeDocument(
  document: Document,
  changes: readonly TextChange[],
  version: number,
): Document {
  let current = createDocument(document.uri, document.text, version);
  for (const { range, text } of changes) {
    const [from, to] = range
      ? [current.offsetAt(range.start), current.offsetAt(range.end)]
      : [0, current.text.length];
    const next = current.text.slice(0, from) + text + current.text.slice(Math.max(from, to));
    current = createDocument(document.uri, next, version);
  }
  return current;
}

// Offsets become lines and columns only when somebody asks, from a table made once per text.

export interface Position {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units as editors count. */
  readonly column: number;
}

export interface Source {
  /** An offset outside the text counts as its nearest end. */
  position(at: number): Position;
  /** The text of a line, without its line break. */
  line(number: number): string;
  offset(position: Position): number;
}

export function createSource(text: string): Source {
  let starts: readonly number[] | undefined;
  const lines = (): readonly number[] => {
    starts ??= lineStarts(text);
    return starts;
  };
  return {
    position(at) {
      const offset = Math.max(0, Math.min(at, text.length));
      const line = lastAtOrBefore(lines(), offset);
      return { line: line + 1, column: offset - (lines()[line] ?? 0) + 1 };
    },
    line(number) {
      const start = lines()[number - 1];
      if (start === undefined) return '';
      return text.slice(start, (lines()[number] ?? text.length + 1) - 1).replace(/\r$/, '');
    },
    offset({ line, column }) {
      const start = lines()[line - 1] ?? text.length;
      return Math.min(start + column - 1, text.length);
    },
  };
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

function lastAtOrBefore(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle] ?? 0) <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

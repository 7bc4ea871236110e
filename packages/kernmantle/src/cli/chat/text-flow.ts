// Wraps streamed text at words, so that each row is printed once. Code stands beside a bar and is not wrapped at words,
// headings are bold. Nothing else of Markdown is interpreted.

import { type Paint, visible } from '../terminal/terminal.ts';
import { widthOf } from '../threads/status-text.ts';

export function createTextFlow(columns: () => number, paint: Paint) {
  let rest = '';
  let isCode = false;
  /** True if the row continues a longer line. */
  let isInside = false;
  let isHeading = false;

  const styled = (row: string): string =>
    isCode ? `${paint('dim', '  │ ')}${row}` : isHeading ? paint('bold', row) : row;

  /** Cuts a full row from the start of the line. Undefined while it fits. */
  function cut(line: string): string | undefined {
    const room = Math.max(8, columns() - (isCode ? 5 : 1));
    if (widthOf(line) <= room) return undefined;
    let [end, width] = [0, 0];
    for (const character of line) {
      width += widthOf(character);
      if (width > room) break;
      end += character.length;
    }
    const space = isCode ? -1 : line.lastIndexOf(' ', end);
    return line.slice(0, space > room / 3 ? space : end);
  }
  function rowsOf(line: string): string[] {
    const rows: string[] = [];
    if (!isInside) isHeading = !isCode && /^#{1,6} /.test(line);
    let text = line;
    for (let row = cut(text); row !== undefined; row = cut(text)) {
      rows.push(styled(row));
      text = text.slice(row.length).replace(/^ /, '');
      isInside = true;
    }
    rest = text;
    return rows;
  }
  return {
    /** Adds a piece and returns the rows that it has completed. */
    push(piece: string): string[] {
      const lines = `${rest}${visible(piece)}`.split('\n');
      const last = lines.pop() ?? '';
      const rows = lines.flatMap((line) => {
        const fence = !isInside && /^\s*```/.test(line);
        if (fence) {
          isCode = !isCode;
          rest = '';
          return isCode ? [paint('dim', `  ┌ ${line.trim().slice(3)}`)] : [paint('dim', '  └')];
        }
        const done = [...rowsOf(line), styled(rest)];
        [isInside, rest] = [false, ''];
        return done;
      });
      // The beginning of a fence is not shown as text.
      if (!isInside && /^\s*`{1,3}[^`]*$/.test(last)) rest = last;
      else rows.push(...rowsOf(last));
      return rows;
    },
    /** Returns the row that is not complete yet. Empty: there is none. */
    tail: (): string => (rest === '' ? '' : styled(rest)),
    /** Completes the last row of a text, and returns it. */
    end(): string[] {
      const rows = rest === '' ? [] : [styled(rest)];
      [rest, isInside, isCode, isHeading] = ['', false, false, false];
      return rows;
    },
  };
}

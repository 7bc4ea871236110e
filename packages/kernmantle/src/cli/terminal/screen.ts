// Redraws a few lines at the bottom of a terminal, while ordinary lines scroll away above them.

const HIDE = '\u001b[?25l';
const SHOW = '\u001b[?25h';
/** The terminal cuts wide lines, because wrapped lines could not be drawn over. */
const NO_WRAP = '\u001b[?7l';
const WRAP = '\u001b[?7h';

/** Position of the cursor within the drawn lines, from 0. */
export interface Cursor {
  readonly row: number;
  readonly column: number;
}

/** Number of cells of a line that has colours and no wide characters beside them. */
const plainWidth = (line: string): number => line.replace(/\u001b\[[\d;]*m/g, '').length;

export function createScreen(write: (text: string) => void) {
  let drawn: readonly string[] = [];
  let at: Cursor | undefined;
  let [isOpen, isPaused] = [true, false];
  /** Number of rows from the first drawn line to the cursor. */
  let above = 0;

  const erase = (): string =>
    drawn.length === 0 ? '\r' : `${above > 0 ? `\u001b[${above}A` : ''}\r\u001b[J`;
  function bottom(): string {
    const text = drawn.map((line) => `${line}\n`).join('');
    above = at?.row ?? drawn.length;
    if (!at) return `${NO_WRAP}${text}${WRAP}`;
    const up = drawn.length - 1 - at.row;
    const move = `${up > 0 ? `\u001b[${up}A` : ''}\r${at.column > 0 ? `\u001b[${at.column}C` : ''}`;
    return `${NO_WRAP}${text.slice(0, -1)}${WRAP}${move}${SHOW}`;
  }

  const close = (): void => {
    if (!isOpen) return;
    isOpen = false;
    process.off('exit', close);
    write(`${erase()}${SHOW}`);
    drawn = [];
  };

  write(HIDE);
  // A process that exits early must show the cursor again.
  process.once('exit', close);
  return {
    /** Prints lines that are never redrawn. */
    print(lines: string): void {
      write(`${at ? HIDE : ''}${erase()}${lines}\n${bottom()}`);
    },
    /** `cursor`: the place where a person types. Absent: the cursor stays hidden. */
    draw(lines: readonly string[], cursor?: Cursor): void {
      if (!isOpen || isPaused) return;
      const before = `${cursor ? HIDE : ''}${erase()}`;
      [drawn, at] = [lines, cursor];
      write(`${before}${bottom()}`);
    },
    /** Accounts for a terminal with a new width, which has wrapped the drawn lines. */
    resized(columns: number): void {
      const rows = (line: string): number => Math.max(1, Math.ceil(plainWidth(line) / columns));
      const over = drawn.slice(0, at?.row ?? drawn.length);
      above = over.reduce((sum, line) => sum + rows(line), 0);
      if (at) above += Math.floor(at.column / columns);
    },
    /** Removes the drawn lines and draws nothing until `resume` is called. */
    pause(): void {
      if (!isOpen) return;
      write(`${erase()}${SHOW}`);
      [drawn, isPaused] = [[], true];
    },
    resume(): void {
      if (isOpen) write(HIDE);
      isPaused = false;
    },
    close,
  };
}

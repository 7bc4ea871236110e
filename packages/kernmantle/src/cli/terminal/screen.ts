// Redraws a few lines at the bottom of a terminal, while ordinary lines scroll away above them.

const HIDE = '\u001b[?25l';
const SHOW = '\u001b[?25h';
/** The terminal cuts wide lines, because wrapped lines could not be drawn over. */
const NO_WRAP = '\u001b[?7l';
const WRAP = '\u001b[?7h';

export function createScreen(write: (text: string) => void) {
  let drawn: readonly string[] = [];
  let [isOpen, isPaused] = [true, false];

  const erase = (): string => (drawn.length === 0 ? '\r' : `\u001b[${drawn.length}A\r\u001b[J`);
  const bottom = (lines: readonly string[]): string =>
    `${NO_WRAP}${lines.map((line) => `${line}\n`).join('')}${WRAP}`;

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
    /** Prints a line that is never redrawn. */
    print(line: string): void {
      write(`${erase()}${line}\n${bottom(drawn)}`);
    },
    draw(lines: readonly string[]): void {
      if (!isOpen || isPaused) return;
      write(`${erase()}${bottom(lines)}`);
      drawn = lines;
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

// A few lines at the bottom of a terminal that are drawn again and again, with ordinary lines
// scrolling away above them.

const HIDE = '\u001b[?25l';
const SHOW = '\u001b[?25h';
/** Lines that are too wide are cut by the terminal: wrapped ones could not be drawn over. */
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
  // Whoever leaves in a hurry leaves no terminal without a cursor behind.
  process.once('exit', close);
  return {
    /** A line that stays. */
    print(line: string): void {
      write(`${erase()}${line}\n${bottom(drawn)}`);
    },
    /** What stands at the bottom from now on. */
    draw(lines: readonly string[]): void {
      if (!isOpen || isPaused) return;
      write(`${erase()}${bottom(lines)}`);
      drawn = lines;
    },
    /** Takes the drawn lines away until `goOn`; draws nothing meanwhile. */
    pause(): void {
      if (!isOpen) return;
      write(`${erase()}${SHOW}`);
      [drawn, isPaused] = [[], true];
    },
    goOn(): void {
      if (isOpen) write(HIDE);
      isPaused = false;
    },
    /** Takes the drawn lines away and gives the terminal back as it was. */
    close,
  };
}

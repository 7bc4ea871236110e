import { expect, test } from 'vitest';
import { createScreen } from './screen.ts';

/** Executes the few escape sequences that a screen writes. */
function play(written: string): { lines: string[]; isCursorShown: boolean } {
  const lines: string[] = [''];
  let [row, isCursorShown] = [0, true];
  for (const [, up, erase, cursor, text] of written.matchAll(
    /\u001b\[(\d+)A|(\u001b\[J)|\u001b\[\?25([hl])|\u001b\[\?7[hl]|([^\u001b]+)/g,
  )) {
    if (up) row -= Number(up);
    else if (erase) lines.splice(row, Number.POSITIVE_INFINITY, '');
    else if (cursor) isCursorShown = cursor === 'h';
    else if (text) {
      for (const char of text) {
        if (char === '\n') {
          row += 1;
          lines[row] ??= '';
        } else if (char !== '\r') lines[row] = (lines[row] ?? '') + char;
      }
    }
  }
  return { lines: lines.filter((line) => line !== ''), isCursorShown };
}

test('lines that stay scroll away above what is drawn again', () => {
  let written = '';
  const screen = createScreen((text) => (written += text));
  screen.draw(['turn 1', 'bar']);
  screen.print('a tool was called');
  screen.draw(['turn 2']);
  expect(play(written)).toEqual({ lines: ['a tool was called', 'turn 2'], isCursorShown: false });
  screen.print('another one');
  screen.close();
  screen.close();
  screen.draw(['too late']);
  expect(play(written)).toEqual({
    lines: ['a tool was called', 'another one'],
    isCursorShown: true,
  });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createEventGuard } from './event-stream.ts';

const passes = (pieces: readonly string[], max: number): boolean => {
  const isShort = createEventGuard(max);
  return pieces.every((piece) => isShort(Buffer.from(piece)));
};

test('many short events pass, whatever ends their lines', () => {
  for (const end of ['\n', '\r', '\r\n']) {
    const event = `data: ${'x'.repeat(20)}${end}id: 1${end}${end}`;
    expect(passes([event.repeat(1000)], 64), JSON.stringify(end)).toBe(true);
    expect(passes(event.repeat(100).split(''), 64), JSON.stringify(end)).toBe(true);
  }
});

test('an event that is too long does not, however it is cut', () => {
  for (const end of ['\n', '\r', '\r\n']) {
    const lines = Array.from({ length: 50 }, () => `data: xxxxxxxx${end}`);
    expect(passes(lines, 64)).toBe(false);
    // A line end that comes in two pieces is still one, and no empty line.
    expect(passes(lines.join('').split(''), 64)).toBe(false);
  }
});

test('no more than the bound is ever let through between two empty lines', () => {
  const piece = fc.string({ unit: fc.constantFrom('a', '\n', '\r', ' '), maxLength: 30 });
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = pieces.join('').replace(/\r\n|\r/g, '\n');
      const longest = Math.max(...text.split('\n\n').map((event) => event.length));
      if (passes(pieces, 16)) expect(longest).toBeLessThanOrEqual(16);
    }),
  );
});

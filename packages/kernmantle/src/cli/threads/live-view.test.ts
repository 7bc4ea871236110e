import { expect, test } from 'vitest';
import { figureLines } from './figure-lines.ts';

const plain = (_colour: string, text: string): string => text;
const figures: Parameters<typeof figureLines>[0] = {
  directive: 'look',
  cost: { turns: 2, tokens: 1500, spend: '0.0123', tool_calls: 1, duration_seconds: 1 },
  limits: {
    turns: { value: 4, from: 'directive' },
    tokens: { value: 20000, from: 'directive' },
    spend: { value: '0.05', from: 'policy' },
    duration: { value: 60, from: 'default (bundle)' },
    spend_currency: 'USD',
  },
  elapsedMs: 3000,
  doing: 'fs/read_file path=a.txt',
  saying: 'and then\nit said',
  children: 0,
  frame: 0,
};

test('a bar is as long as the share, never longer than its place', () => {
  const drawn = (turns: number): string => {
    const shown = { ...figures, cost: { turns }, limits: { turns: { value: 4, from: '' } } };
    return /[█▌·]+/.exec(figureLines(shown, 80, plain)[1] ?? '')?.[0] ?? '';
  };
  expect(drawn(0)).toBe('·'.repeat(20));
  expect(drawn(2)).toBe(`${'█'.repeat(10)}${'·'.repeat(10)}`);
  expect(drawn(2.1)).toBe(`${'█'.repeat(10)}▌${'·'.repeat(9)}`);
  expect(drawn(28)).toBe('█'.repeat(20));
  expect(drawn(-4)).toBe('·'.repeat(20));
});

test('the view says what is going on and how much of each limit is used', () => {
  const lines = figureLines(figures, 80, plain);
  expect(lines[0]).toContain('look · turn 2 · fs/read_file path=a.txt');
  const text = lines.join('\n');
  expect(text).toMatch(/turns +█{10}·{10} 2 of 4/);
  expect(text).toContain('1,500 of 20,000');
  expect(text).toContain('0.0123 of 0.05 USD');
  expect(text).toContain('3.0 s of 1 m 00 s');
  expect(text).toContain('‹ and then it said');
});

test('no line is wider than the terminal, and the figures are kept longest', () => {
  const cells = (line: string): number =>
    Array.from(line).reduce((sum, char) => sum + (char >= '\u3000' ? 2 : 1), 0);
  const long = { ...figures, doing: 'x'.repeat(500), saying: '日本'.repeat(300), children: 12 };
  for (const width of [20, 30, 40, 60, 80, 200]) {
    const lines = figureLines(long, width, plain);
    for (const line of lines) expect([line, cells(line) <= width]).toEqual([line, true]);
    if (width >= 30) expect(lines.join('\n')).toContain('1,500 of 20,000');
  }
  expect(figureLines(figures, 40, plain)[1]).toMatch(/turns +█+·+ 2 of 4$/);
  expect(figureLines(figures, 22, plain)[3]).toBe('  … 0.0123 of 0.05 USD');
});

test('nearly used up is yellow, then red', () => {
  const marked = (turns: number): string =>
    figureLines(
      { ...figures, cost: { ...figures.cost, turns } },
      80,
      (colour, text) => `<${colour}>${text}`,
    ).join('\n');
  expect(marked(2)).toContain('<green>█');
  expect(marked(3.5)).toContain('<yellow>█');
  expect(marked(4)).toContain('<red>█');
});

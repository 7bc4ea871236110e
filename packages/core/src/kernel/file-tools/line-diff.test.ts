import fc from 'fast-check';
import { expect, test } from 'vitest';
import { lineDiff } from './line-diff.ts';

/** Applies a unified diff to a text. */
function patched(before: string, diff: string): string {
  const old = before.split('\n');
  const made: string[] = [];
  let at = 0;
  for (const line of diff.split('\n')) {
    const head = /^@@ -(\d+),(\d+) /.exec(line);
    if (head) {
      const start = Number(head[1]) - (Number(head[2]) > 0 ? 1 : 0);
      made.push(...old.slice(at, start));
      at = start;
    } else if (line.startsWith('\\')) made.push('\\');
    else if (line.startsWith('+')) made.push(line.slice(1));
    else {
      if (line.startsWith(' ')) made.push(line.slice(1));
      at += 1;
    }
  }
  return [...made, ...old.slice(at)].join('\n');
}

test('a difference applied to the old text is the new text', () => {
  const line = fc.constantFrom('a', 'b', 'c', 'd', '');
  const text = fc
    .array(line, { maxLength: 30 })
    .map((lines) => lines.map((one) => `${one}\n`).join(''));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const { diff = '', added = -1, removed = -1, from, to } = lineDiff(before, after);
      expect(diff === '' ? before : patched(before, diff)).toBe(after);
      expect(from + added - removed).toBe(to);
    }),
  );
});

test('an example reads as people know it', () => {
  const lines = (...list: (string | number)[]) => list.map((one) => `${one}\n`).join('');
  const { diff, added, removed } = lineDiff(
    lines(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    lines(1, 2, 3, 4, 'five', 6, 7, 8, 9, 10, 11, 12, 13),
  );
  expect([added, removed]).toEqual([2, 1]);
  expect(diff?.split('\n')).toEqual([
    '@@ -2,7 +2,7 @@',
    ' 2',
    ' 3',
    ' 4',
    '-5',
    '+five',
    ' 6',
    ' 7',
    ' 8',
    '@@ -10,3 +10,4 @@',
    ' 10',
    ' 11',
    ' 12',
    '+13',
  ]);
});

test('an end of line that is missing can be seen', () => {
  const { diff, added, removed } = lineDiff('a\nb', 'a\nb\n');
  expect([added, removed]).toEqual([1, 1]);
  expect(diff).toBe('@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b');
});

test('control characters can be seen and do nothing', () => {
  const { diff } = lineDiff('a\n', 'a\u001b[2J\u202e\r\n');
  expect(diff).toContain('+a\\u001b[2J\\u202e\\u000d');
});

test('at most 200 lines are shown, and texts that differ in too much have none', () => {
  const many = (word: string, count: number) =>
    Array.from({ length: count }, (_, at) => `${word}${at}\n`).join('');
  const { diff = '', added } = lineDiff('', many('x', 500));
  expect(added).toBe(500);
  expect(diff.split('\n')).toHaveLength(200);
  expect(diff).toMatch(/… 302 more lines$/);
  const large = lineDiff(many('a', 400_000), many('b', 300_000));
  expect(large).toEqual({ from: 400_000, to: 300_000 });
});

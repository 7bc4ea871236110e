import { expect, test } from 'vitest';
import { formatDiagnostic } from './diagnostic.ts';
import { createLines, hasHidden, nearest, onOneLine, withoutHidden } from './text.ts';

test('places count from one', () => {
  const lines = createLines('ab\r\ncd\n');
  expect(lines.at(0)).toEqual({ line: 1, column: 1 });
  expect(lines.at(4)).toEqual({ line: 2, column: 1 });
  expect(lines.at(7)).toEqual({ line: 3, column: 1 });
  expect(lines.line(1)).toBe('ab');
  expect(lines.line(9)).toBe('');
});

test('the caret stands under its column, also in a long line and after a tab', () => {
  const place = { file: 'a', line: 1, code: 'x', severity: 'error', message: 'm' } as const;
  const caret = (text: string, column: number): string =>
    formatDiagnostic({ ...place, text, column })
      .split('\n')
      .slice(1)
      .map((line) => line.slice(4))
      .join('\n');
  expect(caret('abc', 2)).toBe('abc\n ^');
  expect(caret('\tabc', 2)).toBe(' abc\n ^');
  const [shown = '', marker = ''] = caret(`${'x'.repeat(500)}!${'y'.repeat(500)}`, 501).split('\n');
  expect(shown[marker.indexOf('^')]).toBe('!');
  expect(shown.length).toBeLessThan(110);
});

test('a diagnostic says where, what and how to mend it', () => {
  const text = formatDiagnostic({
    file: 'a.md',
    line: 3,
    column: 2,
    code: 'unknown_tag',
    severity: 'error',
    message: 'unknown tag `lmits`',
    hint: 'did you mean `limits`',
    text: '<lmits>',
  });
  expect(text).toBe(
    'a.md:3:2: error: unknown tag `lmits` [unknown_tag]\n    <lmits>\n     ^\n  hint: did you mean `limits`',
  );
});

test('the near word is found, a far one is not', () => {
  const words = ['limits', 'permissions', 'hooks'];
  expect(nearest('limts', words)).toBe('limits');
  expect(nearest('Permisions', words)).toBe('permissions');
  expect(nearest('ohoks', words)).toBe('hooks');
  expect(nearest('zebra', words)).toBeUndefined();
  expect(nearest('x'.repeat(10_000), words)).toBeUndefined();
});

test('what nobody sees is found and taken out, and one line stays one', () => {
  for (const sign of ['\u200b', '\u202e', '\u034f', '\u2028', '\u0007', '\ufe00']) {
    expect(hasHidden(`a${sign}b`)).toBe(true);
    expect(hasHidden(withoutHidden(`a${sign}b`))).toBe(false);
    expect(onOneLine(`a${sign}\n\tb`)).toMatch(/^a +b$/);
  }
  // The sign that makes an emoji one is part of it.
  expect(withoutHidden('ok \u2764\ufe0f\nnext')).toBe('ok \u2764\ufe0f\nnext');
});

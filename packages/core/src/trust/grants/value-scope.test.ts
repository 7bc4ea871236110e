import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { scopeProblem, valueInScope } from './value-scope.ts';

describe('what is in a scope', () => {
  test.each([
    ['path', 'reports/**', 'reports/may.md', true],
    ['path', 'reports/**', 'reports/a/b.md', true],
    ['path', 'reports/*', 'reports/a/b.md', false],
    ['path', 'reports/**', 'reports/../.ai/policy.yaml', false],
    ['path', 'reports/**', 'reports/.ai/x', false],
    ['path', 'reports/**', '/etc/reports/x', false],
    ['path', 'reports/**', 'reports\\..\\x', false],
    ['path', 'reports/**', 'reports/a\u0000b', false],
    ['destination', 'https://api.example.com/**', 'https://api.example.com/v1', true],
    ['destination', 'https://api.example.com/**', 'https://api.example.com@evil.com/v1', false],
    [
      'destination',
      'https://api.example.com/**',
      'https://evil.com/https://api.example.com/',
      false,
    ],
    ['destination', 'https://api.example.com/a/**', 'https://api.example.com/a/../b', false],
    ['destination', 'https://api.example.com/a/**', 'https://api.example.com/a/%2e%2e/b', false],
    ['destination', '*.example.com', 'https://api.example.com/v1?x=1', true],
    ['destination', '*.example.com', 'https://api.example.com.evil.com/', false],
    ['destination', '*.example.com', 'https://evil.com/?.example.com', false],
    ['destination', '*.example.com', 'https://evil.com#.example.com', false],
    ['destination', '*.example.com', 'https://evil.com\\.example.com', false],
    ['destination', '*.example.com', 'https://u:p@api.example.com/', false],
    ['destination', '*@example.com', 'ann@example.com', true],
    ['destination', '*@example.com', 'eve@evil.com,ann@example.com', false],
    ['destination', '*@example.com', 'eve@evil.com ann@example.com', false],
    ['destination', '*@example.com', 'eve@evil.com@example.com', false],
    ['destination', '*@example.com', 'ann@example.com.evil.com', false],
    ['destination', '*@example.com', 'eve%evil.com@example.com', false],
    ['command', 'git *', 'git push', false],
    ['content', '*', 'x', false],
  ])('%s %s %s: %s', (role, glob, value, expected) => {
    expect(valueInScope(role, glob, value)).toBe(expected);
  });

  test('of a list every one, and nothing that is no text', () => {
    expect(valueInScope('path', 'a/**', ['a/b', 'a/c'])).toBe(true);
    expect(valueInScope('path', 'a/**', ['a/b', 'c'])).toBe(false);
    for (const value of [[], {}, null, 1, true, [['a/b']], [{}]]) {
      expect(valueInScope('path', 'a/**', value)).toBe(false);
    }
  });

  test('no path outside of the folder is in it, whatever it looks like', () => {
    const part = fc.constantFrom(
      'a',
      '..',
      '.',
      '',
      'reports',
      '.ai',
      '~',
      'C:',
      '\\',
      '%2e%2e',
      '*',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const path = parts.join('/');
        if (!valueInScope('path', 'reports/**', path)) return;
        expect(path === 'reports' || path.startsWith('reports/')).toBe(true);
        expect(path.split('/')).not.toContain('..');
        expect(path.split('/')).not.toContain('.ai');
      }),
    );
  });

  test('no other host is in it, whatever the address looks like', () => {
    const piece = fc.constantFrom(
      'https://',
      'http://',
      'api.example.com',
      'evil.com',
      '@',
      ':',
      '/',
      '\\',
      '?',
      '#',
      '..',
      '%2f',
      '.',
      'x',
      ' ',
      '\t',
      '*.example.com',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        for (const glob of ['*.example.com', 'https://api.example.com/**']) {
          if (!/^https?:/i.test(text) || !valueInScope('destination', glob, text)) continue;
          expect(new URL(text).hostname).toMatch(/(^|\.)example\.com$/);
          expect(new URL(text).username).toBe('');
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('which scope a person can give', () => {
  test.each([
    ['path', 'reports/**', 'reports/may.md'],
    ['path', 'reports/may.md', 'reports/may.md'],
    ['destination', '*.example.com', 'https://api.example.com/v1'],
    ['destination', 'https://api.example.com/**', 'https://api.example.com/v1'],
    ['destination', '*@example.com', 'ann@example.com'],
    ['destination', 'team-*', 'team-red'],
  ])('%s %s for %s', (role, glob, shown) => {
    expect(scopeProblem(role, glob, shown)).toBeUndefined();
  });

  test.each([
    ['path', '**', 'reports/may.md', 'too wide'],
    ['path', '*/may.md', 'reports/may.md', 'too wide'],
    ['path', '/etc/**', '/etc/passwd', 'too wide'],
    ['path', 'other/**', 'reports/may.md', 'does not cover'],
    ['path', 'reports/../**', 'reports/may.md', '`..`'],
    ['destination', '*', 'ann@example.com', 'too wide'],
    ['destination', '*@*.com', 'ann@example.com', 'too wide'],
    ['destination', '*.com', 'https://example.com/', 'too wide'],
    ['destination', 'https://*/v1', 'https://example.com/v1', 'too wide'],
    ['destination', 'https://api.example.com*', 'https://api.example.com/v1', 'too wide'],
    ['command', 'git *', 'git push', 'only a path or a destination'],
    ['destination', '*@example.com', '[secret]', 'does not cover'],
  ])('%s %s for %s is refused: %s', (role, glob, shown, why) => {
    expect(scopeProblem(role, glob, shown)).toContain(why);
  });
});

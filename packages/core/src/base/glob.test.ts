import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { globProblem, literalPrefix, matchGlob } from './glob.ts';

test.each([
  ['src/**', 'src', true],
  ['src/**', 'src/a/b.ts', true],
  ['src/**', 'srcx', false],
  ['src/*', 'src/a', true],
  ['src/*', 'src/a/b', false],
  ['**/*', 'a', true],
  ['**/*', 'a/b/c', true],
  ['**/*.ts', 'a/b.ts', true],
  ['a/**/z', 'a/z', true],
  ['a/**/z', 'a/b/c/z', true],
  ['a/**/z', 'a/b/c', false],
  ['?.md', 'a.md', true],
  ['?.md', 'ab.md', false],
  ['supabase_*', 'supabase_query', true],
  ['*.example.org', 'a.b.example.org', true],
  ['[a]', '[a]', true],
  ['', 'a', false],
])('`%s` on `%s` is %s', (pattern, text, expected) => {
  expect(matchGlob(pattern, text)).toBe(expected);
});

const part = fc.constantFrom('a', 'b', 'ab', '*', '**', '?', 'a*', '');
const join = (parts: string[]) => parts.join('/');

/** The same meaning, spelled out by recursion: slow, obviously right. */
function slow(pattern: string[], text: string[]): boolean {
  const [first, ...rest] = pattern;
  if (first === undefined) return text.length === 0;
  if (first === '**') return slow(rest, text) || (text.length > 0 && slow(pattern, text.slice(1)));
  const [head, ...tail] = text;
  if (head === undefined) return false;
  const escaped = first
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${escaped}$`).test(head) && slow(rest, tail);
}

test('it agrees with the definition', () => {
  const texts = fc.array(fc.constantFrom('a', 'b', 'ab', 'ba', ''), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), texts, (pattern, text) => {
      expect(matchGlob(join(pattern), join(text))).toBe(slow(pattern, text));
    }),
    { numRuns: runs(2000) },
  );
});

test('no pattern makes it slow', () => {
  const pattern = `${'*a'.repeat(500)}b`;
  expect(matchGlob(pattern, 'a'.repeat(5000))).toBe(false);
  expect(matchGlob(`${'**/a/'.repeat(300)}b`, 'a/'.repeat(3000))).toBe(false);
});

test('a glob with other syntax is reported, not reinterpreted', () => {
  expect(globProblem('src/{a,b}')).toMatch(/`{`/);
  expect(globProblem('!src')).toMatch(/`!`/);
  expect(globProblem('a/../b')).toMatch(/\.\./);
  expect(globProblem('a**')).toMatch(/whole segment/);
  expect(globProblem('src/**/*.ts')).toBeUndefined();
  expect(literalPrefix('src/a*')).toBe('src/a');
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMatcher } from './pattern.ts';

async function matches(source: string, line: string, ignoreCase = false) {
  const matcher = await createMatcher(source, { regex: true, ignoreCase });
  if (!matcher.ok) throw new Error(matcher.error.detail.message);
  return matcher.output.matches(line);
}

async function refusal(source: string): Promise<string> {
  const matcher = await createMatcher(source, { regex: true, ignoreCase: false });
  return matcher.ok ? 'accepted' : matcher.error.detail.message;
}

const atom = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'b', 'A', ' ', '_', '1', 'é', 'ß'), weight: 4 },
  fc.constantFrom('.', '\\d', '\\w', '\\S', '\\W', '^', '$', '\\b', '\\B', '\\x61', '\\u0062'),
  fc.constantFrom('[ab]', '[^a]', '[a-c1]', '[\\s_]', '[^\\w]', '[b-]'),
);
const isAssertion = (part: string) => ['^', '$', '\\b', '\\B'].includes(part);
const quantifier = fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,}', '{0,2}', '*?', '+?');
const piece = fc
  .tuple(atom, quantifier)
  .map(([part, count]) => (isAssertion(part) ? part : part + count));
const sequence = fc.array(piece, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''));
const pattern = fc
  .array(
    fc.oneof(
      sequence,
      fc.tuple(sequence, quantifier).map(([inner, count]) => `(?:${inner})${count}`),
    ),
    {
      minLength: 1,
      maxLength: 3,
    },
  )
  .chain((parts) => fc.constantFrom(parts.join('|'), parts.join('')));
const line = fc
  .array(fc.constantFrom('a', 'b', 'c', 'A', ' ', '_', '1', 'é', '-'), { maxLength: 7 })
  .map((units) => units.join(''));

test('matches what a JavaScript expression matches', async () => {
  await fc.assert(
    fc.asyncProperty(pattern, line, fc.boolean(), async (source, text, ignoreCase) => {
      const expected = new RegExp(source, ignoreCase ? 'i' : '').test(text);
      expect(await matches(source, text, ignoreCase)).toBe(expected);
    }),
    { numRuns: 1000 },
  );
});

test('no text makes the compiler throw', async () => {
  const soup = fc.string({ unit: fc.constantFrom(...'ab()[]{}*+?|\\^$.-,:<=!12dwbux0'.split('')) });
  await fc.assert(
    fc.asyncProperty(soup, async (source) => {
      await createMatcher(source, { regex: true, ignoreCase: true });
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['(a+)+$', `${'a'.repeat(50_000)}!`],
  ['^(a|a)*b', 'a'.repeat(50_000)],
  ['(.*)(.*)(.*)(.*)(.*)[^a]$', 'a'.repeat(50_000)],
  ['(x+x+)+y', 'x'.repeat(50_000)],
])('%s, made to backtrack for ever, is linear here', async (source, text) => {
  expect(await matches(source, text)).toBe(false);
});

test('a long line is given up when its beginning shows that it takes too long', async () => {
  let now = 0;
  const looked: number[] = [];
  const clock = { now: () => now, monotonic: () => now };
  const matcher = await createMatcher('x+y', { regex: true, ignoreCase: false }, clock);
  if (!matcher.ok) throw new Error('no matcher');
  const long = 'x'.repeat(1_000_000);
  expect(matcher.output.matches(`${long}y`)).toBe(true);
  clock.monotonic = () => {
    looked.push(now);
    now += 1000;
    return now;
  };
  expect(matcher.output.matches(long)).toBe(undefined);
  expect(looked.length).toBeLessThan(6);
  // And so are the others, however short.
  expect(matcher.output.matches('x'.repeat(5000))).toBe(undefined);
});

test('many short lines are looked at as one long one', async () => {
  let now = 0;
  const clock = { now: () => now, monotonic: () => now };
  const matcher = await createMatcher('a.c', { regex: true, ignoreCase: true }, clock);
  if (!matcher.ok) throw new Error('no matcher');
  for (let count = 0; count < 1000; count++) expect(matcher.output.matches('x abc')).toBe(true);
  now = 60_000;
  const rest = Array.from({ length: 1000 }, () => matcher.output.matches('x abc'));
  expect(rest.indexOf(undefined)).toBeGreaterThan(-1);
});

test('what is not linear, not known or too large is refused', async () => {
  expect(await refusal('a(?=b)')).toContain('is not valid');
  expect(await refusal('(a)\\1')).toContain('invalid escape sequence');
  expect(await refusal('ab[c')).toContain('missing closing ]');
  expect(await refusal('*a')).toContain('is not valid');
  expect(await refusal('')).toContain('empty');
  expect(await refusal('a'.repeat(2000))).toContain('longer than 1000');
  expect(await refusal('a[ab]{900}c')).toContain('too large');
  expect(await refusal('((a{1000}){1000}){1000}')).toContain('too large');
  expect(await refusal('((((){1000}){1000}){1000}){1000}')).toContain('too large');
});

test('a literal is found as it stands, with or without case', async () => {
  const literal = async (text: string, ignoreCase: boolean, subject: string) => {
    const matcher = await createMatcher(text, { regex: false, ignoreCase });
    return matcher.ok && matcher.output.mayMatch(subject) && matcher.output.matches(subject);
  };
  expect(await literal('a.b', false, 'a.b')).toBe(true);
  expect(await literal('a.b', false, 'axb')).toBe(false);
  expect(await literal('(?=', true, 'X(?=Y')).toBe(true);
  expect(await literal('HeLLo', true, 'say hEllo')).toBe(true);
  expect(await literal('HeLLo', false, 'say hEllo')).toBe(false);
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMatcher } from './builtin-pattern.ts';

function matches(pattern: string, line: string, ignoreCase = false): boolean | undefined {
  const matcher = createMatcher(pattern, { regex: true, ignoreCase });
  if (!matcher.ok) throw new Error(matcher.error.detail.message);
  return matcher.output.matches(line);
}

function refusal(pattern: string): string {
  const matcher = createMatcher(pattern, { regex: true, ignoreCase: false });
  return matcher.ok ? 'accepted' : matcher.error.detail.message;
}

const atom = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'b', 'A', ' ', '_', '1', 'é', 'ß', 'ſ'), weight: 4 },
  fc.constantFrom('.', '\\d', '\\w', '\\S', '\\W', '^', '$', '\\b', '\\B', '\\x61', '\\u0062'),
  fc.constantFrom('[ab]', '[^a]', '[a-c1]', '[\\s_]', '[^\\w]', '[b-]', '[]', '[^]'),
);
const isAssertion = (part: string) => ['^', '$', '\\b', '\\B'].includes(part);
const quantifier = fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,}', '{0,2}', '*?', '+?');
const { pattern } = fc.letrec<{ pattern: string; piece: string }>((tie) => ({
  piece: fc
    .tuple(
      fc.oneof(
        { maxDepth: 2, depthIdentifier: 'p' },
        atom,
        tie('pattern').map((p) => `(?:${p})`),
      ),
      quantifier,
    )
    .map(([part, count]) => (isAssertion(part) ? part : part + count)),
  pattern: fc
    .array(fc.array(tie('piece'), { maxLength: 4, depthIdentifier: 'p' }), {
      minLength: 1,
      maxLength: 3,
      depthIdentifier: 'p',
    })
    .map((choices) => choices.map((pieces) => pieces.join('')).join('|')),
}));
const line = fc
  .array(fc.constantFrom('a', 'b', 'c', 'A', ' ', '_', '1', 'é', 'É', 'S', 's', 'ſ', '-'), {
    maxLength: 7,
  })
  .map((units) => units.join(''));

test('matches exactly what a JavaScript expression matches', () => {
  fc.assert(
    fc.property(pattern, line, fc.boolean(), (source, text, ignoreCase) => {
      fc.pre(source !== '');
      expect(matches(source, text, ignoreCase)).toBe(
        new RegExp(source, ignoreCase ? 'i' : '').test(text),
      );
    }),
    { numRuns: 2000 },
  );
});

test('one matcher answers many lines as a fresh one would', () => {
  fc.assert(
    fc.property(pattern, fc.array(line, { maxLength: 8 }), (source, lines) => {
      fc.pre(source !== '');
      const matcher = createMatcher(source, { regex: true, ignoreCase: false });
      if (!matcher.ok) return;
      for (const text of lines) {
        expect(matcher.output.matches(text)).toBe(new RegExp(source).test(text));
      }
    }),
    { numRuns: 1000 },
  );
});

test('no text makes the parser throw', () => {
  const soup = fc.string({ unit: fc.constantFrom(...'ab()[]{}*+?|\\^$.-,:<=!12dwbux0'.split('')) });
  fc.assert(
    fc.property(soup, (source) => {
      createMatcher(source, { regex: true, ignoreCase: true });
    }),
    { numRuns: 2000 },
  );
});

test('a pattern made to backtrack for ever is linear here', () => {
  const long = 'a'.repeat(50_000);
  expect(matches('(a+)+$', `${long}!`)).toBe(false);
  expect(matches('^(a|a)*b', long)).toBe(false);
  expect(matches('(.*)(.*)(.*)(.*)(.*)[^a]$', long)).toBe(false);
  expect(matches('(x+x+)+y', 'x'.repeat(50_000))).toBe(false);
});

test('a pattern with very many states gives up instead of running on', () => {
  let text = '';
  for (let seed = 1; text.length < 400_000; seed = (seed * 48_271) % 2_147_483_647) {
    text += seed % 2 === 0 ? 'a' : 'b';
  }
  expect(matches('a[ab]{900}c', text)).toBe(undefined);
});

test('nested repetitions of nothing are refused, not unrolled', () => {
  expect(refusal('((((){1000}){1000}){1000}){1000}')).toContain('too large');
  expect(refusal('((a{1000}){1000}){1000}')).toContain('too large');
});

test('what is not linear or not known is refused with its column', () => {
  expect(refusal('a(?=b)')).toContain('column 2: look-ahead');
  expect(refusal('(a)\\1')).toContain('column 4: back references');
  expect(refusal('ab[c')).toContain('column 3: this `[` is not closed');
  expect(refusal('a)b')).toContain('column 2: this `)` closes nothing');
  expect(refusal('(ab')).toContain('column 1: this group is not closed');
  expect(refusal('*a')).toContain('column 1: nothing to repeat');
  expect(refusal('a**')).toContain('column 3: a repetition cannot be repeated');
  expect(refusal('\\q')).toContain('is not a known escape');
  expect(refusal('')).toContain('empty');
  expect(refusal('a'.repeat(2000))).toContain('longer than 1000');
});

test('a literal is found as it stands, with or without case', () => {
  const literal = (text: string, ignoreCase: boolean, subject: string) => {
    const matcher = createMatcher(text, { regex: false, ignoreCase });
    return matcher.ok && matcher.output.matches(subject);
  };
  expect(literal('a.b', false, 'a.b')).toBe(true);
  expect(literal('a.b', false, 'axb')).toBe(false);
  expect(literal('(?=', true, 'X(?=Y')).toBe(true);
  expect(literal('HeLLo', true, 'say hEllo')).toBe(true);
  expect(literal('HeLLo', false, 'say hEllo')).toBe(false);
});

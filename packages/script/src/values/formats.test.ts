import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findJson, parseRelaxed } from './formats.ts';

test.each([
  ['{a: 1, b-c: 2}', { a: 1, 'b-c': 2 }],
  ["{'it\\'s': 'a \"b\"'}", { "it's": 'a "b"' }],
  ['[1, /* two */ 2, // three\n]', [1, 2]],
  ['"line\nbreak"', 'line\nbreak'],
  ['{"a": "x \\n \\u0041 \\\\"}', { a: 'x \n A \\' }],
  ['{__proto__: 1}', JSON.parse('{"__proto__": 1}')],
])('%j is read', (text, data) => {
  expect(parseRelaxed(text)).toEqual({ ok: true, output: data });
});

test.each(['{a: b}', '[1 2]', '{a 1}', '[,]', '"open', '/* open', "{'a': 1", 'a: 1', ''])(
  '%j is refused',
  (text) => {
    expect(parseRelaxed(text).ok).toBe(false);
  },
);

test('everything that is JSON is read as JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      const text = JSON.stringify(data, null, 2);
      expect(parseRelaxed(text)).toEqual({ ok: true, output: JSON.parse(text) });
    }),
  );
});

test('no text crashes it', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    "'",
    '\\',
    '/',
    '*',
    '\n',
    'a',
    '1',
    '```',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 30 }), (parts) => {
      const text = parts.join('');
      expect(typeof parseRelaxed(text).ok).toBe('boolean');
      const found = findJson(text);
      expect(found === undefined || typeof found === 'object').toBe(true);
    }),
    { numRuns: runs(1000) },
  );
});

test('JSON inside prose is found', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), (data) => {
      const text = JSON.stringify(data);
      expect(findJson(`Here it is:\n${text}\nAnything else?`)).toEqual(JSON.parse(text));
    }),
  );
});

test('a long text is read without a crash', () => {
  const text = `{a: '${'x\\n'.repeat(300_000)}'}`;
  expect(parseRelaxed(text).ok).toBe(true);
});

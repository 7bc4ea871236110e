import fc from 'fast-check';
import { expect, test } from 'vitest';
import { changeDocument, createDocument } from './document.ts';

const text = fc.string({
  unit: fc.constantFrom('a', '\n', '\r\n', '\r', 'é', '𝄞', '@'),
  maxLength: 40,
});

test('every offset that is no middle of a line end comes back from its place', () => {
  fc.assert(
    fc.property(text, fc.nat(), (content, number) => {
      const document = createDocument('file:///a.mld', content, 1);
      const offset = content.length === 0 ? 0 : number % (content.length + 1);
      const before = content.slice(0, offset);
      if (before.endsWith('\r') && content[offset] === '\n') return;
      expect(document.offsetAt(document.spanOf(offset, offset).start)).toBe(offset);
    }),
  );
});

test('a change of a range is a change of that text', () => {
  fc.assert(
    fc.property(text, text, fc.nat(), fc.nat(), (content, put, one, two) => {
      const document = createDocument('file:///a.mld', content.replaceAll('\r', ''), 1);
      const size = document.text.length + 1;
      const [from = 0, to = 0] = [one % size, two % size].sort((a, b) => a - b);
      const range = document.spanOf(from, to);
      expect(changeDocument(document, [{ range, text: put }], 2)).toMatchObject({
        text: document.text.slice(0, from) + put + document.text.slice(to),
        version: 2,
      });
    }),
  );
});

test('places outside the text lie at its ends', () => {
  const document = createDocument('file:///a.mld', 'ab\ncd', 1);
  expect(document.offsetAt({ line: 0, character: 99 })).toBe(2);
  expect(document.offsetAt({ line: 9, character: 0 })).toBe(5);
  expect(document.offsetAt({ line: -1, character: -1 })).toBe(0);
  expect(document.spanOf(99, 99).start).toEqual({ line: 1, character: 2 });
});

test('a change without a range is the whole text, and changes build on one another', () => {
  const document = createDocument('file:///a.mld', 'old', 1);
  const at = (character: number) => ({ line: 0, character });
  const changed = changeDocument(
    document,
    [{ text: 'new' }, { range: { start: at(3), end: at(3) }, text: '!' }],
    5,
  );
  expect(changed.text).toBe('new!');
});

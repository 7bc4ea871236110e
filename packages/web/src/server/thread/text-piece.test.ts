import fc from 'fast-check';
import { expect, test } from 'vitest';
import { partAt, textPiece } from './text-piece.ts';

test('pieces of any size make the whole, and each is a text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 9 }), (text, length) => {
      // The sign of a torn letter may stand in the text itself.
      fc.pre(!text.includes('\ufffd'));
      let [whole, offset, count]: [string, number | undefined, number] = ['', 0, 0];
      while (offset !== undefined && count++ < 10_000) {
        const piece = textPiece(text, offset, length);
        expect(piece.bytes).toBe(Buffer.byteLength(text));
        expect(piece.text).not.toContain('\ufffd');
        whole += piece.text;
        offset = piece.next;
      }
      expect(whole).toBe(text);
    }),
  );
});

test('past the end there is nothing, and nothing comes after it', () => {
  expect(textPiece('abc', 99)).toEqual({ text: '', bytes: 3, offset: 3 });
});

test('a part is found by its pointer; what is inherited is no part', () => {
  const value = { a: [{ 'b/c': 1 }] };
  expect(partAt(value, '/a/0/b~1c')).toEqual({ ok: true, output: 1 });
  expect(partAt(value, '')).toEqual({ ok: true, output: value });
  for (const no of ['/a/1', '/constructor', '/a/length', '/a/0/b~1c/x']) {
    expect(partAt(value, no)).toMatchObject({ ok: false, error: { code: 'not_found' } });
  }
  expect(partAt(value, 'a')).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
});
